"""The application's side of a host: announce, subscribe, raise, and a handler for what arrives.

An application is written once and runs in the simulator and live, whether its events are scoped by a proximity (S) or
by contexts (C): the difference is one argument. Whatever is wrong with a call is said at the call, and nothing has
changed then.
"""

import math
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Protocol, TypeAlias

from msgspec.structs import force_setattr, replace

from roamcast.model.context import Context
from roamcast.model.event import Announcement, BadEvent, Event, EventType, Vocabulary
from roamcast.model.filter import EVERYTHING, Filter, parse_text
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, Shape, check_region, placed
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, BadValue, Point, Value
from roamcast.node.boundary import Announce, Input, Publish, Subscribe, Unannounce, Unsubscribe, Withdraw

Handler: TypeAlias = Callable[[Event], None]
Troubled: TypeAlias = Callable[[str], None]
TROUBLES = frozenset({"subscription_refused", "subscription_off", "neighbours_unknown"})
"""Notes of a node that mean that a subscription does not do what it was made for; their detail is its id."""
PERIOD_MIN_S = 0.001
NAME_MARK = "#"
"""Between a subject, in which it cannot be, and the name of one of its proximities."""


class Ground(Protocol):
    """What a runtime gives an application to stand on."""

    space: Space

    def now_us(self) -> int: ...
    def context(self) -> Context: ...
    def give(self, given: Input) -> None: ...
    def after(self, delay_us: int, action: Callable[[], None]) -> None: ...
    def say(self, text: str) -> None: ...
    def set_attributes(self, attributes: dict[str, Value]) -> None: ...


class Application(Protocol):
    """What runs on a host. `start` is called once, when the host is up."""

    def start(self, port: "Port") -> None: ...


class Port:
    def __init__(self, host: str, ground: Ground, incarnation: int = 0, runs_modulators: bool = True) -> None:
        """`runs_modulators`: whether the protocol of this host has brokers that do."""
        self.host = host
        self.runs_modulators = runs_modulators
        self.ground = ground
        self.vocabulary = Vocabulary()
        self.announcements: dict[str, Announcement] = {}
        self._audiences: dict[str, Scope] = {}
        self.handlers: dict[str, Handler] = {}
        self.troubled: dict[str, Troubled] = {}
        self._ends: list[tuple[int, str]] = []
        """A heap of when subscriptions with a lifetime end."""
        self._incarnation = incarnation
        self._count = 0

    @property
    def me(self) -> Context:
        """Where this host is and how it moves, now."""
        return self.ground.context()

    def announce(
        self,
        event_type: EventType,
        proximity: Shape | None = None,
        *,
        stationary: bool = False,
        period_s: float | None = None,
        name: str = "",
    ) -> None:
        """Promises events of a type, within a proximity if one is given.

        The shape is in metres around this host and moves with it; `stationary` pins it to where the host is now.
        Without a proximity the events go to whom their scopes say. `period_s` is how often it is repeated, if not as
        often as usual. A type may have several proximities, nested or beside each other, each with a `name`.
        """
        if not isinstance(event_type, EventType):
            raise BadEvent(f"announce takes an EventType, not {type(event_type).__name__}")
        if proximity is not None and not isinstance(proximity, Circle | Box | Polygon):
            raise BadEvent("a proximity is a Circle, Box or Polygon in metres around this host")
        key = announcement_key(event_type.subject, name)
        if key in self.announcements:
            raise BadEvent(f"'{key}' is announced already; unannounce it first, or give this proximity another name")
        naval = self.position("announce")
        region: Region | None = None
        if proximity is not None:
            region = placed(proximity, naval, self.ground.space) if stationary else Anchored(proximity, self.host)
            check_region(region, self.ground.space)
        others = [each for each in self.announcements.values() if each.event_type.subject == event_type.subject]
        if any(region == other.proximity for other in others):
            raise BadEvent(f"'{event_type.subject}' has the same proximity already")
        period_us = None if period_s is None else lifetime_us(period_s)
        announcement = Announcement(self._next_id("a"), event_type, self.host, region, naval, period_us)
        self.vocabulary.add(event_type)
        self.announcements[key] = announcement
        self.ground.give(Announce(announcement))

    def unannounce(self, subject: str, name: str = "") -> None:
        key = announcement_key(subject, name)
        announcement = self.announcements.pop(key, None)
        if announcement is None:
            raise BadEvent(f"'{key}' is not announced; announced are {', '.join(self.announcements) or 'none'}")
        self._audiences.pop(announcement.id, None)
        self.ground.give(Unannounce(announcement.id))

    def raise_(
        self,
        subject: str,
        attributes: dict[str, Value] | None = None,
        *,
        lifetime_s: float = 0.0,
        relevance: Scope = EVERYWHERE,
        audience: Scope = EVERYWHERE,
        within: str = "",
    ) -> Event:
        """Publishes an event of an announced type; with a proximity, that is its audience: `within` is its name."""
        # By type first: nearly all are dictionaries, and an abstract class takes long to answer.
        if attributes is not None and type(attributes) is not dict and not isinstance(attributes, Mapping):
            raise BadEvent(f"attributes are names with values, not {type(attributes).__name__}")
        content = dict(attributes or {})
        self.vocabulary.check(subject, content)
        announcement = self.announcements.get(announcement_key(subject, within))
        if announcement is None:
            raise BadEvent(self._why_not_announced(subject, within))
        if announcement.proximity is not None:
            if audience.region is not None:
                raise BadEvent(f"'{subject}' is announced with a proximity; its events take no other audience region")
            known = self._audiences.get(announcement.id) if audience is EVERYWHERE else None
            audience = known or self._within(announcement, audience)
        elif audience is not EVERYWHERE:
            self._check(audience)
        if relevance is not EVERYWHERE:
            self._check(relevance)
        now_us = self.ground.now_us()
        event = Event(
            id=self._next_id("e"),
            subject=subject,
            publisher=self.ground.context(),
            published_us=now_us,
            expires_us=now_us if lifetime_s == 0 else now_us + lifetime_us(lifetime_s),
            attributes=content,
            relevance=relevance,
            audience=audience,
        )
        self.ground.give(Publish(event))
        return event

    def withdraw(self, event_id: str) -> None:
        """Ends an event that was raised with a lifetime: who has not got it yet does not get it any more, but for
        what is on its way. One that has ended already is left alone."""
        if not self._gave_id("e", event_id):
            raise BadValue(f"there is no event '{event_id}' of this host; give the id that raise_ returned")
        self.ground.give(Withdraw(event_id))

    def subscribe(
        self,
        subject: str,
        handler: Handler,
        filter: str | Filter = EVERYTHING,  # noqa: A002 - the word of the model and of the wire
        *,
        lifetime_s: float | None = None,
        interest: Scope = EVERYWHERE,
        publishers: Scope = EVERYWHERE,
        modulator: str = "",
        troubled: Troubled | None = None,
    ) -> str:
        """Wants events of a subject; `handler` gets each one, or what the modulator makes of them at a broker (O1).
        Answers with the subscription's id.

        `troubled` is called with one of `TROUBLES` when it turns out that nothing will come, or nothing more.
        """
        if not callable(handler):
            raise BadValue("subscribe needs a handler to call with each event")
        if modulator and not self.runs_modulators:
            raise BadValue(
                "subscribe with a modulator: only brokers of an overlay run modulators, and this host's protocol is "
                "another one; leave modulator out, or use kind = 'overlay'"
            )
        if not isinstance(filter, str | Filter):
            raise BadValue(f"a filter is text or a Filter, not {type(filter).__name__}")
        now_us = self.ground.now_us()
        subscription = Subscription(
            id=self._next_id("s"),
            subscriber=self.host,
            subject=subject,
            issued_us=now_us,
            expires_us=FOREVER_US if lifetime_s is None else now_us + lifetime_us(lifetime_s),
            filter=parse_text(filter) if isinstance(filter, str) else filter,
            interest=self._check(interest),
            publishers=self._check(publishers),
            modulator=modulator,
        )
        self._forget_expired(now_us)
        self.handlers[subscription.id] = handler
        if troubled is not None:
            self.troubled[subscription.id] = troubled
        if lifetime_s is not None:
            heappush(self._ends, (subscription.expires_us, subscription.id))
        self.ground.give(Subscribe(subscription))
        return subscription.id

    def unsubscribe(self, subscription_id: str) -> None:
        """Ends a subscription; one that has ended, by its lifetime or before, is left alone."""
        self.troubled.pop(subscription_id, None)
        if self.handlers.pop(subscription_id, None) is not None:
            self.ground.give(Unsubscribe(subscription_id))
        elif not self._gave_id("s", subscription_id):
            raise BadValue(f"there is no subscription '{subscription_id}' on this host")

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` now and then every so many seconds."""
        if not PERIOD_MIN_S <= seconds <= FOREVER_US / 1e6:
            raise BadValue(f"every {seconds} s: give a period of at least {PERIOD_MIN_S} s")

        def again() -> None:
            action()
            self.ground.after(round(seconds * 1e6), again)

        again()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        if not callable(action):
            raise BadValue("after needs something to call")
        self.ground.after(lifetime_us(seconds), action)

    def say(self, text: str) -> None:
        """Tells the person who watches."""
        self.ground.say(str(text))

    def set(self, **attributes: Value) -> None:
        """Changes attributes of this host's own context."""
        changed = replace(self.me, attributes={**self.me.attributes, **attributes})
        self.ground.set_attributes(changed.attributes)

    def deliver(self, event: Event, subscription_id: str) -> None:
        """Called by the runtime with what the node delivers."""
        handler = self.handlers.get(subscription_id)
        if handler is not None:
            # One object serves all who hear a frame, and the journal: a handler may change its own copy.
            own: Event = event.__copy__()  # type: ignore[attr-defined]
            force_setattr(own, "attributes", dict(event.attributes))
            handler(own)

    def trouble(self, what: str, subscription_id: str) -> None:
        """Called by the runtime with those notes of the node that are `TROUBLES`."""
        troubled = self.troubled.get(subscription_id)
        if troubled is not None:
            troubled(what)

    def position(self, what: str) -> Point:
        here = self.me.position
        if here is None:
            raise BadValue(f"cannot {what}: this host has no position yet; wait for its location service")
        return here

    def _why_not_announced(self, subject: str, within: str) -> str:
        names = [key.partition(NAME_MARK)[2] for key in self.announcements if key.partition(NAME_MARK)[0] == subject]
        if names:
            return f"'{subject}' has no proximity '{within}'; within is one of {names}"
        return f"'{subject}' is not announced any more; announce it again before raising it"

    def _within(self, announcement: Announcement, audience: Scope) -> Scope:
        """The audience of an event with a proximity; that of most is the same for all events of their type."""
        if audience is not EVERYWHERE:
            return Scope(announcement.proximity, audience.filter)
        whole = self._audiences[announcement.id] = Scope(announcement.proximity)
        return whole

    def _check(self, scope: Scope) -> Scope:
        if not isinstance(scope, Scope):
            raise BadValue(f"expected a Scope, not {type(scope).__name__}; Scope(region, filter) makes one")
        if scope.region is not None:
            check_region(scope.region, self.ground.space)
        return scope

    def _forget_expired(self, now_us: int) -> None:
        while self._ends and self._ends[0][0] < now_us:
            ended = heappop(self._ends)[1]
            self.handlers.pop(ended, None)
            self.troubled.pop(ended, None)

    def _next_id(self, kind: str) -> str:
        self._count += 1
        return f"{self.host}:{kind}{self._incarnation}.{self._count}"

    def _gave_id(self, kind: str, given: str) -> bool:
        number = given.removeprefix(f"{self.host}:{kind}{self._incarnation}.")
        return number != given and number.isdecimal() and int(number) <= self._count


def announcement_key(subject: str, name: str) -> str:
    return f"{subject}{NAME_MARK}{name}" if name else subject


def lifetime_us(seconds: float) -> int:
    if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise BadValue(f"{seconds!r} s; a lifetime or delay is 0 s or more")
    return min(round(seconds * 1e6), FOREVER_US)
