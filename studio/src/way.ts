// The way of one event, put together from what each broker knows of it: where it came in, which broker passed it to
// which, who got it where, and who did not and why.

import type { RegionNews } from "./feed.ts";

export type CameFrom = { readonly broker: string } | { readonly client: string };

/** What one broker answers at /studio/events/ID. */
export interface EventPart {
  readonly id: string;
  readonly subject: string;
  readonly from: string;
  readonly payload: unknown;
  readonly published_us: number;
  readonly expiry_us: number | null;
  readonly relevance?: unknown;
  readonly audience?: unknown;
  /** Null where it is not remembered, as of a retained message. */
  readonly came_from: CameFrom | null;
  readonly seen_us: number;
  /** As they were when it was published. */
  readonly regions?: readonly RegionNews[];
  readonly passed_to: readonly { readonly broker: string; readonly at_us: number }[];
  readonly delivered: readonly { readonly to: string; readonly at_us: number }[];
  readonly not_delivered: readonly Miss[];
  readonly left_out?: number;
  readonly delivered_left_out?: number;
}

export interface Miss {
  readonly to: string;
  readonly subscription: string;
  readonly failed: string;
  readonly why: string;
}

export interface Hop {
  readonly broker: string;
  readonly from: CameFrom | null;
  readonly depth: number;
  /** Since publication; null where the broker was told to have it and does not answer. */
  readonly after_us: number | null;
  readonly delivered: readonly { readonly to: string; readonly after_us: number }[];
  /** So many more got it there than are named. */
  readonly more: number;
}

export interface Way {
  readonly id: string;
  readonly subject: string;
  readonly from: string;
  readonly payload: unknown;
  readonly published_us: number;
  readonly expiry_us: number | null;
  readonly relevance: unknown;
  readonly audience: unknown;
  readonly regions: readonly RegionNews[];
  readonly hops: readonly Hop[];
  readonly delivered: number;
  readonly missed: readonly (Miss & { readonly broker: string })[];
  readonly leftOut: number;
}

function isClient(from: CameFrom | null): from is { readonly client: string } {
  return from !== null && "client" in from;
}

export function joinWay(parts: ReadonlyMap<string, EventPart>): Way | null {
  const first = [...parts.values()].find((part) => isClient(part.came_from)) ?? [...parts.values()][0];
  if (first === undefined) return null;
  const hops = new Walk(parts, first.published_us).hops();
  const missed = [...parts].flatMap(([broker, part]) => part.not_delivered.map((miss) => ({ ...miss, broker })));
  const got = new Set(hops.flatMap((hop) => hop.delivered.map((one) => one.to)));
  return {
    id: first.id,
    subject: first.subject,
    from: first.from,
    payload: first.payload,
    published_us: first.published_us,
    expiry_us: first.expiry_us,
    relevance: first.relevance ?? null,
    audience: first.audience ?? null,
    regions: first.regions ?? [],
    hops,
    delivered: got.size + hops.reduce((sum, hop) => sum + hop.more, 0),
    // A client that roams may be missed at one broker and served at the next.
    missed: missed.filter((miss) => !got.has(miss.to)),
    leftOut: [...parts.values()].reduce((sum, part) => sum + (part.left_out ?? 0), 0),
  };
}

class Walk {
  private readonly found: Hop[] = [];
  private readonly visited = new Set<string>();

  constructor(
    private readonly parts: ReadonlyMap<string, EventPart>,
    private readonly published_us: number,
  ) {}

  hops(): readonly Hop[] {
    const roots = [...this.parts].filter(([, { came_from }]) => came_from === null || isClient(came_from) || !this.parts.has(came_from.broker));
    for (const [name, part] of roots) this.visit(name, part.came_from, 0);
    for (const [name, part] of this.parts) this.visit(name, part.came_from, 0);
    return this.found;
  }

  private visit(name: string, from: CameFrom | null, depth: number): void {
    if (this.visited.has(name)) return;
    this.visited.add(name);
    const part = this.parts.get(name);
    this.found.push({
      broker: name,
      from,
      depth,
      after_us: part === undefined ? null : part.seen_us - this.published_us,
      delivered: (part?.delivered ?? []).map(({ to, at_us }) => ({ to, after_us: at_us - this.published_us })),
      more: part?.delivered_left_out ?? 0,
    });
    for (const { broker } of part?.passed_to ?? []) this.visit(broker, { broker: name }, depth + 1);
  }
}

export interface MissGroup {
  readonly failed: string;
  readonly missed: readonly (Miss & { readonly broker: string })[];
}

/** Those who did not get it, by what it failed on, the most frequent reason first. */
export function byReason(way: Way): readonly MissGroup[] {
  const groups = new Map<string, (Miss & { readonly broker: string })[]>();
  for (const miss of way.missed) groups.set(miss.failed, [...(groups.get(miss.failed) ?? []), miss]);
  return [...groups].map(([failed, missed]) => ({ failed, missed })).sort((a, b) => b.missed.length - a.missed.length);
}

/** `+3.2 ms` after publication. */
export function after(us: number): string {
  const ms = us / 1_000;
  if (Math.abs(ms) < 10) return `+${ms.toFixed(1)} ms`;
  if (Math.abs(ms) < 1_000) return `+${ms.toFixed(0)} ms`;
  return `+${(ms / 1_000).toFixed(1)} s`;
}
