// The page as a client among others: MQTT 5 over WebSocket. The library is loaded when somebody first wants to take part.
//
// A connection that is lost is made again. One that the broker has ended for a reason is not: the library would send
// again what the broker has refused, and be disconnected again, for ever.

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
  /** The broker wants no more of it; nothing is tried again. */
  ended(text: string): void;
  received(message: Message): void;
}

interface Properties {
  readonly reasonString?: string;
  readonly serverReference?: string;
  readonly maximumPacketSize?: number;
}
type Packet = { readonly cmd?: string; readonly reasonCode?: number; readonly properties?: Properties } | undefined;

const REPORTS = "$roam/me";
/** The broker is stopping, busy, or wants to be asked again: these pass. */
const PASSING: ReadonlySet<number> = new Set([0x00, 0x88, 0x89, 0x8b]);
const REFUSED_FROM = 0x80;
/** So often a connection may be lost while one message waits, before the message is given up. */
const LOSSES_MAX = 2;
const OVERHEAD_BYTES = 512;
const LAST_WORDS_MS = 250;

export class Session {
  private client: MqttClient | null = null;
  private waiting = new Set<Waiting>();
  private packetBytesMax = Infinity;

  constructor(private readonly listener: SessionListener) {}

  get connected(): boolean {
    return this.client?.connected === true;
  }

  async connect(to: Credentials): Promise<void> {
    this.close();
    this.listener.state("Connecting …", false);
    const { default: mqtt } = await import("mqtt");
    const options: IClientOptions = { protocolVersion: 5, clientId: to.clientId, clean: true, reconnectPeriod: 3_000, connectTimeout: 20_000, createWebsocket: patientSocket };
    if (to.user !== "") Object.assign(options, { username: to.user, password: to.password });
    const client = mqtt.connect(to.url, options);
    this.client = client;
    const own = (then: () => void) => (): void => {
      if (this.client === client) then();
    };
    client.on("connect", ({ properties }) => {
      this.packetBytesMax = properties?.maximumPacketSize ?? Infinity;
      this.listener.state(`Connected as ${to.clientId}`, true);
    });
    client.on("reconnect", own(() => this.listener.state("Connecting again …", false)));
    client.on("close", own(() => this.lost()));
    client.on("error", (error) => own(() => this.listener.state(`Not connected: ${error.message || "the broker does not answer"}`, false))());
    client.on("packetreceive", (packet) => own(() => this.refused(packet as Packet))());
    client.on("message", (topic, payload) => this.listener.received({ topic, payload: new TextDecoder().decode(payload) }));
  }

  close(): void {
    const client = this.client;
    this.client = null;
    client?.end(true);
    for (const one of this.waiting) one.fail(new Error("The connection was closed before the broker answered."));
    this.waiting.clear();
  }

  private refused(packet: Packet): void {
    const code = packet?.reasonCode ?? 0;
    if (packet?.cmd !== "disconnect" && !(packet?.cmd === "connack" && code >= REFUSED_FROM)) return;
    if (PASSING.has(code)) return;
    const { reasonString, serverReference } = packet?.properties ?? {};
    const why = reasonString ?? (serverReference === undefined ? `reason 0x${code.toString(16)}` : `it sends its clients to ${serverReference}`);
    this.giveUp(packet?.cmd === "connack" ? `The broker did not let you in: ${why}` : `The broker ended the connection: ${why}`);
  }

  private lost(): void {
    this.listener.state("Not connected", false);
    for (const one of this.waiting) one.losses += 1;
    if ([...this.waiting].some((one) => one.losses >= LOSSES_MAX)) this.giveUp("The connection was lost each time this was sent: the broker may not take it.");
  }

  private giveUp(text: string): void {
    const failed = [...this.waiting];
    this.waiting.clear();
    this.close();
    for (const one of failed) one.fail(new Error(text));
    this.listener.ended(text);
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
    const bytes = new Blob([topic, payload]).size + OVERHEAD_BYTES;
    if (bytes > this.packetBytesMax) return Promise.reject(new Error(`This has about ${bytes.toLocaleString()} bytes, and the broker takes ${this.packetBytesMax.toLocaleString()}.`));
    return this.answered((settle) => client.publish(topic, payload, { qos, ...propertiesOf(userProperties) }, (error, packet) => settle(error, packet as Packet)));
  }

  subscribe(topic: string, qos: 0 | 1 | 2, filter: string, nearM: number | null): Promise<void> {
    const client = this.client;
    if (client === null) return Promise.reject(new Error("Connect first."));
    const whole = joinFilter(filter, nearM);
    const userProperties: Record<string, string> = whole === "" ? {} : { filter: whole };
    return this.answered((settle) => client.subscribe(topic, { qos, ...propertiesOf(userProperties) }, (error, _granted, packet) => settle(error, packet as Packet)));
  }

  unsubscribe(topic: string): void {
    this.client?.unsubscribe(topic);
  }

  /** Refusals come with a sentence from the broker that says more than their code. */
  private answered(ask: (settle: (error: Error | null | undefined, packet: Packet) => void) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { losses: 0, fail: reject };
      this.waiting.add(waiting);
      ask((error, packet) => {
        this.waiting.delete(waiting);
        const inside = (error as { packet?: Packet } | null | undefined)?.packet;
        const reason = packet?.properties?.reasonString ?? inside?.properties?.reasonString;
        if (error) reject(new Error(reason ?? error.message));
        else resolve();
      });
    });
  }
}

interface Waiting {
  losses: number;
  readonly fail: (error: Error) => void;
}

/**
 * The library drops what it has not read yet when a socket closes, and that is what the broker said last: why it closes.
 * So it hears of the end a little later.
 */
function patientSocket(url: string, protocols: string[]): WebSocket {
  const socket = new WebSocket(url, protocols);
  const listen = socket.addEventListener.bind(socket) as (type: string, then: (event: Event) => void) => void;
  socket.addEventListener = (type: string, then: (event: Event) => void): void => {
    listen(type, type === "close" ? (event) => void setTimeout(() => then(event), LAST_WORDS_MS) : then);
  };
  return socket;
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
