// From places to pixels. A place is projected once, at zoom 0; what a zoom and a pan make of it is one multiplication
// and one subtraction, cheap enough for every entity in every frame.

import L from "leaflet";
import type { Place, Space } from "./feed.ts";

const EARTH_CIRCUMFERENCE_M = 40_075_016.686;
const TILE = 256;
const MERCATOR_END_DEG = 85.0511287798;

export interface Flat {
  readonly x: number;
  readonly y: number;
}

export function crsOf(space: Space): L.CRS {
  return space === "plane" ? L.CRS.Simple : L.CRS.EPSG3857;
}

export function latLng(at: Place): L.LatLng {
  return L.latLng(at[1], at[0]);
}

export function placeOf(at: L.LatLng): Place {
  return [at.lng, at.lat];
}

/** What Leaflet's `project` gives at zoom 0, without the objects that it makes on the way. */
export function flatten([x, y]: Place, space: Space): Flat {
  if (space === "plane") return { x, y: -y };
  const angle = (Math.max(-MERCATOR_END_DEG, Math.min(MERCATOR_END_DEG, y)) * Math.PI) / 180;
  return { x: TILE * (x / 360 + 0.5), y: TILE * (0.5 - Math.log(Math.tan(Math.PI / 4 + angle / 2)) / (2 * Math.PI)) };
}

export class View {
  readonly scale: number;
  private readonly left: number;
  private readonly top: number;

  constructor(
    map: L.Map,
    private readonly space: Space,
  ) {
    const zoom = map.getZoom();
    this.scale = 2 ** zoom;
    const corner = map.project(map.containerPointToLatLng([0, 0]), zoom);
    this.left = corner.x;
    this.top = corner.y;
  }

  flat(at: Place): Flat {
    return flatten(at, this.space);
  }

  x(flat: Flat): number {
    return flat.x * this.scale - this.left;
  }

  y(flat: Flat): number {
    return flat.y * this.scale - this.top;
  }

  /** So many pixels are a metre at that place. */
  pixelsPerMetre(at: Place): number {
    if (this.space === "plane") return this.scale;
    return (this.scale * TILE) / (EARTH_CIRCUMFERENCE_M * Math.max(0.01, Math.cos((at[1] * Math.PI) / 180)));
  }
}
