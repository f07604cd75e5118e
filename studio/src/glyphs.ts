// What things look like: colours from the style sheet's variables, so that light and dark are said in one place, and a
// sign for each look, drawn once into a sprite and then copied.

import type { RegionKind } from "./feed.ts";
import type { Colour, Look } from "./looks.ts";

export interface Palette {
  readonly colour: (of: Colour) => string;
  readonly regions: Readonly<Record<RegionKind, string>>;
  readonly paper: string;
  readonly ink: string;
  readonly halo: string;
  readonly road: string;
  readonly roadEdge: string;
  readonly path: string;
  readonly building: string;
  readonly water: string;
  readonly green: string;
  readonly area: string;
  readonly grid: string;
  readonly zone: string;
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
  const hued = (hue: number): string => `oklch(${of("hued-light")} ${of("hued-chroma")} ${hue})`;
  return {
    colour: (colour) => ("said" in colour ? colour.said : "hue" in colour ? hued(colour.hue) : of(colour.variable)),
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
    water: of("map-water"),
    green: of("map-green"),
    area: of("map-area"),
    grid: of("map-grid"),
    zone: of("map-zone"),
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
  get(look: Look, detail: Detail): ImageBitmap {
    const key = `${detail} ${look.key}`;
    let sprite = this.made.get(key);
    if (sprite === undefined) this.made.set(key, (sprite = this.draw(look, detail)));
    return sprite;
  }

  static side(detail: Detail): number {
    return 2 * RADIUS[detail] + 6;
  }

  private draw(look: Look, detail: Detail): ImageBitmap {
    const side = Sprites.side(detail);
    const pixels = Math.ceil(side * this.ratio);
    const canvas = new OffscreenCanvas(pixels, pixels);
    const pen = canvas.getContext("2d");
    if (pen === null) throw new Error("this browser draws no canvas");
    pen.scale(canvas.width / side, canvas.height / side);
    const middle = side / 2;
    const radius = RADIUS[detail];
    pen.beginPath();
    if (look.square) pen.roundRect(middle - radius, middle - radius, 2 * radius, 2 * radius, radius * 0.45);
    else pen.arc(middle, middle, radius, 0, 2 * Math.PI);
    pen.fillStyle = this.palette.colour(look.colour);
    pen.strokeStyle = this.palette.ring;
    pen.lineWidth = detail === "dot" ? 1.25 : 2;
    pen.shadowColor = "rgb(0 0 0 / 35%)";
    pen.shadowBlur = detail === "dot" ? 0 : 2 * this.ratio;
    pen.stroke();
    pen.shadowColor = "transparent";
    pen.fill();
    if (detail === "sign") {
      pen.fillStyle = "#fff";
      if ("letters" in look.sign) {
        pen.font = `600 ${[...look.sign.letters].length > 2 ? 8 : 10}px system-ui, sans-serif`;
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        pen.fillText(look.sign.letters, middle, middle + 0.5);
      } else {
        const size = radius * 1.3;
        pen.translate(middle - size / 2, middle - size / 2);
        pen.scale(size / 24, size / 24);
        pen.fill(new Path2D(look.sign.path), "evenodd");
      }
    }
    // A bitmap cannot change any more, which makes copying it much cheaper than copying a canvas.
    return canvas.transferToImageBitmap();
  }
}

const SVG = "http://www.w3.org/2000/svg";

/** The same sign for lists and the legend. */
export function signSvg({ sign, colour, square }: Look): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", square ? "sign square" : "sign");
  svg.setAttribute("aria-hidden", "true");
  if ("hue" in colour) svg.style.setProperty("--hue", String(colour.hue));
  else svg.style.background = "said" in colour ? colour.said : `var(--${colour.variable})`;
  const inner = document.createElementNS(SVG, "path" in sign ? "path" : "text");
  if ("path" in sign) {
    inner.setAttribute("d", sign.path);
    inner.setAttribute("fill-rule", "evenodd");
  } else {
    for (const [name, value] of Object.entries({ x: "12", y: "12", "text-anchor": "middle", "dominant-baseline": "central" })) inner.setAttribute(name, value);
    inner.setAttribute("font-size", [...sign.letters].length > 2 ? "14" : "18");
    inner.textContent = sign.letters;
  }
  svg.append(inner);
  return svg;
}
