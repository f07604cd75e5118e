"""STEAM's latencies and group ids (S13, S7, section 5.3, figures 11 and 12).

What raising an event takes a producer and what delivering one takes a consumer, by the number of types that the
producer announces, of consumers that have subscribed, and of subscriptions to other types that a consumer holds. The
event has the paper's five parameters, the consumer a conjunctive filter with a term for each. Time is the node's own,
with the message encoded or decoded as a live runtime would. Raising includes sending, as the paper's producer latency
does: a datagram over loopback. Delivering includes the call of the handler, and not the network. What the filters
take of both is measured beside it, part by part, on the same nodes and the same event. Numbers take turns, and a
figure is the median of its quietest turn, so that other load on the machine shows as little as can be.
"""

import math
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeAlias

from roamcast.adhoc.proximity.forwarding import covered, holds
from roamcast.adhoc.proximity.messages import MESSAGES
from roamcast.adhoc.proximity.node import Proximity
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Announcement, ContentType, Event, EventType
from roamcast.model.filter import parse_text
from roamcast.model.match import standard_matching
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Instant, Point, Velocity
from roamcast.node.boundary import Announce, Broadcast, Deliver, Message, Publish, Received, Start, Subscribe
from roamcast.node.codec import Codec
from roamcast.papers.experiment import Claim, Experiment, Figures, Findings, Parameters, Plot, apart, between

COUNTS = (1, 10, 20, 40)
"""The paper announces up to 40 types."""
TURNS = 40
EVENTS_A_TURN = 25
PART_CALLS, PART_ROUNDS = 25, 8
"""A part takes less than a clock can tell, so it is called so often in a row, and in each turn so many times: the
shortest counts, whatever else the machine does."""
MEASURED = "measured"
CODEC = Codec(MESSAGES)
CONTENT = {
    "count": ContentType.INTEGER,
    "when": ContentType.TIME,
    "where": ContentType.POSITION,
    "what": ContentType.STRING,
    "level": ContentType.DOUBLE,
}
WANTED = "count > 0 AND when > TIMESTAMP('1970-01-01T00:00:00Z') AND near(where, 500) AND what = 'ice' AND level < 1"


def node_at(host: str, x: float) -> Proximity:
    node = Proximity(ProximityParams(), Random(1))
    node.handle(0, Start(Context(host, Point(x, 0.0), 0, Velocity(0.0, 0.0))))
    return node


def announcement(subject: str) -> Announcement:
    proximity = Anchored(Circle(Point(0.0, 0.0), 200.0), "p")
    return Announcement(f"p:{subject}", EventType(subject, CONTENT), "p", proximity, Point(0.0, 0.0))


def event(number: int, now_us: int) -> Event:
    return Event(
        id=f"p:e{number}",
        subject=MEASURED,
        publisher=Context("p", Point(0.0, 0.0), now_us, Velocity(0.0, 0.0)),
        published_us=now_us,
        expires_us=now_us,
        attributes={"count": 1, "when": Instant(now_us), "where": Point(0.0, 0.0), "what": "ice", "level": 0.5},
        audience=Scope(Anchored(Circle(Point(0.0, 0.0), 200.0), "p")),
    )


def said(effects: Sequence[object]) -> Message:
    """The one frame among the effects."""
    (frame,) = [each for each in effects if isinstance(each, Broadcast)]
    return frame.message


Part: TypeAlias = Callable[[], object]


class Pair:
    """A producer and the consumers that have subscribed, within reach of each other; one of these is measured."""

    def __init__(
        self,
        announcements: int = 1,
        subscribers: int = 1,
        subscriptions: int = 1,
        send: Callable[[bytes], object] = len,
    ) -> None:
        self.send = send
        self.producer = node_at("p", 0.0)
        for number in range(announcements - 1):
            self.producer.handle(0, Announce(announcement(f"other {number}")))
        beacon = CODEC.encode(said(self.producer.handle(0, Announce(announcement(MEASURED)))))
        self.consumers = [node_at(f"c{number}", 50.0) for number in range(subscribers)]
        for number, consumer in enumerate(self.consumers):
            host = f"c{number}"
            for other in range(subscriptions - 1):
                consumer.handle(0, Subscribe(Subscription(f"{host}:{other}", host, f"other {other}", 0, FOREVER_US)))
            wanted = Subscription(f"{host}:s", host, MEASURED, 0, FOREVER_US, parse_text(WANTED))
            consumer.handle(0, Subscribe(wanted))
            consumer.handle(0, Received(CODEC.decode(beacon), "p", 1))
        self.group = self.consumers[0].discovery.relevant[f"p:{MEASURED}"].group
        self.handled: list[Event] = []
        """By the application's handler, which does nothing else."""
        self.raised = 0
        self.taken_us: dict[str, float] = {}
        """By what was measured, the median of its quietest turn."""

    def turn(self) -> None:
        """Some events are raised one after the other, then delivered to one consumer after the other: each has a
        machine of its own, and no other node's work in its caches. What consumers say reaches the producer."""
        raising_ns, delivering_ns = list[int](), list[int]()
        frames = [self._raise(raising_ns) for _ in range(EVENTS_A_TURN)]
        self.handled.clear()
        for number, consumer in enumerate(self.consumers):
            for now_us, encoded in frames:
                started = time.perf_counter_ns()
                effects = consumer.handle(now_us + 400, Received(CODEC.decode(encoded), "p", self.group))
                delivered = effects[-1]
                assert isinstance(delivered, Deliver)
                self.handled.append(delivered.event)
                if number == 0:
                    delivering_ns.append(time.perf_counter_ns() - started)
                for each in effects:
                    if isinstance(each, Broadcast):
                        self.producer.handle(now_us + 800, Received(each.message, f"c{number}", self.group))
        self._took("raising", statistics.median(raising_ns))
        self._took("delivering", statistics.median(delivering_ns))
        for name, part in {**self.raising_parts(), **self.delivering_parts()}.items():
            for _ in range(PART_ROUNDS):
                started = time.perf_counter_ns()
                for _ in range(PART_CALLS):
                    part()
                self._took(name, (time.perf_counter_ns() - started) / PART_CALLS)

    def _took(self, what: str, ns: float) -> None:
        self.taken_us[what] = min(self.taken_us.get(what, math.inf), ns / 1_000)

    def _raise(self, raising_ns: list[int]) -> tuple[int, bytes]:
        self.raised += 1
        now_us = 1_000 * self.raised
        given = Publish(event(self.raised, now_us))
        started = time.perf_counter_ns()
        encoded = CODEC.encode(said(self.producer.handle(now_us, given)))
        self.send(encoded)
        raising_ns.append(time.perf_counter_ns() - started)
        return now_us, encoded

    # What the filters take, each retrieved and matched as the node does it.

    def raising_parts(self) -> dict[str, Part]:
        raised, here, space = event(1, 1_000), Point(0.0, 0.0), Plane()
        discovery, range_m = self.producer.discovery, ProximityParams().radio_range_m

        def proximity_filter() -> object:
            return covered(discovery.relevant[f"p:{MEASURED}"].region, here, here, range_m, space)

        return {
            "raising, subject filter": lambda: discovery.announcement_for(raised),
            "raising, proximity filter": proximity_filter,
        }

    def delivering_parts(self) -> dict[str, Part]:
        raised, here, space = event(1, 1_000), Point(50.0, 0.0), Plane()
        discovery = self.consumers[0].discovery
        (wanted,) = discovery.interests.of(MEASURED)
        me = Context("c0", here, 0, Velocity(0.0, 0.0))
        known = Configuration(space, {me.host: me}, None)

        def proximity_filter() -> object:
            return holds(discovery.relevant[f"p:{MEASURED}"].region, Point(0.0, 0.0), here, space)

        return {
            "delivering, subject filter": lambda: discovery.interests.of(MEASURED),
            "delivering, content filter": lambda: standard_matching(raised, wanted, known),
            "delivering, proximity filter": proximity_filter,
        }


RAISING_FILTERS = ("raising, subject filter", "raising, proximity filter")
DELIVERING_FILTERS = ("delivering, subject filter", "delivering, content filter", "delivering, proximity filter")


@contextmanager
def loopback() -> Iterator[Callable[[bytes], object]]:
    """Sends datagrams to a socket that is there and reads nothing: what is too much for it the kernel drops."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as by,
    ):
        to.bind(("127.0.0.1", 0))
        by.connect(to.getsockname())
        yield by.send


def latencies(parameters: Parameters, _seed: int) -> Figures:
    what = parameters["of"]
    with loopback() as send:
        pairs = {count: Pair(**{what: count}, send=send) for count in COUNTS}
        for _ in range(TURNS):
            for pair in pairs.values():
                pair.turn()
    return {f"{name}@{count}": us for count, pair in pairs.items() for name, us in pair.taken_us.items()}


def flat(of: str, latency: str) -> Callable[[Findings], float]:
    return lambda found: apart(value for _, value in found.where(of=of).along(latency))


def flat_claim(of: str, latency: str, words: str) -> Claim:
    return Claim(
        f"{latency}, 1 to 40 {of}, % from the mean",
        f"as published: '{words}'; within 15 % of the mean"
        " (Times of microseconds vary by a tenth from run to run on a machine that does other work too.)",
        between(flat(of, latency), 0.0, 15.0, ".1f"),
        "A measurement of time: other work on the machine shows in it.",
    )


PRODUCERS_WORDS = "independent of the numbers of announced event types and subscribers"
CONSUMERS_WORDS = "independent of the number of subscriptions"


def mean_us(of: str, latency: str) -> Callable[[Findings], float]:
    def measured(found: Findings) -> float:
        values = [value for _, value in found.where(of=of).along(latency)]
        return sum(values) / len(values) if values else math.nan

    return measured


def filters_share(of: str, whole: str, parts: tuple[str, ...]) -> Callable[[Findings], float]:
    """In percent; the rest is what the paper calls other: marshalling, and sending or the handler."""
    return lambda found: 100 * sum(mean_us(of, part)(found) for part in parts) / mean_us(of, whole)(found)


def events_a_second(found: Findings) -> float:
    return 1e6 / mean_us("announcements", "raising")(found)


LATENCY = Experiment(
    name="steam-latency",
    requirement="S13",
    title="What raising and delivering an event take a node",
    section="5.3, figures 11 and 12",
    about="Medians of the quietest of forty turns, in µs, by part: subject filter, content filter, proximity filter, "
    "each with its retrieval; what they leave is marshalling, and sending over loopback or calling the handler. The "
    "paper has 1.8 ms for raising on a notebook of its time, nearly all of it for marshalling and sending over "
    "802.11b; what can be compared is that scale does not matter, and which part is the largest.",
    measure=latencies,
    settings={
        preset: tuple({"of": of} for of in ("announcements", "subscribers", "subscriptions"))
        for preset in ("quick", "full")
    },
    runs={"quick": 1, "full": 3},
    claims=(
        *(
            flat_claim(of, latency, PRODUCERS_WORDS)
            for of in ("announcements", "subscribers")
            for latency in ("raising", *RAISING_FILTERS)
        ),
        *(flat_claim("subscriptions", latency, CONSUMERS_WORDS) for latency in ("delivering", *DELIVERING_FILTERS)),
        Claim(
            "events raised in a second",
            "as published: 'just above 550 events per second'; at least as many (A processor of today.)",
            between(events_a_second, 550.0, shown=".0f"),
        ),
        Claim(
            "subject and proximity filter, % of raising",
            "shape: 'Marshalling and sending events accounts for the remaining latency', 1.55 + 1.45 of 1,800 µs: "
            "0.17 %; at most 15 (Their network took most of a millisecond, loopback takes microseconds.)",
            between(filters_share("announcements", "raising", RAISING_FILTERS), 0.0, 15.0, ".1f"),
        ),
    ),
    plots=(
        Plot("", "how many", "raising an event, µs", series="of", along=("raising",)),
        Plot("", "announced types", "filters when raising, µs", along=RAISING_FILTERS, where={"of": "announcements"}),
        Plot("", "how many", "delivering an event, µs", series="of", along=("delivering",)),
        Plot(
            "",
            "subscriptions",
            "filters when delivering, µs",
            along=DELIVERING_FILTERS,
            where={"of": "subscriptions"},
        ),
    ),
)


# Group ids.

LETTERS = "abcdefghijklmnopqrstuvwxyz "
ANNOUNCEMENTS = 40


def drawn_name(rng: Random) -> str:
    """14 to 18 characters, as section 5.3 says."""
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(14, 18)))


def announced(parameters: Parameters, seed: int) -> Figures:
    """A producer announces types with one stationary circle; a consumer that wants all joins their groups."""
    rng = Random(f"{seed}/names")
    names: dict[str, None] = {}
    while len(names) < parameters["announcements"]:
        names[drawn_name(rng)] = None
    producer, consumer = node_at("p", 0.0), node_at("c", 50.0)
    circle = Circle(Point(0.0, 0.0), 200.0)
    for number, name in enumerate(names):
        consumer.handle(0, Subscribe(Subscription(f"c:{number}", "c", name, 0, FOREVER_US)))
        given = Announcement(f"p:{number}", EventType(name, CONTENT), "p", circle, Point(0.0, 0.0))
        consumer.handle(0, Received(said(producer.handle(0, Announce(given))), "p", 1))
    groups = [each.group for each in consumer.discovery.relevant.values()]
    return {"groups": len(groups), "collisions": len(groups) - len(set(groups))}


GROUPS = Experiment(
    name="steam-groups",
    requirement="S7, S13",
    title="Group ids of many announcements in one place",
    section="5.3",
    about="Names of 14 to 18 characters, drawn anew in every run; all with the same stationary circle of 200 m. With "
    "24 bits a collision among 40 has a probability of 1 in 21,500, so it may come in a long series of runs.",
    measure=announced,
    settings={preset: ({"announcements": ANNOUNCEMENTS},) for preset in ("quick", "full")},
    runs={"quick": 20, "full": 100},
    claims=(
        Claim(
            "groups that a consumer of all joins",
            "as published: 'Up to 40 announcements have been disseminated concurrently'",
            between(lambda found: found.mean("groups"), 40, 40, ".0f"),
        ),
        Claim(
            "collisions",
            "as published: 'without incurring collisions'",
            between(lambda found: found.total("collisions"), 0, 0, ".0f"),
        ),
    ),
)

EXPERIMENTS = (LATENCY, GROUPS)
