"""What a broker counts, for Prometheus.

Labels are looked up once and kept: on the way of a message a count is one addition. Whoever has a count at hand calls
a method here; whoever asks gets the text of all.
"""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

LinkState: TypeAlias = Literal["down", "connecting", "up"]
ListenerKind: TypeAlias = Literal["tcp", "tls", "ws", "wss"]
ConnectionKind: TypeAlias = Literal["tcp", "tls", "ws", "wss", "http"]
"""`http`: somebody who speaks through the HTTP API."""
RoamDirection: TypeAlias = Literal["in", "out"]

COMMIT_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
QOS = ("0", "1", "2")


class Tally(Struct):
    """Counted since the counters were last asked for: with every message, so it must cost next to nothing."""

    messages: int = 0
    payload_bytes: int = 0


class Metrics:
    def __init__(self) -> None:
        self._in, self._out = [Tally() for _ in QOS], [Tally() for _ in QOS]
        registry = CollectorRegistry()
        self._registry = registry
        kinds = get_args(ConnectionKind)
        connections = Gauge("roamcast_connections", "Connections that are open.", ["listener"], registry=registry)
        self._connections = {kind: connections.labels(kind) for kind in kinds}
        connects = Counter("roamcast_connects", "Connections so far.", ["listener"], registry=registry)
        self._connects = {kind: connects.labels(kind) for kind in kinds}
        self._refused = Family("roamcast_refused", "Connections that were refused.", "cause", registry)
        sessions = Gauge("roamcast_sessions", "Sessions, by where their client is.", ["state"], registry=registry)
        self._sessions_connected, self._sessions_away = sessions.labels("connected"), sessions.labels("away")
        received = Counter("roamcast_messages_in", "Messages from clients.", ["qos"], registry=registry)
        sent = Counter(
            "roamcast_messages_out",
            "Messages to clients: of QoS 1 and 2, those put into sessions.",
            ["qos"],
            registry=registry,
        )
        self._received = [received.labels(qos) for qos in QOS]
        self._sent = [sent.labels(qos) for qos in QOS]
        self._bytes_in = Counter("roamcast_payload_bytes_in", "Payload bytes from clients.", registry=registry)
        self._bytes_out = Counter("roamcast_payload_bytes_out", "Payload bytes to clients.", registry=registry)
        self._dropped = Family("roamcast_messages_dropped", "Messages that will not arrive.", "cause", registry)
        self._locations = Family(
            "roamcast_locations_unused", "OwnTracks locations that did not move their client.", "cause", registry
        )
        self._mistakes = Family("roamcast_mistakes", "Mistakes of ours, by what made them.", "part", registry)
        self._queue_bytes = Gauge("roamcast_queue_bytes", "What waits for clients.", registry=registry)
        self._journal_dropped = Gauge(
            "roamcast_journal_dropped", "Rows of the journal that found no room.", registry=registry
        )
        self._commit_s = Histogram(
            "roamcast_commit_seconds", "Time of a commit to disk.", buckets=COMMIT_S, registry=registry
        )
        self._commit_batches = Histogram(
            "roamcast_commit_batches", "Batches that share a commit.", buckets=BATCHES, registry=registry
        )
        self._clock_behind_s = Gauge(
            "roamcast_clock_behind_seconds", "System clock less the broker's own clock.", registry=registry
        )
        roams = Counter("roamcast_roams", "Sessions that moved to or from here.", ["direction"], registry=registry)
        self._roams = {direction: roams.labels(direction) for direction in get_args(RoamDirection)}
        self._relocations = Family(
            "roamcast_relocations", "Modulators and homes that an overlay moved from here.", "reason", registry
        )
        self._load = Gauge(
            "roamcast_overlay_load", "The share of what a broker of an overlay has.", ["resource"], registry=registry
        )
        self._posts = Gauge(
            "roamcast_overlay_posts", "Subscriptions of an overlay whose modulators work here.", registry=registry
        )
        self._links = Gauge("roamcast_link_state", "1 for the state of a link.", ["peer", "state"], registry=registry)

    def connected(self, listener: ConnectionKind) -> None:
        self._connections[listener].inc()
        self._connects[listener].inc()

    def disconnected(self, listener: ConnectionKind) -> None:
        self._connections[listener].dec()

    def refused(self, cause: str) -> None:
        """`cause` here and below is a word out of few, never something that a client said."""
        self._refused.add(cause)

    def sessions(self, connected: int, away: int) -> None:
        self._sessions_connected.set(connected)
        self._sessions_away.set(away)

    def received(self, qos: int, payload_bytes: int, count: int = 1) -> None:
        """`count` messages with `payload_bytes` in all."""
        tally = self._in[qos]
        tally.messages += count
        tally.payload_bytes += payload_bytes

    def sent(self, qos: int, payload_bytes: int, count: int = 1) -> None:
        """`count` messages with `payload_bytes` in all."""
        tally = self._out[qos]
        tally.messages += count
        tally.payload_bytes += payload_bytes

    def dropped(self, cause: str, count: int = 1) -> None:
        self._dropped.add(cause, count)

    def location_unused(self, cause: str) -> None:
        self._locations.add(cause)

    def failed(self, part: str) -> None:
        self._mistakes.add(part)

    def queue_bytes(self, size_bytes: int) -> None:
        self._queue_bytes.set(size_bytes)

    def journal_dropped(self, rows: int) -> None:
        self._journal_dropped.set(rows)

    def clock_behind(self, seconds: float) -> None:
        self._clock_behind_s.set(seconds)

    def committed(self, seconds: float, batches: int) -> None:
        self._commit_s.observe(seconds)
        self._commit_batches.observe(batches)

    def roamed(self, direction: RoamDirection) -> None:
        self._roams[direction].inc()

    def relocated(self, reason: str) -> None:
        self._relocations.add(reason)

    def overlay_posts(self, count: int) -> None:
        self._posts.set(count)

    def overlay_load(self, **shares: float) -> None:
        for resource, share in shares.items():
            self._load.labels(resource).set(share)

    def link(self, peer: str, state: LinkState) -> None:
        for each in get_args(LinkState):
            self._links.labels(peer, each).set(each == state)

    def render(self) -> bytes:
        for tallies, messages, size in (
            (self._in, self._received, self._bytes_in),
            (self._out, self._sent, self._bytes_out),
        ):
            for tally, counter in zip(tallies, messages, strict=True):
                counter.inc(tally.messages)
                size.inc(tally.payload_bytes)
                tally.messages = tally.payload_bytes = 0
        return generate_latest(self._registry)


class Family:
    """A counter whose one label has values that show up as they come."""

    def __init__(self, name: str, about: str, label: str, registry: CollectorRegistry) -> None:
        self._counter = Counter(name, about, [label], registry=registry)
        self._children: dict[str, Counter] = {}

    def add(self, value: str, count: int = 1) -> None:
        child = self._children.get(value)
        if child is None:
            child = self._children[value] = self._counter.labels(value)
        child.inc(count)
