"""Whose client ids are, everywhere: a session is its user's also while the broker that has it is down (P-96).

The user of each session that outlives its connection is told to all brokers when the session begins, and taken back
when it ends, with messages that spread as retained ones do (`keeping.py`), under a topic that no client can name. Of
two that contradict each other the later one holds. So a broker can refuse another user at once, without asking a
broker that may not answer.

Where clients have no users nothing is told. Bounded by `OWNERS_MAX`; of what is ended, `ENDED_MAX` are remembered.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from roamcast.broker.messages import Notified
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.retained import ENDED_MAX, order_of
from roamcast.broker.router import CLIENT
from roamcast.broker.session import Session
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.mqtt.messages import Message

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

OWNER_TOPIC = "$roam/owner/"
OWNERS_MAX = 1_000_000


class Owners:
    def __init__(self, border: "MqttBorder", events: Events) -> None:
        self.border = border
        self.events = events
        self.of: dict[str, tuple[Event, str]] = {}
        """By client, what told of it last, and its user."""
        self.ended: dict[str, Event] = {}
        """By client, what ended it; the oldest comes first."""

    def user_of(self, client: str) -> str | None:
        """None if nobody has it, as far as is known."""
        known = self.of.get(client)
        return None if known is None else known[1]

    # Of sessions here.

    def began(self, session: Session) -> None:
        if session.user is None or not session.expiry_s:
            self.over(session.client)
        elif self.user_of(session.client) != session.user and self.border.neighbours.streams.of:
            self._tell(session.client, session.user)

    def over(self, client: str) -> None:
        if client in self.of:
            self._tell(client, "")

    def _tell(self, client: str, user: str) -> None:
        self.border.finish(self.border.route(Notified(self._made(client, user)[0], 0), CLIENT))

    def _made(self, client: str, user: str) -> tuple[Event, Message]:
        message = Message(OWNER_TOPIC + client.encode().hex(), user.encode(), 1, True)
        before = self.of[client][0] if client in self.of else self.ended.get(client)
        # Later than what it contradicts, though the clock of another broker may be ahead of this one's.
        now_us = self.border.now_us if before is None else max(self.border.now_us, before.published_us + 1)
        return self.events.event_of(Context(self.border.host), message, now_us), message

    def gather(self) -> None:
        """Before the first neighbour is told everything: what began while there was none."""
        for session in self.border.sessions.values():
            if session.user is not None and session.expiry_s and session.client not in self.of:
                self.keep(*self._made(session.client, session.user))

    # Of sessions anywhere.

    def keep(self, event: Event, message: Message) -> bool:
        """False if it is nothing that a broker would say, or there is no room for it."""
        try:
            client = bytes.fromhex(message.topic.removeprefix(OWNER_TOPIC)).decode()
            user = message.payload.decode()
        except ValueError:
            return False
        before = self.of[client][0] if client in self.of else self.ended.get(client)
        if before is not None and order_of(before) >= order_of(event):
            return True
        self.of.pop(client, None)
        self.ended.pop(client, None)
        if not user:
            self.ended[client] = event
            if len(self.ended) > ENDED_MAX:
                del self.ended[next(iter(self.ended))]
            self._contradict(client, event)
        elif len(self.of) < OWNERS_MAX:
            self.of[client] = event, user
        else:
            return False
        return True

    def _contradict(self, client: str, ending: Event) -> None:
        """Another broker that was cut off has ended a session that its client had left behind for one here."""
        session = self.border.sessions.get(client)
        if session is not None and ending.publisher.host != self.border.host:
            self.began(session)

    def all(self) -> Iterator[Event]:
        """Everything that another broker must know to be like this one."""
        for event, _ in self.of.values():
            yield event
        yield from self.ended.values()
