// Positions as of an event, from all brokers (L5).

import { expect, test } from "vitest";
import { joinPositions } from "../src/moment.ts";

const one = (id: string, x: number, here: boolean) => ({ id, at: [x, 0] as const, heading_deg: null, type: null, here });

test("a client is where the broker that had it says, whichever answers first", () => {
  const away = { clients: [one("car-7", 1, false), one("car-8", 3, false)] };
  const home = { clients: [one("car-7", 2, true)] };
  for (const answers of [[["b1", away], ["b2", home]], [["b2", home], ["b1", away]]] as const) {
    const found = joinPositions(new Map(answers));
    expect(new Map(found.map(({ id, at, home: broker }) => [id, [at[0], broker]]))).toEqual(new Map([["car-7", [2, "b2"]], ["car-8", [3, null]]]));
  }
});
