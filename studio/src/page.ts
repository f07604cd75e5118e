// The page as a whole: feeds into the world, the world onto the map, and what the viewer does to both. While paused, ticks
// wait in a buffer, and a step takes one of them.

import L from "leaflet";
import { TickBuffer } from "./buffer.ts";
import { byId, clock, remembered } from "./dom.ts";
import type { Hello, Place, Tick } from "./feed.ts";
import { Feeds, type FeedListener } from "./feeds.ts";
import { readPalette } from "./glyphs.ts";
import { measured } from "./measure.ts";
import { ChartsPanel } from "./panels/charts.ts";
import { ClientsPanel } from "./panels/clients.ts";
import { DetailsPanel } from "./panels/details.ts";
import { FindPanel } from "./panels/find.ts";
import { Header } from "./panels/header.ts";
import { Legend } from "./panels/legend.ts";
import { LivePanel } from "./panels/live.ts";
import { TalkPanel } from "./panels/talk.ts";
import { TryPanel } from "./panels/try.ts";
import { crsOf, latLng, placeOf } from "./projection.ts";
import { Scene, type Hit, type LayerName } from "./scene.ts";
import { Ground } from "./ground.ts";
import type { Panel, Selection, Studio } from "./studio.ts";
import { Tabs } from "./tabs.ts";
import { World } from "./world.ts";

const REFRESH_MS = 250;
const START_ZOOM = 16;
/** A finger hits what is so near. */
const FINGER_PX = 26;

export class Page implements FeedListener {
  private readonly world = new World();
  private readonly feeds = new Feeds(this);
  private readonly buffer = new TickBuffer();
  private readonly tabs = new Tabs(() => this.find?.focus());
  private readonly reduced = matchMedia("(prefers-reduced-motion: reduce)");
  private stage: Stage | null = null;
  private find: FindPanel | null = null;
  private panels: Panel[] = [];
  private paused = false;
  private steppedTo = "";
  private readonly unframed = new Set<string>();

  start(origin: string): void {
    themes(() => this.stage?.recolour());
    this.controls();
    intro(() => this.stage?.touched === false && this.stage.frame());
    this.feeds.start(origin);
    setInterval(() => this.refresh(), REFRESH_MS);
  }

  met(http: string, broker: string): void {
    this.world.met(http, broker);
  }

  hello(hello: Hello): void {
    this.buffer.forget(hello.broker);
    if (!this.world.brokers.has(hello.broker) || this.world.brokers.get(hello.broker)?.at_us === 0) this.unframed.add(hello.broker);
    this.world.hello(hello);
    if (this.stage === null) this.open(hello);
    this.stage?.recolour();
  }

  /** The first hello says what kind of space it is: only then is there a map. */
  private open(hello: Hello): void {
    const stage = new Stage(this.world, this.feeds, hello, () => this.reduced.matches);
    this.stage = stage;
    this.find = new FindPanel(stage);
    const details = new DetailsPanel(stage);
    const legend = new Legend(stage, (layer, on) => stage.switch(layer, on));
    stage.onSelect = () => {
      details.show(stage.selection());
      stage.keepInView();
      legend.giveWay(stage.selection() !== null);
    };
    this.panels = [
      new Header(stage),
      new LivePanel(stage),
      new ChartsPanel(stage, () => this.paused),
      new ClientsPanel(stage, this.tabs),
      this.find,
      legend,
      new TryPanel(stage, this.tabs),
      new TalkPanel(stage, this.tabs),
      details,
    ];
    if (hello.map.geojson !== null) {
      const url = new URL(hello.map.geojson, `${this.feeds.httpOf(hello.broker) ?? location.origin}/`).href;
      void stage.loadMap(url, hello.map.centre === null);
    }
  }

  tick(broker: string, tick: Tick): void {
    if (this.paused) this.buffer.push(broker, tick);
    else this.apply(broker, tick);
  }

  private apply(broker: string, tick: Tick): void {
    measured("studio.tick", () => {
      const changes = this.world.apply(broker, tick);
      this.stage?.scene.take(changes);
    });
    // Until the viewer takes the map in hand, it shows all that each broker has.
    if (this.unframed.has(broker) && this.world.entities.size > 0) {
      this.unframed.delete(broker);
      if (this.stage?.touched === false) this.stage.frame();
    }
  }

  lost(broker: string): void {
    this.world.lost(broker);
    this.stage?.scene.refresh();
  }

  changed(): void {
    for (const panel of this.panels) if (panel instanceof Header) panel.refresh();
  }

  private refresh(): void {
    if (this.panels.length === 0) {
      const waiting = this.feeds.statuses().some((feed) => feed.state === "waiting");
      byId("status").textContent = waiting ? "The broker does not answer, trying again …" : "Connecting …";
      return;
    }
    for (const panel of this.panels) panel.refresh();
    if (this.paused) {
      const ticks = this.buffer.length === 1 ? "1 tick waits" : `${this.buffer.length} ticks wait`;
      byId("pause-label").textContent = "Go on";
      byId("pause").title = `Paused${this.steppedTo}: ${ticks}`;
      byId("step").title = `One tick (.): ${ticks}`;
      byId<HTMLButtonElement>("step").disabled = this.buffer.length === 0;
      byId("status").textContent = `Paused · ${ticks}`;
    }
  }

  private controls(): void {
    byId("pause").addEventListener("click", () => this.pause(!this.paused));
    byId("step").addEventListener("click", () => this.step());
    document.addEventListener("keydown", (event) => {
      const at = event.target as HTMLElement;
      if (event.key === "Escape") this.stage?.escape();
      if (at.closest("input, textarea, select, button, summary") !== null || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === " ") this.pause(!this.paused);
      else if (event.key === ".") this.step();
      else if (event.key === "/") this.tabs.open("find");
      else return;
      event.preventDefault();
    });
  }

  private pause(paused: boolean): void {
    this.paused = paused;
    this.steppedTo = "";
    byId("pause").setAttribute("aria-pressed", String(paused));
    byId("pause-label").textContent = paused ? "Go on" : "Pause";
    byId("pause").title = "Pause (space)";
    byId<HTMLButtonElement>("step").disabled = true;
    this.stage?.scene.hold(paused);
    if (!paused) for (let next = this.buffer.shift(); next !== undefined; next = this.buffer.shift()) this.apply(next.broker, next.tick);
    this.refresh();
  }

  private step(): void {
    const next = this.paused ? this.buffer.shift() : undefined;
    if (next === undefined) return;
    this.apply(next.broker, next.tick);
    this.steppedTo = ` at ${clock(next.tick.at_us)} of ${next.broker}`;
    this.stage?.scene.stepped();
    this.refresh();
  }
}

/** The map with what is on it, and what is selected there. */
class Stage implements Studio {
  readonly map: L.Map;
  readonly scene: Scene;
  touched = false;
  onSelect: () => void = () => undefined;
  private readonly ground: Ground;
  private selected: Selection | null = null;
  private aiming: ((place: Place | null, hit: Hit | null) => void) | null = null;
  private mapped: L.LatLngBounds | null = null;

  constructor(
    readonly world: World,
    readonly feeds: Feeds,
    hello: Hello,
    calm: () => boolean,
  ) {
    const { centre, zoom, attribution } = hello.map;
    const plane = hello.space === "plane";
    this.map = L.map("map", {
      crs: crsOf(hello.space),
      zoomControl: false,
      attributionControl: attribution !== null,
      minZoom: plane ? -8 : 2,
      maxZoom: plane ? 6 : 21,
      zoomSnap: 0.25,
      zoomAnimation: !calm(),
      fadeAnimation: false,
      inertia: !calm(),
    });
    this.map.setView(centre === null ? [0, 0] : latLng(centre), zoom ?? (plane ? 0 : START_ZOOM), { animate: false });
    if (attribution !== null) this.map.attributionControl.setPrefix(false).addAttribution(attribution);
    L.control.zoom({ position: "bottomright" }).addTo(this.map);
    L.control.scale({ position: "bottomleft", imperial: false }).addTo(this.map);
    new FitControl(() => this.frame()).addTo(this.map);
    const palette = readPalette();
    this.ground = new Ground(this.map, hello.space, hello.map, palette);
    this.scene = new Scene(world, palette, calm).addTo(this.map);
    this.pointers();
    const touch = (): void => void (this.touched = true);
    for (const kind of ["pointerdown", "wheel", "keydown"]) this.map.getContainer().addEventListener(kind, touch, { passive: true });
    // On a phone panels rise over the lower half: what was in the middle stays there.
    new ResizeObserver(() => this.map.invalidateSize({ animate: false, pan: this.map.getSize().x <= 760 })).observe(this.map.getContainer());
  }

  private pointers(): void {
    this.map.on("click", (event) => {
      const reach = (event.originalEvent as PointerEvent).pointerType === "touch" ? FINGER_PX : undefined;
      if (this.aiming !== null) {
        const told = this.aiming;
        const hit = this.scene.hit(event.containerPoint, reach);
        this.aim(null);
        told(placeOf(event.latlng), hit);
      } else this.select(this.scene.hit(event.containerPoint, reach));
    });
    const tooltip = byId("tooltip");
    this.map.on("mousemove", (event) => {
      const hit = this.aiming === null ? this.scene.hit(event.containerPoint) : null;
      this.map.getContainer().classList.toggle("pointing", hit !== null);
      tooltip.hidden = hit === null;
      this.scene.point(hit?.kind === "client" ? hit.id : null);
      if (hit === null) return;
      tooltip.textContent = hit.id;
      tooltip.style.left = `${event.containerPoint.x}px`;
      tooltip.style.top = `${event.containerPoint.y}px`;
    });
    this.map.on("mouseout", () => {
      tooltip.hidden = true;
      this.scene.point(null);
    });
  }

  async loadMap(url: string, frame: boolean): Promise<void> {
    try {
      this.mapped = await this.ground.load(url);
    } catch {
      this.say("The map could not be loaded.");
    }
    if (frame && !this.touched) this.frame();
  }

  /** Everything that is known, in view: entities and brokers, and the streets if those are about all over them. */
  frame(): void {
    const places = [...this.world.entities.values()].map((entity) => latLng(entity.at));
    for (const broker of this.world.brokers.values()) if (broker.address.place !== null) places.push(latLng(broker.address.place));
    const bounds = this.around(places);
    if (bounds?.isValid() !== true) return;
    const wide = this.map.getSize().x > 700;
    const intro = byId("intro").hidden ? 0 : this.map.getContainer().getBoundingClientRect().bottom - byId("intro").getBoundingClientRect().top;
    this.map.fitBounds(bounds, {
      maxZoom: this.world.space === "plane" ? 3 : 18,
      animate: false,
      paddingTopLeft: [36, 36],
      // The legend stands there, and at first what this is.
      paddingBottomRight: [wide ? 238 : 36, Math.max(44, intro + 12)],
    });
  }

  private around(places: L.LatLngExpression[]): L.LatLngBounds | null {
    if (places.length === 0 || this.mapped === null) return places.length === 0 ? this.mapped : L.latLngBounds(places);
    const bounds = L.latLngBounds(places);
    const high = bounds.getNorth() - bounds.getSouth();
    return 2 * high >= this.mapped.getNorth() - this.mapped.getSouth() ? bounds.extend(this.mapped) : bounds;
  }

  /** Moves the map only if some of these places are not on it. */
  bring(places: readonly L.LatLng[]): void {
    if (places.length === 0 || places.every((place) => this.map.getBounds().contains(place))) return;
    const room = this.map.getSize().x > 700 ? 60 : 30;
    if (places.length === 1) this.map.panTo(places[0] as L.LatLng);
    else this.map.fitBounds(L.latLngBounds([...places]), { maxZoom: this.map.getZoom(), padding: [room, room] });
  }

  /** Details take room from the map: what was chosen may have gone from view. */
  keepInView(): void {
    const chosen = this.selected;
    if (chosen?.kind !== "client") return;
    requestAnimationFrame(() => {
      this.map.invalidateSize({ animate: false, pan: this.map.getSize().x <= 760 });
      const at = this.scene.where(chosen.id);
      if (at !== null) this.bring([at]);
    });
  }

  recolour(): void {
    const palette = readPalette();
    this.ground.recolour(palette);
    this.scene.recolour(palette);
  }

  switch(layer: LayerName, on: boolean): void {
    if (layer === "map") this.ground.show(on);
    if (on) this.scene.shown.add(layer);
    else this.scene.shown.delete(layer);
    this.scene.refresh();
  }

  select(selection: Selection | null): void {
    this.selected = selection;
    this.scene.selected = selection?.kind === "client" ? selection.id : null;
    this.scene.selectedBroker = selection?.kind === "broker" ? selection.id : null;
    this.scene.way = null;
    this.scene.refresh();
    this.onSelect();
  }

  selection(): Selection | null {
    return this.selected;
  }

  aim(then: ((place: Place | null, hit: Hit | null) => void) | null): void {
    this.aiming = then;
    // On a phone the panel would cover half of what is aimed at.
    document.querySelector(".body")?.classList.toggle("aiming", then !== null);
    this.map.getContainer().classList.toggle("aiming", then !== null);
  }

  escape(): void {
    if (this.aiming !== null) {
      const told = this.aiming;
      this.aim(null);
      told(null, null);
    } else this.select(null);
  }

  say(text: string): void {
    byId("summary").textContent = text;
  }
}

class FitControl extends L.Control {
  constructor(private readonly fit: () => void) {
    super({ position: "bottomright" });
  }

  override onAdd(): HTMLElement {
    const bar = L.DomUtil.create("div", "leaflet-bar fit");
    const link = L.DomUtil.create("a", "", bar);
    link.href = "#";
    link.role = "button";
    link.title = "Show everything";
    link.setAttribute("aria-label", "Show everything");
    link.innerHTML = '<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4"/></svg>';
    L.DomEvent.on(link, "click", (event) => {
      L.DomEvent.stop(event);
      this.fit();
    });
    L.DomEvent.disableClickPropagation(bar);
    return bar;
  }
}

/** Light or dark as the system says, until the viewer says otherwise. */
function themes(changed: () => void): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (): void => {
    document.documentElement.dataset["theme"] = remembered.get("theme") ?? (dark.matches ? "dark" : "light");
    changed();
  };
  dark.addEventListener("change", set);
  byId("theme").addEventListener("click", () => {
    remembered.set("theme", document.documentElement.dataset["theme"] === "dark" ? "light" : "dark");
    set();
  });
  set();
}

function intro(closed: () => void): void {
  byId("intro").hidden = remembered.get("intro") === "seen";
  byId("intro-close").addEventListener("click", () => {
    byId("intro").hidden = true;
    remembered.set("intro", "seen");
    closed();
    byId("map").focus();
  });
}
