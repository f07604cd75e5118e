"""What raising and delivering one event cost a node of the proximity protocol (figures 11 and 12 of STEAM).

The producer announces from 1 to 10,000 other types; the consumer holds from 1 to 10,000 subscriptions to other
subjects. Neither may make an event dearer. The event has the paper's five parameters, the consumer a conjunctive
filter with a term for each. Time is the node's own, with the message encoded or decoded as a live runtime would; the
radio is not in it. The median of many repetitions, so that other load on the machine does not count.
"""

import statistics
import time
from random import Random

from roamcast.model.context import Context
from roamcast.model.event import Announcement, ContentType, Event, EventType
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Instant, Point, Velocity
from roamcast.node.boundary import Announce, Broadcast, Deliver, Publish, Received, Start, Subscribe
from roamcast.node.codec import Codec
from roamcast.protocols.adhoc.proximity.messages import MESSAGES
from roamcast.protocols.adhoc.proximity.node import Proximity
from roamcast.protocols.adhoc.proximity.params import ProximityParams

SCALES = (1, 10, 100, 1_000, 10_000)
REPETITIONS = 2_000
FOREVER_US = 2**53
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


def announcement(subject: str, content: dict[str, ContentType]) -> Announcement:
    proximity = Anchored(Circle(Point(0.0, 0.0), 200.0), "p")
    return Announcement(f"p:{subject}", EventType(subject, content), "p", proximity, Point(0.0, 0.0))


def event(number: int, now_us: int) -> Event:
    return Event(
        id=f"p:e{number}",
        subject="measured",
        publisher=Context("p", Point(0.0, 0.0), now_us, Velocity(0.0, 0.0)),
        published_us=now_us,
        expires_us=now_us,
        attributes={"count": 1, "when": Instant(now_us), "where": Point(0.0, 0.0), "what": "ice", "level": 0.5},
        audience=Scope(Anchored(Circle(Point(0.0, 0.0), 200.0), "p")),
    )


def raising_us(others: int) -> tuple[float, list[bytes], bytes]:
    """The median time to raise, the messages that came of it, and the beacon of the measured type."""
    node = node_at("p", 0.0)
    for number in range(others):
        node.handle(0, Announce(announcement(f"other {number}", CONTENT)))
    beacon = node.handle(0, Announce(announcement("measured", CONTENT)))[-1]
    assert isinstance(beacon, Broadcast)
    taken, messages = [], []
    for number in range(REPETITIONS):
        raised = event(number, 1_000 * number + 1)
        started = time.perf_counter_ns()
        (said,) = node.handle(raised.published_us, Publish(raised))
        assert isinstance(said, Broadcast)
        encoded = CODEC.encode(said.message)
        taken.append(time.perf_counter_ns() - started)
        messages.append(encoded)
    return statistics.median(taken) / 1_000, messages, CODEC.encode(beacon.message)


def delivering_us(others: int, messages: list[bytes], beacon: bytes) -> float:
    node = node_at("c", 50.0)
    for number in range(others):
        node.handle(0, Subscribe(Subscription(f"o{number}", "c", f"other {number}", 0, FOREVER_US)))
    node.handle(0, Subscribe(Subscription("c:s", "c", "measured", 0, FOREVER_US, parse_text(WANTED))))
    node.handle(0, Received(CODEC.decode(beacon), "p", 1))
    group = node.discovery.relevant["p:measured"].group
    taken = []
    for number, message in enumerate(messages):
        started = time.perf_counter_ns()
        effects = node.handle(1_000 * number + 400, Received(CODEC.decode(message), "p", group))
        taken.append(time.perf_counter_ns() - started)
        assert isinstance(effects[-1], Deliver)
    return statistics.median(taken) / 1_000


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    for others in SCALES:
        raising, messages, beacon = raising_us(others)
        delivering = delivering_us(others, messages, beacon)
        print(f"{others:6} other types and subscriptions: raise {raising:5.1f} µs, deliver {delivering:5.1f} µs")
        figures[f"raise_us_{others}"] = raising
        figures[f"deliver_us_{others}"] = delivering
    return figures


if __name__ == "__main__":
    main()
