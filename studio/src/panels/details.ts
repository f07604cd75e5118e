// What is known of the one thing that is selected: a client, an event with its way, or a broker.

import { answered, askAll, askClient, type Answer, type ClientAnswer } from "../ask.ts";
import { button, byId, clock, el } from "../dom.ts";
import type { Place, Space } from "../feed.ts";
import { signSvg } from "../glyphs.ts";
import { latLng } from "../projection.ts";
import type { Panel, Selection, Studio } from "../studio.ts";
import { MomentBar } from "../moment.ts";
import { after, byReason, joinWay, type EventPart, type Way } from "../way.ts";

const AGAIN_MS = 1_500;
const CHIPS_MAX = 60;
const WHYS_MAX = 40;
const FOR_GOOD_US = 1e15;

const FAILED: Readonly<Record<string, string>> = {
  filter: "The filter of the subscription does not accept it",
  interest: "Nobody of interest is concerned",
  relevance: "It is not relevant there",
  audience: "Not in its audience",
  publishers: "Its publisher is not wanted",
  expired: "It had expired",
  withheld: "Something else kept it back",
};

export class DetailsPanel implements Panel {
  private readonly panel = byId("details");
  private selection: Selection | null = null;
  private body = el("div");
  private asked = 0;
  private shown = "";
  private following = false;

  private readonly moment: MomentBar;

  constructor(private readonly studio: Studio) {
    this.moment = new MomentBar(studio);
  }

  show(selection: Selection | null): void {
    const returning = this.panel.contains(document.activeElement);
    this.selection = selection;
    this.following = false;
    this.shown = "";
    this.moment.hide();
    this.panel.hidden = selection === null;
    if (selection === null) {
      if (returning) byId("map").focus();
      return;
    }
    this.body = el("div", {}, el("p", { class: "empty" }, "Asking …"));
    this.panel.replaceChildren(this.head(selection), this.body);
    this.panel.scrollTop = 0;
    this.asked = 0;
    this.refresh();
    this.panel.focus({ preventScroll: true });
  }

  refresh(): void {
    if (this.selection === null) return;
    if (this.following && this.selection.kind === "client") {
      const at = this.studio.scene.where(this.selection.id);
      if (at !== null) this.studio.map.panTo(at, { animate: true, duration: 0.3, easeLinearity: 1 });
    }
    const now = performance.now();
    if (now - this.asked < AGAIN_MS) return;
    this.asked = now;
    void this.ask(this.selection);
  }

  private async ask(selection: Selection): Promise<void> {
    switch (selection.kind) {
      case "client":
        return this.client(selection.id, await askClient(this.studio, selection.id));
      case "event":
        return this.event(selection.id, await askAll<EventPart>(this.studio.feeds, `/studio/events/${encodeURIComponent(selection.id)}`));
      case "broker":
        return this.broker(selection.id);
    }
  }

  private head(selection: Selection): HTMLElement {
    const close = button("Close details", { class: "icon", title: "Close (Esc)" }, () => this.studio.select(null), el("span", { "aria-hidden": "true" }, "✕"));
    const entity = selection.kind === "client" ? this.studio.world.entities.get(selection.id) : undefined;
    const sign = selection.kind === "client" ? signSvg(this.studio.world.looks.of(entity?.type ?? null)) : null;
    const subject = selection.kind === "event" ? this.studio.world.events.get(selection.id)?.subject : undefined;
    return el("div", { class: "head" }, sign, el("h2", {}, subject ?? selection.id), close);
  }

  /** Put on the page only if it says something new, so that reading, focus and scrolling are left in peace. */
  private fill(selection: Selection["id"], key: string, make: () => readonly (Node | null)[]): void {
    if (this.selection?.id !== selection || this.shown === key) return;
    this.shown = key;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["key"] : undefined;
    this.body.replaceChildren(...make().filter((one) => one !== null));
    if (focused !== undefined) this.body.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  private client(id: string, answer: Answer<ClientAnswer>): void {
    if (!answer.ok) {
      this.fill(id, answer.problem, () => [el("p", { class: "message bad" }, `Nothing is known of it: ${answer.problem}`)]);
      return;
    }
    const client = answer.value;
    this.fill(id, JSON.stringify(client), () => [
      facts([
        ["Home broker", this.link(client.home, { kind: "broker", id: client.home })],
        ["Position", position(client.at, this.studio.world.space)],
        ["Connection", client.connected ? "connected" : "away"],
        ["Waiting for it", client.waiting === 0 ? "nothing" : `${client.waiting} messages`],
        ...Object.entries(client.attributes).map(([name, value]) => [name, text(value)] as const),
      ]),
      el("div", { class: "actions" }, this.follow()),
      el("h2", {}, `Subscriptions (${client.subscriptions.length})`),
      client.subscriptions.length === 0 ? el("p", { class: "empty" }, "It has none.") : null,
      ...client.subscriptions.map(subscription),
      el("h2", {}, "Last events"),
      client.last_events.length === 0
        ? el("p", { class: "empty" }, "None yet.")
        : el("ul", { class: "rows" }, ...client.last_events.map((one) => this.eventRow(one))),
    ]);
  }

  private follow(): HTMLElement {
    const follow = button("Follow on the map", { "aria-pressed": String(this.following), "data-key": "follow" }, () => {
      this.following = !this.following;
      follow.setAttribute("aria-pressed", String(this.following));
      follow.textContent = this.following ? "Following: stop" : "Follow on the map";
    });
    if (this.following) follow.textContent = "Following: stop";
    return follow;
  }

  private eventRow(one: ClientAnswer["last_events"][number]): HTMLElement {
    const row = button(
      `Event ${one.subject} at ${clock(one.at_us)}`,
      { class: "row", "data-key": one.id },
      () => this.studio.select({ kind: "event", id: one.id }),
      el("span", { class: "grow" }, one.subject),
      el("span", { class: "side-note" }, clock(one.at_us)),
    );
    return el("li", {}, row);
  }

  private async event(id: string, answers: ReadonlyMap<string, Answer<EventPart>>): Promise<void> {
    if (this.selection?.id !== id) return;
    const way = joinWay(answered(answers));
    if (way === null) {
      this.fill(id, "forgotten", () => [el("p", { class: "message bad" }, "No broker remembers it any more: each keeps the last 1,000 events.")]);
      return;
    }
    this.studio.scene.way = {
      event: id,
      from: way.from,
      at: this.studio.world.events.get(id)?.at ?? null,
      hops: way.hops.map((hop) => ({ broker: hop.broker, over: over(hop.from), delivered: hop.delivered.map((one) => one.to) })),
      missed: way.missed.map((miss) => miss.to),
      // Drawn as they were told: nothing moves in the moment that is shown.
      regions: way.regions.map((region) => ({ ...region, key: region.id, anchored: null, hostAt: null })),
    };
    this.studio.scene.refresh();
    if (this.shown === "") {
      await this.moment.show(way.published_us);
      if (this.selection?.id !== id) return;
      this.bringWay(way);
    }
    this.fill(id, JSON.stringify(way), () => this.wayParts(way));
  }

  private bringWay(way: Way): void {
    const { world, scene } = this.studio;
    const ends = [way.from, ...way.hops.flatMap((hop) => hop.delivered.map((one) => one.to))].map((id) => scene.where(id));
    const brokers = way.hops.map((hop) => world.brokers.get(hop.broker)).map((broker) => (broker === undefined ? null : world.placeOf(broker)));
    const places = [...ends, ...brokers.map((place) => (place === null ? null : latLng(place)))];
    this.studio.bring(places.filter((place) => place !== null));
  }

  private wayParts(way: Way): readonly (Node | null)[] {
    return [
      facts([
        ["From", this.link(way.from, { kind: "client", id: way.from })],
        ["Published", clock(way.published_us)],
        ["Audience", scope(way.audience)],
        ["Relevance", scope(way.relevance)],
        ["Expires", expires(way)],
      ]),
      way.payload === null ? null : el("pre", { class: "payload code" }, text(way.payload, 1)),
      el("h2", {}, "Its way"),
      el(
        "ol",
        { class: "way", id: "way" },
        el("li", { class: "start" }, el("span", {}, "Published by ", this.link(way.from, { kind: "client", id: way.from }))),
        ...way.hops.map((hop) => this.hop(hop)),
      ),
      el("h2", {}, `Did not get it (${way.missed.length + way.leftOut})`),
      way.missed.length === 0 ? el("p", { class: "empty" }, "Everybody who subscribed to its subject got it.") : null,
      ...byReason(way).map((group) => this.missed(group.failed, group.missed)),
      way.leftOut === 0 ? null : el("p", { class: "hint" }, `${way.leftOut} more are not listed.`),
    ];
  }

  private hop(hop: Way["hops"][number]): HTMLElement {
    const from = over(hop.from) === null ? "" : ` from ${over(hop.from)}`;
    const when = el("span", { class: "when" }, hop.after_us === null ? "" : after(hop.after_us));
    const line = el("span", {}, this.link(hop.broker, { kind: "broker", id: hop.broker }), `${from}${hop.after_us === null ? ": no word from it" : ""}`);
    const got = hop.delivered.slice(0, CHIPS_MAX).map(({ to, after_us }) => {
      const chip = button(to, { "data-key": `got ${to}`, title: after(after_us) }, () => this.studio.select({ kind: "client", id: to }));
      return chip;
    });
    const more = hop.delivered.length + hop.more - got.length;
    const last = hop.delivered.reduce((most, one) => Math.max(most, one.after_us), 0);
    const delivered =
      got.length === 0
        ? el("p", { class: "soft small" }, "delivered to nobody here")
        : el("div", {}, el("p", { class: "soft small" }, `delivered to ${hop.delivered.length + hop.more}, the last ${after(last)}`), el("div", { class: "chips" }, ...got, more > 0 ? `and ${more} more` : null));
    const item = el("li", { class: hop.after_us === null ? "lost" : null, "data-hop": hop.broker }, when, line, hop.after_us === null ? null : delivered);
    item.style.paddingLeft = `${18 + Math.min(hop.depth, 5) * 12}px`;
    return item;
  }

  private missed(failed: string, missed: Way["missed"]): HTMLElement {
    const items = missed.slice(0, WHYS_MAX).map((miss) =>
      el(
        "li",
        { "data-missed": miss.to },
        el("div", {}, this.link(miss.to, { kind: "client", id: miss.to }), el("span", { class: "soft small" }, ` ${miss.subscription} at ${miss.broker}`)),
        el("div", { class: "small" }, miss.why),
      ),
    );
    const more = missed.length - items.length;
    return el(
      "div",
      { class: "card" },
      el("header", {}, el("h3", {}, FAILED[failed] ?? failed), el("span", { class: "soft" }, String(missed.length))),
      el("ul", { class: "why" }, ...items, more > 0 ? el("li", { class: "soft small" }, `and ${more} more`) : null),
    );
  }

  private broker(name: string): void {
    const broker = this.studio.world.brokers.get(name);
    if (broker === undefined) return;
    const { load, address } = broker;
    this.fill(name, JSON.stringify([broker.connected, load, address]), () => [
      facts([
        ["State", broker.connected ? "answers" : "does not answer"],
        ["Position", position(address.place, this.studio.world.space)],
        ["Clients", load === null ? "" : String(load.clients)],
        ["Subscriptions", load === null ? "" : String(load.subscriptions)],
        ["Published here", load === null ? "" : `${load.published_per_s.toFixed(1)} a second`],
        ["Events seen", load === null ? "" : `${load.events_per_s.toFixed(1)} a second`],
        ["Deliveries", load === null ? "" : `${load.deliveries_per_s.toFixed(1)} a second`],
        ["Latency", load?.latency_ms == null ? "" : `${load.latency_ms[0]} ms, 99 % within ${load.latency_ms[1]} ms`],
        ["HTTP", address.http],
        ["MQTT", address.mqtt ?? "no WebSocket listener"],
      ]),
      el("h2", {}, "Links"),
      (load?.links.length ?? 0) === 0 ? el("p", { class: "empty" }, "It has none.") : null,
      el("ul", { class: "rows" }, ...(load?.links ?? []).map(({ to, up }) => this.linkRow(to, up))),
    ]);
  }

  private linkRow(to: string, up: boolean): HTMLElement {
    const choose = () => this.studio.select({ kind: "broker", id: to });
    const row = button(`${to}, ${up ? "up" : "down"}`, { class: "row" }, choose, el("span", { class: up ? "mark" : "mark down" }), el("span", { class: "grow" }, to), el("span", { class: "side-note" }, up ? "up" : "down"));
    return el("li", {}, row);
  }

  private link(label: string, selection: Selection): HTMLElement {
    return button(label, { class: "plain", "data-key": `${selection.kind} ${label}` }, () => this.studio.select(selection));
  }
}

function subscription(one: ClientAnswer["subscriptions"][number]): HTMLElement {
  const scopes = [
    one.near_m === null ? "" : `within ${one.near_m} m`,
    one.interest === null ? "" : `interest ${one.interest}`,
    one.expiry_us === null ? "" : `until ${clock(one.expiry_us)}`,
  ].filter((part) => part !== "");
  return el(
    "div",
    { class: "card" },
    el("div", { class: "code" }, one.topic),
    one.filter === null ? null : el("div", { class: "code soft" }, one.filter),
    scopes.length === 0 ? null : el("div", { class: "soft small" }, scopes.join(" · ")),
  );
}

function facts(rows: readonly (readonly [string, string | Node])[]): HTMLElement {
  const shown = rows.filter(([, value]) => value !== "");
  return el("dl", { class: "facts" }, ...shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function position(at: Place | null, space: Space): string {
  if (at === null) return "not known";
  return space === "plane" ? `${at[0].toFixed(0)} m, ${at[1].toFixed(0)} m` : `${at[0].toFixed(5)}, ${at[1].toFixed(5)}`;
}

interface Scope {
  readonly region: (Partial<Record<string, unknown>> & { readonly circle?: { readonly radius_m: number }; readonly anchored?: string }) | null;
  readonly filter: string | null;
}

/** Who is meant, in few words; empty where it is everybody. */
function scope(value: unknown): string {
  if (value === null || typeof value !== "object") return "";
  const { region = null, filter = null } = value as Partial<Scope>;
  const shape = region === null ? "" : region.circle === undefined ? ("box" in region ? "in a box" : "in an area") : `within ${Math.round(region.circle.radius_m)} m`;
  const around = region?.anchored === undefined ? "" : ` of ${region.anchored}`;
  return [`${shape}${around}`, filter ?? ""].filter((part) => part !== "").join(", where ");
}

/** An event for the moment, or for good, has no time that would be worth saying. */
function expires({ published_us, expiry_us }: Way): string {
  return expiry_us === null || expiry_us <= published_us || expiry_us > published_us + FOR_GOOD_US ? "" : clock(expiry_us);
}

const over = (from: Way["hops"][number]["from"]): string | null => (from !== null && "broker" in from ? from.broker : null);

function text(value: unknown, indent = 0): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, indent);
}
