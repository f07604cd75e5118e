// Questions to brokers over HTTP. Each may answer, say what is the problem, or not be there; the page shows all three.

import type { Feeds } from "./feeds.ts";

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
