// Connections to the feeds of all brokers. The first is the one that served the page; each hello names others. One that
// is lost is called again, after a pause that doubles up to a bound.

import { readFrame, type BrokerAddress, type Hello, type Tick } from "./feed.ts";

const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 10_000;

export interface FeedListener {
  /** Which broker is behind an address. */
  met(http: string, broker: string): void;
  hello(hello: Hello): void;
  tick(broker: string, tick: Tick): void;
  lost(broker: string): void;
  /** Something about a connection changed; `statuses()` tells what. */
  changed(): void;
}

export interface FeedStatus {
  readonly name: string;
  readonly http: string;
  readonly state: "calling" | "open" | "waiting";
  readonly retryAtMs: number;
}

interface Feed {
  name: string;
  readonly http: string;
  state: FeedStatus["state"];
  retryAtMs: number;
  pauseMs: number;
}

export class Feeds {
  private readonly feeds: Feed[] = [];

  constructor(private readonly listener: FeedListener) {}

  start(origin: string): void {
    this.add("", origin);
  }

  statuses(): readonly FeedStatus[] {
    return this.feeds;
  }

  /** Where a broker's HTTP endpoints are, for the page: the first one is where the page came from, whatever it calls itself. */
  httpOf(name: string): string | null {
    return this.feeds.find((feed) => feed.name === name)?.http ?? null;
  }

  open(): readonly FeedStatus[] {
    return this.feeds.filter((feed) => feed.state === "open");
  }

  private add(name: string, http: string): void {
    const feed: Feed = { name, http: http.replace(/\/+$/, ""), state: "calling", retryAtMs: 0, pauseMs: RETRY_MS_MIN };
    this.feeds.push(feed);
    this.call(feed);
  }

  private call(feed: Feed): void {
    feed.state = "calling";
    this.listener.changed();
    const socket = new WebSocket(`${feed.http.replace(/^http/, "ws")}/studio/feed`);
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") this.heard(feed, data, socket);
    };
    socket.onclose = () => this.closed(feed);
  }

  private heard(feed: Feed, text: string, socket: WebSocket): void {
    const frame = readFrame(text);
    if (frame === null) return;
    if (frame.kind === "tick") {
      if (feed.state === "open") this.listener.tick(feed.name, frame);
      return;
    }
    this.listener.met(feed.http, frame.broker);
    if (this.feeds.some((other) => other !== feed && other.name === frame.broker)) {
      // The same broker under another address: one feed of it is enough.
      this.feeds.splice(this.feeds.indexOf(feed), 1);
      socket.onclose = null;
      socket.close();
      return;
    }
    feed.name = frame.broker;
    feed.state = "open";
    feed.pauseMs = RETRY_MS_MIN;
    this.listener.hello(frame);
    this.listener.changed();
    frame.brokers.forEach((address) => this.meet(address));
  }

  private meet(address: BrokerAddress): void {
    const known = this.feeds.some((feed) => feed.name === address.name || feed.http === address.http);
    if (!known && address.http) this.add(address.name, address.http);
  }

  private closed(feed: Feed): void {
    if (feed.state === "open") this.listener.lost(feed.name);
    feed.state = "waiting";
    const pause = feed.pauseMs * (0.75 + Math.random() / 2);
    feed.retryAtMs = Date.now() + pause;
    feed.pauseMs = Math.min(RETRY_MS_MAX, feed.pauseMs * 2);
    setTimeout(() => this.call(feed), pause);
    this.listener.changed();
  }
}
