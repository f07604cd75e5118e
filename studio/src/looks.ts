// How a host of any type looks: as a broker's settings say, as one of the types that the page knows by name, or, of any
// other type, its letters on a colour that its name alone decides, the same on every page.

import { SIGNS } from "./signs.ts";

export interface TypeNews {
  readonly icon: string | null;
  readonly colour: string | null;
}

export type Sign = { readonly path: string } | { readonly letters: string };
/** A colour that is said, one of the style sheet, or a hue, of which the style sheet says how light it is. */
export type Colour = { readonly said: string } | { readonly variable: string } | { readonly hue: number };

export interface Look {
  /** Two looks with the same key are drawn alike. */
  readonly key: string;
  readonly name: string;
  readonly sign: Sign;
  readonly colour: Colour;
  /** What stands still is square: a car park and a traffic light are told from cars without their colour. */
  readonly square: boolean;
}

const KNOWN = ["car", "bus", "person", "ambulance", "light", "parking", "other"];
const NAMES: ReadonlyMap<string, string> = new Map([["light", "Traffic light"]]);
const SQUARE: ReadonlySet<string> = new Set(["light", "parking", "sensor", "camera", "shop", "box"]);
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["vehicle", "car"],
  ["taxi", "car"],
  ["lorry", "truck"],
  ["tram", "train"],
  ["pedestrian", "person"],
  ["walker", "person"],
  ["fire_engine", "ambulance"],
  ["police", "ambulance"],
  ["traffic_light", "light"],
  ["signal", "light"],
  ["car_park", "parking"],
  ["ship", "boat"],
  ["vessel", "boat"],
  ["bicycle", "bike"],
  ["cyclist", "bike"],
  ["uav", "drone"],
  ["aircraft", "plane"],
  ["parcel", "box"],
]);
/** Types are what clients say: beyond so many, the rest are "other". */
export const LOOKS_MAX = 100;

export class Looks {
  private readonly said = new Map<string, TypeNews>();
  private readonly made = new Map<string, Look>();
  private readonly other = made("other", "Other", undefined);

  /** What a broker's settings say; the first broker that speaks of a type is believed. True if anything is new. */
  learn(types: Readonly<Record<string, TypeNews>>): boolean {
    const fresh = Object.entries(types).filter(([name]) => !this.said.has(plain(name)));
    for (const [name, news] of fresh) this.said.set(plain(name), news);
    if (fresh.length > 0) this.made.clear();
    return fresh.length > 0;
  }

  of(type: string | null): Look {
    const given = type ?? "other";
    let look = this.made.get(given);
    if (look === undefined) {
      if (this.made.size >= LOOKS_MAX) return this.other;
      const name = plain(given);
      const shown = this.said.has(name) ? name : (ALIASES.get(name) ?? name);
      look = made(shown, NAMES.get(shown) ?? titled(shown === name ? given : shown), this.said.get(shown));
      this.made.set(given, look);
    }
    return look;
  }
}

function made(name: string, title: string, said: TypeNews | undefined): Look {
  const icon = said?.icon ?? null;
  const sign = icon === null ? ownSign(name, title) : signOf(icon);
  const colour: Colour = said?.colour != null ? { said: said.colour } : KNOWN.includes(name) ? { variable: `type-${name}` } : { hue: hueOf(name) };
  return { key: JSON.stringify([sign, colour]), name: title, sign, colour, square: SQUARE.has(icon ?? name) };
}

function signOf(icon: string): Sign {
  const path = own(icon);
  if (path !== undefined) return { path };
  return icon.length > 3 ? { path: icon } : { letters: icon };
}

function ownSign(name: string, title: string): Sign {
  const path = own(name);
  return path === undefined ? { letters: lettersOf(title) } : { path };
}

/** Not whatever every object has, such as `constructor`: the name is somebody else's. */
const own = (name: string): string | undefined => (Object.hasOwn(SIGNS, name) ? SIGNS[name] : undefined);
const plain = (type: string): string => type.trim().toLowerCase().replaceAll(/[ -]/g, "_");
const titled = (type: string): string => type.charAt(0).toUpperCase() + type.slice(1).replaceAll("_", " ");

/** "Fire truck" is FT, "Forklift" is Fo. */
function lettersOf(title: string): string {
  const words = title.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "");
  const [first = "?", second] = words;
  return second === undefined ? [...first].slice(0, 2).join("") : `${[...first][0]}${[...second][0]}`.toUpperCase();
}

/** FNV-1a; hues 15 degrees apart, so that two of them are the same or can be told apart. */
export function hueOf(name: string): number {
  let hash = 0x811c9dc5;
  for (const char of name) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return (((hash ^ (hash >>> 15)) >>> 0) % 24) * 15;
}
