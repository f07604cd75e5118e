"""What a broker has written into the journal, in the words of the model, so that it can be audited (P2).

The pipeline computes from moves, subscriptions and publications what an ideal system delivers, and holds it against
the deliveries. So each of them must say what the broker was asked to do, at the time at which it did it:

- A client is there as long as its session, connected or not: what it wants waits for it. It is gone when the session
  ends, and not when it goes on to another broker.
- A message holds at the moment of its publication, unless it lasts (`persist`): its expiry interval says until when
  it may be delivered, and not that it waits for who comes later.
- A delivery is written by the broker that gave it to the client's session first. Where a client roams with deliveries
  that it has not acknowledged, the next broker sends them again and does not write them again.
- What the model has no word for is left out on both sides: shared subscriptions and those without what their client
  says itself (No Local). A retained message that a new subscription is given is a note.

These are effects that the runtime carries out at once, not after a commit: only so are the times in the journal those
at which the broker matched.

Whoever looks on without a journal (`onlooker.py`) is told of the same from here, without what the journal leaves out.
"""

from collections.abc import Callable, Iterable
from typing import cast

from msgspec.structs import replace

from roamcast.live.broker.effects import (
    AnyEffect,
    RecordContext,
    RecordDelivery,
    RecordGone,
    RecordNote,
    RecordPublication,
    RecordSubscription,
    Remark,
)
from roamcast.live.broker.modulating import MADE_OF
from roamcast.live.broker.onlooker import GuardedOnlooker, Onlooker
from roamcast.live.broker.properties import is_lasting, subscription_id
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.mqtt.messages import Message
from roamcast.mqtt.messages import Subscription as Asked

RETAINED_GIVEN = "retained_given"


class Chronicle:
    onlooker: Onlooker | None = None
    """Of this life of the process alone."""

    def __init__(self, emit: Callable[[AnyEffect], None]) -> None:
        self.on = False
        """Whether anybody keeps a journal."""
        self._emit = emit

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "onlooker"}

    def look_on(self, onlooker: Onlooker, failed: Callable[[], None] = lambda: None) -> None:
        """Up to its first mistake; then it is told nothing more, and `failed` is called."""

        def over(what: str, problem: Exception) -> None:
            self.onlooker = None
            self._emit(Remark("onlooker_failed", f"{what}: {problem!r}"))
            failed()

        self.onlooker = cast(Onlooker, GuardedOnlooker(onlooker, over))

    def here(self, context: Context) -> None:
        if self.on:
            self._emit(RecordContext(context))
        if self.onlooker is not None:
            self.onlooker.here(context)

    def away(self, client: str) -> None:
        if self.onlooker is not None:
            self.onlooker.away(client)

    def gone(self, client: str) -> None:
        if self.on:
            self._emit(RecordGone(client))
        if self.onlooker is not None:
            self.onlooker.gone(client, None)

    def roamed(self, client: str, to: str) -> None:
        if self.on:
            self._emit(RecordGone(client, elsewhere=True))
        if self.onlooker is not None:
            self.onlooker.gone(client, to)

    def subscribed(self, asked: Asked, wanted: Subscription) -> None:
        if self.on and is_told(asked):
            self._emit(RecordSubscription(wanted.subscriber, wanted.id, wanted))
        if self.onlooker is not None:
            self.onlooker.subscribed(wanted)

    def withdrawn(self, asked: Asked, wanted: Subscription) -> None:
        if self.on and is_told(asked):
            self._emit(RecordSubscription(wanted.subscriber, wanted.id, None))
        if self.onlooker is not None:
            self.onlooker.withdrawn(wanted)

    def published(self, client: str, event: Event, message: Message) -> None:
        if self.on:
            lasts = is_lasting(message)
            self._emit(RecordPublication(client, event if lasts else replace(event, expires_us=event.published_us)))
        if self.onlooker is not None:
            self.onlooker.published(client, event)

    def delivered(self, client: str, event: Event, asked: Iterable[Asked]) -> None:
        if self.on:
            for each in asked:
                if is_told(each):
                    name = subscription_id(client, each.filter.text)
                    self._emit(RecordDelivery(client, original(event), name))
        if self.onlooker is not None:
            self.onlooker.delivered(client, event)

    def given_retained(self, client: str, event: Event, message: Message, asked: Iterable[Asked]) -> None:
        """To a subscription that came after it."""
        if is_lasting(message):
            self.delivered(client, event, asked)
            return
        if self.on:
            self._emit(RecordNote(client, RETAINED_GIVEN, original(event).id))
        if self.onlooker is not None:
            self.onlooker.delivered(client, event)


def is_told(asked: Asked) -> bool:
    return asked.filter.group is None and not asked.no_local


def original(event: Event) -> Event:
    """Under the name that it had before it was told apart from what others get of it."""
    name, made, _ = event.id.partition(MADE_OF)
    return replace(event, id=name) if made else event
