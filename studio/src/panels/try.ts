// A filter tried at all brokers while it is typed: whom it accepts, which of the last events, and what is wrong with it.

import { answered, askAll, askClient, type Answer } from "../ask.ts";
import { button, byId, el } from "../dom.ts";
import type { Place } from "../feed.ts";
import type { Panel, Studio } from "../studio.ts";
import type { Tabs } from "../tabs.ts";

const TYPING_MS = 250;
const AGAIN_MS = 2_000;
const CHIPS_MAX = 40;
const NAMES_MAX = 500;
const PLACE = "a place on the map";

interface TryAnswer {
  readonly clients: readonly { readonly id: string; readonly at: Place | null }[];
  readonly events: readonly { readonly id: string; readonly subject: string }[];
  readonly unknown: number;
}

const EXAMPLES = ["type = 'car'", "near(position, 300)", "severity >= 2", "type IN ('bus', 'ambulance')"];

export class TryPanel implements Panel {
  private readonly input = el("textarea", { id: "try-input", rows: 3, spellcheck: "false", autocapitalize: "off", placeholder: "type = 'car' AND speed > 10" });
  private readonly subject = el("input", { id: "try-subject", placeholder: "any", autocapitalize: "off" });
  private readonly me = el("input", { id: "try-me", list: "try-me-list", placeholder: "each entity itself", autocapitalize: "off", autocomplete: "off" });
  private readonly names = el("datalist", { id: "try-me-list" });
  private readonly pick = button("Pick on the map", { id: "try-pick" }, () => this.aim());
  /** Where the reader is that is no entity. */
  private place: Place | null = null;
  private readonly result = el("div", { id: "try-result", role: "status" });
  private typing = 0;
  private asked = 0;
  private shown = "";

  constructor(
    private readonly studio: Studio,
    private readonly tabs: Tabs,
  ) {
    for (const field of [this.input, this.subject]) field.addEventListener("input", () => this.later());
    const examples = EXAMPLES.map((text) =>
      button(text, { class: "code" }, () => {
        this.input.value = text;
        void this.ask();
      }),
    );
    byId("panel-try").append(
      el("label", { class: "field" }, el("span", {}, "Try a filter (CQL2)"), this.input, el("small", {}, "Matching entities are ringed on the map as you type.")),
      el("div", { class: "chips", "aria-label": "Examples" }, ...examples),
      el("br"),
      el("label", { class: "field" }, el("span", {}, "Who is “me”"), this.me, this.names, el("small", {}, "Whose position and attributes the filter reads: an entity, or a place. Of events, as it was then.")),
      el("div", { class: "actions" }, this.pick),
      el("br"),
      el("label", { class: "field" }, el("span", {}, "Only events of this subject"), this.subject),
      this.result,
    );
    this.me.addEventListener("input", () => {
      this.place = null;
      this.later();
    });
    this.me.addEventListener("focus", () => {
      const ids = [...this.studio.world.entities.keys()].sort().slice(0, NAMES_MAX);
      this.names.replaceChildren(...ids.map((id) => el("option", { value: id })));
    });
    tabs.onOpen(() => this.opened());
  }

  refresh(): void {
    if (this.tabs.current !== "try" || this.input.value.trim() === "") return;
    if (performance.now() - this.asked > AGAIN_MS) void this.ask();
  }

  private opened(): void {
    if (this.tabs.current === "try") void this.ask();
    else {
      this.studio.scene.reader = null;
      this.highlight(null);
    }
  }

  private later(): void {
    clearTimeout(this.typing);
    this.typing = window.setTimeout(() => void this.ask(), TYPING_MS);
  }

  private aim(): void {
    this.pick.textContent = "Choose on the map, or press Escape";
    this.studio.aim((place, hit) => {
      this.pick.textContent = "Pick on the map";
      if (place === null) return;
      this.place = hit?.kind === "client" ? null : place;
      this.me.value = hit?.kind === "client" ? hit.id : PLACE;
      void this.ask();
    });
  }

  /** For a broker that does not know the reader: what its own broker says of it. */
  private async reader(): Promise<Record<string, string>> {
    const name = this.me.value.trim();
    this.studio.scene.reader = this.place ?? (name === "" ? null : name);
    if (name === "") return {};
    if (this.place !== null) return { me: name, me_as: JSON.stringify({ position: this.place }) };
    const told = await askClient(this.studio, name);
    if (!told.ok) return { me: name };
    const { at, attributes } = told.value;
    return { me: name, me_as: JSON.stringify({ ...attributes, ...(at === null ? {} : { position: at }) }) };
  }

  private highlight(ids: ReadonlySet<string> | null): void {
    this.studio.scene.highlighted = ids;
    this.studio.scene.refresh();
  }

  private async ask(): Promise<void> {
    const filter = this.input.value.trim();
    this.asked = performance.now();
    if (filter === "") {
      this.result.replaceChildren();
      this.shown = "";
      this.highlight(null);
      return;
    }
    const query = new URLSearchParams({ filter, ...(await this.reader()) });
    if (this.subject.value.trim() !== "") query.set("subject", this.subject.value.trim());
    const me = this.me.value;
    const answers = await askAll<TryAnswer>(this.studio.feeds, `/studio/try?${query.toString()}`);
    if (filter === this.input.value.trim() && me === this.me.value && this.tabs.current === "try") this.show(filter, answers);
  }

  private show(filter: string, answers: ReadonlyMap<string, Answer<TryAnswer>>): void {
    const refused = [...answers.values()].find((answer) => !answer.ok && answer.status === 400);
    const key = JSON.stringify([...answers]);
    if (key === this.shown) return;
    this.shown = key;
    if (refused !== undefined && !refused.ok) {
      this.highlight(null);
      this.result.replaceChildren(problem(filter, refused.problem));
      return;
    }
    const parts = [...answered(answers).values()];
    const clients = [...new Set(parts.flatMap((part) => part.clients.map((one) => one.id)))].sort();
    const events = new Map(parts.flatMap((part) => part.events.map((one) => [one.id, one.subject] as const)));
    const unknown = parts.reduce((sum, part) => sum + part.unknown, 0);
    this.highlight(new Set(clients));
    this.result.replaceChildren(
      el("h2", {}, `Entities that it accepts: ${clients.length}`),
      this.chips(clients.map((id) => [id, id, "client"] as const)),
      el("h2", {}, `Recent events that it accepts: ${events.size}`),
      this.chips([...events].map(([id, subject]) => [id, subject, "event"] as const)),
      unknown === 0 ? "" : el("p", { class: "hint" }, `For ${unknown} it cannot be told: they do not say all that it asks for.`),
    );
  }

  private chips(items: readonly (readonly [string, string, "client" | "event"])[]): HTMLElement {
    const shown = items.slice(0, CHIPS_MAX).map(([id, label, kind]) => button(label, {}, () => this.studio.select({ kind, id })));
    const more = items.length - shown.length;
    return el("div", { class: "chips" }, ...shown, more > 0 ? el("span", { class: "soft small" }, `and ${more} more`) : null);
  }
}

/** The broker's sentence, and under the filter a mark where it means. */
function problem(filter: string, sentence: string): HTMLElement {
  const column = Number(/column (\d+)/.exec(sentence)?.[1] ?? 0);
  const line = filter.split("\n").length === 1 && column > 0 ? `${filter}\n${" ".repeat(column - 1)}↑` : null;
  return el("div", { class: "message bad" }, sentence, line === null ? null : el("pre", { class: "code" }, line));
}
