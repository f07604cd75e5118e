// Places with names: drawn under everything that moves, and who is in them counted.

import { label, type Pen } from "./pens.ts";
import type { Place, Shape, Space, Zone } from "./feed.ts";
import type { Palette } from "./glyphs.ts";
import type { Flat, View } from "./projection.ts";

const EARTH_RADIUS_M = 6_371_008.8;
const RADIANS = Math.PI / 180;

export function drawZones(pen: Pen, palette: Palette, view: View, zones: Iterable<Zone>): void {
  for (const { name, shape, colour } of zones) {
    const drawn = colour ?? palette.zone;
    const top = outline(pen, view, shape);
    pen.fillStyle = pen.strokeStyle = drawn;
    pen.globalAlpha = 0.1;
    pen.fill();
    pen.globalAlpha = 0.8;
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.globalAlpha = 1;
    label(pen, palette, name, top.x, top.y + 14, true, 12);
  }
}

/** Leaves the path in the pen, and says where its upper middle is. */
function outline(pen: Pen, view: View, shape: Shape): Flat {
  pen.beginPath();
  if ("circle" in shape) {
    const { centre, radius_m } = shape.circle;
    const flat = view.flat(centre);
    const radius = radius_m * view.pixelsPerMetre(centre);
    pen.arc(view.x(flat), view.y(flat), radius, 0, 2 * Math.PI);
    return { x: view.x(flat), y: view.y(flat) - radius };
  }
  const points = cornersOf(shape).map((corner) => view.flat(corner)).map((flat) => ({ x: view.x(flat), y: view.y(flat) }));
  for (const { x, y } of points) pen.lineTo(x, y);
  pen.closePath();
  const xs = points.map(({ x }) => x);
  return { x: (Math.min(...xs) + Math.max(...xs)) / 2, y: Math.min(...points.map(({ y }) => y)) };
}

/** A place on the edge of a circle is in it; on that of a polygon it may be either. */
export function isInside(shape: Shape, at: Place, space: Space): boolean {
  if ("circle" in shape) return distanceM(shape.circle.centre, at, space) <= shape.circle.radius_m;
  const corners = cornersOf(shape);
  let inside = false;
  corners.forEach(([x1, y1], index) => {
    const [x2, y2] = corners[(index + 1) % corners.length] as Place;
    if (y1 > at[1] !== y2 > at[1] && at[0] < ((x2 - x1) * (at[1] - y1)) / (y2 - y1) + x1) inside = !inside;
  });
  return inside;
}

/** The corners of what a shape covers, for a map to show it whole. */
export function extentOf(shape: Shape, space: Space): readonly [Place, Place] {
  if ("circle" in shape) {
    const { centre, radius_m } = shape.circle;
    const high = space === "plane" ? radius_m : radius_m / (EARTH_RADIUS_M * RADIANS);
    const wide = space === "plane" ? radius_m : high / Math.max(0.01, Math.cos(centre[1] * RADIANS));
    return [[centre[0] - wide, centre[1] - high], [centre[0] + wide, centre[1] + high]];
  }
  const corners = cornersOf(shape);
  const [xs, ys] = [corners.map(([x]) => x), corners.map(([, y]) => y)];
  return [[Math.min(...xs), Math.min(...ys)], [Math.max(...xs), Math.max(...ys)]];
}

function cornersOf(shape: Exclude<Shape, { circle: unknown }>): readonly Place[] {
  if ("polygon" in shape) return shape.polygon;
  const [[x1, y1], [x2, y2]] = shape.box;
  return [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
}

export function distanceM([x1, y1]: Place, [x2, y2]: Place, space: Space): number {
  if (space === "plane") return Math.hypot(x2 - x1, y2 - y1);
  const [dx, dy] = [((x2 - x1) * RADIANS) / 2, ((y2 - y1) * RADIANS) / 2];
  const half = Math.sin(dy) ** 2 + Math.cos(y1 * RADIANS) * Math.cos(y2 * RADIANS) * Math.sin(dx) ** 2;
  return 2 * EARTH_RADIUS_M * Math.asin(Math.min(1, Math.sqrt(half)));
}
