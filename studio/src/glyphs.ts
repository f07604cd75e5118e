// What things look like: a colour and a small sign for each type, from the style sheet's variables so that light and dark
// are said in one place, drawn once into a sprite and then copied.

import type { RegionKind } from "./feed.ts";

export const TYPES = ["car", "bus", "person", "ambulance", "light", "parking", "other"] as const;
export type Type = (typeof TYPES)[number];

export const TYPE_NAMES: Readonly<Record<Type, string>> = {
  car: "Car",
  bus: "Bus",
  person: "Person",
  ambulance: "Ambulance",
  light: "Traffic light",
  parking: "Parking",
  other: "Other",
};

const ALIASES: Readonly<Record<string, Type>> = {
  vehicle: "car",
  taxi: "car",
  truck: "car",
  tram: "bus",
  pedestrian: "person",
  walker: "person",
  phone: "person",
  fire_engine: "ambulance",
  police: "ambulance",
  traffic_light: "light",
  signal: "light",
  car_park: "parking",
};

export function typeOf(type: string | null): Type {
  const name = (type ?? "").toLowerCase().replaceAll(/[ -]/g, "_");
  return (TYPES as readonly string[]).includes(name) ? (name as Type) : (ALIASES[name] ?? "other");
}

// Signs on a grid of 24 × 24, filled with the even-odd rule.
export const SIGNS: Readonly<Record<Type, string>> = {
  car: "M7.2 6h9.6l2 5.2c.8.3 1.2.9 1.2 1.7V18h-3v-1.8H7V18H4v-5.1c0-.8.4-1.4 1.2-1.7zM8.5 8l-1.1 3h9.2l-1.1-3z",
  bus: "M7 4h10c1.2 0 2 .8 2 2v11h-1.5v2h-3v-2h-5v2h-3v-2H5V6c0-1.2.8-2 2-2zM7 6.5V12h10V6.5zM7.2 14v1.6h2V14zM14.8 14v1.6h2V14z",
  person: "M12 4.2a2.9 2.9 0 1 1 0 5.8 2.9 2.9 0 0 1 0-5.8zM6 20c0-5.2 2.2-8.6 6-8.6s6 3.4 6 8.6z",
  ambulance: "M9.7 4.5h4.6v5.2h5.2v4.6h-5.2v5.2H9.7v-5.2H4.5V9.7h5.2z",
  light: "M12 3.6a2.7 2.7 0 1 1 0 5.4 2.7 2.7 0 0 1 0-5.4zM12 9.6a2.7 2.7 0 1 1 0 5.4 2.7 2.7 0 0 1 0-5.4zM12 15.6a2.7 2.7 0 1 1 0 5.4 2.7 2.7 0 0 1 0-5.4z",
  parking: "M7.5 4.5h5.4c3.2 0 5.1 1.8 5.1 4.6s-1.9 4.6-5.1 4.6h-2.3v5.8H7.5zM10.6 7.2v3.9h2.1c1.3 0 2.1-.7 2.1-2s-.8-1.9-2.1-1.9z",
  other: "M12 7.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9z",
};

export interface Palette {
  readonly types: Readonly<Record<Type, string>>;
  readonly regions: Readonly<Record<RegionKind, string>>;
  readonly paper: string;
  readonly ink: string;
  readonly halo: string;
  readonly road: string;
  readonly roadEdge: string;
  readonly path: string;
  readonly building: string;
  readonly grid: string;
  readonly broker: string;
  readonly link: string;
  readonly bad: string;
  readonly delivery: string;
  readonly handover: string;
  readonly accent: string;
  readonly ring: string;
}

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    types: Object.fromEntries(TYPES.map((type) => [type, of(`type-${type}`)])) as Record<Type, string>,
    regions: {
      audience: of("region-audience"),
      relevance: of("region-relevance"),
      near: of("region-near"),
      interest: of("region-interest"),
      fence: of("region-fence"),
    },
    paper: of("map-paper"),
    ink: of("map-ink"),
    halo: of("map-halo"),
    road: of("map-road"),
    roadEdge: of("map-road-edge"),
    path: of("map-path"),
    building: of("map-building"),
    grid: of("map-grid"),
    broker: of("map-broker"),
    link: of("map-link"),
    bad: of("bad"),
    delivery: of("map-delivery"),
    handover: of("map-handover"),
    accent: of("accent"),
    ring: of("map-ring"),
  };
}

/** How large entities are drawn: the more there are in view, the plainer. */
export type Detail = "sign" | "disc" | "dot";
const RADIUS: Readonly<Record<Detail, number>> = { sign: 10, disc: 6, dot: 3.5 };

export class Sprites {
  private readonly made = new Map<string, ImageBitmap>();

  constructor(
    private readonly palette: Palette,
    private readonly ratio: number,
  ) {}

  /** A square picture around the entity's place; its side in CSS pixels is `side(detail)`. */
  get(type: Type, detail: Detail): ImageBitmap {
    const key = `${type} ${detail}`;
    let sprite = this.made.get(key);
    if (sprite === undefined) this.made.set(key, (sprite = this.draw(type, detail)));
    return sprite;
  }

  static side(detail: Detail): number {
    return 2 * RADIUS[detail] + 6;
  }

  private draw(type: Type, detail: Detail): ImageBitmap {
    const side = Sprites.side(detail);
    const pixels = Math.ceil(side * this.ratio);
    const canvas = new OffscreenCanvas(pixels, pixels);
    const pen = canvas.getContext("2d");
    if (pen === null) throw new Error("this browser draws no canvas");
    pen.scale(canvas.width / side, canvas.height / side);
    const middle = side / 2;
    const radius = RADIUS[detail];
    pen.beginPath();
    // What stands still is square: a car park and a traffic light are told from cars without their colour.
    if (type === "parking" || type === "light") pen.roundRect(middle - radius, middle - radius, 2 * radius, 2 * radius, radius * 0.45);
    else pen.arc(middle, middle, radius, 0, 2 * Math.PI);
    pen.fillStyle = this.palette.types[type];
    pen.strokeStyle = this.palette.ring;
    pen.lineWidth = detail === "dot" ? 1.25 : 2;
    pen.shadowColor = "rgb(0 0 0 / 35%)";
    pen.shadowBlur = detail === "dot" ? 0 : 2 * this.ratio;
    pen.stroke();
    pen.shadowColor = "transparent";
    pen.fill();
    if (detail === "sign") {
      const size = radius * 1.3;
      pen.translate(middle - size / 2, middle - size / 2);
      pen.scale(size / 24, size / 24);
      pen.fillStyle = "#fff";
      pen.fill(new Path2D(SIGNS[type]), "evenodd");
    }
    // A bitmap cannot change any more, which makes copying it much cheaper than copying a canvas.
    return canvas.transferToImageBitmap();
  }
}

/** The same sign for lists and the legend. */
export function signSvg(type: Type): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `sign sign-${type}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", SIGNS[type]);
  path.setAttribute("fill-rule", "evenodd");
  svg.append(path);
  return svg;
}
