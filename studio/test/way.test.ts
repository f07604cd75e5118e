// The way of an event out of what each broker knows of it (L5).

import { describe, expect, test } from "vitest";
import { joinFilter } from "../src/session.ts";
import { after, byReason, joinWay, type EventPart } from "../src/way.ts";

function part(given: Partial<EventPart>): EventPart {
  return {
    id: "e1", subject: "traffic/accident", from: "car-7", payload: null, published_us: 1_000, expiry_us: null,
    came_from: { client: "car-7" }, seen_us: 1_000, passed_to: [], delivered: [], not_delivered: [], ...given,
  };
}

const b1 = part({ passed_to: [{ broker: "b2", at_us: 1_100 }], delivered: [{ to: "car-1", at_us: 1_500 }] });
const b2 = part({ came_from: { broker: "b1" }, seen_us: 3_000, passed_to: [{ broker: "b3", at_us: 3_100 }] });
const b3 = part({ came_from: { broker: "b2" }, seen_us: 5_000, delivered: [{ to: "car-3", at_us: 6_000 }] });

describe("hops", () => {
  test("go from the publisher's broker outwards, whoever answered first", () => {
    const way = joinWay(new Map([["b3", b3], ["b2", b2], ["b1", b1]]));
    expect(way?.hops.map((hop) => [hop.broker, hop.depth, hop.after_us])).toEqual([["b1", 0, 0], ["b2", 1, 2_000], ["b3", 2, 4_000]]);
    expect(way?.delivered).toBe(2);
    expect(way?.hops[2]?.delivered).toEqual([{ to: "car-3", after_us: 5_000 }]);
  });

  test("name a broker that was given the event and does not answer", () => {
    const way = joinWay(new Map([["b1", b1]]));
    expect(way?.hops.map((hop) => [hop.broker, hop.after_us])).toEqual([["b1", 0], ["b2", null]]);
  });

  test("are shown even where the publisher's broker does not answer", () => {
    const way = joinWay(new Map([["b3", b3], ["b2", b2]]));
    expect(way?.hops.map((hop) => hop.broker)).toEqual(["b2", "b3"]);
  });

  test("are each broker once, though what they say goes in a circle", () => {
    const way = joinWay(new Map([["b1", part({ came_from: { broker: "b2" }, passed_to: [{ broker: "b2", at_us: 1 }] })], ["b2", b2]]));
    expect(way?.hops.map((hop) => hop.broker).sort()).toEqual(["b1", "b2", "b3"]);
  });

  test("of an event that nobody remembers are none", () => {
    expect(joinWay(new Map())).toBeNull();
  });
});

describe("who did not get it", () => {
  const miss = (to: string, failed: string) => ({ to, subscription: "traffic/#", failed, why: "…" });

  test("is grouped by what it failed on, the most frequent first", () => {
    const way = joinWay(new Map([["b1", part({ not_delivered: [miss("a", "filter"), miss("b", "audience"), miss("c", "audience")], left_out: 4 })]]));
    expect(way && byReason(way).map((group) => [group.failed, group.missed.map((one) => one.to)])).toEqual([["audience", ["b", "c"]], ["filter", ["a"]]]);
    expect(way?.leftOut).toBe(4);
  });

  test("is nobody who got it at another broker", () => {
    const way = joinWay(new Map([["b1", part({ not_delivered: [miss("car-3", "audience")] })], ["b3", b3]]));
    expect(way?.missed).toEqual([]);
  });
});

test("times after publication are read at a glance", () => {
  expect([after(2_440), after(45_000), after(2_500_000)]).toEqual(["+2.4 ms", "+45 ms", "+2.5 s"]);
});

test("a radius goes beside a filter", () => {
  expect(joinFilter("a = 1 OR b = 2", 200)).toBe("(a = 1 OR b = 2) AND near(position, 200)");
  expect(joinFilter("", 200)).toBe("near(position, 200)");
  expect(joinFilter(" a = 1 ", null)).toBe("a = 1");
});
