"""One node of the proximity protocol by itself: what it hears is made up, and its timers fire when they are due."""

from collections import Counter
from itertools import count
from random import Random

from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.adhoc.proximity.messages import Announced, Raised
from roamcast.adhoc.proximity.node import Proximity
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Context
from roamcast.model.event import Announcement, ContentType, Delivery, Event, EventType
from roamcast.model.region import Anchored, Circle, Region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Velocity
from roamcast.node.boundary import (
    Broadcast,
    Deliver,
    Does,
    Input,
    Message,
    Note,
    Received,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
)

ORIGIN = Point(0.0, 0.0)
STILL = Velocity(0.0, 0.0)
SECOND_US = 1_000_000
FOREVER_US = 10**15
ORDERED = Delivery(order="sender")


class Lone:
    """A consumer `c` at a point, at a time in seconds."""

    def __init__(self, params: ProximityParams | None = None, x: float | None = 50.0) -> None:
        self.node = Proximity(params or ProximityParams(), Random(1))
        self.now_us = 0
        self.timers: dict[str, int] = {}
        self.said: list[Message] = []
        self.delivered: list[tuple[str, str]] = []
        self.notes: Counter[str] = Counter()
        self.rounds = count(1)
        self.give(Start(Context("c", None if x is None else Point(x, 0.0), 0, STILL)))

    def give(self, given: Input) -> list[Does]:
        effects = self.node.handle(self.now_us, given)
        for effect in effects:
            match effect:
                case SetTimer(name, at_us):
                    self.timers[name] = at_us
                case Broadcast(message):
                    self.said.append(message)
                case Deliver(event, subscription_id):
                    self.delivered.append((event.id, subscription_id))
                case Note(what):
                    self.notes[what] += 1
                case _:
                    pass
        return effects

    def run(self, until_s: float) -> None:
        until_us = round(until_s * SECOND_US)
        while self.timers:
            name = min(self.timers, key=lambda each: self.timers[each])
            if self.timers[name] > until_us:
                break
            self.now_us = max(self.now_us, self.timers.pop(name))
            self.give(TimerFired(name))
        self.now_us = until_us

    def subscribe(self, name: str, subject: str = "s", publishers: Scope = EVERYWHERE) -> None:
        self.give(Subscribe(Subscription(name, "c", subject, self.now_us, FOREVER_US, publishers=publishers)))

    def hear(self, message: Message, group: int = DISCOVERY_GROUP) -> list[Does]:
        return self.give(Received(message, "p", group))

    def beacon(
        self, said: Announcement, latest: int = 0, lasting: tuple[int, ...] = (), x: float = 0.0
    ) -> list[Does]:
        return self.hear(
            Announced(Point(x, 0.0), STILL, self.now_us, next(self.rounds), False, 0, said, latest, lasting)
        )

    def event(self, said: Announcement, number: int, lifetime_s: int = 600, replay: int = 0) -> list[Does]:
        """Number `number` of an announcement's stream comes, raised at 0 s if it is a replay."""
        raised_us = 0 if replay else self.now_us
        audience = Scope(said.proximity)
        producer = Context("p", ORIGIN, raised_us, STILL)
        ends_us = raised_us + lifetime_s * SECOND_US
        event = Event(f"e{number}", said.event_type.subject, producer, raised_us, ends_us, audience=audience)
        age_us = self.now_us - raised_us
        message = Raised(event, said.id, said.id, number, False, age_us, said.event_type.delivery, replay)
        return self.hear(message, self.node.discovery.relevant[said.id].group)

    def got(self, subscription_id: str) -> list[str]:
        return [event for event, subscription in self.delivered if subscription == subscription_id]


def announcement(
    delivery: Delivery | None = None,
    subject: str = "s",
    name: str = "p:a",
    proximity: Region | None = None,
    **content: ContentType,
) -> Announcement:
    around = proximity or Anchored(Circle(ORIGIN, 100.0), "p")
    return Announcement(name, EventType(subject, content, delivery or Delivery()), "p", around, ORIGIN)
