// What was a while ago: one sample a second of every broker, for charts.

import type { World } from "./world.ts";

export const SAMPLES_MAX = 900;
/** Handovers are counted over so many seconds, since single ones are rare. */
export const HANDOVER_WINDOW = 10;

export interface Sample {
  readonly atMs: number;
  /** By broker; without those that do not answer. */
  readonly of: ReadonlyMap<string, Measures>;
}

export interface Measures {
  readonly published: number;
  readonly delivered: number;
  readonly medianMs: number | null;
  readonly p99Ms: number | null;
  readonly clients: number;
  /** That left this broker. */
  readonly handovers: number;
}

export type Measure = keyof Measures;

export class History {
  readonly samples: Sample[] = [];
  private readonly counted = new Map<string, number>();

  take(world: World, atMs: number): void {
    const of = new Map<string, Measures>();
    for (const { name, load, connected } of world.brokers.values()) {
      if (!connected || load === null) continue;
      const left = world.handoversFrom.get(name) ?? 0;
      of.set(name, {
        published: load.published_per_s,
        delivered: load.deliveries_per_s,
        medianMs: load.latency_ms?.[0] ?? null,
        p99Ms: load.latency_ms?.[1] ?? null,
        clients: load.clients,
        handovers: left - (this.counted.get(name) ?? left),
      });
      this.counted.set(name, left);
    }
    this.samples.push({ atMs, of });
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
  }

  /** Of one broker or of all. Rates and counts add up; of latencies the slowest broker's is taken. Null: nothing is known. */
  series(measure: Measure, broker: string | null): readonly (number | null)[] {
    const values = this.samples.map(({ of }) => {
      const parts = broker === null ? [...of.values()] : [of.get(broker)].filter((one) => one !== undefined);
      const known = parts.map((part) => part[measure]).filter((value) => value !== null);
      if (known.length === 0) return null;
      return measure === "medianMs" || measure === "p99Ms" ? Math.max(...known) : known.reduce((sum, value) => sum + value, 0);
    });
    return measure === "handovers" ? rolling(values, HANDOVER_WINDOW) : values;
  }
}

function rolling(values: readonly (number | null)[], window: number): readonly (number | null)[] {
  return values.map((value, index) => (value === null ? null : values.slice(Math.max(0, index - window + 1), index + 1).reduce<number>((sum, one) => sum + (one ?? 0), 0)));
}
