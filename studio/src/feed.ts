// What a broker tells the page, as it stands on the wire. One hello, then ticks; see docs/reference/STUDIO.md.

import type { TypeNews } from "./looks.ts";

export type Place = readonly [x: number, y: number];
export type Space = "earth" | "plane";

export interface BrokerAddress {
  readonly name: string;
  readonly http: string;
  readonly mqtt: string | null;
  readonly place: Place | null;
}

export interface MapSource {
  readonly geojson: string | null;
  readonly tiles: string | null;
  readonly attribution: string | null;
  readonly centre: Place | null;
  readonly zoom: number | null;
}

export interface Hello {
  readonly kind: "hello";
  readonly version: number;
  readonly broker: string;
  readonly space: Space;
  readonly at_us: number;
  readonly brokers: readonly BrokerAddress[];
  readonly map: MapSource;
  readonly types: Readonly<Record<string, TypeNews>>;
  readonly zones: readonly Zone[];
}

/** A place with a name, from a broker's settings. */
export interface Zone {
  readonly name: string;
  readonly shape: Shape;
  readonly colour: string | null;
}

export interface EntityNews {
  readonly id: string;
  readonly at: Place;
  readonly heading_deg: number | null;
  readonly type: string | null;
  readonly here: boolean;
}

export type Shape =
  | { readonly circle: { readonly centre: Place; readonly radius_m: number } }
  | { readonly box: readonly [Place, Place] }
  | { readonly polygon: readonly Place[] };

export type RegionKind = "audience" | "relevance" | "near" | "interest" | "fence";

export interface RegionNews {
  readonly id: string;
  readonly of: string;
  readonly what: RegionKind;
  readonly shape: Shape;
  readonly anchored: string | null;
  readonly until_us: number | null;
}

export interface EventNews {
  readonly id: string;
  readonly subject: string;
  readonly from: string;
  readonly at: Place | null;
  readonly published_us: number;
  readonly payload: unknown;
}

export interface DeliveryNews {
  readonly event: string;
  readonly to: string;
  readonly at_us: number;
}

export interface HandoverNews {
  readonly client: string;
  readonly from: string;
  readonly to: string;
  readonly at_us: number;
}

export interface Load {
  readonly clients: number;
  readonly subscriptions: number;
  /** Of clients of this broker; `events_per_s` also counts what other brokers passed on. */
  readonly published_per_s: number;
  readonly events_per_s: number;
  readonly deliveries_per_s: number;
  /** Median and 99th percentile of the last seconds; null if nothing was delivered. */
  readonly latency_ms: readonly [number, number] | null;
  readonly links: readonly { readonly to: string; readonly up: boolean }[];
}

export interface Tick {
  readonly kind: "tick";
  readonly at_us: number;
  readonly entities: readonly EntityNews[];
  readonly gone: readonly string[];
  readonly regions: readonly RegionNews[];
  readonly regions_gone: readonly string[];
  readonly events: readonly EventNews[];
  readonly deliveries: readonly DeliveryNews[];
  readonly handovers: readonly HandoverNews[];
  readonly load: Load | null;
  readonly left_out: { readonly events: number; readonly deliveries: number };
}

export type Frame = Hello | Tick;

const NO_MAP: MapSource = { geojson: null, tiles: null, attribution: null, centre: null, zoom: null };

/** A frame, with everything that was left out filled in; null for what a later version may send and this page does not know. */
export function readFrame(text: string): Frame | null {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof raw !== "object" || raw === null) return null;
  const given = raw as Record<string, unknown>;
  switch (given["kind"]) {
    case "hello":
      return readHello(given);
    case "tick":
      return readTick(given);
    default:
      return null;
  }
}

function readHello(given: Record<string, unknown>): Hello | null {
  if (typeof given["broker"] !== "string") return null;
  return {
    kind: "hello",
    version: number(given["version"]),
    broker: given["broker"],
    space: given["space"] === "plane" ? "plane" : "earth",
    at_us: number(given["at_us"]),
    brokers: list<BrokerAddress>(given["brokers"]),
    map: { ...NO_MAP, ...(given["map"] as Partial<MapSource> | undefined) },
    types: (given["types"] as Hello["types"] | undefined) ?? {},
    zones: list<Zone>(given["zones"]),
  };
}

function readTick(given: Record<string, unknown>): Tick {
  const out = (given["left_out"] ?? {}) as Record<string, unknown>;
  return {
    kind: "tick",
    at_us: number(given["at_us"]),
    entities: list<EntityNews>(given["entities"]),
    gone: list<string>(given["gone"]),
    regions: list<RegionNews>(given["regions"]),
    regions_gone: list<string>(given["regions_gone"]),
    events: list<EventNews>(given["events"]),
    deliveries: list<DeliveryNews>(given["deliveries"]),
    handovers: list<HandoverNews>(given["handovers"]),
    load: (given["load"] as Load | undefined) ?? null,
    left_out: { events: number(out["events"]), deliveries: number(out["deliveries"]) },
  };
}

const number = (value: unknown): number => (typeof value === "number" ? value : 0);
const list = <T>(value: unknown): readonly T[] => (Array.isArray(value) ? (value as T[]) : []);
