// What all brokers together have told: one map out of many feeds, without a browser in it.
//
// A client may be known to several brokers while it roams. The one that has it attached is believed about where it is;
// among others the newest word counts. It is gone when the last broker that knew it says so. A broker that is lost leaves
// its clients behind as stale; when it is back, its first tick names all that it has, and whatever is not in it goes.

import type { BrokerAddress, EventNews, HandoverNews, Hello, Load, Place, RegionNews, Space, Tick, Zone } from "./feed.ts";
import { Looks } from "./looks.ts";

export const EVENTS_MAX = 1_000;
export const LOG_MAX = 400;
const HANDOVERS_REMEMBERED_MAX = 200;
/** Both brokers of a handover may tell of it, at slightly different times. */
const SAME_HANDOVER_US = 2_000_000;

export interface Entity {
  readonly id: string;
  at: Place;
  heading_deg: number | null;
  type: string | null;
  home: string | null;
  stale: boolean;
}

export interface Region extends RegionNews {
  readonly key: string;
  /** Where the host was when the shape was told: an anchored shape is moved by how far it went since. */
  readonly hostAt: Place | null;
}

export interface SeenEvent extends EventNews {
  readonly brokers: string[];
  readonly receivers: string[];
  deliveries: number;
}

export interface Broker {
  readonly name: string;
  address: BrokerAddress;
  load: Load | null;
  connected: boolean;
  at_us: number;
}

export type LogEntry =
  | { readonly n: number; readonly at_us: number; readonly kind: "event"; readonly event: SeenEvent }
  | { readonly n: number; readonly at_us: number; readonly kind: "handover"; readonly handover: HandoverNews }
  | { readonly n: number; readonly at_us: number; readonly kind: "broker"; readonly broker: string; readonly text: string };

export interface Delivery {
  readonly event: SeenEvent | null;
  readonly to: string;
  readonly broker: string;
}

export interface Changes {
  readonly moved: readonly Entity[];
  readonly gone: readonly string[];
  readonly events: readonly SeenEvent[];
  readonly deliveries: readonly Delivery[];
  readonly handovers: readonly HandoverNews[];
}

export interface Totals {
  entities: number;
  brokers: number;
  brokersUp: number;
  subscriptions: number;
  publishedPerS: number;
  deliveriesPerS: number;
  leftOut: number;
}

interface Sighting {
  here: boolean;
  at_us: number;
}

const RECEIVERS_MAX = 500;

export class World {
  space: Space = "earth";
  readonly brokers = new Map<string, Broker>();
  readonly entities = new Map<string, Entity>();
  readonly regions = new Map<string, Region>();
  readonly events = new Map<string, SeenEvent>();
  readonly log: LogEntry[] = [];
  readonly looks = new Looks();
  /** By name; the first broker that speaks of one is believed. */
  readonly zones = new Map<string, Zone>();
  leftOut = 0;
  /** By the broker that clients left, how many did. */
  readonly handoversFrom = new Map<string, number>();
  private logged = 0;
  private readonly sightings = new Map<string, Map<string, Sighting>>();
  private readonly regionOwners = new Map<string, Set<string>>();
  /** A region is told gone by its id alone; the key holds whose it is as well, since ids are each broker's own. */
  private readonly regionKeys = new Map<string, string>();
  private readonly awaitingAll = new Set<string>();
  private readonly lately: HandoverNews[] = [];
  private readonly names = new Map<string, string>();

  hello(hello: Hello): void {
    this.space = hello.space;
    this.looks.learn(hello.types);
    for (const zone of hello.zones) if (!this.zones.has(zone.name)) this.zones.set(zone.name, zone);
    for (const address of hello.brokers) this.know(address);
    const broker = this.brokers.get(hello.broker);
    if (broker === undefined) return;
    if (!broker.connected) this.note(hello.at_us, hello.broker, "is here");
    broker.connected = true;
    broker.at_us = hello.at_us;
    this.awaitingAll.add(hello.broker);
  }

  /** Who is behind an address: others may name a broker by its address alone, until it says its name itself. */
  met(http: string, name: string): void {
    this.names.set(http, name);
    for (const broker of this.brokers.values()) {
      if (broker.name !== name && broker.address.http === http && !broker.connected) this.brokers.delete(broker.name);
    }
  }

  private know(address: BrokerAddress): void {
    const known = this.brokers.get(this.names.get(address.http) ?? address.name);
    if (known === undefined) {
      this.brokers.set(address.name, { name: address.name, address, load: null, connected: false, at_us: 0 });
      return;
    }
    // Others may know less of a broker than it says of itself.
    known.address = { ...known.address, mqtt: address.mqtt ?? known.address.mqtt, place: address.place ?? known.address.place };
  }

  lost(name: string): void {
    const broker = this.brokers.get(name);
    if (broker === undefined || !broker.connected) return;
    broker.connected = false;
    broker.load = null;
    this.note(broker.at_us, name, "does not answer");
    for (const [id, seen] of this.sightings) {
      const entity = this.entities.get(id);
      if (entity !== undefined && seen.has(name) && this.onlyLost(seen)) entity.stale = true;
    }
  }

  private onlyLost(seen: ReadonlyMap<string, Sighting>): boolean {
    for (const name of seen.keys()) if (this.brokers.get(name)?.connected === true) return false;
    return true;
  }

  apply(from: string, tick: Tick): Changes {
    const moved: Entity[] = [];
    const gone: string[] = [];
    for (const id of this.leftOutOf(from, tick)) if (this.forget(from, id)) gone.push(id);
    for (const id of tick.gone) if (this.forget(from, id)) gone.push(id);
    for (const news of tick.entities) {
      const entity = this.see(from, tick.at_us, news);
      if (entity !== null) moved.push(entity);
    }
    this.applyRegions(from, tick);
    const events = tick.events.flatMap((news) => this.event(from, news));
    const deliveries = tick.deliveries.map((news) => this.deliver(from, news.event, news.to));
    const handovers = tick.handovers.filter((news) => this.handover(news));
    const broker = this.brokers.get(from);
    if (broker !== undefined) {
      broker.load = tick.load ?? broker.load;
      broker.at_us = tick.at_us;
    }
    this.leftOut += tick.left_out.events + tick.left_out.deliveries;
    return { moved, gone, events, deliveries, handovers };
  }

  /** What a broker had before it was lost, and does not name in the first tick after. */
  private leftOutOf(from: string, tick: Tick): string[] {
    if (!this.awaitingAll.delete(from)) return [];
    const named = new Set(tick.entities.map((news) => news.id));
    const regions = new Set(tick.regions.map((news) => news.id));
    for (const [key, owners] of this.regionOwners) {
      const region = this.regions.get(key);
      if (region !== undefined && owners.has(from) && !regions.has(region.id)) this.endRegion(from, region.id);
    }
    return [...this.sightings].filter(([id, seen]) => seen.has(from) && !named.has(id)).map(([id]) => id);
  }

  private see(from: string, at_us: number, news: Tick["entities"][number]): Entity | null {
    let seen = this.sightings.get(news.id);
    if (seen === undefined) this.sightings.set(news.id, (seen = new Map<string, Sighting>()));
    if (news.here) for (const other of seen.values()) other.here = false;
    seen.set(from, { here: news.here, at_us });
    const known = this.entities.get(news.id);
    if (known === undefined) {
      const entity = { ...news, home: news.here ? from : null, stale: false };
      this.entities.set(news.id, entity);
      return entity;
    }
    if (!news.here && !this.newest(seen, from)) return null;
    known.at = news.at;
    known.heading_deg = news.heading_deg;
    known.type = news.type ?? known.type;
    known.stale = false;
    if (news.here) known.home = from;
    else if (known.home === from) known.home = null;
    return known;
  }

  private newest(seen: ReadonlyMap<string, Sighting>, from: string): boolean {
    const own = seen.get(from);
    for (const [name, other] of seen) {
      if (name === from || this.brokers.get(name)?.connected !== true) continue;
      if (other.here || other.at_us > (own?.at_us ?? 0)) return false;
    }
    return true;
  }

  /** Whether the client is now gone from everywhere. */
  private forget(from: string, id: string): boolean {
    const seen = this.sightings.get(id);
    if (seen === undefined || !seen.delete(from)) return false;
    const entity = this.entities.get(id);
    if (entity?.home === from) entity.home = null;
    if (seen.size > 0) return false;
    this.sightings.delete(id);
    return this.entities.delete(id);
  }

  private applyRegions(from: string, tick: Tick): void {
    for (const id of tick.regions_gone) this.endRegion(from, id);
    for (const news of tick.regions) {
      const key = `${news.what} ${news.of} ${news.id}`;
      const host = news.anchored === null ? undefined : this.entities.get(news.anchored);
      this.regions.set(key, { ...news, key, hostAt: host?.at ?? null });
      this.regionKeys.set(`${from} ${news.id}`, key);
      const owners = this.regionOwners.get(key);
      if (owners === undefined) this.regionOwners.set(key, new Set([from]));
      else owners.add(from);
    }
    for (const region of this.regions.values()) {
      if (region.until_us !== null && region.until_us < tick.at_us) this.dropRegion(region.key);
    }
  }

  private endRegion(from: string, id: string): void {
    const key = this.regionKeys.get(`${from} ${id}`);
    if (key === undefined) return;
    this.regionKeys.delete(`${from} ${id}`);
    const owners = this.regionOwners.get(key);
    owners?.delete(from);
    if (owners === undefined || owners.size === 0) this.dropRegion(key);
  }

  private dropRegion(key: string): void {
    const region = this.regions.get(key);
    for (const owner of this.regionOwners.get(key) ?? []) this.regionKeys.delete(`${owner} ${region?.id ?? ""}`);
    this.regions.delete(key);
    this.regionOwners.delete(key);
  }

  /** The event if it is new to the page, else nothing: other brokers see it too, on its way. */
  private event(from: string, news: EventNews): SeenEvent[] {
    const known = this.events.get(news.id);
    if (known !== undefined) {
      if (!known.brokers.includes(from)) known.brokers.push(from);
      return [];
    }
    const event: SeenEvent = { ...news, brokers: [from], receivers: [], deliveries: 0 };
    this.events.set(news.id, event);
    dropOldest(this.events, EVENTS_MAX);
    this.write({ n: ++this.logged, at_us: news.published_us, kind: "event", event });
    return [event];
  }

  private deliver(broker: string, id: string, to: string): Delivery {
    const event = this.events.get(id) ?? null;
    if (event !== null) {
      event.deliveries += 1;
      if (event.receivers.length < RECEIVERS_MAX) event.receivers.push(to);
    }
    return { event, to, broker };
  }

  private handover(news: HandoverNews): boolean {
    const told = this.lately.some(
      (one) =>
        one.client === news.client &&
        one.from === news.from &&
        one.to === news.to &&
        Math.abs(one.at_us - news.at_us) < SAME_HANDOVER_US,
    );
    if (told) return false;
    this.lately.push(news);
    this.handoversFrom.set(news.from, (this.handoversFrom.get(news.from) ?? 0) + 1);
    if (this.lately.length > HANDOVERS_REMEMBERED_MAX) this.lately.shift();
    this.write({ n: ++this.logged, at_us: news.at_us, kind: "handover", handover: news });
    return true;
  }

  private note(at_us: number, broker: string, text: string): void {
    this.write({ n: ++this.logged, at_us, kind: "broker", broker, text });
  }

  private write(entry: LogEntry): void {
    this.log.push(entry);
    if (this.log.length > LOG_MAX) this.log.splice(0, this.log.length - LOG_MAX);
  }

  totals(): Totals {
    const totals: Totals = {
      entities: this.entities.size,
      brokers: this.brokers.size,
      brokersUp: 0,
      subscriptions: 0,
      publishedPerS: 0,
      deliveriesPerS: 0,
      leftOut: this.leftOut,
    };
    for (const { load, connected } of this.brokers.values()) {
      if (connected) totals.brokersUp += 1;
      totals.subscriptions += load?.subscriptions ?? 0;
      // Not those that it saw: one that goes over a link is seen at both ends.
      totals.publishedPerS += load?.published_per_s ?? 0;
      totals.deliveriesPerS += load?.deliveries_per_s ?? 0;
    }
    return totals;
  }

  /** Where a broker is: as it says, else amid its clients. */
  placeOf(broker: Broker): Place | null {
    if (broker.address.place !== null) return broker.address.place;
    let x = 0;
    let y = 0;
    let count = 0;
    for (const entity of this.entities.values()) {
      if (entity.home !== broker.name) continue;
      x += entity.at[0];
      y += entity.at[1];
      count += 1;
    }
    return count === 0 ? null : [x / count, y / count];
  }

  /** Each pair of linked brokers once; a link is up when nobody says that it is down. */
  links(): { readonly a: Broker; readonly b: Broker; readonly up: boolean }[] {
    const links = new Map<string, { a: Broker; b: Broker; up: boolean }>();
    for (const broker of this.brokers.values()) {
      for (const { to, up } of broker.load?.links ?? []) {
        const other = this.brokers.get(to);
        if (other === undefined) continue;
        const [a, b] = broker.name < other.name ? [broker, other] : [other, broker];
        const key = `${a.name} ${b.name}`;
        const known = links.get(key);
        if (known === undefined) links.set(key, { a, b, up });
        else known.up &&= up;
      }
    }
    return [...links.values()];
  }
}

function dropOldest<K, V>(map: Map<K, V>, bound: number): void {
  while (map.size > bound) {
    const oldest = map.keys().next();
    if (oldest.done === true) return;
    map.delete(oldest.value);
  }
}
