// How it went: messages, latency, clients and handovers over the last minutes, of all brokers or of one.

import { Chart, type Series } from "../chart.ts";
import { button, byId, el } from "../dom.ts";
import { History, HANDOVER_WINDOW, type Measure } from "../history.ts";
import type { Panel, Studio } from "../studio.ts";

const SAMPLE_MS = 1_000;
const RANGES_MIN = [1, 5, 15] as const;
const ALL = "";

interface Shown extends Series {
  readonly measure: Measure;
}

const CHARTS: readonly { readonly title: string; readonly unit: string; readonly series: readonly Shown[] }[] = [
  {
    title: "Messages",
    unit: "a second",
    series: [
      { name: "published", colour: "accent", measure: "published" },
      { name: "delivered", colour: "map-delivery", measure: "delivered" },
    ],
  },
  {
    title: "Latency",
    unit: "ms from publication to delivery",
    series: [
      { name: "median", colour: "accent", measure: "medianMs" },
      { name: "99 % within", colour: "region-relevance", measure: "p99Ms" },
    ],
  },
  { title: "Clients", unit: "connected", series: [{ name: "clients", colour: "accent", measure: "clients" }] },
  { title: "Handovers", unit: `in ${HANDOVER_WINDOW} s`, series: [{ name: "handovers", colour: "map-handover", measure: "handovers" }] },
];

export class ChartsPanel implements Panel {
  private readonly history = new History();
  private readonly charts = CHARTS.map(({ title, unit, series }) => new Chart(title, unit, series));
  private readonly broker = el("select", { id: "charts-broker", "aria-label": "Of which broker" });
  private readonly ranges = new Map<number, HTMLButtonElement>();
  private rangeMin: number = RANGES_MIN[0];
  private pointed: number | null = null;
  private sampled = 0;
  private named = "";

  constructor(
    private readonly studio: Studio,
    private readonly isPaused: () => boolean,
  ) {
    for (const minutes of RANGES_MIN) {
      const choose = button(`${minutes} min`, {}, () => {
        this.rangeMin = minutes;
        this.draw();
      });
      this.ranges.set(minutes, choose);
    }
    this.broker.addEventListener("change", () => this.draw());
    for (const chart of this.charts) {
      chart.onPoint((part) => {
        this.pointed = part;
        this.draw();
      });
    }
    const range = el("div", { class: "segments", role: "group", "aria-label": "How far back" }, ...this.ranges.values());
    byId("panel-charts").append(
      el("div", { class: "bar" }, this.broker, range),
      ...this.charts.map((chart) => chart.element),
      el("p", { class: "hint" }, "Since this page was opened, a sample a second. Of all brokers together, the latency is that of the slowest."),
    );
  }

  refresh(): void {
    const now = Date.now();
    // While the page is paused it learns nothing, so there is nothing to draw either.
    if (now - this.sampled < SAMPLE_MS || this.isPaused()) return;
    this.sampled = now;
    this.history.take(this.studio.world, now);
    this.draw();
  }

  private draw(): void {
    if (byId("panel-charts").hidden) return;
    this.nameBrokers();
    const broker = this.broker.value === ALL ? null : this.broker.value;
    const times = this.history.samples.map(({ atMs }) => atMs);
    const toMs = times.at(-1) ?? Date.now();
    const window = { times, fromMs: toMs - this.rangeMin * 60_000, toMs };
    this.charts.forEach((chart, index) => {
      const data = (CHARTS[index]?.series ?? []).map(({ measure }) => this.history.series(measure, broker));
      chart.draw(window, data, this.pointed);
    });
    for (const [minutes, choose] of this.ranges) choose.setAttribute("aria-pressed", String(minutes === this.rangeMin));
  }

  private nameBrokers(): void {
    const names = [...this.studio.world.brokers.keys()].sort();
    if (names.join("\n") === this.named) return;
    this.named = names.join("\n");
    const before = this.broker.value;
    this.broker.replaceChildren(el("option", { value: ALL }, "All brokers"), ...names.map((name) => el("option", { value: name }, name)));
    this.broker.value = names.includes(before) ? before : ALL;
  }
}
