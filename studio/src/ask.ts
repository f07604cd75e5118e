// Questions to brokers over HTTP. Each may answer, say what is the problem, or not be there; the page shows all three.

import type { Place } from "./feed.ts";
import type { Feeds } from "./feeds.ts";
import type { World } from "./world.ts";

export type Answer<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly status: number; readonly problem: string };

const WAIT_MS = 4_000;

export function ask<T>(http: string, path: string): Promise<Answer<T>> {
  return answerTo<T>(`${http}${path}`, {});
}

/** Asks a broker to do something. */
export function act<T>(http: string, method: "POST" | "DELETE", path: string, body?: unknown): Promise<Answer<T>> {
  const content = body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  return answerTo<T>(`${http}${path}`, { method, ...content });
}

async function answerTo<T>(url: string, request: RequestInit): Promise<Answer<T>> {
  try {
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(WAIT_MS) });
    const body: unknown = await response.json();
    if (response.ok) return { ok: true, value: body as T };
    const problem = (body as { problem?: unknown }).problem;
    return { ok: false, status: response.status, problem: typeof problem === "string" ? problem : `status ${response.status}` };
  } catch {
    return { ok: false, status: 0, problem: "no answer" };
  }
}

/** All brokers' answers that are connected, by their names. */
export async function askAll<T>(feeds: Feeds, path: string): Promise<ReadonlyMap<string, Answer<T>>> {
  const asked = feeds.open().map(async ({ name, http }) => [name, await ask<T>(http, path)] as const);
  return new Map(await Promise.all(asked));
}

export function answered<T>(answers: ReadonlyMap<string, Answer<T>>): Map<string, T> {
  const values = new Map<string, T>();
  for (const [name, answer] of answers) if (answer.ok) values.set(name, answer.value);
  return values;
}

/** What a broker answers at /studio/clients/ID. */
export interface ClientAnswer {
  readonly id: string;
  readonly home: string;
  readonly at: Place | null;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly connected: boolean;
  readonly waiting: number;
  readonly subscriptions: readonly {
    readonly topic: string;
    readonly filter: string | null;
    readonly near_m: number | null;
    readonly interest: string | null;
    readonly expiry_us: number | null;
  }[];
  readonly last_events: readonly { readonly id: string; readonly subject: string; readonly at_us: number }[];
}

/** Its home broker first: others may know less of it. */
export async function askClient({ world, feeds }: { readonly world: World; readonly feeds: Feeds }, id: string): Promise<Answer<ClientAnswer>> {
  const path = `/studio/clients/${encodeURIComponent(id)}`;
  const home = world.entities.get(id)?.home ?? null;
  const http = home === null ? null : feeds.httpOf(home);
  const first = http === null ? null : await ask<ClientAnswer>(http, path);
  if (first?.ok === true) return first;
  const others = answered(await askAll<ClientAnswer>(feeds, path));
  const found = [...others.values()].find((one) => one.connected) ?? [...others.values()][0];
  if (found !== undefined) return { ok: true, value: found };
  return first ?? { ok: false, status: 404, problem: "No broker knows it." };
}
