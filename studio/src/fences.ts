// Fences on the map: their names, and who has just passed one.

import type { Palette } from "./glyphs.ts";
import { label, type Pen } from "./pens.ts";
import { circleOf, corners, type RegionView } from "./regions.ts";
import type { Region, SeenEvent } from "./world.ts";

export const FLASH_MS = 3_000;
const FLASHES_MAX = 200;
const NAMED_MAX = 60;
const ABOVE_PX = 9;

const SUBJECT = /^\$roam\/fence\/(.+)\/(enter|leave|cross|dwell)$/;
const VERBS: Readonly<Record<string, string>> = { enter: "enters", leave: "leaves", cross: "passes through", dwell: "stays in" };

export interface Passage {
  readonly fence: string;
  readonly host: string;
  readonly verb: string;
}

/** What an event says of a fence; null if it says something else. */
export function passageOf({ subject, from }: Pick<SeenEvent, "subject" | "from">): Passage | null {
  const found = SUBJECT.exec(subject);
  if (found === null) return null;
  return { fence: found[1] ?? "", host: from, verb: VERBS[found[2] ?? ""] ?? "" };
}

/** The name of the fence that a region is. */
export const nameOf = (region: Pick<Region, "id">): string => region.id.replace(/^fence\//, "");

export class Fences {
  private flashes = new Map<string, { readonly text: string; readonly start: number }>();

  /** Whether the event is a passage, which is shown for some seconds. */
  take(event: SeenEvent, now: number): boolean {
    const passage = passageOf(event);
    if (passage === null) return false;
    this.flashes.delete(passage.fence);
    if (this.flashes.size < FLASHES_MAX) this.flashes.set(passage.fence, { text: `${passage.host} ${passage.verb}`, start: now });
    return true;
  }

  draw(pen: Pen, palette: Palette, regions: Iterable<Region>, given: RegionView, now: number): void {
    for (const [fence, { start }] of this.flashes) if (now - start >= FLASH_MS) this.flashes.delete(fence);
    let named = 0;
    for (const region of regions) {
      if (region.what !== "fence" || named >= NAMED_MAX) continue;
      const at = above(region, given);
      if (at === null) continue;
      named += 1;
      const name = nameOf(region);
      const flash = this.flashes.get(name);
      if (flash === undefined) label(pen, palette, name, at.x, at.y);
      else label(pen, palette, `${name}: ${flash.text}`, at.x, at.y, true);
    }
  }

  /** Whether somebody has just passed it, so that it stands out. */
  stirred(region: Region): boolean {
    return region.what === "fence" && this.flashes.has(nameOf(region));
  }
}

/** Where the name of a fence stands: over its northern end. Null: not in view. */
function above(region: Region, given: RegionView): { x: number; y: number } | null {
  const circle = circleOf(region, given);
  const places = corners(region, given);
  const x = circle?.x ?? places.reduce((sum, place) => sum + place.x, 0) / places.length;
  const y = (circle === null ? Math.min(...places.map((place) => place.y)) : circle.y - circle.radius) - ABOVE_PX;
  return x < 0 || x > given.width || y < -ABOVE_PX || y > given.height ? null : { x, y: Math.max(y, ABOVE_PX) };
}
