// One chart over time: lines in an SVG, with an axis, and what they say where the pointer is.

import { el, setText } from "./dom.ts";

const WIDTH = 320;
const HEIGHT = 96;
const LEFT = 34;
const TOP = 6;
const BOTTOM = 16;
const SVG = "http://www.w3.org/2000/svg";

export interface Series {
  readonly name: string;
  /** A variable of the style sheet. */
  readonly colour: string;
}

export interface Window {
  readonly times: readonly number[];
  readonly fromMs: number;
  readonly toMs: number;
}

export class Chart {
  readonly element: HTMLElement;
  private readonly lines: readonly SVGPathElement[];
  private readonly values: readonly HTMLElement[];
  private readonly top = text("axis", LEFT - 5, TOP + 8, "end");
  private readonly first = text("axis", LEFT, HEIGHT - 3, "start");
  private readonly last = text("axis", WIDTH, HEIGHT - 3, "end");
  private readonly cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  private readonly picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });

  constructor(
    readonly title: string,
    private readonly unit: string,
    private readonly series: readonly Series[],
  ) {
    this.lines = series.map(({ colour }) => svg("path", { class: "line", stroke: `var(--${colour})` }));
    this.values = series.map(() => el("b", {}, "–"));
    const bottom = svg("line", { class: "base", x1: LEFT, x2: WIDTH, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM });
    const upper = svg("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: TOP, y2: TOP });
    this.picture.append(upper, bottom, text("axis", LEFT - 5, HEIGHT - BOTTOM, "end", "0"), this.top, this.first, this.last, ...this.lines, this.cursor);
    const keys = series.map(({ name, colour }, index) => {
      const swatch = el("span", { class: "swatch stroke", "aria-hidden": "true" });
      swatch.style.setProperty("--swatch", `var(--${colour})`);
      return el("span", { class: "key" }, swatch, name, " ", this.values[index] as HTMLElement);
    });
    this.element = el("figure", { class: "chart", "data-chart": title }, el("figcaption", {}, el("h3", {}, title), el("span", { class: "soft small" }, unit)), this.picture, el("p", { class: "keys" }, ...keys));
  }

  /** Where in time the pointer is, told to `then`; null when it leaves. */
  onPoint(then: (part: number | null) => void): void {
    this.picture.addEventListener("pointermove", ({ clientX }) => {
      const { left, width } = this.picture.getBoundingClientRect();
      const part = (((clientX - left) / width) * WIDTH - LEFT) / (WIDTH - LEFT);
      then(part < 0 || part > 1 ? null : part);
    });
    this.picture.addEventListener("pointerleave", () => then(null));
  }

  draw({ times, fromMs, toMs }: Window, data: readonly (readonly (number | null)[])[], pointed: number | null): void {
    const start = times.findIndex((at) => at >= fromMs);
    const shown = start < 0 ? [] : times.slice(start);
    const parts = data.map((values) => (start < 0 ? [] : values.slice(start)));
    const high = niceCeiling(Math.max(0, ...parts.flat().filter((value) => value !== null)));
    const x = (at: number): number => LEFT + ((at - fromMs) / Math.max(1, toMs - fromMs)) * (WIDTH - LEFT);
    const y = (value: number): number => HEIGHT - BOTTOM - (value / high) * (HEIGHT - BOTTOM - TOP);
    this.lines.forEach((line, index) => line.setAttribute("d", pathOf(shown, parts[index] ?? [], x, y)));
    setText(this.top, short(high));
    setText(this.first, `−${span(toMs - fromMs)}`);
    const at = pointed === null ? shown.length - 1 : nearest(shown, fromMs + pointed * (toMs - fromMs));
    setText(this.last, pointed === null || at < 0 ? "now" : `−${span(toMs - (shown[at] ?? toMs))}`);
    this.cursor.setAttribute("visibility", pointed === null || at < 0 ? "hidden" : "visible");
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, String(x(shown[at] ?? toMs)));
    this.values.forEach((value, index) => setText(value, short(parts[index]?.[at] ?? null)));
    this.picture.setAttribute("aria-label", `${this.title}, ${this.unit}: ${this.series.map(({ name }, index) => `${name} ${this.values[index]?.textContent ?? ""}`).join(", ")}`);
  }
}

/** Broken where nothing is known. */
export function pathOf(times: readonly number[], values: readonly (number | null)[], x: (at: number) => number, y: (value: number) => number): string {
  let path = "";
  let open = false;
  values.forEach((value, index) => {
    if (value !== null) path += `${open ? "L" : "M"}${x(times[index] ?? 0).toFixed(1)} ${y(value).toFixed(1)}`;
    // A single sample is a dot.
    if (value !== null && !open && (values[index + 1] ?? null) === null) path += "h0.1";
    open = value !== null;
  });
  return path;
}

/** 1, 2 or 5 times a power of ten: an axis that ends there is read at a glance. */
export function niceCeiling(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const part = value / power;
  return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

function nearest(times: readonly number[], at: number): number {
  return times.reduce((best, time, index) => (best < 0 || Math.abs(time - at) < Math.abs((times[best] ?? 0) - at) ? index : best), -1);
}

function short(value: number | null): string {
  if (value === null) return "–";
  if (value < 0.05) return "0";
  return value >= 10_000 ? `${Math.round(value / 1_000)}k` : value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

function span(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return seconds >= 60 && seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`;
}

function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Readonly<Record<string, string | number>>): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

function text(kind: string, x: number, y: number, anchor: string, words = ""): SVGTextElement {
  const element = svg("text", { class: kind, x, y, "text-anchor": anchor });
  element.textContent = words;
  return element;
}
