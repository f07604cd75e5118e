// Which circles are drawn, and how loudly (L5).

import { describe, expect, test } from "vitest";
import type { RegionKind } from "../src/feed.ts";
import { chosen } from "../src/regions.ts";
import type { Region } from "../src/world.ts";

const NOBODY = { focus: null, pointed: null, everybody: false, stirred: () => false };

function region(of: string, what: RegionKind): Region {
  const shape = { circle: { centre: [0, 0] as const, radius_m: 200 } };
  return { id: `${of} ${what}`, key: `${of} ${what}`, of, what, shape, anchored: of, until_us: null, hostAt: null };
}

const REGIONS = [region("walker-1", "near"), region("walker-2", "interest"), region("event-3", "audience"), region("event-4", "relevance")];
const drawn = (given: Partial<typeof NOBODY> | { focus?: string; pointed?: string }): Record<string, string> =>
  Object.fromEntries(chosen(REGIONS, { ...NOBODY, ...given }).map(([{ of }, strength]) => [of, strength]));

describe("circles", () => {
  test("those of events are drawn, those of subscribers are not", () => {
    expect(drawn({})).toEqual({ "event-3": "plain", "event-4": "plain" });
  });

  test("what the one under the pointer wants is drawn", () => {
    expect(drawn({ pointed: "walker-1" })).toEqual({ "walker-1": "plain", "event-3": "plain", "event-4": "plain" });
  });

  test("what the chosen one wants stands out, and the rest steps back, but for that under the pointer", () => {
    expect(drawn({ focus: "walker-2" })).toEqual({ "walker-2": "loud", "event-3": "quiet", "event-4": "quiet" });
    expect(drawn({ focus: "walker-2", pointed: "walker-1" })["walker-1"]).toBe("plain");
  });

  test("a fence stays as it is whoever is chosen, and stands out when somebody passes it", () => {
    const fence = region("$roam/fences/depot", "fence");
    const strength = (given: Partial<typeof NOBODY> | { focus: string }): string | undefined =>
      new Map(chosen([...REGIONS, fence], { ...NOBODY, ...given }).map(([{ of }, one]) => [of, one])).get(fence.of);
    expect([strength({}), strength({ focus: "walker-2" })]).toEqual(["plain", "plain"]);
    expect(strength({ stirred: () => true })).toBe("loud");
  });

  test("what everybody wants is drawn when asked for, as outlines where they are many", () => {
    expect(drawn({ everybody: true })).toEqual({ "walker-1": "plain", "walker-2": "plain", "event-3": "plain", "event-4": "plain" });
    const crowd = Array.from({ length: 40 }, (_, n) => region(`walker-${n}`, "near"));
    const strengths = new Map(chosen([...crowd, ...REGIONS], { ...NOBODY, everybody: true }).map(([{ of }, strength]) => [of, strength]));
    expect([strengths.get("walker-7"), strengths.get("event-3")]).toEqual(["quiet", "plain"]);
  });
});
