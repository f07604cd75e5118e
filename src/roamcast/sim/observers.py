"""Observers of a simulation: the tally behind the result table.

Hosts stamp what they publish and subscribe by their own clocks, and observers go by true time: `begun` and `issued`
say the one in terms of the other.
"""

from collections import Counter

from msgspec.structs import replace

from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.node.observer import Observer


def begun(event: Event, now_us: int) -> Event:
    """The event, observed at `now_us`, as a true clock would have stamped it; it lives as long as its stamps say."""
    if event.published_us == now_us:
        return event
    return replace(event, published_us=now_us, expires_us=now_us + event.expires_us - event.published_us)


def issued(subscription: Subscription, now_us: int) -> Subscription:
    """The same for a subscription."""
    if subscription.issued_us == now_us:
        return subscription
    return replace(
        subscription, issued_us=now_us, expires_us=now_us + subscription.expires_us - subscription.issued_us
    )


class Tally(Observer):
    """Counts what the result table shows."""

    def __init__(self) -> None:
        self.events = 0
        self.subscriptions = 0
        self.deliveries: Counter[tuple[str, str]] = Counter()
        self.published_us: dict[str, int] = {}
        self.latencies_us: list[int] = []
        self.notes: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def published(self, now_us: int, host: str, event: Event) -> None:
        self.events += 1
        self.published_us[event.id] = now_us

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self.subscriptions += 1

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.deliveries[(event.id, subscription_id)] += 1
        published_us = self.published_us.get(event.id)
        if published_us is not None:
            self.latencies_us.append(now_us - published_us)

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        self.notes[what] += 1

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        self.messages[message_type] += 1
        self.bytes[message_type] += size_bytes
