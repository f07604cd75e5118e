// Charts over time (L5).

import { expect, test } from "vitest";
import { niceCeiling, pathOf } from "../src/chart.ts";
import type { Load } from "../src/feed.ts";
import { History, SAMPLES_MAX } from "../src/history.ts";
import { World } from "../src/world.ts";

const NO_MAP = { geojson: null, tiles: null, attribution: null, centre: null, zoom: null };

function world(loads: Readonly<Record<string, Partial<Load>>>): World {
  const made = new World();
  const brokers = Object.keys(loads).map((name) => ({ name, http: `http://${name}`, mqtt: null, place: null }));
  for (const [broker, load] of Object.entries(loads)) {
    made.hello({ kind: "hello", version: 1, broker, space: "plane", at_us: 1, brokers, map: NO_MAP, types: {}, zones: [] });
    told(made, broker, load);
  }
  return made;
}

function told(made: World, broker: string, given: Partial<Load>, left: readonly string[] = []): void {
  const load = { clients: 0, subscriptions: 0, published_per_s: 0, events_per_s: 0, deliveries_per_s: 0, latency_ms: null, links: [], ...given };
  const handovers = left.map((client) => ({ client, from: broker, to: "elsewhere", at_us: 1 }));
  made.apply(broker, { kind: "tick", at_us: 2, entities: [], gone: [], regions: [], regions_gone: [], events: [], deliveries: [], handovers, load, left_out: { events: 0, deliveries: 0 } });
}

test("rates add up over brokers, and the latency is that of the slowest", () => {
  const history = new History();
  history.take(world({ b1: { published_per_s: 2, latency_ms: [3, 9] }, b2: { published_per_s: 5, latency_ms: [4, 7] } }), 1_000);
  expect(history.series("published", null)).toEqual([7]);
  expect(history.series("published", "b2")).toEqual([5]);
  expect([history.series("medianMs", null), history.series("p99Ms", null)]).toEqual([[4], [9]]);
});

test("where nothing was delivered, or a broker does not answer, nothing is drawn", () => {
  const history = new History();
  const made = world({ b1: { clients: 3 } });
  history.take(made, 1_000);
  made.lost("b1");
  history.take(made, 2_000);
  expect(history.series("medianMs", null)).toEqual([null, null]);
  expect(history.series("clients", null)).toEqual([3, null]);
});

test("handovers are counted from when the page looks, over some seconds", () => {
  const history = new History();
  const made = world({ b1: {} });
  told(made, "b1", {}, ["car-1"]);
  history.take(made, 1_000);
  told(made, "b1", {}, ["car-2", "car-3"]);
  history.take(made, 2_000);
  for (let n = 3; n <= 12; n += 1) history.take(made, n * 1_000);
  expect(history.series("handovers", null)).toEqual([0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0]);
});

test("however long a page stays open, so many samples are kept", () => {
  const history = new History();
  const made = world({ b1: {} });
  for (let n = 0; n < SAMPLES_MAX + 5; n += 1) history.take(made, n);
  expect([history.samples.length, history.samples[0]?.atMs]).toEqual([SAMPLES_MAX, 5]);
});

test("a line is broken where nothing is known", () => {
  expect(pathOf([0, 1, 2, 3], [1, 2, null, 3], (at) => at, (value) => value)).toBe("M0.0 1.0L1.0 2.0M3.0 3.0h0.1");
});

test.each([[0, 1], [0.3, 0.5], [1, 1], [7, 10], [12, 20], [430, 500]])("an axis for %d ends at %d", (value, end) => {
  expect(niceCeiling(value)).toBeCloseTo(end);
});
