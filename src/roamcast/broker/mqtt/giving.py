"""Retained messages for new subscriptions, in portions: others have their turn in between.

A subscription gets those that were kept when it was made, in the order in which they came here, as they are when
their turn comes: one that has been replaced since goes to it as any other message does, and one that was emptied is
gone. The first portion comes with the subscription, and each of the others with an input of its own (`GoOn`), which
the server gives when the portion before was stored and sent, of whatever client that was. For a client that has much
to acknowledge the rest waits until its queue is half empty again.

Whether it is depends, for sessions that end with their connections, on what is not logged. So a walk belongs to one
session, and decides nothing beyond it.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.effects import Gave, Hand
from roamcast.broker.mqtt.events import with_origin
from roamcast.broker.mqtt.positions import last_known
from roamcast.broker.mqtt.properties import is_lasting
from roamcast.broker.mqtt.retained import Retained
from roamcast.broker.mqtt.wishes import RETAINED, ids_of
from roamcast.broker.session import Session
from roamcast.model.event import Event
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.messages import Message, Subscription

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

PORTION = 250
"""So many topics are looked at in a turn: some milliseconds."""


class Walk(Struct):
    """How far one subscription is on its way through what is retained."""

    after: int
    upto: int


class Giving:
    def __init__(self, border: "MqttBorder", audience: Audience, retained: Retained) -> None:
        self.border = border
        self.audience = audience
        self.retained = retained
        self.walks: dict[str, dict[str, Walk]] = {}
        """By client and subscription, those that are not over."""
        self.waiting: dict[str, None] = {}
        """Clients whose queues are too full to go on."""

    def begin(self, session: Session, asked: Subscription, portion: int) -> int:
        """Gives a new subscription what a portion has; how much of the portion is left."""
        name, pattern = asked.filter.text, asked.filter.pattern
        for event, message in last_known(self.border, pattern):
            self._give(session, asked, event, message)
        if not len(self.retained):
            return portion
        walk = Walk(0, self.retained.last)
        portion = self._go(session, asked, walk, portion)
        if walk.after < walk.upto:
            self.walks.setdefault(session.client, {})[name] = walk
            self._go_on_later(session)
        else:
            self.cancel(session.client, name)
        return portion

    def go_on(self, client: str) -> None:
        try:
            self._go_on(client)
        except Exception:
            # A mistake costs this client the rest, and nobody else a turn.
            self.forget(client)
            self.border.emit(Gave(client, False))
            raise

    def _go_on(self, client: str) -> None:
        """A portion for the client's walks, one after the other."""
        session, portion = self.border.sessions.get(client), PORTION
        walks = self.walks.get(client, {})
        while session is not None and walks and portion > 0 and has_room(session):
            name, walk = next(iter(walks.items()))
            asked = session.subscriptions[name].asked
            assert asked is not None
            portion = self._go(session, asked, walk, portion)
            if walk.after >= walk.upto:
                self.cancel(client, name)
        if session is not None and walks:
            self._go_on_later(session)
        else:
            self.border.emit(Gave(client, False))

    def restarted(self) -> None:
        for client in self.walks:
            self.border.emit(Gave(client, True))

    def _go_on_later(self, session: Session) -> None:
        more = has_room(session)
        if not more:
            self.waiting[session.client] = None
        self.border.emit(Gave(session.client, more))

    def has_acknowledged(self, session: Session) -> None:
        """One that waits."""
        if has_room(session):
            del self.waiting[session.client]
            self._go_on_later(session)

    def rest(self, session: Session) -> None:
        """Its client goes to another broker, and takes along what there is room for."""
        for name, walk in self.walks.pop(session.client, {}).items():
            asked = session.subscriptions[name].asked
            if asked is not None and asked.qos:
                self._go(session, asked, walk, len(self.retained) + 1, to_the_brim=True)
        self.forget(session.client)

    def cancel(self, client: str, name: str) -> None:
        walks = self.walks.get(client)
        if walks is not None:
            walks.pop(name, None)
            if not walks:
                self.forget(client)

    def forget(self, client: str) -> None:
        self.walks.pop(client, None)
        self.waiting.pop(client, None)

    def _go(self, session: Session, asked: Subscription, walk: Walk, portion: int, to_the_brim: bool = False) -> int:
        if portion <= 0:
            return 0
        pattern, now_us = asked.filter.pattern, self.border.now_us
        found, through, left = self.retained.look(pattern, walk.after, walk.upto, now_us, portion)
        for number, event, message in found:
            if not (session.window.has_room(message.size_bytes) if to_the_brim else has_room(session)):
                return 0
            walk.after = number
            self._give(session, asked, event, message)
        walk.after = through
        return left

    def _give(self, session: Session, asked: Subscription, event: Event, message: Message) -> None:
        border, name = self.border, asked.filter.text
        if not self.audience.wants_retained(event, session.subscriptions[name].wanted, border.now_us):
            return
        if is_lasting(message):
            session.unseen(event.id, [asked])
        if not message.qos:
            border.goes_ahead(event.publisher.host, event.subject)
        if min(message.qos, asked.qos):
            border.finish(border.give(session, event, 0, (RETAINED, name)))
            return
        for each in border.local.messages_for(session, event, message, name, False):
            seen = batch_of(with_origin(event, each, [asked]))
            border.emit(Hand((session.client,), seen, True, ids_of([asked])))
        border.observation.given_retained(session.client, event, message, [asked])


def has_room(session: Session) -> bool:
    """Half of a queue is left to what is published meanwhile."""
    window = session.window
    bounds = window.bounds
    return (
        2 * (len(window.entries) + len(window.received)) < bounds.entries_max
        and 2 * window.bytes < bounds.bytes_max
        and 2 * (window.next_number - window.first) < bounds.span_max
    )
