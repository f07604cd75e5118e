// Lines and letters that several parts of the scene draw.

import type { Palette } from "./glyphs.ts";
import type { Flat } from "./projection.ts";

export const TURN = 2 * Math.PI;
export type Pen = CanvasRenderingContext2D;

export function ring(pen: Pen, x: number, y: number, radius: number, colour: string, width: number, dash: number[] = []): void {
  pen.beginPath();
  pen.arc(x, y, radius, 0, TURN);
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.stroke();
  pen.setLineDash([]);
}

export function label(pen: Pen, palette: Palette, text: string, x: number, y: number, strong = false, size = 11): void {
  pen.font = `${strong ? 600 : 500} ${size}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  pen.lineWidth = 3;
  pen.strokeStyle = palette.halo;
  pen.strokeText(text, x, y);
  pen.fillStyle = palette.ink;
  pen.fillText(text, x, y);
}

export function line(pen: Pen, from: Flat, to: Flat): void {
  pen.beginPath();
  pen.moveTo(from.x, from.y);
  pen.lineTo(to.x, to.y);
  pen.stroke();
}

export function arrow(pen: Pen, from: Flat, to: Flat, colour: string, width: number): void {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  if (length < 24) return;
  const [ux, uy] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const [endX, endY] = [to.x - ux * 14, to.y - uy * 14];
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = width;
  line(pen, { x: from.x + ux * 12, y: from.y + uy * 12 }, { x: endX - ux * 4, y: endY - uy * 4 });
  const wing = 3 + width;
  pen.beginPath();
  pen.moveTo(endX, endY);
  pen.lineTo(endX - ux * wing * 1.8 - uy * wing, endY - uy * wing * 1.8 + ux * wing);
  pen.lineTo(endX - ux * wing * 1.8 + uy * wing, endY - uy * wing * 1.8 - ux * wing);
  pen.fill();
}

/** A line with a slight bend, so that there and back can be told apart. */
export class Curve {
  private readonly cx: number;
  private readonly cy: number;

  constructor(
    private readonly from: Flat,
    private readonly to: Flat,
  ) {
    this.cx = (from.x + to.x) / 2 + (to.y - from.y) * 0.12;
    this.cy = (from.y + to.y) / 2 - (to.x - from.x) * 0.12;
  }

  at(part: number): readonly [number, number] {
    const rest = 1 - part;
    const [a, c, b] = [rest * rest, 2 * rest * part, part * part];
    return [a * this.from.x + c * this.cx + b * this.to.x, a * this.from.y + c * this.cy + b * this.to.y];
  }

  trace(pen: Pen, from: number, to: number): void {
    const steps = 10;
    for (let step = 0; step <= steps; step += 1) pen.lineTo(...this.at(from + ((to - from) * step) / steps));
  }
}

/** Where names stand already. */
export class Room {
  private readonly taken: { readonly x: number; readonly y: number; readonly half: number }[] = [];

  take(x: number, y: number, width: number): boolean {
    const half = width / 2;
    if (this.taken.some((other) => Math.abs(other.y - y) < 12 && Math.abs(other.x - x) < other.half + half)) return false;
    this.taken.push({ x, y, half });
    return true;
  }
}
