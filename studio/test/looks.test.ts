// Any type has a sign and a colour (L5).

import { expect, test } from "vitest";
import { hueOf, Looks, LOOKS_MAX } from "../src/looks.ts";
import { SIGNS } from "../src/signs.ts";

test("a type that nobody knows has letters and a hue of its own, always the same", () => {
  const one = new Looks().of("forklift");
  expect(one).toEqual(new Looks().of("forklift"));
  expect(one.sign).toEqual({ letters: "Fo" });
  expect(one.colour).toEqual({ hue: hueOf("forklift") });
  expect(new Looks().of("fire_engine 2").sign).toEqual({ letters: "FE" });
});

test("hues are spread over many names", () => {
  const hues = new Set(Array.from({ length: 200 }, (_, n) => hueOf(`kind-${n}`)));
  expect(hues.size).toBe(24);
});

test("a setting says the icon, the letters or the path, and the colour", () => {
  const looks = new Looks();
  looks.learn({ Forklift: { icon: "truck", colour: "#112233" }, crane: { icon: "KR", colour: null }, gate: { icon: "M0 0h24v24z", colour: null } });
  expect(looks.of("forklift")).toMatchObject({ sign: { path: SIGNS["truck"] }, colour: { said: "#112233" } });
  expect(looks.of("crane").sign).toEqual({ letters: "KR" });
  expect(looks.of("gate").sign).toEqual({ path: "M0 0h24v24z" });
});

test("what the first broker says of a type holds, and is seen where a type was drawn before", () => {
  const looks = new Looks();
  const before = looks.of("crane");
  expect(looks.learn({ crane: { icon: null, colour: "#445566" } })).toBe(true);
  expect(looks.learn({ crane: { icon: null, colour: "#000000" } })).toBe(false);
  expect(looks.of("crane").colour).toEqual({ said: "#445566" });
  expect(looks.of("crane").key).not.toBe(before.key);
});

test("names that every object has are types like others", () => {
  expect(new Looks().of("constructor").sign).toEqual({ letters: "Co" });
});

test("however many types clients make up, so many are told apart", () => {
  const looks = new Looks();
  const names = new Set(Array.from({ length: 3 * LOOKS_MAX }, (_, n) => looks.of(`t${n}`).name));
  expect(names.size).toBe(LOOKS_MAX + 1);
});
