// Many feeds make one world (L5).

import { describe, expect, test } from "vitest";
import { readFrame, type EntityNews, type EventNews, type Hello, type RegionNews, type Tick } from "../src/feed.ts";
import { EVENTS_MAX, LOG_MAX, World } from "../src/world.ts";

const NO_MAP = { geojson: null, tiles: null, attribution: null, centre: null, zoom: null };

function hello(broker: string, others: readonly string[] = []): Hello {
  const brokers = [broker, ...others].map((name) => ({ name, http: `http://${name}`, mqtt: null, place: null }));
  return { kind: "hello", version: 1, broker, space: "plane", at_us: 1, brokers, map: NO_MAP, types: {}, zones: [] };
}

function tick(at_us: number, given: Partial<Tick> = {}): Tick {
  return {
    kind: "tick", at_us, entities: [], gone: [], regions: [], regions_gone: [], events: [], deliveries: [], handovers: [],
    load: null, left_out: { events: 0, deliveries: 0 }, ...given,
  };
}

function car(x: number, here = true, id = "car-7"): EntityNews {
  return { id, at: [x, 0], heading_deg: null, type: "car", here };
}

function event(id: string): EventNews {
  return { id, subject: "traffic/accident", from: "car-7", at: [0, 0], published_us: 5, payload: null };
}

function circle(id: string, given: Partial<RegionNews> = {}): RegionNews {
  return { id, of: "car-7", what: "audience", shape: { circle: { centre: [0, 0], radius_m: 10 } }, anchored: null, until_us: null, ...given };
}

function two(): World {
  const world = new World();
  world.hello(hello("b1", ["b2"]));
  world.hello(hello("b2", ["b1"]));
  return world;
}

describe("entities", () => {
  test("are where their last report says, at the broker that has them", () => {
    const world = two();
    world.apply("b1", tick(10, { entities: [car(1)] }));
    const { moved } = world.apply("b1", tick(20, { entities: [car(2)] }));
    expect(moved.map((one) => one.id)).toEqual(["car-7"]);
    expect(world.entities.get("car-7")).toMatchObject({ at: [2, 0], home: "b1" });
  });

  test("are believed of their home broker before any other", () => {
    const world = two();
    world.apply("b1", tick(10, { entities: [car(1)] }));
    expect(world.apply("b2", tick(20, { entities: [car(9, false)] })).moved).toEqual([]);
    expect(world.entities.get("car-7")?.at).toEqual([1, 0]);
  });

  test("change their home with a handover, and the old broker's farewell does not remove them", () => {
    const world = two();
    world.apply("b1", tick(10, { entities: [car(1)] }));
    world.apply("b2", tick(20, { entities: [car(2)] }));
    expect(world.apply("b1", tick(30, { gone: ["car-7"] })).gone).toEqual([]);
    expect(world.entities.get("car-7")?.home).toBe("b2");
  });

  test("are gone when the last broker that knew them says so", () => {
    const world = two();
    world.apply("b1", tick(10, { entities: [car(1)] }));
    expect(world.apply("b1", tick(20, { gone: ["car-7"] })).gone).toEqual(["car-7"]);
    expect(world.entities.size).toBe(0);
  });

  test("are stale when their broker is lost, and fresh or gone when it is back", () => {
    const world = two();
    world.apply("b1", tick(10, { entities: [car(1), car(2, true, "car-8")] }));
    world.lost("b1");
    expect(world.entities.get("car-7")?.stale).toBe(true);
    world.hello(hello("b1"));
    expect(world.apply("b1", tick(50, { entities: [car(3)] })).gone).toEqual(["car-8"]);
    expect(world.entities.get("car-7")).toMatchObject({ stale: false, at: [3, 0] });
  });

  test("may be taken over by another broker while theirs is lost", () => {
    const world = two();
    world.apply("b1", tick(10, { entities: [car(1)] }));
    world.lost("b1");
    world.apply("b2", tick(5, { entities: [car(4, false)] }));
    expect(world.entities.get("car-7")).toMatchObject({ stale: false, at: [4, 0] });
  });
});

describe("events", () => {
  test("are one, whichever brokers see them, and count who got them everywhere", () => {
    const world = two();
    expect(world.apply("b1", tick(10, { events: [event("e1")], deliveries: [{ event: "e1", to: "car-9", at_us: 10 }] })).events).toHaveLength(1);
    expect(world.apply("b2", tick(11, { events: [event("e1")], deliveries: [{ event: "e1", to: "car-4", at_us: 11 }] })).events).toEqual([]);
    expect(world.events.get("e1")).toMatchObject({ brokers: ["b1", "b2"], receivers: ["car-9", "car-4"], deliveries: 2 });
    expect(world.log.filter((entry) => entry.kind === "event")).toHaveLength(1);
  });

  test("are forgotten oldest first, and the log stays bounded", () => {
    const world = two();
    for (let n = 0; n < EVENTS_MAX + 10; n += 1) world.apply("b1", tick(n, { events: [event(`e${n}`)] }));
    expect(world.events.size).toBe(EVENTS_MAX);
    expect(world.events.has("e9")).toBe(false);
    expect(world.log.length).toBe(LOG_MAX);
  });

  test("that were left out still deliver, to a receiver that is known", () => {
    const { deliveries } = two().apply("b1", tick(1, { deliveries: [{ event: "unseen", to: "car-7", at_us: 1 }], left_out: { events: 1, deliveries: 0 } }));
    expect(deliveries).toEqual([{ event: null, to: "car-7", broker: "b1" }]);
  });
});

test("a handover that both brokers tell of is one", () => {
  const world = two();
  const news = { client: "car-7", from: "b1", to: "b2", at_us: 1_000_000 };
  expect(world.apply("b1", tick(1, { handovers: [news] })).handovers).toHaveLength(1);
  expect(world.apply("b2", tick(2, { handovers: [{ ...news, at_us: 1_200_000 }] })).handovers).toEqual([]);
  expect(world.apply("b2", tick(3, { handovers: [{ ...news, at_us: 9_000_000 }] })).handovers).toHaveLength(1);
});

describe("regions", () => {
  test("stay while one broker has them", () => {
    const world = two();
    world.apply("b1", tick(1, { regions: [circle("r")] }));
    world.apply("b2", tick(1, { regions: [circle("r")] }));
    world.apply("b1", tick(2, { regions_gone: ["r"] }));
    expect(world.regions.size).toBe(1);
    world.apply("b2", tick(3, { regions_gone: ["r"] }));
    expect(world.regions.size).toBe(0);
  });

  test("of two brokers with the same id for different ones are two", () => {
    const world = two();
    world.apply("b1", tick(1, { regions: [circle("1", { of: "car-1" })] }));
    world.apply("b2", tick(1, { regions: [circle("1", { of: "car-2" })] }));
    world.apply("b1", tick(2, { regions_gone: ["1"] }));
    expect([...world.regions.values()].map((region) => region.of)).toEqual(["car-2"]);
  });

  test("end with their time", () => {
    const world = two();
    world.apply("b1", tick(1, { regions: [circle("r", { until_us: 100 })] }));
    world.apply("b2", tick(101));
    expect(world.regions.size).toBe(0);
  });

  test("that a broker does not name when it is back are gone", () => {
    const world = two();
    world.apply("b1", tick(1, { regions: [circle("r"), circle("s", { of: "car-8" })] }));
    world.lost("b1");
    world.hello(hello("b1"));
    world.apply("b1", tick(2, { regions: [circle("s", { of: "car-8" })] }));
    expect([...world.regions.values()].map((region) => region.id)).toEqual(["s"]);
  });
});

test("a broker that others know by its address alone is one with what it calls itself", () => {
  const world = new World();
  world.hello(hello("b1"));
  const other = { name: "b2.example:80", http: "http://b2", mqtt: null, place: null };
  world.hello({ ...hello("b1"), brokers: [...hello("b1").brokers, other] });
  expect([...world.brokers.keys()]).toEqual(["b1", "b2.example:80"]);
  world.met("http://b2", "b2");
  world.hello(hello("b2"));
  world.hello({ ...hello("b1"), brokers: [...hello("b1").brokers, other] });
  expect([...world.brokers.keys()]).toEqual(["b1", "b2"]);
});

test("totals add what connected brokers carry", () => {
  const world = two();
  const load = { clients: 3, subscriptions: 4, published_per_s: 1, events_per_s: 1.5, deliveries_per_s: 2, latency_ms: null, links: [{ to: "b2", up: true }] };
  world.apply("b1", tick(1, { load }));
  world.apply("b2", tick(1, { load: { ...load, links: [{ to: "b1", up: false }] } }));
  expect(world.totals()).toMatchObject({ brokersUp: 2, subscriptions: 8, publishedPerS: 2, deliveriesPerS: 4 });
  expect(world.links().map(({ a, b, up }) => [a.name, b.name, up])).toEqual([["b1", "b2", false]]);
  world.lost("b2");
  expect(world.totals()).toMatchObject({ brokersUp: 1, subscriptions: 4 });
});

test("a broker without a place is amid its clients", () => {
  const world = two();
  world.apply("b1", tick(1, { entities: [car(0), car(10, true, "car-8")] }));
  expect([...world.brokers.values()].map((broker) => world.placeOf(broker))).toEqual([[5, 0], null]);
});

describe("frames", () => {
  test("of unknown kinds, and what is no JSON, are passed over", () => {
    expect(readFrame('{"kind":"later"}')).toBeNull();
    expect(readFrame("{")).toBeNull();
    expect(readFrame("[]")).toBeNull();
  });

  test("may leave out what they have nothing of", () => {
    expect(readFrame('{"kind":"tick","at_us":5}')).toEqual(tick(5));
  });
});
