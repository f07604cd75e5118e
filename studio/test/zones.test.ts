// Who is in a zone (L5).

import { expect, test } from "vitest";
import type { Shape } from "../src/feed.ts";
import { distanceM, extentOf, isInside } from "../src/zones.ts";

const circle: Shape = { circle: { centre: [10, 10], radius_m: 5 } };
const box: Shape = { box: [[0, 0], [4, 2]] };
const bent: Shape = { polygon: [[0, 0], [10, 0], [10, 10], [5, 2], [0, 10]] };

test.each([
  [circle, [13, 14], true],
  [circle, [14, 14], false],
  [box, [3, 1], true],
  [box, [3, 3], false],
  [bent, [1, 5], true],
  [bent, [5, 5], false],
] as const)("%j holds %j: %s", (shape, at, inside) => {
  expect(isInside(shape, at, "plane")).toBe(inside);
});

test("a degree north is 111 km on Earth, and a degree east half of that at 60 degrees", () => {
  expect(distanceM([24, 60], [24, 61], "earth") / 1_000).toBeCloseTo(111.2, 1);
  expect(distanceM([24, 60], [25, 60], "earth") / 1_000).toBeCloseTo(55.6, 1);
});

test("the corners of a circle on Earth are as far from its centre as it is wide", () => {
  const [[west, south]] = extentOf({ circle: { centre: [24, 60], radius_m: 500 } }, "earth");
  expect(distanceM([24, 60], [west, 60], "earth")).toBeCloseTo(500, 0);
  expect(distanceM([24, 60], [24, south], "earth")).toBeCloseTo(500, 0);
});
