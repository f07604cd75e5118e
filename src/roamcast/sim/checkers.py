"""Checkers watch a run and fail it. A failure says what went wrong, when, and with which seed it happens again.

Safety is checked as things happen (nothing twice, nothing unwanted, nothing out of order); liveness at the end
(everything that the ideal system delivers has arrived).
"""

from typing import Literal, NoReturn, TypeAlias, assert_never

from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.node.observer import Observer
from roamcast.sim.ideal import Ideal
from roamcast.sim.observers import begun, issued
from roamcast.sim.world import World

Check: TypeAlias = Literal["no-duplicates", "only-matching", "sender-order", "complete"]
CHECKS: tuple[Check, ...] = ("no-duplicates", "only-matching", "sender-order", "complete")

FLIGHT_US_MAX = 1_000_000
"""How long a message may be on its way."""


class CheckFailed(Exception):
    """A run broke a promise; `repeat` is the command that shows it again."""

    def __init__(self, check: str, what: str, now_us: int, seed: int) -> None:
        super().__init__(f"{check} failed at {now_us / 1e6:.6f} s with seed {seed}: {what}")
        self.check = check
        self.seed = seed


class Checker(Observer):
    """Base of all checkers. `finish` is called once, after the last step of the run."""

    name: Check

    def __init__(self) -> None:
        self.world: World | None = None

    def watch(self, world: World) -> None:
        self.world = world

    def fail(self, what: str) -> NoReturn:
        assert self.world is not None
        raise CheckFailed(self.name, what, self.world.kernel.now_us, self.world.seed)

    def finish(self) -> None: ...


class NoDuplicates(Checker):
    """An event is delivered at most once to a subscription."""

    name = "no-duplicates"

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[str, str]] = set()

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        if (event.id, subscription_id) in self.seen:
            self.fail(f"event '{event.id}' was delivered twice to subscription '{subscription_id}' at '{host}'")
        self.seen.add((event.id, subscription_id))


class OnlyMatching(Checker):
    """What is delivered matches, all five conditions: as everybody is at that moment, or was when the ideal system
    would have delivered it, as long as that is no longer ago than a message takes to travel.

    What has a lifetime must still live when it is delivered, by true time. Something instantaneous cannot: it is
    judged at its own moment. A subscription that was ended, by its host or with it, may still get what was on its
    way, and so may others of an event that was withdrawn.
    """

    name = "only-matching"

    def __init__(self, ideal: Ideal) -> None:
        super().__init__()
        self.ideal = ideal
        self.published_us: dict[str, int] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.ended_us: dict[str, int] = {}
        self.withdrawn_us: dict[str, int] = {}

    def published(self, now_us: int, host: str, event: Event) -> None:
        self.published_us[event.id] = now_us

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self.subscriptions[subscription.id] = issued(subscription, now_us)
        self.ended_us.pop(subscription.id, None)

    def unsubscribed(self, now_us: int, host: str, subscription_id: str) -> None:
        self.ended_us.setdefault(subscription_id, now_us)

    def withdrawn(self, now_us: int, host: str, event_id: str) -> None:
        self.withdrawn_us.setdefault(event_id, now_us)

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        for each in self.subscriptions.values():
            if each.subscriber == host:
                self.ended_us.setdefault(each.id, now_us)

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        what = f"event '{event.id}' was delivered to '{subscription_id}'"
        subscription = self.subscriptions.get(subscription_id)
        if subscription is None or subscription.subscriber != host:
            self.fail(f"{what}, which '{host}' never subscribed")
        if event.id not in self.published_us:
            self.fail(f"{what} at '{host}' but nobody published it")
        ended_us = self.ended_us.get(subscription_id)
        if ended_us is not None and now_us > ended_us + FLIGHT_US_MAX:
            self.fail(f"{what} at '{host}', which had ended at {ended_us / 1e6:.6f} s")
        withdrawn_us = self.withdrawn_us.get(event.id)
        if withdrawn_us is not None and now_us > withdrawn_us + FLIGHT_US_MAX:
            self.fail(f"{what} at '{host}', but was withdrawn at {withdrawn_us / 1e6:.6f} s")
        if not self._right(now_us, begun(event, self.published_us[event.id]), subscription):
            self.fail(f"{what} at '{host}' but does not match it")

    def _right(self, now_us: int, event: Event, subscription: Subscription) -> bool:
        if not event.instantaneous and now_us > event.expires_us:
            return False
        if subscription.issued_us < subscription.expires_us < now_us:
            return False
        expected_us = self.ideal.expected.get((event.id, subscription.id))
        if expected_us is not None and now_us <= expected_us + FLIGHT_US_MAX:
            return True
        moment_us = event.published_us if event.instantaneous else now_us
        return self.ideal.instant().matches(event, subscription, moment_us)


class SenderOrder(Checker):
    """A subscription gets the events of one publisher in the order in which they were published."""

    name = "sender-order"

    def __init__(self) -> None:
        super().__init__()
        self.order: dict[str, int] = {}
        self.latest: dict[tuple[str, str], str] = {}

    def published(self, now_us: int, host: str, event: Event) -> None:
        self.order[event.id] = len(self.order)

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        pair = (event.publisher.host, subscription_id)
        before = self.latest.get(pair)
        if before is not None and self.order[before] > self.order[event.id]:
            self.fail(f"'{subscription_id}' got event '{event.id}' after '{before}', which was published later")
        self.latest[pair] = event.id


class Complete(Checker):
    """At the end, whatever the ideal system would have delivered has been delivered."""

    name = "complete"

    def __init__(self, ideal: Ideal) -> None:
        super().__init__()
        self.ideal = ideal
        self.arrived: set[tuple[str, str]] = set()

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.arrived.add((event.id, subscription_id))

    def finish(self) -> None:
        missing = [pair for pair in self.ideal.expected if pair not in self.arrived]
        if missing:
            event_id, subscription_id = missing[0]
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            self.fail(f"event '{event_id}' never reached subscription '{subscription_id}'{more}")


def make_checker(check: Check, ideal: Ideal) -> Checker:
    match check:
        case "no-duplicates":
            return NoDuplicates()
        case "only-matching":
            return OnlyMatching(ideal)
        case "sender-order":
            return SenderOrder()
        case "complete":
            return Complete(ideal)
        case _:
            assert_never(check)
