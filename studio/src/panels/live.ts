// What happens now: brokers with their load, and the last events and handovers, newest first.

import { button, byId, clock, el, rate, setText } from "../dom.ts";
import { passageOf } from "../fences.ts";
import { signSvg } from "../glyphs.ts";
import type { Panel, Studio } from "../studio.ts";
import type { Broker, LogEntry } from "../world.ts";

const ROWS_MAX = 60;

interface Row {
  readonly entry: LogEntry;
  readonly item: HTMLElement;
  readonly count: HTMLElement | null;
}

interface BrokerRow {
  readonly item: HTMLElement;
  readonly mark: HTMLElement;
  readonly note: HTMLElement;
  readonly rates: HTMLElement;
  readonly bar: HTMLElement;
}

export class LivePanel implements Panel {
  private readonly brokers = el("ul", { class: "rows", id: "brokers" });
  private readonly list = el("ol", { class: "rows", id: "log", "aria-live": "off" });
  private readonly empty = el("p", { class: "empty" }, "Nothing was published since this page was opened.");
  private readonly leftOut = el("p", { class: "hint", hidden: true });
  private readonly search = el("input", { type: "search", placeholder: "Show only …", "aria-label": "Show only events with this text", id: "log-search" });
  private readonly brokerRows = new Map<string, BrokerRow>();
  private rows: Row[] = [];
  private newest = 0;

  constructor(private readonly studio: Studio) {
    this.search.addEventListener("input", () => this.rebuild());
    byId("panel-live").append(
      el("h2", {}, "Brokers"),
      this.brokers,
      el("h2", {}, "Events"),
      this.search,
      this.leftOut,
      this.empty,
      this.list,
    );
  }

  refresh(): void {
    this.showBrokers();
    const { log, leftOut } = this.studio.world;
    const added = log.filter((entry) => entry.n > this.newest && this.fits(entry)).slice(-ROWS_MAX);
    this.newest = log.at(-1)?.n ?? this.newest;
    for (const entry of added) this.add(entry);
    for (const row of this.rows.splice(ROWS_MAX)) row.item.remove();
    this.empty.hidden = this.rows.length > 0;
    this.leftOut.hidden = leftOut === 0;
    setText(this.leftOut, `${leftOut.toLocaleString()} events and deliveries came too fast to be shown.`);
    const selection = this.studio.selection();
    for (const { entry, count, item } of this.rows) {
      if (entry.kind !== "event" || count === null) continue;
      setText(count, String(entry.event.deliveries));
      count.classList.toggle("none", entry.event.deliveries === 0);
      const current = selection?.kind === "event" && selection.id === entry.event.id;
      item.firstElementChild?.setAttribute("aria-current", String(current));
    }
  }

  private rebuild(): void {
    this.list.replaceChildren();
    this.rows = [];
    this.newest = 0;
    this.refresh();
  }

  private fits(entry: LogEntry): boolean {
    const wanted = this.search.value.trim().toLowerCase();
    if (wanted === "") return true;
    switch (entry.kind) {
      case "event":
        return `${entry.event.subject} ${entry.event.from}`.toLowerCase().includes(wanted);
      case "handover":
        return `${entry.handover.client} handover ${entry.handover.from} ${entry.handover.to}`.toLowerCase().includes(wanted);
      case "broker":
        return entry.broker.toLowerCase().includes(wanted);
    }
  }

  private add(entry: LogEntry): void {
    const row = this.row(entry);
    this.rows.unshift(row);
    this.list.prepend(row.item);
  }

  private row(entry: LogEntry): Row {
    const time = clock(entry.at_us);
    switch (entry.kind) {
      case "event": {
        const { id, subject, from } = entry.event;
        const count = el("b", {}, "0");
        const look = this.studio.world.looks.of(this.studio.world.entities.get(from)?.type ?? null);
        const passage = passageOf(entry.event);
        const choose = button(
          `Event ${subject} from ${from} at ${time}`,
          { class: "row" },
          () => this.studio.select({ kind: "event", id }),
          signSvg(look),
          passage === null ? words(subject, from) : words(`${passage.verb} ${passage.fence}`, passage.host),
          el("span", { class: "side-note" }, count, time),
        );
        choose.title = "Delivered to so many; choose it to see its way";
        return { entry, item: el("li", { "data-event": id }, choose), count };
      }
      case "handover": {
        const { client, from, to } = entry.handover;
        const choose = button(
          `${client} went from ${from} to ${to} at ${time}`,
          { class: "row" },
          () => this.studio.select({ kind: "client", id: client }),
          el("span", { class: "mark roam" }),
          words(client, `handed over, ${from} → ${to}`),
          el("span", { class: "side-note" }, time),
        );
        return { entry, item: el("li", {}, choose), count: null };
      }
      case "broker": {
        const down = entry.text !== "is here";
        const line = el("div", { class: "row" }, el("span", { class: down ? "mark down" : "mark" }), words(entry.broker, entry.text));
        return { entry, item: el("li", {}, line), count: null };
      }
    }
  }

  private showBrokers(): void {
    const busiest = Math.max(1, ...[...this.studio.world.brokers.values()].map((broker) => broker.load?.clients ?? 0));
    for (const [name, row] of this.brokerRows) {
      if (this.studio.world.brokers.has(name)) continue;
      row.item.remove();
      this.brokerRows.delete(name);
    }
    for (const broker of this.studio.world.brokers.values()) {
      let row = this.brokerRows.get(broker.name);
      if (row === undefined) this.brokerRows.set(broker.name, (row = this.brokerRow(broker)));
      row.mark.className = broker.connected ? "mark" : "mark down";
      const load = broker.load;
      const clients = load === null ? "does not answer" : `${load.clients.toLocaleString()} clients`;
      setText(row.note, clients);
      setText(row.rates, load === null ? "" : `${rate(load.events_per_s)} in · ${rate(load.deliveries_per_s)} out /s`);
      row.bar.style.width = `${(100 * (load?.clients ?? 0)) / busiest}%`;
    }
  }

  private brokerRow(broker: Broker): BrokerRow {
    const mark = el("span", { class: "mark" });
    const note = el("b");
    const rates = el("span");
    const bar = el("i");
    const choose = button(
      `Broker ${broker.name}`,
      { class: "row" },
      () => this.studio.select({ kind: "broker", id: broker.name }),
      mark,
      el("span", { class: "grow" }, el("b", {}, broker.name), el("span", { class: "meter" }, bar)),
      el("span", { class: "side-note" }, note, rates),
    );
    const item = el("li", { "data-broker": broker.name }, choose);
    this.brokers.append(item);
    return { item, mark, note, rates, bar };
  }
}

function words(what: string, who: string): HTMLElement {
  return el("span", { class: "grow" }, el("span", { class: "what" }, what), el("span", { class: "who" }, who));
}
