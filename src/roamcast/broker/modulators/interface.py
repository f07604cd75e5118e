"""A modulator (O1): a consumer's function on events, run inside a broker on the way to that consumer.

It is given one event at a time and answers with none, one or several in its place. It may change what an event says,
never who published it, when, or whom it is for: what comes out is *derived* from what went in. Its state can be taken
out and put into another instance elsewhere, which then goes on as the first would have (O4).
"""

from collections.abc import Mapping
from typing import Protocol

from roamcast.model.event import Event
from roamcast.model.values import BadValue, Value


class BadModulator(BadValue):
    """A modulator that cannot be had here; the message says why and what is allowed."""


class Failed(Exception):
    """One event could not be modulated; `reason` is what to count by."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class Modulator(Protocol):
    def take(self, event: Event, now_us: int) -> list[Event]:
        """What the consumer gets instead of this event."""
        ...

    def state(self) -> bytes:
        """All that `take` depends on besides its arguments."""
        ...

    def load(self, state: bytes) -> None:
        """Goes on from what `state` of another instance answered."""
        ...


def derived(event: Event, attributes: Mapping[str, Value], index: int = 0) -> Event:
    """The event with other attributes. The first one derived from an event keeps its id, so that a journal can follow
    it; the later ones have names of their own."""
    return Event(
        id=event.id if index == 0 else f"{event.id}~{index}",
        subject=event.subject,
        publisher=event.publisher,
        published_us=event.published_us,
        expires_us=event.expires_us,
        attributes=dict(attributes),
        relevance=event.relevance,
        audience=event.audience,
    )
