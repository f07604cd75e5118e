// Proximities and scopes: outlines that move with their hosts. All of one kind are one path, filled and stroked once, since
// hundreds of large circles one by one would be most of the work of a frame.

import type { Place, RegionKind, Shape } from "./feed.ts";
import type { Palette } from "./glyphs.ts";
import { TURN, type Pen } from "./pens.ts";
import type { Flat, View } from "./projection.ts";
import type { Region } from "./world.ts";

const DRAWN_MAX = 400;
const DASHED_MAX = 40;
const KINDS: readonly RegionKind[] = ["relevance", "audience", "interest", "near"];

export interface RegionView {
  readonly view: View;
  readonly width: number;
  readonly height: number;
  /** Where a host is on the screen now. */
  readonly host: (id: string) => Flat | undefined;
  /** Whose regions stand out, the others stepping back; null: nobody's. */
  readonly focus: string | null;
}

export function drawRegions(pen: Pen, palette: Palette, regions: Iterable<Region>, given: RegionView): void {
  const quiet = new Map<RegionKind, Region[]>();
  const loud = new Map<RegionKind, Region[]>();
  let count = 0;
  for (const region of regions) {
    const focus = region.of === given.focus;
    if (!focus && ++count > DRAWN_MAX) continue;
    const group = focus ? loud : quiet;
    group.set(region.what, [...(group.get(region.what) ?? []), region]);
  }
  for (const kind of KINDS) drawKind(pen, palette.regions[kind], kind, quiet.get(kind) ?? [], given, given.focus === null ? 1 : 0.3);
  for (const kind of KINDS) drawKind(pen, palette.regions[kind], kind, loud.get(kind) ?? [], given, 1.6);
}

function drawKind(pen: Pen, colour: string, kind: RegionKind, regions: readonly Region[], given: RegionView, strength: number): void {
  if (regions.length === 0) return;
  pen.beginPath();
  for (const region of regions) trace(pen, region, given);
  pen.fillStyle = pen.strokeStyle = colour;
  pen.globalAlpha = 0.08 * strength;
  pen.fill();
  pen.globalAlpha = Math.min(1, 0.6 * strength);
  pen.lineWidth = strength > 1 ? 1.75 : 1.25;
  if ((kind === "near" || kind === "interest") && regions.length <= DASHED_MAX) pen.setLineDash([5, 4]);
  pen.stroke();
  pen.setLineDash([]);
  pen.globalAlpha = 1;
}

function trace(pen: Pen, region: Region, { view, width, height, host }: RegionView): void {
  const at = region.anchored === null ? undefined : host(region.anchored);
  const shape: Shape = region.shape;
  if ("circle" in shape) {
    const flat = view.flat(shape.circle.centre);
    const x = at?.x ?? view.x(flat);
    const y = at?.y ?? view.y(flat);
    const radius = shape.circle.radius_m * view.pixelsPerMetre(shape.circle.centre);
    if (x + radius < 0 || y + radius < 0 || x - radius > width || y - radius > height || radius < 2) return;
    pen.moveTo(x + radius, y);
    pen.arc(x, y, radius, 0, TURN);
    return;
  }
  const corners = "box" in shape ? boxCorners(shape.box) : shape.polygon;
  const before = region.hostAt === null ? null : view.flat(region.hostAt);
  const dx = before === null || at === undefined ? 0 : at.x - view.x(before);
  const dy = before === null || at === undefined ? 0 : at.y - view.y(before);
  corners.forEach((corner, index) => {
    const flat = view.flat(corner);
    if (index === 0) pen.moveTo(view.x(flat) + dx, view.y(flat) + dy);
    else pen.lineTo(view.x(flat) + dx, view.y(flat) + dy);
  });
  pen.closePath();
}

const boxCorners = ([[x1, y1], [x2, y2]]: readonly [Place, Place]): Place[] => [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
