// Who passes a fence is told in words (L5).

import { describe, expect, test } from "vitest";
import { nameOf, passageOf } from "../src/fences.ts";

const event = (subject: string): { subject: string; from: string } => ({ subject, from: "van-7" });

describe("fences", () => {
  test("a transition is a passage, whatever the name of the fence", () => {
    expect(passageOf(event("$roam/fence/depot/leave"))).toEqual({ fence: "depot", host: "van-7", verb: "leaves" });
    expect(passageOf(event("$roam/fence/depots/north/1/dwell"))).toEqual({ fence: "depots/north/1", host: "van-7", verb: "stays in" });
  });

  test("other events are none", () => {
    for (const subject of ["fence/depot/leave", "$roam/fence/depot", "$roam/fence/depot/other"]) expect(passageOf(event(subject))).toBeNull();
  });

  test("a region has the name of its fence", () => {
    expect(nameOf({ id: "fence/depots/north" })).toBe("depots/north");
  });
});
