"""What an ideal system would deliver: one that knows every host's context at once (C12's yardstick).

Every pair of an event and a subscription is looked at when the younger of the two appears, and then, while both
live, ten times a second, because hosts move and attributes change. What holds for less than that between two looks
may be overlooked: of the town scenario's 1,538 pairs looks 20 ms apart find all, 100 ms apart 1,535, a second apart
1,504. An instantaneous event or subscription is looked at once only. A pair that can never match, because of its
subjects or because two fixed regions lie apart, is not looked at again, and one whose regions nobody comes to for a
while not until then. All this is only faster than asking `matches` for each pair; a test holds the two against each
other.

Time is true time throughout. Hosts stamp events and subscriptions by their own clocks, which may be wrong; so both
are taken to begin when they are observed, and to live for as long as their stamps are apart.

A host that is down expects nothing. When it stops, because it crashed or left, its subscriptions end with it: what
its application wants after a restart it must subscribe to again. Its events live on, as those of a producer that
went out of range do.
"""

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Anchored, bounds
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subject import subject_matches
from roamcast.model.subscription import Subscription
from roamcast.node.observer import Observer
from roamcast.sim.instant import Instant
from roamcast.sim.observers import begun, issued
from roamcast.sim.world import World

PERIOD_US = 100_000
PLANE = Plane()


class Pair:
    """An event and a subscription that do not match yet, and still may."""

    __slots__ = ("ends_us", "event", "nobody_until_us", "subscription")

    def __init__(self, event: Event, subscription: Subscription) -> None:
        self.event = event
        self.subscription = subscription
        self.ends_us = min(event.expires_us, subscription.expires_us)
        self.nobody_until_us = 0
        """Before this nobody is where both of its regions are."""


class Ideal(Observer):
    def __init__(self, period_us: int = PERIOD_US) -> None:
        self.period_us = period_us
        self.world: World | None = None
        self.expected: dict[tuple[str, str], int] = {}
        """(event, subscription) → when the ideal system would have delivered it."""
        self.events: dict[str, Event] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.open: dict[tuple[str, str], Pair] = {}
        self._instant: Instant | None = None
        self._awake = False

    def watch(self, world: World) -> None:
        self.world = world

    def instant(self) -> Instant:
        """K(now), shared by all who ask at the same time."""
        assert self.world is not None
        if self._instant is None or self._instant.now_us != self.world.kernel.now_us:
            self._instant = self.world.configuration()
        return self._instant

    def moved(self, now_us: int, context: Context) -> None:
        self._instant = None

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        self._instant = None
        for each in [each for each in self.subscriptions.values() if each.subscriber == host]:
            self.unsubscribed(now_us, host, each.id)

    def published(self, now_us: int, host: str, event: Event) -> None:
        event = begun(event, now_us)
        self.subscriptions = {key: each for key, each in self.subscriptions.items() if each.expires_us >= now_us}
        for subscription in self.subscriptions.values():
            self._consider(now_us, event, subscription)
        self.events[event.id] = event

    def withdrawn(self, now_us: int, host: str, event_id: str) -> None:
        if self.events.pop(event_id, None) is not None:
            self.open = {pair: each for pair, each in self.open.items() if pair[0] != event_id}

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        subscription = issued(subscription, now_us)
        self.events = {key: each for key, each in self.events.items() if each.expires_us >= now_us}
        for event in self.events.values():
            self._consider(now_us, event, subscription)
        self.subscriptions[subscription.id] = subscription

    def unsubscribed(self, now_us: int, host: str, subscription_id: str) -> None:
        if self.subscriptions.pop(subscription_id, None) is not None:
            self.open = {pair: each for pair, each in self.open.items() if pair[1] != subscription_id}

    def _consider(self, now_us: int, event: Event, subscription: Subscription) -> None:
        if not subject_matches(subscription.subject, event.subject):
            return
        pair = (event.id, subscription.id)
        if self.instant().matches(event, subscription, now_us):
            self.expected.setdefault(pair, now_us)
        elif not lie_apart(event.relevance, subscription.interest):
            self.open[pair] = Pair(event, subscription)
            self._wake(now_us)

    def _wake(self, now_us: int) -> None:
        assert self.world is not None
        if not self._awake:
            self._awake = True
            self.world.kernel.at((now_us // self.period_us + 1) * self.period_us, self._look_again)

    def _look_again(self) -> None:
        assert self.world is not None
        now_us, instant = self.world.kernel.now_us, self.instant()
        done: list[tuple[str, str]] = []
        for key, pair in self.open.items():
            if now_us >= pair.nobody_until_us:
                event, subscription = pair.event, pair.subscription
                pair.nobody_until_us = instant.nobody_until(event.relevance, subscription.interest)
                if pair.nobody_until_us <= now_us and instant.matches(event, subscription, now_us):
                    self.expected.setdefault(key, now_us)
                    done.append(key)
                    continue
            if now_us >= pair.ends_us:
                done.append(key)
        for key in done:
            del self.open[key]
        self._awake = False
        if self.open:
            self._wake(now_us)


def lie_apart(one: Scope, other: Scope) -> bool:
    """Whether the two have regions that never share a point, wherever hosts go."""
    if one.region is None or other.region is None:
        return False
    if isinstance(one.region, Anchored) or isinstance(other.region, Anchored):
        return False
    a, b = bounds(one.region, PLANE), bounds(other.region, PLANE)
    return a.high.x < b.low.x or b.high.x < a.low.x or a.high.y < b.low.y or b.high.y < a.low.y
