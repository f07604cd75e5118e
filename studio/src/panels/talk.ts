// Taking part: the page becomes a client. It says where it is, publishes, subscribes, and shows what it gets.

import { button, byId, clock, el, remembered } from "../dom.ts";
import type { Place } from "../feed.ts";
import { Session, type Message } from "../session.ts";
import type { Panel, Studio } from "../studio.ts";
import type { Tabs } from "../tabs.ts";

const RECEIVED_MAX = 50;
const QOS = ["0", "1", "2"] as const;

export class TalkPanel implements Panel {
  private readonly session = new Session({
    state: (text, connected) => this.stated(text, connected),
    ended: (text) => this.ended(text),
    received: (message) => this.receive(message),
  });
  private readonly broker = el("select", { id: "talk-broker" });
  private readonly name = el("input", { id: "talk-name", autocapitalize: "off", autocomplete: "off" });
  private readonly user = el("input", { autocomplete: "username" });
  private readonly password = el("input", { type: "password", autocomplete: "current-password" });
  private readonly connect = el("button", { type: "submit", class: "primary", id: "talk-connect" }, "Connect");
  private readonly state = el("p", { class: "hint", role: "status", id: "talk-state" }, "Not connected");
  private readonly rest = el("fieldset", { disabled: true });
  private readonly where = el("p", { class: "hint", role: "status", id: "talk-where" });
  private readonly locate = button("Use my location", { id: "talk-locate" }, () => this.share());
  private readonly received = el("ol", { class: "rows", id: "received" });
  private readonly subscriptions = el("div");
  private watch: number | null = null;
  private wanted = false;

  constructor(
    private readonly studio: Studio,
    tabs: Tabs,
  ) {
    this.name.value = remembered.get("name") ?? `visitor-${Math.random().toString(36).slice(2, 6)}`;
    this.rest.append(
      el("h2", {}, "Where you are"),
      el("div", { class: "actions" }, this.locate, button("Place me on the map", { id: "talk-place" }, () => this.aim())),
      this.where,
      ...this.publishForm(),
      ...this.subscribeForm(),
      el("h2", {}, "Received"),
      this.received,
    );
    const joining = el(
      "form",
      {},
      field("Broker", this.broker),
      field("Your name", this.name),
      el("details", {}, el("summary", {}, "User and password"), field("User", this.user), field("Password", this.password)),
      el("div", { class: "actions" }, this.connect),
    );
    joining.addEventListener("submit", (event) => {
      event.preventDefault();
      this.toggle();
    });
    byId("panel-talk").append(
      el("p", { class: "soft" }, "Join as a client like any other: you appear on the map, and what you publish is delivered."),
      el("br"),
      joining,
      this.state,
      this.rest,
    );
    tabs.onOpen(() => this.refresh());
    addEventListener("pagehide", () => this.session.close());
  }

  refresh(): void {
    const brokers = [...this.studio.world.brokers.values()].filter((broker) => broker.connected);
    const key = brokers.map((broker) => `${broker.name} ${broker.address.mqtt}`).join("\n");
    if (this.broker.dataset["key"] === key) return;
    this.broker.dataset["key"] = key;
    const before = this.broker.value;
    this.broker.replaceChildren(
      ...brokers.map(({ name, address }) => el("option", { value: address.mqtt ?? "", disabled: address.mqtt === null }, address.mqtt === null ? `${name} (no WebSocket listener)` : name)),
    );
    const usable = brokers.filter((broker) => broker.address.mqtt !== null);
    if (usable.some((broker) => broker.address.mqtt === before)) this.broker.value = before;
    else this.broker.value = usable[0]?.address.mqtt ?? "";
    this.connect.disabled = usable.length === 0 && !this.wanted;
    if (usable.length === 0 && !this.wanted) this.state.textContent = 'No broker here takes browsers. Give one a listener of kind "ws".';
    else if (!this.wanted) this.state.textContent = "Not connected";
  }

  private toggle(): void {
    if (this.wanted) {
      this.wanted = false;
      this.unshare();
      this.session.close();
      this.stated("Not connected", false);
      return;
    }
    this.wanted = true;
    remembered.set("name", this.name.value);
    const credentials = { url: this.broker.value, clientId: this.name.value.trim(), user: this.user.value, password: this.password.value };
    void this.session.connect(credentials).catch(() => this.stated("The MQTT library could not be loaded.", false));
  }

  /** For good: the viewer may change something and connect again. */
  private ended(text: string): void {
    this.wanted = false;
    this.unshare();
    this.subscriptions.replaceChildren();
    this.stated(text, false);
  }

  private stated(text: string, connected: boolean): void {
    this.state.textContent = text;
    this.state.classList.toggle("bad", !connected && !this.wanted && text !== "Not connected");
    this.connect.textContent = this.wanted ? "Disconnect" : "Connect";
    this.connect.classList.toggle("primary", !this.wanted);
    this.rest.disabled = !connected;
    for (const input of [this.broker, this.name]) input.disabled = this.wanted;
  }

  private share(): void {
    if (this.watch !== null) {
      this.unshare();
      this.where.textContent = "Your location is not told any more.";
      return;
    }
    if (this.studio.world.space === "plane") {
      this.where.textContent = "This map is a plane in metres, where a location on Earth means nothing. Place yourself on the map.";
      return;
    }
    if (!isSecureContext || !("geolocation" in navigator)) {
      this.where.textContent = "Browsers tell a location only to pages over HTTPS or from this machine. Place yourself on the map instead.";
      return;
    }
    this.where.textContent = "Waiting for your location …";
    this.locate.textContent = "Stop telling it";
    this.watch = navigator.geolocation.watchPosition(
      ({ coords }) => this.report([coords.longitude, coords.latitude], velocity(coords), `within ${Math.round(coords.accuracy)} m`),
      (error) => {
        // Only a refusal is for good: satellites come into view again.
        const refused = error.code === error.PERMISSION_DENIED;
        if (refused) this.unshare();
        this.where.textContent = refused ? "Your browser was told not to give your location." : "Your location is not known at the moment.";
      },
      { enableHighAccuracy: true, maximumAge: 2_000 },
    );
  }

  private unshare(): void {
    if (this.watch !== null) navigator.geolocation.clearWatch(this.watch);
    this.watch = null;
    this.locate.textContent = "Use my location";
  }

  private aim(): void {
    this.unshare();
    this.where.textContent = "Choose your place on the map, or press Escape.";
    this.studio.aim((place) => {
      if (place === null) this.where.textContent = "";
      else this.report(place, null, "as placed");
    });
  }

  private report(position: Place, moving: Place | null, how: string): void {
    const report = { position, attributes: { type: "person" }, ...(moving === null ? {} : { velocity: moving }) };
    const told = (): void => {
      this.where.textContent = `You are at ${position.map((part) => part.toFixed(this.studio.world.space === "plane" ? 0 : 5)).join(", ")} (${how}).`;
    };
    this.session.report(report).then(told, (error: unknown) => (this.where.textContent = words(error)));
  }

  private publishForm(): readonly Node[] {
    const topic = el("input", { id: "publish-topic", value: "traffic/accident", autocapitalize: "off", required: true });
    const payload = el("textarea", { id: "publish-payload", rows: 3, spellcheck: "false" });
    payload.value = '{"severity": 3}';
    const qos = choice("publish-qos");
    const audience = metres("publish-audience");
    const relevance = metres("publish-relevance");
    const outcome = el("p", { class: "hint", role: "status", id: "publish-outcome" });
    const form = el(
      "form",
      { id: "publish-form" },
      field("Topic", topic),
      field("Payload (JSON)", payload),
      el("div", { class: "pair" }, field("Audience within, m", audience), field("Relevant within, m", relevance)),
      el("div", { class: "pair" }, field("QoS", qos), el("div")),
      el("div", { class: "actions" }, el("button", { type: "submit", class: "primary" }, "Publish")),
      outcome,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const wrong = notJson(payload.value);
      payload.setCustomValidity(wrong);
      if (wrong !== "") {
        payload.reportValidity();
        outcome.textContent = `The payload is not JSON: ${wrong}`;
        return;
      }
      const message = { topic: topic.value, payload: payload.value, qos: level(qos), audienceM: amount(audience), relevanceM: amount(relevance) };
      this.session.publish(message).then(
        () => (outcome.textContent = message.qos === 0 ? `Sent at ${clock(Date.now() * 1_000)}. Of QoS 0 a broker does not say what became of it.` : `Published at ${clock(Date.now() * 1_000)}.`),
        (error: unknown) => (outcome.textContent = words(error)),
      );
    });
    payload.addEventListener("input", () => payload.setCustomValidity(""));
    return [el("h2", {}, "Publish"), form];
  }

  private subscribeForm(): readonly Node[] {
    const topic = el("input", { id: "subscribe-topic", value: "#", autocapitalize: "off", required: true });
    const filter = el("input", { id: "subscribe-filter", class: "code", placeholder: "severity >= 2", autocapitalize: "off" });
    const near = metres("subscribe-near");
    const qos = choice("subscribe-qos");
    const outcome = el("p", { class: "hint", role: "status", id: "subscribe-outcome" });
    const form = el(
      "form",
      { id: "subscribe-form" },
      field("Topic", topic),
      field("Filter (CQL2)", filter),
      el("div", { class: "pair" }, field("Only within, m", near), field("QoS", qos)),
      el("div", { class: "actions" }, el("button", { type: "submit", class: "primary" }, "Subscribe")),
      outcome,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = topic.value;
      this.session.subscribe(name, level(qos), filter.value, amount(near)).then(
        () => {
          outcome.textContent = `Subscribed to ${name}.`;
          this.keep(name);
        },
        (error: unknown) => (outcome.textContent = words(error)),
      );
    });
    return [el("h2", {}, "Subscribe"), form, this.subscriptions];
  }

  private keep(topic: string): void {
    for (const old of [...this.subscriptions.children]) if ((old as HTMLElement).dataset["topic"] === topic) old.remove();
    const end = button(`Unsubscribe from ${topic}`, { class: "plain" }, () => {
      this.session.unsubscribe(topic);
      line.remove();
    }, "end");
    const line = el("div", { class: "row", "data-topic": topic }, el("span", { class: "grow code" }, topic), end);
    this.subscriptions.append(line);
  }

  private receive({ topic, payload }: Message): void {
    const time = clock(Date.now() * 1_000);
    const note = el("span", { class: "side-note" }, time);
    const text = el("span", { class: "grow" }, el("span", { class: "what" }, topic), el("span", { class: "who code" }, payload));
    this.received.prepend(el("li", { class: "row" }, text, note));
    while (this.received.children.length > RECEIVED_MAX) this.received.lastElementChild?.remove();
  }
}

function field(label: string, input: HTMLElement): HTMLElement {
  return el("label", { class: "field" }, el("span", {}, label), input);
}

function metres(id: string): HTMLInputElement {
  return el("input", { id, type: "number", min: 1, max: 1_000_000, placeholder: "anywhere", inputmode: "numeric" });
}

function choice(id: string): HTMLSelectElement {
  const select = el("select", { id }, ...QOS.map((qos) => el("option", { value: qos }, qos)));
  select.value = "1";
  return select;
}

const level = (select: HTMLSelectElement): 0 | 1 | 2 => (select.value === "2" ? 2 : select.value === "1" ? 1 : 0);
const amount = (input: HTMLInputElement): number | null => (input.value === "" ? null : input.valueAsNumber);
const words = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function notJson(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return words(error);
  }
}

/** Metres a second east and north, where the device tells its speed and heading. */
function velocity({ speed, heading }: GeolocationCoordinates): Place | null {
  if (speed === null || heading === null || Number.isNaN(heading)) return null;
  const angle = (heading * Math.PI) / 180;
  return [speed * Math.sin(angle), speed * Math.cos(angle)];
}
