// The line at the top: how many brokers answer, counters, and a sentence for screen readers now and then.

import { byId, el, rate, setText } from "../dom.ts";
import type { Panel, Studio } from "../studio.ts";
import type { Totals } from "../world.ts";

const SUMMARY_MS = 20_000;

const COUNTERS: readonly { readonly name: string; readonly wide?: boolean; readonly of: (totals: Totals) => string }[] = [
  { name: "entities", of: (totals) => totals.entities.toLocaleString() },
  { name: "subscriptions", wide: true, of: (totals) => totals.subscriptions.toLocaleString() },
  { name: "events/s", of: (totals) => rate(totals.publishedPerS) },
  { name: "deliveries/s", of: (totals) => rate(totals.deliveriesPerS) },
];

export class Header implements Panel {
  private readonly status = byId("status");
  private readonly banner = byId("banner");
  private readonly summary = byId("summary");
  private readonly values: readonly HTMLElement[];
  private summarised = 0;

  constructor(private readonly studio: Studio) {
    this.values = COUNTERS.map(({ name, wide }) => {
      const value = el("dd", {}, "0");
      byId("counters").append(el("div", { class: wide === true ? "wide" : null }, el("dt", {}, name), value));
      return value;
    });
  }

  refresh(): void {
    const totals = this.studio.world.totals();
    COUNTERS.forEach(({ of }, index) => setText(this.values[index] as HTMLElement, of(totals)));
    this.showStatus(totals);
    const now = performance.now();
    if (now - this.summarised < SUMMARY_MS || totals.brokersUp === 0) return;
    this.summarised = now;
    const brokers = totals.brokersUp === 1 ? "one broker" : `${totals.brokersUp} brokers`;
    setText(
      this.summary,
      `${totals.entities} entities at ${brokers}, ${rate(totals.publishedPerS)} events and ${rate(totals.deliveriesPerS)} deliveries a second.`,
    );
  }

  private showStatus(totals: Totals): void {
    const feeds = this.studio.feeds.statuses();
    const waiting = feeds.filter((feed) => feed.state !== "open" && feed.retryAtMs > 0);
    const all = totals.brokersUp === totals.brokers && totals.brokers > 0;
    this.status.dataset["state"] = all ? "good" : totals.brokersUp === 0 && waiting.length > 0 ? "bad" : "warn";
    setText(
      this.status,
      totals.brokers === 0 ? "Connecting …" : all ? `${totals.brokers === 1 ? "1 broker" : `${totals.brokers} brokers`}` : `${totals.brokersUp} of ${totals.brokers} brokers`,
    );
    this.banner.hidden = waiting.length === 0;
    if (waiting.length === 0) return;
    const names = waiting.map((feed) => feed.name || "The broker").join(", ");
    const seconds = Math.max(0, Math.ceil((Math.min(...waiting.map((feed) => feed.retryAtMs)) - Date.now()) / 1_000));
    const again = seconds === 0 ? "Trying again …" : `Trying again in ${seconds} s.`;
    setText(this.banner, `${names} ${waiting.length === 1 ? "does" : "do"} not answer. ${again}`);
  }
}
