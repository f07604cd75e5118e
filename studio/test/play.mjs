// Plays a town to the page, in place of brokers: for work on the page itself, and for the measure of its smoothness,
// where the number of entities must be exact. What real brokers say is tested in tests/studio.
//
//   node test/play.mjs [--port 8600] [--brokers 3] [--entities 160] [--space earth] [--rate 10]
//     [--events 2] [--moving] [--nomap]
// With --moving everything moves, traffic lights too.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize, resolve } from "node:path";
import { parseArgs } from "node:util";
import { WebSocketServer } from "ws";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "8600" },
    brokers: { type: "string", default: "3" },
    entities: { type: "string", default: "160" },
    space: { type: "string", default: "earth" },
    rate: { type: "string", default: "10" },
    events: { type: "string", default: "2" },
    moving: { type: "boolean", default: false },
    nomap: { type: "boolean", default: false },
  },
});
const dist = resolve(import.meta.dirname, "../../src/roamcast/studio/dist");
const port = Number(values.port);
const earth = values.space === "earth";
const ORIGIN = [24.945, 60.182];
const SIDE_M = 1600;
const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json", ".png": "image/png" };

let seed = 7;
const random = () => {
  seed = (seed * 1664525 + 1013904223) % 4294967296;
  return seed / 4294967296;
};
const place = (x, y) => (earth ? [ORIGIN[0] + x / 55_500, ORIGIN[1] + y / 111_320] : [x, y]);

// Streets: a bent grid, with blocks of houses between them.
const COLUMNS = 12;
const bend = (i, j) => [
  (i / (COLUMNS - 1) - 0.5) * SIDE_M + 60 * Math.sin(j * 0.7) + 18 * Math.sin(i * 5 + j * 3),
  (j / (COLUMNS - 1) - 0.5) * SIDE_M + 50 * Math.sin(i * 0.6) + 18 * Math.cos(i * 4 + j * 2),
];
const crossings = Array.from({ length: COLUMNS }, (_, i) => Array.from({ length: COLUMNS }, (_, j) => bend(i, j)));
const features = [];
const line = (kind, points) =>
  features.push({ type: "Feature", properties: { kind }, geometry: { type: "LineString", coordinates: points.map(([x, y]) => place(x, y)) } });
for (let i = 0; i < COLUMNS; i++) {
  line(i % 5 === 3 ? "path" : "road", crossings[i]);
  line(i % 6 === 2 ? "path" : "road", crossings.map((column) => column[i]));
}
for (let i = 0; i + 1 < COLUMNS; i++)
  for (let j = 0; j + 1 < COLUMNS; j++) {
    if (random() < 0.12) continue;
    const corners = [crossings[i][j], crossings[i + 1][j], crossings[i + 1][j + 1], crossings[i][j + 1]];
    const centre = [0, 1].map((k) => corners.reduce((sum, one) => sum + one[k], 0) / 4);
    const at = (u, v) => {
      const low = corners[0].map((c, k) => c + (corners[1][k] - c) * u);
      const high = corners[3].map((c, k) => c + (corners[2][k] - c) * u);
      return low.map((c, k) => centre[k] + (c + (high[k] - c) * v - centre[k]) * 0.98);
    };
    for (const [u, v] of [[0.14, 0.14], [0.54, 0.14], [0.14, 0.54], [0.54, 0.54]]) {
      if (random() < 0.2) continue;
      const w = 0.2 + random() * 0.12;
      const h = 0.2 + random() * 0.12;
      line("building", [at(u, v), at(u + w, v), at(u + w, v + h), at(u, v + h), at(u, v)]);
    }
  }
const streets = JSON.stringify({ type: "FeatureCollection", features });

const brokers = Array.from({ length: Number(values.brokers) }, (_, k) => {
  const angle = (k / Number(values.brokers)) * 2 * Math.PI + 0.5;
  return { name: `b${k + 1}`, port: port + k, at: [Math.cos(angle) * SIDE_M * 0.3, Math.sin(angle) * SIDE_M * 0.28], sockets: new Set(), out: null };
});
const fresh = () => ({ entities: [], gone: [], regions: [], regions_gone: [], events: [], deliveries: [], handovers: [] });
for (const broker of brokers) broker.out = fresh();
const nearest = ([x, y]) =>
  brokers.reduce((best, one) => (Math.hypot(one.at[0] - x, one.at[1] - y) < Math.hypot(best.at[0] - x, best.at[1] - y) ? one : best));

const MIX = ["car", "car", "car", "car", "person", "person", "bus", "light", "parking", "car", "person", "sensor"];
const entities = Array.from({ length: Number(values.entities) }, (_, n) => {
  const type = n % 60 === 5 ? "ambulance" : MIX[n % MIX.length];
  const i = Math.floor(random() * COLUMNS);
  const j = Math.floor(random() * COLUMNS);
  const still = !values.moving && (type === "light" || type === "parking" || type === "sensor");
  const speed = still ? 0 : type === "person" ? 1.4 : 8 + random() * 6;
  return { id: `${type}-${n + 1}`, type, speed, i, j, to: [i, j], part: 1, at: [...crossings[i][j]], heading: null, home: null, aside: (random() - 0.5) * (still ? 60 : 8) };
});
const ways = new Map();

function step(entity, seconds) {
  if (entity.speed === 0) return;
  const from = crossings[entity.i][entity.j];
  const to = crossings[entity.to[0]][entity.to[1]];
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  entity.part += (entity.speed * seconds) / length;
  if (entity.part >= 1) {
    [entity.i, entity.j] = entity.to;
    const options = [[1, 0], [-1, 0], [0, 1], [0, -1]]
      .map(([a, b]) => [entity.i + a, entity.j + b])
      .filter(([a, b]) => a >= 0 && b >= 0 && a < COLUMNS && b < COLUMNS);
    entity.to = options[Math.floor(random() * options.length)];
    entity.part = 0;
    return;
  }
  const [dx, dy] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
  entity.at = [from[0] + dx * length * entity.part + dy * entity.aside, from[1] + dy * length * entity.part - dx * entity.aside];
  entity.heading = (Math.atan2(dx, dy) * 180) / Math.PI;
}

const told = (entity, broker) => ({ id: entity.id, at: place(...entity.at), heading_deg: entity.heading, type: entity.type, here: entity.home === broker });
const regionsOf = (entity) =>
  entity.type === "ambulance"
    ? [{ id: `a-${entity.id}`, of: entity.id, what: "audience", shape: { circle: { centre: place(...entity.at), radius_m: 180 } }, anchored: entity.id, until_us: null }]
    : entity.type === "person" && Number(entity.id.split("-")[1]) % 4 === 1
      ? [{ id: `n-${entity.id}`, of: entity.id, what: "near", shape: { circle: { centre: place(...entity.at), radius_m: 90 } }, anchored: entity.id, until_us: null }]
      : [];

function settle(entity, now_us) {
  const home = nearest(entity.at);
  if (home === entity.home) return;
  const before = entity.home;
  entity.home = home;
  home.out.regions.push(...regionsOf(entity));
  if (before === null) return;
  before.out.gone.push(entity.id);
  before.out.regions_gone.push(...regionsOf(entity).map((one) => one.id));
  home.out.handovers.push({ client: entity.id, from: before.name, to: home.name, at_us: now_us });
}

const SUBJECTS = { ambulance: "traffic/siren", car: "traffic/braking", bus: "transit/arrival", person: "market/offer", light: "traffic/signal", parking: "parking/free", sensor: "air/quality" };
let count = 0;
function publish(now_us) {
  const from = entities[Math.floor(random() * entities.length)];
  const id = `${from.id}:${++count}`;
  const reach = from.type === "ambulance" ? 260 : 150 + random() * 160;
  const event = { id, subject: SUBJECTS[from.type], from: from.id, at: place(...from.at), published_us: now_us, payload: { value: Math.round(random() * 100), kind: from.type } };
  const parts = new Map();
  for (const [k, broker] of brokers.entries()) {
    const origin = broker === from.home;
    parts.set(broker.name, {
      ...event, expiry_us: null, relevance: null, audience: { region: { circle: { centre: [0, 0], radius_m: Math.round(reach) }, anchored: from.id }, filter: null },
      came_from: origin ? { client: from.id } : { broker: from.home.name }, seen_us: now_us + (origin ? 0 : 2_400 + 800 * k),
      passed_to: origin ? brokers.filter((one) => one !== broker).map((one) => ({ broker: one.name, at_us: now_us + 900 })) : [],
      delivered: [], not_delivered: [], left_out: 0,
    });
    broker.out.events.push(event);
  }
  for (const other of entities) {
    if (other === from || other.speed === 0) continue;
    const distance = Math.hypot(other.at[0] - from.at[0], other.at[1] - from.at[1]);
    const part = parts.get(other.home.name);
    if (distance < reach && part.delivered.length < 12) {
      part.delivered.push({ to: other.id, at_us: now_us + 3_100 + Math.round(distance * 10) });
      other.home.out.deliveries.push({ event: id, to: other.id, at_us: now_us });
    } else if (part.not_delivered.length < 8) {
      part.not_delivered.push(
        other.type === "person"
          ? { to: other.id, subscription: "traffic/#", failed: "filter", why: "The filter kind = 'bus' does not accept it: kind is 'car'." }
          : { to: other.id, subscription: "traffic/#", failed: "audience", why: `It is ${Math.round(distance)} m from the publisher; the audience ends at ${Math.round(reach)} m.` },
      );
    }
  }
  ways.set(id, parts);
  if (ways.size > 1000) ways.delete(ways.keys().next().value);
}

function hello(broker) {
  const address = (one) => ({ name: one.name, http: `http://127.0.0.1:${one.port}`, mqtt: null, place: place(...one.at) });
  return {
    kind: "hello", version: 1, broker: broker.name, space: values.space, at_us: Date.now() * 1000,
    brokers: [address(broker), ...brokers.filter((one) => one !== broker).map(address)],
    map: { geojson: values.nomap ? null : "/studio/map.json", tiles: null, attribution: null, centre: null, zoom: null },
    types: { sensor: { icon: "sensor", colour: null } },
    zones: [{ name: "Old town", shape: { circle: { centre: place(0, 0), radius_m: 220 } }, colour: null }],
  };
}

function tick(broker, out, now_us) {
  const own = entities.filter((one) => one.home === broker).length;
  return {
    kind: "tick", at_us: now_us, ...out,
    load: {
      clients: own, subscriptions: own * 2, published_per_s: Number(values.events) / brokers.length, latency_ms: [3 + random(), 12 + 8 * random()], events_per_s: Number(values.events) / brokers.length + random() * 0.4, deliveries_per_s: Number(values.events) * 3 + random(),
      links: brokers[0] === broker ? brokers.slice(1).map((one) => ({ to: one.name, up: true })) : [{ to: "b1", up: true }],
    },
    left_out: { events: 0, deliveries: 0 },
  };
}

const period_ms = 1000 / Number(values.rate);
let owed = 0;
setInterval(() => {
  const now_us = Date.now() * 1000;
  for (const entity of entities) {
    step(entity, period_ms / 1000);
    settle(entity, now_us);
  }
  owed += (Number(values.events) * period_ms) / 1000;
  for (; owed >= 1; owed--) publish(now_us);
  for (const broker of brokers) {
    broker.out.entities = entities.filter((one) => one.home === broker && one.speed > 0).map((one) => told(one, broker));
    const text = JSON.stringify(tick(broker, broker.out, now_us));
    broker.out = fresh();
    for (const socket of broker.sockets) if (socket.bufferedAmount < 1_000_000) socket.send(text);
  }
}, period_ms);
for (const entity of entities) settle(entity, 0);

function answer(broker, url) {
  const [, , what, ...rest] = url.pathname.split("/");
  const id = decodeURIComponent(rest.join("/"));
  if (what === "clients") {
    const entity = entities.find((one) => one.id === id && one.home === broker);
    if (entity === undefined) return [404, { problem: "not here" }];
    const last = [...ways.values()].map((parts) => parts.get(broker.name)).filter((part) => part.from === id).slice(-5);
    return [200, {
      id, home: broker.name, at: place(...entity.at), attributes: { type: entity.type, speed: Math.round(entity.speed) }, connected: true, waiting: 0,
      subscriptions: [
        { topic: "traffic/#", filter: "severity >= 2 AND near(position, 250)", near_m: 250, interest: null, expiry_us: null },
        { topic: "market/+", filter: null, near_m: null, interest: null, expiry_us: null },
      ],
      last_events: last.map((part) => ({ id: part.id, subject: part.subject, at_us: part.published_us })),
    }];
  }
  if (what === "events") {
    const part = ways.get(id)?.get(broker.name);
    return part === undefined ? [404, { problem: "not seen here" }] : [200, part];
  }
  if (what === "try") {
    const fits = /type\s*=\s*'(\w+)'/.exec(url.searchParams.get("filter") ?? "");
    if (fits === null) return [400, { problem: "column 6: expected a value after '=', such as 'car' or 5" }];
    return [200, { clients: entities.filter((one) => one.home === broker && one.type === fits[1]).map((one) => ({ id: one.id, at: place(...one.at) })), events: [], unknown: 3 }];
  }
  return null;
}

for (const broker of brokers) {
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://x");
    response.setHeader("access-control-allow-origin", "*");
    const answered = answer(broker, url);
    if (url.pathname === "/studio/map.json") return response.setHeader("content-type", "application/json").end(streets);
    if (answered !== null) return response.writeHead(answered[0], { "content-type": "application/json" }).end(JSON.stringify(answered[1]));
    const name = normalize(url.pathname.replace(/^\/studio\/?/, "") || "index.html");
    try {
      const body = await readFile(join(dist, name));
      response.setHeader("content-type", KINDS[extname(name)] ?? "text/plain").end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  new WebSocketServer({ server, path: "/studio/feed" }).on("connection", (socket) => {
    socket.send(JSON.stringify(hello(broker)));
    const all = { ...fresh(), entities: entities.filter((one) => one.home === broker).map((one) => told(one, broker)) };
    all.regions = entities.filter((one) => one.home === broker).flatMap(regionsOf);
    socket.send(JSON.stringify(tick(broker, all, Date.now() * 1000)));
    broker.sockets.add(socket);
    socket.on("close", () => broker.sockets.delete(socket));
  });
  server.listen(broker.port, "127.0.0.1", () => console.log(`${broker.name} http://127.0.0.1:${broker.port}/studio/`));
}
