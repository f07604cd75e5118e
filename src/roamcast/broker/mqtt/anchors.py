"""Where the clients are that fences move with, at every broker (docs/PROTOCOL.md, section 18).

A fence that is anchored to a client is judged at the brokers of all others. So the broker of the anchor tells each of
its reports to all, with messages that spread as retained ones do (`keeping.py`), under a topic that no client can
name. Each broker remembers when it learned which place, for `ANCHOR_KEPT_US`: the way of a host is seen from the
anchor, and where that was at the host's last report counts as much as where it is now.

An anchor that hides, or that is nowhere, has no place; of one that is shown coarsely the coarse place counts. While
no fence moves with it, a client is not told of.
"""

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from roamcast.broker.messages import Notified
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.positions import shown
from roamcast.broker.mqtt.retained import order_of
from roamcast.broker.router import CLIENT
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.fence import ANCHOR_KEPT_US
from roamcast.model.values import Point
from roamcast.mqtt.messages import Message

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

ANCHOR_TOPIC = "$roam/anchor/"
PLACES_MAX = 256
"""Of one anchor."""
ANCHORS_MAX = 100_000

_decoder = msgspec.json.Decoder(tuple[float, float] | None)


class Anchors:
    def __init__(self, border: "MqttBorder", events: Events) -> None:
        self.border = border
        self.events = events
        self.last: dict[str, Event] = {}
        """By client, what told of it last."""
        self._places: dict[str, deque[tuple[int, Point | None]]] = {}
        """By client, when this broker learned where it is, the oldest first."""

    def at(self, client: str, before_us: int) -> Point | None:
        """Where it was, as far as was known here before a time; None if that is not known, or not any more."""
        places = self._places.get(client, ())
        if not places or before_us <= self.border.now_us - ANCHOR_KEPT_US:
            return None
        return next((place for learned_us, place in reversed(places) if learned_us < before_us), None)

    def places(self, client: str) -> list[Point]:
        """All that may still count."""
        return [place for _, place in self._places.get(client, ()) if place is not None]

    def last_place(self, client: str) -> Point | None:
        return self._places[client][-1][1]

    # Here.

    def tell(self, context: Context) -> None:
        """A client here that fences move with is at its place, or was not told of yet."""
        seen = shown(context, self.border.space)
        self._tell(context.host, None if seen is None else seen.position)

    def over(self, client: str) -> None:
        """Its session has ended."""
        if client in self.last:
            self._tell(client, None)

    def _tell(self, client: str, place: Point | None) -> None:
        payload = msgspec.json.encode(None if place is None else (place.x, place.y))
        message = Message(ANCHOR_TOPIC + client.encode().hex(), payload, 1, True)
        before = self.last.get(client)
        # Later than what it contradicts, though the clock of another broker may be ahead of this one's.
        now_us = self.border.now_us if before is None else max(self.border.now_us, before.published_us + 1)
        event = self.events.event_of(Context(self.border.host), message, now_us)
        self.border.finish(self.border.route(Notified(event, 0), CLIENT))

    # Anywhere.

    def keep(self, event: Event, message: Message) -> str | None:
        """Of whom it tells; None if it is nothing that a broker says, nothing new, or there is no room for it."""
        try:
            client = bytes.fromhex(message.topic.removeprefix(ANCHOR_TOPIC)).decode()
            told = _decoder.decode(message.payload)
        except (ValueError, msgspec.MsgspecError):
            return None
        before = self.last.get(client)
        if before is None and len(self.last) >= ANCHORS_MAX:
            return None
        if before is not None and order_of(before) >= order_of(event):
            return None
        self.last[client] = event
        places = self._places.setdefault(client, deque(maxlen=PLACES_MAX))
        places.append((self.border.now_us, None if told is None else Point(*told)))
        while len(places) > 1 and places[1][0] < self.border.now_us - ANCHOR_KEPT_US:
            places.popleft()
        return client
