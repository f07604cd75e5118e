// Everything that moves, in one canvas over the map, drawn in one pass for each frame of the screen in which something
// changes. An entity glides to its new place in about the time since its last report. What a viewer has selected,
// highlighted or switched off is told to the scene; it knows nothing of panels.

import L from "leaflet";
import type { Place } from "./feed.ts";
import { Fences, FLASH_MS } from "./fences.ts";
import { Sprites, type Detail, type Palette } from "./glyphs.ts";
import type { Look } from "./looks.ts";
import { measured } from "./measure.ts";
import { arrow, Curve, label, line, ring, Room, TURN } from "./pens.ts";
import { flatten, View, type Flat } from "./projection.ts";
import { Regions, type RegionView } from "./regions.ts";
import type { Broker, Changes, Entity, Region, World } from "./world.ts";
import { drawZones } from "./zones.ts";

export const LAYERS = ["map", "zones", "entities", "names", "regions", "interests", "fences", "brokers", "deliveries", "handovers"] as const;
export type LayerName = (typeof LAYERS)[number];

export type Hit = { readonly kind: "client"; readonly id: string } | { readonly kind: "broker"; readonly id: string };

/** The way of a selected event, in places that the scene looks up as they move. */
export interface ShownWay {
  readonly event: string;
  readonly from: string;
  readonly at: Place | null;
  readonly hops: readonly { readonly broker: string; readonly over: string | null; readonly delivered: readonly string[] }[];
  readonly missed: readonly string[];
  /** Its audience and relevance, as they were when it was published. */
  readonly regions: readonly Region[];
}

interface Sprite {
  readonly entity: Entity;
  look: Look;
  from: Flat;
  to: Flat;
  start: number;
  spanMs: number;
  x: number;
  y: number;
}

interface Flight {
  readonly from: Flat;
  readonly to: string;
  readonly start: number;
}

interface Pulse {
  readonly at: Flat;
  readonly start: number;
  readonly colour: string;
}

interface Change {
  readonly client: string;
  readonly from: string;
  readonly to: string;
  readonly start: number;
}

const FLIGHT_MS = 900;
const PULSE_MS = 700;
const HANDOVER_MS = 1_800;
const STEP_MS = 450;
const FLIGHTS_MAX = 400;
const PULSES_MAX = 100;
const GLIDE_MS_MAX = 1_100;
const NAMED_MAX = 70;
const HIT_PX = 14;

export class Scene extends L.Layer {
  selected: string | null = null;
  selectedBroker: string | null = null;
  private pointed: string | null = null;
  highlighted: ReadonlySet<string> | null = null;
  way: ShownWay | null = null;
  readonly shown = new Set<LayerName>(LAYERS);
  private readonly canvas = document.createElement("canvas");
  private readonly pen: CanvasRenderingContext2D;
  /** Where entities are now. */
  private readonly sprites = new Map<string, Sprite>();
  /** Where they were at the moment that is shown instead. */
  private then: ReadonlyMap<string, Sprite> | null = null;
  /** Who reads in a filter that is tried: an entity, or a place. */
  reader: string | Place | null = null;
  private sheet: Sprites;
  private regions: Regions;
  private readonly fences = new Fences();
  private flights: Flight[] = [];
  private pulses: Pulse[] = [];
  private changes: Change[] = [];
  private detail: Detail = "sign";
  private busyUntil = 0;
  private frame = 0;
  private zooming = false;
  /** Animations go by a clock that stands still while the page is paused. */
  private clock = 0;
  private lastFrame = 0;
  private runUntil = Infinity;

  constructor(
    private readonly world: World,
    private palette: Palette,
    private readonly calm: () => boolean,
  ) {
    super();
    this.canvas.className = "scene leaflet-zoom-animated";
    const pen = this.canvas.getContext("2d");
    if (pen === null) throw new Error("this browser draws no canvas");
    this.pen = pen;
    this.sheet = new Sprites(palette, ratio());
    this.regions = new Regions(palette, ratio());
  }

  override onAdd(map: L.Map): this {
    map.getPane("overlayPane")?.append(this.canvas);
    map.on("move", this.moved, this);
    map.on("resize viewreset zoomend moveend", this.resize, this);
    map.on("zoomanim", this.zoomed, this);
    this.resize();
    return this;
  }

  private resize(): void {
    this.zooming = false;
    const { x, y } = this._map.getSize();
    const scale = ratio();
    if (this.canvas.width !== Math.round(x * scale) || this.canvas.height !== Math.round(y * scale)) {
      this.canvas.width = Math.round(x * scale);
      this.canvas.height = Math.round(y * scale);
      this.canvas.style.width = `${x}px`;
      this.canvas.style.height = `${y}px`;
      this.sheet = new Sprites(this.palette, scale);
      this.regions = new Regions(this.palette, scale);
    }
    this.moved();
  }

  private moved(): void {
    if (this.zooming) return;
    L.DomUtil.setTransform(this.canvas, this._map.containerPointToLayerPoint([0, 0]), 1);
    this.draw();
  }

  /** While the map zooms, the picture of the last frame is stretched along with the streets. */
  private zoomed(event: L.LeafletEvent): void {
    const { center, zoom } = event as L.ZoomAnimEvent;
    this.zooming = true;
    const corner = this._map.containerPointToLatLng([0, 0]);
    const inner = this._map as L.Map & { _latLngToNewLayerPoint(at: L.LatLng, zoom: number, centre: L.LatLng): L.Point };
    L.DomUtil.setTransform(this.canvas, inner._latLngToNewLayerPoint(corner, zoom, center), this._map.getZoomScale(zoom));
  }

  recolour(palette: Palette): void {
    this.palette = palette;
    this.sheet = new Sprites(palette, ratio());
    this.regions = new Regions(palette, ratio());
    for (const sprite of this.sprites.values()) sprite.look = this.world.looks.of(sprite.entity.type);
    this.refresh();
  }

  /** Shows entities where they were; null: where they are. */
  showMoment(entities: readonly Entity[] | null): void {
    this.then =
      entities === null
        ? null
        : new Map(
            entities.map((entity) => {
              const at = this.flat(entity.at);
              const sprite: Sprite = { entity, look: this.world.looks.of(entity.type), from: at, to: at, start: 0, spanMs: 1, x: -1e4, y: -1e4 };
              return [entity.id, sprite] as const;
            }),
          );
    this.refresh();
  }

  private get drawn(): ReadonlyMap<string, Sprite> {
    return this.then ?? this.sprites;
  }

  /** Nothing new comes while paused; what is in flight stands still, but for a moment after each step. */
  hold(paused: boolean): void {
    this.runUntil = paused ? this.clock : Infinity;
    this.refresh();
  }

  /** What the client under the pointer wants is shown, even where that of others is not. */
  point(id: string | null): void {
    if (id === this.pointed) return;
    this.pointed = id;
    this.refresh();
  }

  stepped(): void {
    this.runUntil = this.clock + STEP_MS;
    this.refresh();
  }

  refresh(): void {
    this.busyUntil = Math.max(this.busyUntil, this.clock + 1);
    this.request();
  }

  take(changes: Changes): void {
    const now = this.clock;
    for (const entity of changes.moved) this.glide(entity, now);
    for (const id of changes.gone) this.sprites.delete(id);
    const { delivery } = this.palette;
    for (const event of changes.events) {
      if (this.fences.take(event, now)) this.busyUntil = Math.max(this.busyUntil, now + FLASH_MS + 1);
      const at = event.at === null ? this.sprites.get(event.from)?.to : this.flat(event.at);
      const look = this.world.looks.of(this.world.entities.get(event.from)?.type ?? null);
      if (at !== undefined) this.pulses.push({ at, start: now, colour: this.palette.colour(look.colour) });
    }
    for (const { event, to } of changes.deliveries) {
      const from = event === null ? undefined : event.at === null ? this.sprites.get(event.from)?.to : this.flat(event.at);
      const receiver = this.sprites.get(to);
      if (receiver === undefined) continue;
      if (from === undefined) this.pulses.push({ at: receiver.to, start: now, colour: delivery });
      else this.flights.push({ from, to, start: now });
    }
    for (const { client, from, to } of changes.handovers) this.changes.push({ client, from, to, start: now });
    if (this.flights.length > FLIGHTS_MAX) this.flights = this.flights.slice(-FLIGHTS_MAX);
    if (this.pulses.length > PULSES_MAX) this.pulses = this.pulses.slice(-PULSES_MAX);
    if (this.changes.length > PULSES_MAX) this.changes = this.changes.slice(-PULSES_MAX);
    if (changes.deliveries.length > 0 || changes.events.length > 0) this.busyUntil = Math.max(this.busyUntil, now + FLIGHT_MS);
    if (changes.handovers.length > 0) this.busyUntil = Math.max(this.busyUntil, now + HANDOVER_MS);
    this.refresh();
  }

  private glide(entity: Entity, now: number): void {
    const to = this.flat(entity.at);
    const known = this.sprites.get(entity.id);
    const look = this.world.looks.of(entity.type);
    if (known === undefined || known.entity !== entity || known.look !== look) {
      const from = known?.to ?? to;
      this.sprites.set(entity.id, { entity, look, from, to, start: now, spanMs: 1, x: -1e4, y: -1e4 });
      return;
    }
    known.from = this.between(known, now);
    known.to = to;
    known.spanMs = Math.min(GLIDE_MS_MAX, Math.max(60, (now - known.start) * 1.05));
    known.start = now;
    this.busyUntil = Math.max(this.busyUntil, now + known.spanMs);
  }

  private between(sprite: Sprite, now: number): Flat {
    const part = this.calm() ? 1 : Math.min(1, (now - sprite.start) / sprite.spanMs);
    if (part >= 1) return sprite.to;
    return { x: sprite.from.x + (sprite.to.x - sprite.from.x) * part, y: sprite.from.y + (sprite.to.y - sprite.from.y) * part };
  }

  private flat(at: Place): Flat {
    return flatten(at, this.world.space);
  }

  /** Where an entity is on the screen, for tests and for following it. */
  where(id: string): L.LatLng | null {
    const sprite = this.drawn.get(id);
    return sprite === undefined ? null : this._map.unproject(L.point(this.between(sprite, this.clock)), 0);
  }

  hit(at: L.Point, reach: number = HIT_PX): Hit | null {
    let best: Hit | null = null;
    let nearest = reach;
    const view = new View(this._map, this.world.space);
    if (this.shown.has("brokers")) {
      for (const broker of this.world.brokers.values()) {
        const place = this.world.placeOf(broker);
        if (place === null) continue;
        const flat = view.flat(place);
        const distance = Math.hypot(view.x(flat) - at.x, view.y(flat) - at.y);
        if (distance < nearest) [best, nearest] = [{ kind: "broker", id: broker.name }, distance];
      }
    }
    if (!this.shown.has("entities")) return best;
    for (const sprite of this.drawn.values()) {
      const distance = Math.hypot(sprite.x - at.x, sprite.y - at.y);
      if (distance < nearest) [best, nearest] = [{ kind: "client", id: sprite.entity.id }, distance];
    }
    return best;
  }

  private request(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      // After a pause of the drawing itself the clock goes on from where it stood, by one frame.
      const passed = this.lastFrame === 0 ? 16 : Math.min(100, now - this.lastFrame);
      this.clock = Math.min(this.clock + passed, Math.max(this.clock, this.runUntil));
      this.lastFrame = now;
      if (!this.zooming) measured("studio.draw", () => this.draw());
      const held = this.clock >= this.runUntil;
      if (this.clock < this.busyUntil && !held) this.request();
      else this.lastFrame = 0;
    });
  }

  private draw(): void {
    const view = new View(this._map, this.world.space);
    const { x: width, y: height } = this._map.getSize();
    const pen = this.pen;
    pen.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    pen.clearRect(0, 0, width, height);
    const inView = this.place(view, width, height);
    if (this.shown.has("zones")) drawZones(pen, this.palette, view, this.world.zones.values());
    this.drawRegions(view, width, height);
    if (this.shown.has("brokers")) this.drawLinks(view);
    if (this.way !== null) this.drawWay(view, this.way);
    if (this.shown.has("deliveries") && this.then === null) this.drawFlights(view);
    if (this.shown.has("entities")) this.drawEntities(inView);
    if (this.shown.has("brokers")) this.drawBrokers(view);
    if (this.shown.has("handovers") && this.then === null) this.drawHandovers(view);
    this.drawReader(view);
  }

  private drawRegions(view: View, width: number, height: number): void {
    const host = (id: string): Flat | undefined => this.drawn.get(id);
    const focus = this.selected ?? this.way?.event ?? null;
    const everybody = this.shown.has("interests");
    const stirred = (region: Region): boolean => this.fences.stirred(region);
    const given: RegionView = { view, width, height, host, focus, pointed: this.pointed, everybody, stirred };
    const known = [...this.world.regions.values()];
    const all = this.then === null ? known : [...known.filter(({ what }) => what === "fence"), ...(this.way?.regions ?? [])];
    const shown = all.filter(({ what }) => this.shown.has(what === "fence" ? "fences" : "regions"));
    this.regions.draw(this.pen, shown, given);
    this.fences.draw(this.pen, this.palette, shown, given, this.clock);
  }

  private place(view: View, width: number, height: number): Sprite[] {
    const inView: Sprite[] = [];
    for (const sprite of this.drawn.values()) {
      const at = this.between(sprite, this.clock);
      sprite.x = view.x(at);
      sprite.y = view.y(at);
      if (sprite.x > -20 && sprite.y > -20 && sprite.x < width + 20 && sprite.y < height + 20) inView.push(sprite);
    }
    // How crowded it is, with some play so that the picture does not flicker between two.
    const crowd = (inView.length * 1e6) / (width * height);
    const play = this.detail === "sign" ? 1.15 : 0.9;
    this.detail = crowd < 260 * play ? "sign" : crowd < 900 * (this.detail === "dot" ? 0.9 : 1.1) ? "disc" : "dot";
    return inView;
  }

  private drawEntities(inView: readonly Sprite[]): void {
    const pen = this.pen;
    const side = Sprites.side(this.detail);
    const dim = this.highlighted !== null || this.way !== null;
    const bright = this.bright();
    if (this.detail !== "dot") this.drawHeadings(inView, dim, bright);
    const scale = ratio();
    const pixels = Math.ceil(side * scale);
    // Whole pixels of the screen: a copy without smoothing is several times faster, and sharper.
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.imageSmoothingEnabled = false;
    for (const { entity, look, x, y } of inView) {
      pen.globalAlpha = entity.stale ? 0.3 : dim && !bright.has(entity.id) ? 0.28 : 1;
      pen.drawImage(this.sheet.get(look, this.detail), Math.round(x * scale - pixels / 2), Math.round(y * scale - pixels / 2));
    }
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.globalAlpha = 1;
    this.drawRings(inView, side / 2);
    this.drawNames(inView, side / 2, bright);
  }

  private bright(): ReadonlySet<string> {
    const ids = new Set(this.highlighted ?? []);
    if (this.way !== null) {
      ids.add(this.way.from);
      for (const hop of this.way.hops) for (const id of hop.delivered) ids.add(id);
      for (const id of this.way.missed) ids.add(id);
    }
    if (this.selected !== null) ids.add(this.selected);
    return ids;
  }

  /** A small wedge outside the disc says where it goes. */
  private drawHeadings(inView: readonly Sprite[], dim: boolean, bright: ReadonlySet<string>): void {
    const pen = this.pen;
    const reach = Sprites.side(this.detail) / 2 + (this.detail === "sign" ? 4 : 2.5);
    const half = this.detail === "sign" ? 0.5 : 0.62;
    const root = reach * 0.66;
    for (const { entity, look, x, y } of inView) {
      if (entity.heading_deg === null) continue;
      const angle = ((entity.heading_deg - 90) * Math.PI) / 180;
      pen.globalAlpha = entity.stale ? 0.3 : dim && !bright.has(entity.id) ? 0.28 : 1;
      pen.fillStyle = this.palette.colour(look.colour);
      pen.beginPath();
      pen.moveTo(x + reach * Math.cos(angle), y + reach * Math.sin(angle));
      pen.lineTo(x + root * Math.cos(angle + half), y + root * Math.sin(angle + half));
      pen.lineTo(x + root * Math.cos(angle - half), y + root * Math.sin(angle - half));
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  private drawRings(inView: readonly Sprite[], radius: number): void {
    const pen = this.pen;
    const missed = new Set(this.way?.missed ?? []);
    for (const { entity, x, y } of inView) {
      if (entity.id === this.selected) ring(pen, x, y, radius + 4, this.palette.accent, 3);
      else if (this.highlighted?.has(entity.id) === true) ring(pen, x, y, radius + 2.5, this.palette.accent, 2);
      else if (missed.has(entity.id)) ring(pen, x, y, radius + 2.5, this.palette.bad, 1.5, [3, 3]);
    }
  }

  private drawNames(inView: readonly Sprite[], offset: number, bright: ReadonlySet<string>): void {
    if (!this.shown.has("names")) return;
    const pen = this.pen;
    const all = inView.length <= NAMED_MAX && this.highlighted === null && this.way === null;
    const named = all ? inView : inView.filter(({ entity }) => bright.has(entity.id)).slice(0, NAMED_MAX);
    // The selected one first; a name that would lie over another is left out.
    const free = new Room();
    const first = named.find(({ entity }) => entity.id === this.selected);
    for (const { entity, x, y } of first === undefined ? named : [first, ...named]) {
      if (free.take(x, y + offset + 9, entity.id.length * 6)) label(pen, this.palette, entity.id, x, y + offset + 9, entity.id === this.selected);
    }
  }

  private drawReader(view: View): void {
    if (this.reader === null) return;
    const place = typeof this.reader === "string" ? undefined : view.flat(this.reader);
    const at = typeof this.reader === "string" ? this.drawn.get(this.reader) : place && { x: view.x(place), y: view.y(place) };
    if (at === undefined) return;
    ring(this.pen, at.x, at.y, 17, this.palette.accent, 2, [4, 3]);
    label(this.pen, this.palette, "me", at.x, at.y - 25, true, 12);
  }

  private drawLinks(view: View): void {
    const pen = this.pen;
    for (const { a, b, up } of this.world.links()) {
      const from = this.brokerAt(view, a);
      const to = this.brokerAt(view, b);
      if (from === null || to === null) continue;
      const alive = up && a.connected && b.connected;
      pen.strokeStyle = alive ? this.palette.link : this.palette.bad;
      pen.lineWidth = alive ? 2.5 : 1.5;
      pen.globalAlpha = this.way === null ? 0.75 : 0.35;
      pen.setLineDash(alive ? [] : [6, 6]);
      line(pen, from, to);
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  private brokerAt(view: View, broker: Broker | undefined): Flat | null {
    const place = broker === undefined ? null : this.world.placeOf(broker);
    if (place === null) return null;
    const flat = view.flat(place);
    return { x: view.x(flat), y: view.y(flat) };
  }

  private drawBrokers(view: View): void {
    const pen = this.pen;
    const busiest = Math.max(1, ...[...this.world.brokers.values()].map((one) => one.load?.clients ?? 0));
    for (const broker of this.world.brokers.values()) {
      const at = this.brokerAt(view, broker);
      if (at === null) continue;
      const half = 13;
      pen.beginPath();
      pen.roundRect(at.x - half, at.y - half, 2 * half, 2 * half, 7);
      pen.shadowColor = "rgb(0 0 0 / 30%)";
      pen.shadowBlur = 5;
      pen.fillStyle = this.palette.broker;
      pen.globalAlpha = broker.connected ? 1 : 0.45;
      pen.fill();
      pen.shadowColor = "transparent";
      pen.shadowBlur = 0;
      pen.lineWidth = 2;
      pen.strokeStyle = broker.name === this.selectedBroker ? this.palette.accent : broker.connected ? this.palette.ring : this.palette.bad;
      pen.stroke();
      // Three bars, as many filled as it carries of the busiest broker's clients.
      const level = Math.ceil((3 * (broker.load?.clients ?? 0)) / busiest);
      for (let bar = 0; bar < 3; bar += 1) {
        pen.fillStyle = "#fff";
        pen.globalAlpha = bar < level ? 1 : 0.35;
        pen.fillRect(at.x - 7 + bar * 5, at.y + 6 - 4 * (bar + 1), 4, 4 * (bar + 1));
      }
      pen.globalAlpha = 1;
      const clients = broker.load === null ? "no answer" : `${broker.load.clients}`;
      label(pen, this.palette, `${broker.name} · ${clients}`, at.x, at.y + half + 10, true, 12);
    }
  }

  private drawFlights(view: View): void {
    const now = this.clock;
    this.pulses = this.pulses.filter((one) => now - one.start < PULSE_MS);
    this.flights = this.flights.filter((one) => now - one.start < FLIGHT_MS && this.sprites.has(one.to));
    const pen = this.pen;
    for (const pulse of this.pulses) {
      const part = this.calm() ? 0.5 : (now - pulse.start) / PULSE_MS;
      pen.globalAlpha = 1 - part;
      ring(pen, view.x(pulse.at), view.y(pulse.at), 8 + 22 * part, pulse.colour, 2);
    }
    pen.strokeStyle = pen.fillStyle = this.palette.delivery;
    for (const flight of this.flights) this.drawFlight(view, flight, (now - flight.start) / FLIGHT_MS);
    pen.globalAlpha = 1;
  }

  private drawFlight(view: View, flight: Flight, part: number): void {
    const to = this.sprites.get(flight.to);
    if (to === undefined) return;
    const pen = this.pen;
    const curve = new Curve({ x: view.x(flight.from), y: view.y(flight.from) }, to);
    pen.globalAlpha = 0.35 * (1 - part * part);
    pen.lineWidth = 1.25;
    pen.beginPath();
    curve.trace(pen, 0, 1);
    pen.stroke();
    if (this.calm()) return;
    const head = ease(Math.min(1, part * 1.35));
    pen.globalAlpha = 0.95 * (1 - part ** 4);
    pen.lineWidth = 2.25;
    pen.beginPath();
    curve.trace(pen, Math.max(0, head - 0.22), head);
    pen.stroke();
    const [x, y] = curve.at(head);
    pen.beginPath();
    pen.arc(x, y, 2.6, 0, TURN);
    pen.fill();
  }

  private drawHandovers(view: View): void {
    const now = this.clock;
    this.changes = this.changes.filter((one) => now - one.start < HANDOVER_MS);
    const pen = this.pen;
    for (const change of this.changes) {
      const client = this.sprites.get(change.client);
      const from = this.brokerAt(view, this.world.brokers.get(change.from));
      const to = this.brokerAt(view, this.world.brokers.get(change.to));
      if (client === undefined) continue;
      const part = (now - change.start) / HANDOVER_MS;
      pen.strokeStyle = this.palette.handover;
      pen.lineWidth = 1.75;
      pen.setLineDash([2, 4]);
      for (const [broker, strength] of [[from, 1 - 2 * part], [to, 1 - part]] as const) {
        if (broker === null || strength <= 0) continue;
        pen.globalAlpha = strength * 0.9;
        line(pen, client, broker);
      }
      pen.globalAlpha = 1 - part;
      ring(pen, client.x, client.y, 15 + (this.calm() ? 0 : 6 * Math.sin(part * 9)), this.palette.handover, 2);
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  /** From the publisher to its broker, from broker to broker, and from there to everybody who got it. */
  private drawWay(view: View, way: ShownWay): void {
    const publisher = this.drawn.get(way.from);
    const start = publisher ?? (way.at === null ? null : { x: view.x(view.flat(way.at)), y: view.y(view.flat(way.at)) });
    for (const hop of way.hops) {
      const here = this.brokerAt(view, this.world.brokers.get(hop.broker)) ?? start;
      if (here === null) continue;
      const before = hop.over === null ? start : this.brokerAt(view, this.world.brokers.get(hop.over));
      if (before !== null) arrow(this.pen, before, here, this.palette.accent, 3);
      for (const id of hop.delivered) {
        const receiver = this.drawn.get(id);
        if (receiver !== undefined) arrow(this.pen, here, receiver, this.palette.delivery, 1.5);
      }
    }
  }
}

const ease = (part: number): number => 1 - (1 - part) ** 2;
const ratio = (): number => Math.min(2, window.devicePixelRatio || 1);
