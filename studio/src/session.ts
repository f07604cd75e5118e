// The page as a client among others: MQTT 5 over WebSocket. The library is loaded when somebody first wants to take part.

import type { IClientOptions, MqttClient } from "mqtt";
import type { Place } from "./feed.ts";

export interface Credentials {
  readonly url: string;
  readonly clientId: string;
  readonly user: string;
  readonly password: string;
}

export interface Message {
  readonly topic: string;
  readonly payload: string;
}

export interface Outgoing {
  readonly topic: string;
  readonly payload: string;
  readonly qos: 0 | 1 | 2;
  readonly audienceM: number | null;
  readonly relevanceM: number | null;
}

export interface SessionListener {
  state(text: string, connected: boolean): void;
  received(message: Message): void;
}

type Acknowledgement = { readonly properties?: { readonly reasonString?: string } } | undefined;

const REPORTS = "$roam/me";

export class Session {
  private client: MqttClient | null = null;

  constructor(private readonly listener: SessionListener) {}

  get connected(): boolean {
    return this.client?.connected === true;
  }

  async connect(to: Credentials): Promise<void> {
    this.close();
    this.listener.state("Connecting …", false);
    const { default: mqtt } = await import("mqtt");
    const options: IClientOptions = { protocolVersion: 5, clientId: to.clientId, clean: true, reconnectPeriod: 3_000, connectTimeout: 8_000 };
    if (to.user !== "") Object.assign(options, { username: to.user, password: to.password });
    const client = mqtt.connect(to.url, options);
    this.client = client;
    client.on("connect", () => this.listener.state(`Connected as ${to.clientId}`, true));
    client.on("reconnect", () => this.listener.state("Connecting again …", false));
    client.on("close", () => this.listener.state("Not connected", false));
    client.on("error", (error) => this.listener.state(`Not connected: ${error.message || "the broker does not answer"}`, false));
    client.on("message", (topic, payload) => this.listener.received({ topic, payload: new TextDecoder().decode(payload) }));
  }

  close(): void {
    this.client?.end();
    this.client = null;
  }

  publish(message: Outgoing): Promise<void> {
    const userProperties: Record<string, string> = {};
    if (message.audienceM !== null) userProperties["audience"] = JSON.stringify({ circle_m: message.audienceM });
    if (message.relevanceM !== null) userProperties["relevance"] = JSON.stringify({ circle_m: message.relevanceM });
    return this.send(message.topic, message.payload, message.qos, userProperties);
  }

  report(report: { readonly position?: Place; readonly velocity?: Place; readonly attributes?: Readonly<Record<string, string>> }): Promise<void> {
    return this.send(REPORTS, JSON.stringify(report), 1, {});
  }

  private send(topic: string, payload: string, qos: 0 | 1 | 2, userProperties: Record<string, string>): Promise<void> {
    const client = this.client;
    if (client === null) return Promise.reject(new Error("Connect first."));
    const { promise, settle } = promised();
    client.publish(topic, payload, { qos, ...propertiesOf(userProperties) }, (error, packet) => settle(error, packet as Acknowledgement));
    return promise;
  }

  subscribe(topic: string, qos: 0 | 1 | 2, filter: string, nearM: number | null): Promise<void> {
    const client = this.client;
    if (client === null) return Promise.reject(new Error("Connect first."));
    const whole = joinFilter(filter, nearM);
    const userProperties: Record<string, string> = whole === "" ? {} : { filter: whole };
    const { promise, settle } = promised();
    client.subscribe(topic, { qos, ...propertiesOf(userProperties) }, (error, _granted, packet) => settle(error, packet as Acknowledgement));
    return promise;
  }

  unsubscribe(topic: string): void {
    this.client?.unsubscribe(topic);
  }
}

export function joinFilter(filter: string, nearM: number | null): string {
  const near = nearM === null ? "" : `near(position, ${nearM})`;
  if (filter.trim() === "" || near === "") return filter.trim() || near;
  return `(${filter.trim()}) AND ${near}`;
}

/** MQTT.js writes an empty set of user properties as a packet that no broker can read. */
function propertiesOf(userProperties: Record<string, string>): { properties?: { userProperties: Record<string, string> } } {
  return Object.keys(userProperties).length === 0 ? {} : { properties: { userProperties } };
}

/** Refusals come with a sentence from the broker that says more than their code. */
function promised(): { promise: Promise<void>; settle: (error: Error | null | undefined, packet: Acknowledgement) => void } {
  let done: () => void = () => undefined;
  let failed: (error: Error) => void = () => undefined;
  const promise = new Promise<void>((resolve, reject) => [done, failed] = [resolve, reject]);
  const settle = (error: Error | null | undefined, packet: Acknowledgement): void => {
    const inside = (error as { packet?: Acknowledgement } | null | undefined)?.packet;
    const reason = packet?.properties?.reasonString ?? inside?.properties?.reasonString;
    if (error) failed(new Error(reason ?? error.message));
    else done();
  };
  return { promise, settle };
}
