// Ticks wait while the page is paused, and lose nothing of where things end up (L5).

import { expect, test } from "vitest";
import { mergeTicks, TickBuffer } from "../src/buffer.ts";
import type { EntityNews, Hello, Tick } from "../src/feed.ts";
import { World } from "../src/world.ts";

function tick(at_us: number, given: Partial<Tick> = {}): Tick {
  return {
    kind: "tick", at_us, entities: [], gone: [], regions: [], regions_gone: [], events: [], deliveries: [], handovers: [],
    load: null, left_out: { events: 0, deliveries: 0 }, ...given,
  };
}

const car = (id: string, x: number): EntityNews => ({ id, at: [x, 0], heading_deg: null, type: null, here: true });

test("a step takes the oldest tick", () => {
  const buffer = new TickBuffer();
  buffer.push("b1", tick(1));
  buffer.push("b2", tick(2));
  expect(buffer.shift()).toMatchObject({ broker: "b1", tick: { at_us: 1 } });
  expect(buffer.length).toBe(1);
});

test("beyond the bound the newest tick of the same broker takes up what follows", () => {
  const buffer = new TickBuffer(3);
  for (let n = 1; n <= 9; n += 1) buffer.push(n % 2 === 0 ? "b2" : "b1", tick(n, { entities: [car(`car-${n}`, n)] }));
  expect(buffer.length).toBe(3);
  const taken = [buffer.shift(), buffer.shift(), buffer.shift()].map((one) => [one?.broker, one?.tick.entities.map((entity) => entity.id)]);
  expect(taken).toEqual([["b1", ["car-1"]], ["b2", ["car-2", "car-4", "car-6", "car-8"]], ["b1", ["car-3", "car-5", "car-7", "car-9"]]]);
  expect(buffer.shift()).toBeUndefined();
});

test("a broker that comes again makes void what waits from before", () => {
  const buffer = new TickBuffer(2);
  buffer.push("b1", tick(1));
  buffer.push("b2", tick(2));
  buffer.forget("b1");
  buffer.push("b1", tick(3));
  buffer.push("b2", tick(4));
  expect([buffer.shift(), buffer.shift()].map((one) => [one?.broker, one?.tick.at_us])).toEqual([["b2", 4], ["b1", 3]]);
});

test("two ticks merged leave the world as the two one after the other, in every order of coming and going", () => {
  const news: Partial<Tick>[] = [{}, { entities: [car("a", 1)] }, { gone: ["a"] }, { entities: [car("a", 2), car("b", 1)] }, { gone: ["a", "b"] }];
  for (const before of news)
    for (const first of news)
      for (const second of news) {
        const apart = world();
        for (const given of [before, first, second]) apart.apply("b1", tick(1, given));
        const merged = world();
        merged.apply("b1", tick(1, before));
        merged.apply("b1", mergeTicks(tick(1, first), tick(1, second)));
        expect(sorted(merged)).toEqual(sorted(apart));
      }
});

test("a merged tick tells how many events it could not hold", () => {
  const event = (n: number) => ({ id: `e${n}`, subject: "s", from: "a", at: null, published_us: 1, payload: null });
  const many = (from: number) => tick(1, { events: Array.from({ length: 800 }, (_, n) => event(from + n)) });
  const merged = mergeTicks(many(0), many(800));
  expect(merged.events).toHaveLength(1_000);
  expect(merged.left_out.events).toBe(600);
});

function world(): World {
  const made = new World();
  const map = { geojson: null, tiles: null, attribution: null, centre: null, zoom: null };
  const brokers = [{ name: "b1", http: "http://b1", mqtt: null, place: null }];
  made.hello({ kind: "hello", version: 1, broker: "b1", space: "plane", at_us: 0, brokers, map, types: {}, zones: [] } satisfies Hello);
  made.apply("b1", tick(0));
  return made;
}

const sorted = (of: World): unknown => [...of.entities.values()].map((one) => [one.id, one.at, one.home]).sort();
