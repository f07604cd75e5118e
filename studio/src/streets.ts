// The ground: streets and buildings with Leaflet's canvas renderer, or a grid in metres where a broker has no map.

import L from "leaflet";
import type { Space } from "./feed.ts";
import type { Palette } from "./glyphs.ts";
import { latLng, placeOf, View } from "./projection.ts";

const ROAD_M = 11;

interface Street {
  readonly kind: string;
  readonly line: L.LatLng[];
}

export class Ground {
  private readonly renderer = L.canvas({ padding: 0.4, pane: "tilePane" });
  private readonly group = L.layerGroup();
  private readonly grid: Grid;
  private streets: readonly Street[] = [];
  private roads: readonly { readonly line: L.Polyline; readonly wider: number }[] = [];

  constructor(
    private readonly map: L.Map,
    private readonly space: Space,
    private palette: Palette,
  ) {
    this.grid = new Grid(space, palette);
    this.show(true);
    map.on("zoomend", () => this.widen());
  }

  /** Where the streets are, if there are any. */
  async load(url: string): Promise<L.LatLngBounds | null> {
    const answer = await fetch(url);
    if (!answer.ok) return null;
    const found = (await answer.json()) as GeoJSON.FeatureCollection<GeoJSON.LineString, { kind?: string }>;
    this.streets = found.features
      .filter((feature) => feature.geometry.type === "LineString")
      .map(({ geometry, properties }) => ({
        kind: properties.kind ?? "road",
        line: geometry.coordinates.map(([x, y]) => latLng([x ?? 0, y ?? 0])),
      }));
    this.draw();
    return this.streets.length === 0 ? null : L.latLngBounds(this.streets.flatMap((street) => street.line));
  }

  recolour(palette: Palette): void {
    this.palette = palette;
    this.grid.recolour(palette);
    this.draw();
  }

  show(on: boolean): void {
    const layer = this.streets.length > 0 ? this.group : this.grid;
    if (on) layer.addTo(this.map);
    else layer.remove();
  }

  /** Roads are about as wide as they are, within what can be seen and looks calm. */
  private widen(): void {
    const perMetre = new View(this.map, this.space).pixelsPerMetre(placeOf(this.map.getCenter()));
    const width = Math.max(1.5, Math.min(16, ROAD_M * perMetre));
    for (const { line, wider } of this.roads) line.setStyle({ weight: width + wider });
  }

  private draw(): void {
    if (this.streets.length === 0) return;
    const shown = this.map.hasLayer(this.grid) || this.map.hasLayer(this.group);
    this.grid.remove();
    this.group.clearLayers();
    const { building, road, roadEdge, path } = this.palette;
    const of = (kind: string): L.LatLng[][] => this.streets.filter((one) => one.kind === kind).map((one) => one.line);
    const common = { renderer: this.renderer, interactive: false, smoothFactor: 0.6 } as const;
    this.group.addLayer(L.polygon(of("building").map((ring) => [ring]), { ...common, stroke: false, fillColor: building, fillOpacity: 1 }));
    const edge = L.polyline(of("road"), { ...common, color: roadEdge });
    const paths = L.polyline(of("path"), { ...common, color: path, weight: 1, opacity: 0.7 });
    const inside = L.polyline(of("road"), { ...common, color: road });
    for (const layer of [edge, paths, inside]) this.group.addLayer(layer);
    this.roads = [{ line: edge, wider: 2 }, { line: inside, wider: 0 }];
    this.widen();
    if (shown) this.group.addTo(this.map);
  }
}

/** Lines each 10, 20, 50, … metres, so that distance can be seen where there are no streets. */
class Grid extends L.Layer {
  private readonly canvas = document.createElement("canvas");

  constructor(
    private readonly space: Space,
    private palette: Palette,
  ) {
    super();
    this.canvas.className = "leaflet-zoom-hide grid";
  }

  recolour(palette: Palette): void {
    this.palette = palette;
    if (this.canvas.isConnected) this.draw();
  }

  override onAdd(map: L.Map): this {
    map.getPane("tilePane")?.append(this.canvas);
    map.on("move zoomend resize viewreset", this.draw, this);
    this.draw();
    return this;
  }

  override onRemove(map: L.Map): this {
    this.canvas.remove();
    map.off("move zoomend resize viewreset", this.draw, this);
    return this;
  }

  private draw(): void {
    const map = this._map;
    const { x: width, y: height } = map.getSize();
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    L.DomUtil.setPosition(this.canvas, map.containerPointToLayerPoint([0, 0]));
    const pen = this.canvas.getContext("2d");
    if (pen === null) return;
    const perMetre = new View(map, this.space).pixelsPerMetre(placeOf(map.getCenter()));
    const step = niceStep(70 / perMetre) * perMetre;
    const origin = map.latLngToContainerPoint([0, 0]);
    pen.scale(ratio, ratio);
    pen.strokeStyle = this.palette.grid;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let x = origin.x % step; x < width; x += step) pen.rect(Math.round(x) + 0.5, -1, 0, height + 2);
    for (let y = origin.y % step; y < height; y += step) pen.rect(-1, Math.round(y) + 0.5, width + 2, 0);
    pen.stroke();
  }
}

function niceStep(metres: number): number {
  const power = 10 ** Math.floor(Math.log10(metres));
  const part = metres / power;
  return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}
