"""The interface of observers, which are told what happens: the journal, the log, the studio, checkers.

Hosts and brokers call an `Observer` directly. Nothing that it does reaches them: it decides nothing, nothing of it is
stored, and one that fails is taken out of the list (`Observers`) with one line in the log.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from roamcast.model.context import Context
from roamcast.model.event import Announcement, Event
from roamcast.model.subscription import Subscription

SubscriptionIds: TypeAlias = Sequence[str | None]
"""None where the model has no words for the subscription."""


class Observer:
    """Ignores everything; whoever derives from it overrides what it cares about.

    `now_us` is the runtime's time, not the host's own clock. At a broker the hosts are its clients.
    """

    # Hosts.

    def moved(self, now_us: int, context: Context) -> None:
        """A host has come, or has told where and what it is."""

    def disconnected(self, now_us: int, host: str) -> None:
        """A client's connection is over; its session may wait for it."""

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        """It is down, has left, or its session is over. With `to`, it is a client of that broker now."""

    # What they want and announce.

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None: ...
    def unsubscribed(self, now_us: int, host: str, subscription_id: str) -> None: ...
    def subscribed_unmodelled(self, now_us: int, host: str, subscription: Subscription) -> None:
        """It says more than the model has words for: it is shared, or leaves out what its client says itself."""

    def unsubscribed_unmodelled(self, now_us: int, host: str, subscription_id: str) -> None: ...
    def announced(self, now_us: int, host: str, announcement: Announcement) -> None: ...
    def unannounced(self, now_us: int, host: str, announcement_id: str) -> None: ...

    # Events.

    def published(self, now_us: int, host: str, event: Event) -> None: ...
    def withdrawn(self, now_us: int, host: str, event_id: str) -> None:
        """Its publisher ended an event before its time."""

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None: ...

    def fanned_out(self, now_us: int, event: Event, hosts: Sequence[str], subscription_ids: SubscriptionIds) -> None:
        """An event was delivered to many at once: to these hosts, each for the subscription in the same place."""
        for host, subscription_id in zip(hosts, subscription_ids, strict=True):
            if subscription_id is not None:
                self.delivered(now_us, host, event, subscription_id)

    def heard(self, now_us: int, peer: str, event: Event) -> None:
        """From a neighbouring broker, before anybody here gets it. What was heard before may be heard again."""

    def forwarded(self, now_us: int, peer: str, event: Event) -> None:
        """To a neighbouring broker; perhaps again, when a link is back."""

    # The rest.

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None: ...

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        """Something worth counting that belongs into the journal."""

    def failed(self) -> None:
        """It made a mistake, and is told nothing more."""


class Observers(Observer):
    """Tells each of a list, up to its first mistake. The list is empty when nobody looks."""

    def __init__(self, failed: Callable[[Observer, str], None] = lambda _, __: None) -> None:
        """`failed` is told once of each that is taken out, and why."""
        self.all: tuple[Observer, ...] = ()
        self.look_at_links = False
        """Whether any of them wants to know what is heard and forwarded."""
        self._tell_failure = failed

    def add(self, observer: Observer) -> None:
        self._look((*self.all, observer))

    def remove(self, observer: Observer) -> None:
        """Also one that is not there any more."""
        self._look(tuple(each for each in self.all if each is not observer))

    def _look(self, observers: tuple[Observer, ...]) -> None:
        self.all = observers
        kinds = [type(each) for each in observers]
        self.look_at_links = any(
            kind.heard is not Observer.heard or kind.forwarded is not Observer.forwarded for kind in kinds
        )

    def _tell(self, what: str, *about: object) -> None:
        for observer in self.all:
            try:
                getattr(observer, what)(*about)
            except Exception as problem:
                self.remove(observer)
                self._tell_failure(observer, f"{what}: {problem!r}")
                observer.failed()

    def moved(self, now_us: int, context: Context) -> None:
        self._tell("moved", now_us, context)

    def disconnected(self, now_us: int, host: str) -> None:
        self._tell("disconnected", now_us, host)

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        self._tell("gone", now_us, host, to)

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self._tell("subscribed", now_us, host, subscription)

    def unsubscribed(self, now_us: int, host: str, subscription_id: str) -> None:
        self._tell("unsubscribed", now_us, host, subscription_id)

    def subscribed_unmodelled(self, now_us: int, host: str, subscription: Subscription) -> None:
        self._tell("subscribed_unmodelled", now_us, host, subscription)

    def unsubscribed_unmodelled(self, now_us: int, host: str, subscription_id: str) -> None:
        self._tell("unsubscribed_unmodelled", now_us, host, subscription_id)

    def announced(self, now_us: int, host: str, announcement: Announcement) -> None:
        self._tell("announced", now_us, host, announcement)

    def unannounced(self, now_us: int, host: str, announcement_id: str) -> None:
        self._tell("unannounced", now_us, host, announcement_id)

    def published(self, now_us: int, host: str, event: Event) -> None:
        self._tell("published", now_us, host, event)

    def withdrawn(self, now_us: int, host: str, event_id: str) -> None:
        self._tell("withdrawn", now_us, host, event_id)

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self._tell("delivered", now_us, host, event, subscription_id)

    def fanned_out(self, now_us: int, event: Event, hosts: Sequence[str], subscription_ids: SubscriptionIds) -> None:
        self._tell("fanned_out", now_us, event, hosts, subscription_ids)

    def heard(self, now_us: int, peer: str, event: Event) -> None:
        self._tell("heard", now_us, peer, event)

    def forwarded(self, now_us: int, peer: str, event: Event) -> None:
        self._tell("forwarded", now_us, peer, event)

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        self._tell("transmitted", now_us, host, message_type, size_bytes, to, event_id)

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        self._tell("noted", now_us, host, what, detail)
