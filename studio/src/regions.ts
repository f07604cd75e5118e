// Proximities and scopes: outlines that move with their hosts. Circles of one kind and size, of which there may be hundreds,
// are drawn once and then copied: tracing each in every frame would be most of the frame's work.

import type { Place, RegionKind, Shape } from "./feed.ts";
import type { Palette } from "./glyphs.ts";
import { TURN, type Pen } from "./pens.ts";
import type { Flat, View } from "./projection.ts";
import type { Region } from "./world.ts";

const DRAWN_MAX = 400;
const DISCS_MAX = 60;
const COPIED_PX_MAX = 220;
const CROWD = 15;

type Strength = "quiet" | "plain" | "loud";
const STRENGTHS: Readonly<Record<Strength, { readonly fill: number; readonly stroke: number; readonly width: number }>> = {
  quiet: { fill: 0, stroke: 0.2, width: 1 },
  plain: { fill: 0.08, stroke: 0.6, width: 1.25 },
  loud: { fill: 0.12, stroke: 0.95, width: 1.75 },
};

export interface RegionView {
  readonly view: View;
  readonly width: number;
  readonly height: number;
  /** Where a host is on the screen now. */
  readonly host: (id: string) => Flat | undefined;
  /** Whose regions stand out, the others stepping back; null: nobody's. */
  readonly focus: string | null;
  /** Under the pointer. */
  readonly pointed: string | null;
  /** What everybody wants, or only what the one in focus or under the pointer wants. */
  readonly everybody: boolean;
  /** Whether something has just happened there. */
  readonly stirred: (region: Region) => boolean;
}

export class Regions {
  private readonly discs = new Map<string, ImageBitmap>();

  constructor(
    private readonly palette: Palette,
    private readonly ratio: number,
  ) {}

  draw(pen: Pen, regions: Iterable<Region>, given: RegionView): void {
    for (const [region, strength] of chosen(regions, given)) this.one(pen, region, given, strength);
  }

  private one(pen: Pen, region: Region, given: RegionView, strength: Strength): void {
    const circle = circleOf(region, given);
    if (circle === null) {
      pen.beginPath();
      trace(pen, region, given);
      ink(pen, this.palette.regions[region.what], region.what, strength);
      return;
    }
    const { x, y, radius } = circle;
    if (x + radius < 0 || y + radius < 0 || x - radius > given.width || y - radius > given.height || radius < 2) return;
    if (radius > COPIED_PX_MAX) {
      pen.beginPath();
      pen.arc(x, y, radius, 0, TURN);
      ink(pen, this.palette.regions[region.what], region.what, strength);
      return;
    }
    const disc = this.disc(region.what, Math.round(radius), strength);
    const side = disc.width / this.ratio;
    pen.drawImage(disc, snap(x - side / 2, this.ratio), snap(y - side / 2, this.ratio), side, side);
  }

  private disc(what: RegionKind, radius: number, strength: Strength): ImageBitmap {
    const key = `${what} ${radius} ${strength}`;
    const known = this.discs.get(key);
    if (known !== undefined) return known;
    // Every zoom brings other sizes.
    if (this.discs.size > DISCS_MAX) this.discs.clear();
    const pixels = Math.ceil((2 * radius + 4) * this.ratio);
    const canvas = new OffscreenCanvas(pixels, pixels);
    const pen = canvas.getContext("2d");
    if (pen === null) throw new Error("this browser draws no canvas");
    pen.scale(this.ratio, this.ratio);
    pen.beginPath();
    pen.arc(pixels / this.ratio / 2, pixels / this.ratio / 2, radius, 0, TURN);
    ink(pen, this.palette.regions[what], what, strength);
    const disc = canvas.transferToImageBitmap();
    this.discs.set(key, disc);
    return disc;
  }
}

/** What is drawn, and how much it stands out. Hundreds of subscribers each with a circle would be all that is seen. */
export function chosen(regions: Iterable<Region>, { focus, pointed, everybody, stirred }: Choice): readonly (readonly [Region, Strength])[] {
  const loud: Region[] = [];
  const others = new Map<string, Region>();
  for (const region of regions) {
    if (region.of === focus || stirred(region)) loud.push(region);
    else if (everybody || region.of === pointed || !wanted(region.what)) others.set(likeness(region), region);
  }
  const rest = [...others.values()].slice(-DRAWN_MAX);
  const crowded = rest.filter(({ what }) => wanted(what)).length > CROWD;
  const strength = ({ of, what }: Region): Strength =>
    of !== pointed && what !== "fence" && (focus !== null || (crowded && wanted(what))) ? "quiet" : "plain";
  return [...rest.map((region) => [region, strength(region)] as const), ...loud.map((region) => [region, "loud"] as const)];
}

type Choice = Pick<RegionView, "focus" | "pointed" | "everybody" | "stirred">;

const wanted = (kind: RegionKind): boolean => kind === "near" || kind === "interest";

/** Of events that a host raises again and again with the same scope, the newest stands for all. */
function likeness({ what, anchored, shape, key }: Region): string {
  return anchored !== null && "circle" in shape ? `${what} ${anchored} ${shape.circle.radius_m}` : key;
}

const snap = (at: number, ratio: number): number => Math.round(at * ratio) / ratio;

function ink(pen: Pen | OffscreenCanvasRenderingContext2D, colour: string, kind: RegionKind, strength: Strength): void {
  const { fill, stroke, width } = STRENGTHS[strength];
  pen.fillStyle = pen.strokeStyle = colour;
  pen.globalAlpha = fill;
  pen.fill();
  pen.globalAlpha = stroke;
  pen.lineWidth = width;
  if (wanted(kind)) pen.setLineDash([5, 4]);
  pen.stroke();
  pen.setLineDash([]);
  pen.globalAlpha = 1;
}

export function circleOf(region: Region, { view, host }: RegionView): { x: number; y: number; radius: number } | null {
  const shape: Shape = region.shape;
  if (!("circle" in shape)) return null;
  const at = region.anchored === null ? undefined : host(region.anchored);
  const flat = view.flat(shape.circle.centre);
  return { x: at?.x ?? view.x(flat), y: at?.y ?? view.y(flat), radius: shape.circle.radius_m * view.pixelsPerMetre(shape.circle.centre) };
}

function trace(pen: Pen, region: Region, given: RegionView): void {
  corners(region, given).forEach(({ x, y }, index) => (index === 0 ? pen.moveTo(x, y) : pen.lineTo(x, y)));
  pen.closePath();
}

/** Of a box or polygon, on the screen. */
export function corners(region: Region, { view, host }: RegionView): readonly { readonly x: number; readonly y: number }[] {
  const at = region.anchored === null ? undefined : host(region.anchored);
  const shape: Shape = region.shape;
  if ("circle" in shape) return [];
  const before = region.hostAt === null ? null : view.flat(region.hostAt);
  const dx = before === null || at === undefined ? 0 : at.x - view.x(before);
  const dy = before === null || at === undefined ? 0 : at.y - view.y(before);
  return ("box" in shape ? boxCorners(shape.box) : shape.polygon).map((corner) => {
    const flat = view.flat(corner);
    return { x: view.x(flat) + dx, y: view.y(flat) + dy };
  });
}

const boxCorners = ([[x1, y1], [x2, y2]]: readonly [Place, Place]): Place[] => [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
