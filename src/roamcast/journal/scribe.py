"""From what a host's runtime observes to the journal's records: the observer that writes things down.

It turns each call into one record. A change of attributes is
journalled only when there is one, since most moves leave them as they are.
"""

from typing import TYPE_CHECKING

from roamcast.journal.records import (
    Announced,
    ContextChange,
    Delivered,
    Move,
    Noted,
    Published,
    Subscribed,
    Transmitted,
    Unannounced,
    Unsubscribed,
    UnwritableRecord,
)
from roamcast.model.context import Context
from roamcast.model.event import Announcement, Event
from roamcast.model.subscription import Subscription
from roamcast.model.values import Value
from roamcast.node.observer import Observer

if TYPE_CHECKING:
    from roamcast.journal.writer import Recorder


class Scribe(Observer):
    def __init__(self, journal: "Recorder", shared: bool = False) -> None:
        """`shared`: others may write of the same hosts, in journals of their own."""
        self._shared = shared
        self.record = journal.record
        self._attributes: dict[str, dict[str, Value]] = {}

    def moved(self, now_us: int, context: Context) -> None:
        self.record(
            Move(
                context.host,
                now_us,
                context.position,
                context.velocity,
                context.destination,
                context.pause_us,
                context.pause_left_us,
            )
        )
        if self._attributes.get(context.host) != context.attributes:
            self._attributes[context.host] = context.attributes
            self.record(ContextChange(context.host, now_us, context.attributes))

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        if self._shared:
            # Its next context is written whole: somebody else may have written others meanwhile.
            self._attributes.pop(host, None)
        if to is None:
            self.record(Move.gone(host, now_us))

    def published(self, now_us: int, host: str, event: Event) -> None:
        self._record_or_note(Published(host, now_us, event))

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self._record_or_note(Subscribed(host, now_us, subscription))

    def _record_or_note(self, record: Published | Subscribed) -> None:
        """What a peer sends must not stop a host, even a filter that has no text."""
        try:
            self.record(record)
        except UnwritableRecord as problem:
            self.record(Noted(record.host, record.at_us, "unwritable_record", str(problem)))

    def unsubscribed(self, now_us: int, host: str, subscription_id: str) -> None:
        self.record(Unsubscribed(host, now_us, subscription_id))

    def announced(self, now_us: int, host: str, announcement: Announcement) -> None:
        self.record(Announced(host, now_us, announcement))

    def unannounced(self, now_us: int, host: str, announcement_id: str) -> None:
        self.record(Unannounced(host, now_us, announcement_id))

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.record(Delivered(host, now_us, event.id, subscription_id, host))

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        self.record(Noted(host, now_us, what, detail))

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        self.record(Transmitted(host, now_us, message_type, size_bytes, to, event_id))
