// Clients and sessions of all brokers as tables, with what operators do to them: kick and end. Brokers are asked by their
// HTTP API, so whoever looks sees and may do what the rules say.

import { act, ask, type Answer } from "../ask.ts";
import { button, byId, el, setText } from "../dom.ts";
import { signSvg } from "../glyphs.ts";
import type { Panel, Studio } from "../studio.ts";
import type { Tabs } from "../tabs.ts";

const AGAIN_MS = 2_000;
const ASKED_MAX = 1_000;
const SHOWN_MAX = 200;

type Table = "clients" | "sessions";

interface ClientRow {
  readonly id: string;
  readonly connected: boolean;
  readonly position: readonly number[] | null;
  readonly attributes: Readonly<Record<string, unknown>>;
}

interface SessionRow {
  readonly client: string;
  readonly user: string | null;
  readonly connected: boolean;
  readonly expiry_s: number;
  readonly subscriptions: number;
  readonly waiting_messages: number;
  readonly waiting_bytes: number;
}

interface Row {
  readonly client: string;
  readonly broker: string;
  readonly http: string;
  readonly connected: boolean;
  readonly cells: Readonly<Record<string, string | number>>;
}

const COLUMNS: Readonly<Record<Table, readonly { readonly key: string; readonly title: string; readonly number?: boolean }[]>> = {
  clients: [
    { key: "client", title: "Client" },
    { key: "type", title: "Type" },
    { key: "broker", title: "Broker" },
    { key: "state", title: "State" },
    { key: "position", title: "Position" },
  ],
  sessions: [
    { key: "client", title: "Client" },
    { key: "user", title: "User" },
    { key: "broker", title: "Broker" },
    { key: "state", title: "State" },
    { key: "subscriptions", title: "Subscriptions", number: true },
    { key: "waiting", title: "Waiting", number: true },
    { key: "bytes", title: "Bytes", number: true },
    { key: "kept", title: "Kept for" },
  ],
};

export class ClientsPanel implements Panel {
  private readonly search = el("input", { type: "search", placeholder: "Show only …", "aria-label": "Show only rows with this text", id: "clients-search" });
  private readonly body = el("tbody");
  private readonly head = el("tr");
  private readonly note = el("p", { class: "hint", role: "status", id: "clients-note" });
  private readonly outcome = el("p", { class: "message", role: "status", id: "clients-outcome", hidden: true });
  private readonly choices: Readonly<Record<Table, HTMLButtonElement>>;
  private readonly dialog = new Confirm();
  private table: Table = "clients";
  private sorted: { readonly key: string; readonly down: boolean } = { key: "client", down: false };
  private rows: readonly Row[] = [];
  private leftOut = 0;
  private refused: string[] = [];
  private asked = -AGAIN_MS;
  private drawn = "";

  constructor(
    private readonly studio: Studio,
    private readonly tabs: Tabs,
  ) {
    const choice = (table: Table, label: string): HTMLButtonElement => button(label, { id: `table-${table}` }, () => this.choose(table));
    this.choices = { clients: choice("clients", "Clients"), sessions: choice("sessions", "Sessions") };
    this.search.addEventListener("input", () => this.draw());
    const table = el("table", { id: "clients-table" }, el("thead", {}, this.head), this.body);
    byId("panel-clients").append(
      el("div", { class: "bar" }, el("div", { class: "segments", role: "group", "aria-label": "Which table" }, this.choices.clients, this.choices.sessions), this.search),
      this.outcome,
      this.note,
      el("div", { class: "scroll" }, table),
    );
    this.choose("clients");
    tabs.onOpen((tab) => {
      if (tab === "clients") this.refresh();
    });
  }

  refresh(): void {
    const now = performance.now();
    if (this.tabs.current !== "clients" || now - this.asked < AGAIN_MS) return;
    this.asked = now;
    void this.ask(this.table);
  }

  private choose(table: Table): void {
    this.table = table;
    this.sorted = { key: "client", down: false };
    this.rows = [];
    this.drawn = "";
    this.asked = -AGAIN_MS;
    for (const [name, choice] of Object.entries(this.choices)) choice.setAttribute("aria-pressed", String(name === table));
    this.head.replaceChildren(
      ...COLUMNS[table].map(({ key, title, number }) => {
        const sort = button(title, { class: "plain", "data-sort": key }, () => {
          this.sorted = { key, down: this.sorted.key === key && !this.sorted.down };
          this.draw();
        });
        return el("th", { scope: "col", class: number === true ? "number" : null, "data-column": key }, sort);
      }),
      el("th", {}, el("span", { class: "unseen" }, "Actions")),
    );
    this.draw();
    this.refresh();
  }

  private async ask(table: Table): Promise<void> {
    const brokers = this.studio.feeds.open();
    const answers = await Promise.all(brokers.map(async ({ name, http }) => ({ name, http, answer: await ask<Listed>(http, `/api/${table}?limit=${ASKED_MAX}`) })));
    if (table !== this.table) return;
    this.rows = answers.flatMap(({ name, http, answer }) => (answer.ok ? rowsOf(answer.value, name, http, this.studio) : []));
    this.leftOut = answers.reduce((sum, { answer }) => sum + (answer.ok ? answer.value.left_out : 0), 0);
    this.refused = answers.flatMap(({ name, answer }) => (answer.ok ? [] : [`${name}: ${answer.problem}`]));
    this.draw();
  }

  private draw(): void {
    const wanted = this.search.value.trim().toLowerCase();
    const fitting = this.rows.filter((row) => wanted === "" || Object.values(row.cells).join(" ").toLowerCase().includes(wanted));
    const { key, down } = this.sorted;
    const shown = [...fitting].sort((a, b) => (down ? -1 : 1) * compared(a.cells[key] ?? "", b.cells[key] ?? "")).slice(0, SHOWN_MAX);
    const more = fitting.length - shown.length + this.leftOut;
    const what = fitting.length === 1 ? this.table.slice(0, -1) : this.table;
    const count = `${fitting.length.toLocaleString()} ${what}${more > 0 ? `, ${more.toLocaleString()} more are not listed` : ""}`;
    setText(this.note, [count, ...this.refused].join(" · "));
    for (const column of this.head.children) {
      const own = (column as HTMLElement).dataset["column"] === key;
      if (own) column.setAttribute("aria-sort", down ? "descending" : "ascending");
      else column.removeAttribute("aria-sort");
    }
    // Rows are made anew only when they differ: a button under the pointer must not be swapped away.
    const drawn = JSON.stringify(shown);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
  }

  private row(row: Row): HTMLElement {
    const cells = COLUMNS[this.table].map(({ key, number }) => {
      if (key !== "client") return el("td", { class: number === true ? "number" : null }, String(row.cells[key] ?? ""));
      const sign = this.table === "clients" ? signSvg(this.studio.world.looks.of(String(row.cells["type"] ?? "") || null)) : null;
      return el("th", { scope: "row" }, sign, button(row.client, { class: "plain" }, () => this.studio.select({ kind: "client", id: row.client })));
    });
    const actions = [
      row.connected ? button("Kick", { class: "small", "data-action": "kick" }, () => void this.kick(row)) : null,
      this.table === "sessions" ? button("End", { class: "small bad", "data-action": "end" }, () => void this.end(row)) : null,
    ];
    return el("tr", { "data-client": row.client, "data-broker": row.broker }, ...cells, el("td", { class: "act" }, el("div", { class: "actions" }, ...actions)));
  }

  private async kick({ client, broker, http }: Row): Promise<void> {
    const why = await this.dialog.ask(`Disconnect ${client} from ${broker}?`, "Its session stays: it may come back, and gets what waited for it meanwhile.", "Kick", "What it is told");
    if (why === null) return;
    this.tell(await act<{ done: string }>(http, "POST", `/api/kick/${encodeURIComponent(client)}`, why === "" ? {} : { why }));
  }

  private async end({ client, broker, http }: Row): Promise<void> {
    const sure = await this.dialog.ask(`End the session of ${client} at ${broker}?`, "Its subscriptions and all messages that wait for it are lost. It is disconnected.", "End the session", null);
    if (sure === null) return;
    this.tell(await act<{ done: string }>(http, "DELETE", `/api/sessions/${encodeURIComponent(client)}`));
  }

  private tell(answer: Answer<{ done: string }>): void {
    this.outcome.hidden = false;
    this.outcome.classList.toggle("bad", !answer.ok);
    setText(this.outcome, answer.ok ? `${answer.value.done.charAt(0).toUpperCase()}${answer.value.done.slice(1)}.` : `Not done: ${answer.problem}`);
    this.asked = -AGAIN_MS;
    this.refresh();
  }
}

interface Listed {
  readonly clients?: readonly ClientRow[];
  readonly sessions?: readonly SessionRow[];
  readonly left_out: number;
}

function rowsOf(listed: Listed, broker: string, http: string, studio: Studio): Row[] {
  const clients = (listed.clients ?? []).map(({ id, connected, position, attributes }): Row => {
    const place = position?.map((part) => part.toFixed(studio.world.space === "plane" ? 0 : 5)).join(", ") ?? "";
    const type = typeof attributes["type"] === "string" ? attributes["type"] : "";
    return { client: id, broker, http, connected, cells: { client: id, type, broker, state: state(connected), position: place } };
  });
  const sessions = (listed.sessions ?? []).map((one): Row => {
    const cells = { client: one.client, user: one.user ?? "", broker, state: state(one.connected), subscriptions: one.subscriptions, waiting: one.waiting_messages, bytes: one.waiting_bytes, kept: kept(one.expiry_s) };
    return { client: one.client, broker, http, connected: one.connected, cells };
  });
  return [...clients, ...sessions];
}

const state = (connected: boolean): string => (connected ? "connected" : "away");

function kept(seconds: number): string {
  if (seconds === 0) return "the connection";
  if (seconds >= 0xffffffff) return "ever";
  return seconds >= 172_800 ? `${Math.round(seconds / 86_400)} days` : seconds >= 7_200 ? `${Math.round(seconds / 3_600)} h` : seconds >= 120 ? `${Math.round(seconds / 60)} min` : `${seconds} s`;
}

function compared(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

/** A question before something that cannot be undone. */
class Confirm {
  private readonly title = el("h2", { id: "confirm-title" });
  private readonly text = el("p", { class: "soft" });
  private readonly input = el("input", { id: "confirm-why", maxlength: 200, autocomplete: "off" });
  private readonly label = el("span");
  private readonly field = el("label", { class: "field" }, this.label, this.input);
  private readonly yes = el("button", { type: "submit", class: "primary", value: "yes", id: "confirm-yes" });
  private readonly dialog = el(
    "dialog",
    { id: "confirm", "aria-labelledby": "confirm-title" },
    el("form", { method: "dialog" }, this.title, this.text, this.field, el("div", { class: "actions" }, this.yes, button("Cancel", {}, () => this.dialog.close("")))),
  );

  constructor() {
    document.body.append(this.dialog);
  }

  /** What was written where there is a `field`; null if the viewer would rather not. */
  ask(title: string, text: string, yes: string, field: string | null): Promise<string | null> {
    setText(this.title, title);
    setText(this.text, text);
    setText(this.yes, yes);
    setText(this.label, field ?? "");
    this.field.hidden = field === null;
    this.input.value = "";
    this.dialog.returnValue = "";
    this.dialog.showModal();
    return new Promise((answered) => {
      this.dialog.addEventListener("close", () => answered(this.dialog.returnValue === "yes" ? this.input.value : null), { once: true });
    });
  }
}
