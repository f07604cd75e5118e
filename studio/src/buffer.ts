// Ticks that wait while the page is paused. The first ones are kept apart, so that they can be stepped through; beyond
// the bound a broker's newest tick takes up what follows, so that a page left paused overnight stays small.

import type { Tick } from "./feed.ts";

export const WAITING_TICKS_MAX = 1_200;
const MERGED_EVENTS_MAX = 1_000;

export interface Waiting {
  readonly broker: string;
  readonly tick: Tick;
}

export class TickBuffer {
  private readonly waiting: Waiting[] = [];
  private readonly latest = new Map<string, number>();
  private taken = 0;

  constructor(private readonly bound: number = WAITING_TICKS_MAX) {}

  get length(): number {
    return this.waiting.length;
  }

  push(broker: string, tick: Tick): void {
    const at = this.latest.get(broker);
    const last = at === undefined ? undefined : this.waiting[at - this.taken];
    if (this.waiting.length >= this.bound && at !== undefined && last !== undefined) {
      this.waiting[at - this.taken] = { broker, tick: mergeTicks(last.tick, tick) };
      return;
    }
    this.latest.set(broker, this.taken + this.waiting.length);
    this.waiting.push({ broker, tick });
  }

  shift(): Waiting | undefined {
    const first = this.waiting.shift();
    if (first !== undefined) this.taken += 1;
    return first;
  }

  /** What a broker said before it was lost is void: it tells everything again. */
  forget(broker: string): void {
    const kept = this.waiting.filter((one) => one.broker !== broker);
    this.waiting.length = 0;
    this.latest.clear();
    this.taken = 0;
    for (const one of kept) this.push(one.broker, one.tick);
  }
}

/** One tick that leaves the world as the two do, one after the other. */
export function mergeTicks(first: Tick, second: Tick): Tick {
  const gone = new Set(second.gone);
  const moved = new Map(first.entities.filter((one) => !gone.has(one.id)).map((one) => [one.id, one]));
  for (const one of second.entities) moved.set(one.id, one);
  const ended = new Set(second.regions_gone);
  const regions = new Map(first.regions.filter((one) => !ended.has(one.id)).map((one) => [one.id, one]));
  for (const one of second.regions) regions.set(one.id, one);
  const events = [...first.events, ...second.events];
  const deliveries = [...first.deliveries, ...second.deliveries];
  return {
    kind: "tick",
    at_us: second.at_us,
    entities: [...moved.values()],
    gone: [...new Set([...first.gone, ...second.gone])].filter((id) => !moved.has(id)),
    regions: [...regions.values()],
    regions_gone: [...new Set([...first.regions_gone, ...second.regions_gone])].filter((id) => !regions.has(id)),
    events: events.slice(-MERGED_EVENTS_MAX),
    deliveries: deliveries.slice(-MERGED_EVENTS_MAX),
    handovers: [...first.handovers, ...second.handovers].slice(-MERGED_EVENTS_MAX),
    load: second.load ?? first.load,
    left_out: {
      events: first.left_out.events + second.left_out.events + Math.max(0, events.length - MERGED_EVENTS_MAX),
      deliveries:
        first.left_out.deliveries + second.left_out.deliveries + Math.max(0, deliveries.length - MERGED_EVENTS_MAX),
    },
  };
}
