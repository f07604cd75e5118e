// The ground: tiles from a server, a GeoJSON map with Leaflet's canvas renderer, or a grid in metres where a broker has
// neither.

import L from "leaflet";
import type { MapSource, Space } from "./feed.ts";
import type { Palette } from "./glyphs.ts";
import { latLng, placeOf, View } from "./projection.ts";

const ROAD_M = 11;

/** What of GeoJSON is drawn: by `kind`, or with the colours of simplestyle where a feature has them. */
interface Properties {
  readonly kind?: string;
  readonly name?: string;
  readonly stroke?: string;
  readonly "stroke-width"?: number;
  readonly fill?: string;
}

interface Piece {
  readonly kind: string;
  readonly said: Properties;
  readonly lines: readonly L.LatLng[][];
  readonly filled: boolean;
}

export class Ground {
  private readonly renderer = L.canvas({ padding: 0.4, pane: "tilePane" });
  private readonly group = L.layerGroup();
  private readonly grid: Grid;
  private readonly tiles: L.TileLayer | null;
  private pieces: readonly Piece[] = [];
  private names: readonly { readonly at: L.LatLng; readonly text: string }[] = [];
  private roads: readonly { readonly line: L.Polyline; readonly wider: number }[] = [];
  private shown = true;

  constructor(
    private readonly map: L.Map,
    private readonly space: Space,
    source: MapSource,
    private palette: Palette,
  ) {
    this.grid = new Grid(space, palette);
    this.tiles = source.tiles === null || space === "plane" ? null : L.tileLayer(source.tiles, { maxZoom: 21, maxNativeZoom: 19, className: "tiles" });
    this.show(true);
    map.on("zoomend", () => this.widen());
  }

  /** Where the map is, if there is anything in it. */
  async load(url: string): Promise<L.LatLngBounds | null> {
    const answer = await fetch(url);
    if (!answer.ok) return null;
    const found = (await answer.json()) as GeoJSON.FeatureCollection<GeoJSON.Geometry, Properties | null>;
    this.pieces = found.features.flatMap(({ geometry, properties }) => piecesOf(geometry, properties ?? {}));
    this.names = found.features.flatMap(({ geometry, properties }) =>
      geometry.type === "Point" && properties?.name !== undefined ? [{ at: toLatLng(geometry.coordinates), text: properties.name }] : [],
    );
    this.draw();
    const points = [...this.pieces.flatMap((piece) => piece.lines.flat()), ...this.names.map(({ at }) => at)];
    return points.length === 0 ? null : L.latLngBounds(points);
  }

  recolour(palette: Palette): void {
    this.palette = palette;
    this.grid.recolour(palette);
    this.draw();
  }

  show(on: boolean): void {
    this.shown = on;
    const drawn = this.pieces.length + this.names.length > 0;
    const layers: (readonly [L.Layer | null, boolean])[] = [[this.tiles, true], [this.group, drawn], [this.grid, !drawn && this.tiles === null]];
    for (const [layer, wanted] of layers) {
      if (on && wanted) layer?.addTo(this.map);
      else layer?.remove();
    }
  }

  /** Roads are about as wide as they are, within what can be seen and looks calm. */
  private widen(): void {
    const perMetre = new View(this.map, this.space).pixelsPerMetre(placeOf(this.map.getCenter()));
    const width = Math.max(1.5, Math.min(16, ROAD_M * perMetre));
    for (const { line, wider } of this.roads) line.setStyle({ weight: width + wider });
  }

  private draw(): void {
    if (this.pieces.length + this.names.length === 0) return;
    this.group.clearLayers();
    const common = { renderer: this.renderer, interactive: false, smoothFactor: 0.6 } as const;
    const of = (kind: string): L.LatLng[][] => this.pieces.filter((one) => one.kind === kind && !styled(one)).flatMap((one) => one.lines);
    const { palette } = this;
    for (const [kind, fillColor] of [["water", palette.water], ["green", palette.green], ["area", palette.area], ["building", palette.building]] as const) {
      this.group.addLayer(L.polygon(of(kind).map((ring) => [ring]), { ...common, stroke: false, fillColor, fillOpacity: 1 }));
    }
    const edge = L.polyline(of("road"), { ...common, color: palette.roadEdge });
    const paths = L.polyline(of("path"), { ...common, color: palette.path, weight: 1, opacity: 0.7 });
    const inside = L.polyline(of("road"), { ...common, color: palette.road });
    for (const layer of [edge, paths, inside]) this.group.addLayer(layer);
    for (const piece of this.pieces.filter(styled)) this.group.addLayer(this.styledPiece(piece));
    for (const { at, text } of this.names) this.group.addLayer(nameAt(at, text));
    this.roads = [{ line: edge, wider: 2 }, { line: inside, wider: 0 }];
    this.widen();
    this.show(this.shown);
  }

  private styledPiece({ said, lines, filled }: Piece): L.Path {
    const colour = said.stroke ?? said.fill ?? this.palette.path;
    const style = { renderer: this.renderer, interactive: false, color: colour, weight: said["stroke-width"] ?? (filled ? 1 : 2) };
    return filled ? L.polygon([...lines], { ...style, stroke: said.stroke !== undefined, fillColor: said.fill ?? colour, fillOpacity: 0.35 }) : L.polyline([...lines], style);
  }
}

const styled = ({ said }: Piece): boolean => said.stroke !== undefined || said.fill !== undefined;
const toLatLng = ([x, y]: GeoJSON.Position): L.LatLng => latLng([x ?? 0, y ?? 0]);

/** Lines are roads and polygons areas where nothing else is said. A closed line of kind `building` is filled too. */
function piecesOf(geometry: GeoJSON.Geometry, said: Properties): Piece[] {
  const lines = (of: GeoJSON.Position[][]): L.LatLng[][] => of.map((line) => line.map(toLatLng));
  switch (geometry.type) {
    case "LineString":
      return [{ kind: said.kind ?? "road", said, lines: lines([geometry.coordinates]), filled: false }];
    case "MultiLineString":
      return [{ kind: said.kind ?? "road", said, lines: lines(geometry.coordinates), filled: false }];
    case "Polygon":
      return [{ kind: areaKind(said.kind), said, lines: lines(geometry.coordinates), filled: true }];
    case "MultiPolygon":
      return geometry.coordinates.map((polygon) => ({ kind: areaKind(said.kind), said, lines: lines(polygon), filled: true }));
    default:
      return [];
  }
}

const areaKind = (kind: string | undefined): string => (kind === "water" || kind === "green" || kind === "building" ? kind : "area");

function nameAt(at: L.LatLng, text: string): L.Marker {
  const label = document.createElement("span");
  label.textContent = text;
  return L.marker(at, { interactive: false, keyboard: false, icon: L.divIcon({ className: "ground-name", html: label, iconSize: [0, 0] }) });
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
