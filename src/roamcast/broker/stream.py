"""Streams between brokers that survive their link (R1 asks for links that lose nothing and keep order).

Each broker numbers what it sends to a neighbour, keeps it until the neighbour has confirmed it, and sends the rest
again when a link that was down comes up. The neighbour takes each number once, in order. Every message confirms what
has come the other way; where nothing goes that way, `Got` does, once in a while. A broker that crashed comes back
with another `life`, and a stream to it begins anew: it has forgotten what it got.

What a neighbour has not confirmed is in three places, the oldest first:

    waiting      in memory, at most a window: sent, or to be sent when the link is up;
    aside        segments, each under a number in the store of the broker's log, not in memory (`Disk`);
    tail         in memory: what is not a whole segment yet.

Only the window is under way. Confirmations make room in it, and the next segment is fetched. A broker without a disk,
as in simulations, keeps all in `waiting` and `tail`.

States of a stream: up, or down since a moment. Guarantee: what is said to a neighbour arrives once, in order, unless
it crashes, or stays away for longer than the patience; then it is given up, as if it had never been there.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from roamcast.broker.frames import NOTHING, packed, unpacked
from roamcast.broker.messages import BrokerMessage, Got, Hello, Notified, Replay, Sequenced
from roamcast.node.boundary import Does, Note, Send

GOT_EVERY: Final = 64
"""How many messages may arrive before the sender is told, if nothing goes to it that tells it anyway."""
GOT_BYTES: Final = 256 * 1024
"""The same in bytes, about."""
WINDOW_MESSAGES = 4_096
"""So many messages are under way to a neighbour, or wait in memory."""
WINDOW_BYTES = 8 * 1024 * 1024
"""The same in bytes, about; but never fewer messages than arrive before they are confirmed."""
SEGMENT_BYTES = 1024 * 1024
SEGMENT_MESSAGES = 4_096
MESSAGE_BYTES: Final = 300
"""What a message takes besides the payload that it carries, about."""


class Disk(Protocol):
    """Where segments are. What is set aside is safe before anything that follows from the same input is seen."""

    def set_aside(self, number: int, body: bytes) -> None: ...
    def fetch(self, peer: str, number: int) -> None:
        """Has it read; what it was is given to `NeighbourBrokers.fetched`."""
        ...

    def goes_late(self, sends: Sequence[Does]) -> None:
        """These messages had waited for room, and go now."""
        ...


class Segment(Struct, frozen=True):
    """Messages of a stream that are not in memory, numbered from `first` on."""

    number: int
    """Its name in the store; no other segment of this broker has had it."""
    first: int
    messages: int
    size_bytes: int


class Stream:
    """What goes to one neighbour and comes from it."""

    def __init__(self, peer: str, peer_life: int) -> None:
        self.peer = peer
        self.peer_life = peer_life
        self.linked = True
        """Whether its link is up."""
        self.up = True
        """Whether the neighbour has said hello on this link, so that messages can go."""
        self.down_us = 0
        """Since when its link is down; 0 if it is not."""
        self.full = False
        """Whether more waits for it than may, so that publications for it are refused."""
        self.sent = 0
        self.waiting: deque[Sequenced] = deque()
        self.waiting_bytes = 0
        self.aside: deque[Segment] = deque()
        self.aside_bytes = 0
        self.tail: deque[Sequenced] = deque()
        self.tail_bytes = 0
        self.fetching = 0
        """The segment that is asked for; 0 if none is."""
        self.salvage: deque[Segment] = deque()
        """What waited for an earlier life of the neighbour: some of it finds its way by itself."""
        self.got = 0
        self.got_bytes = 0
        """Of what has come since the neighbour was told."""
        self.told = 0
        """Up to where the neighbour has been told what has come from it."""
        self.ahead_us = 0
        """By how much the clock of the neighbour is ahead of this broker's, where that is too much to overlook."""
        self.spared_bytes = 0
        """How much more may wait: what was said when the two met."""

    @property
    def kept_bytes(self) -> int:
        """All that is not confirmed, about."""
        return self.waiting_bytes + self.aside_bytes + self.tail_bytes

    @property
    def kept_messages(self) -> int:
        return len(self.waiting) + len(self.tail) + sum([each.messages for each in self.aside])

    def add(self, message: BrokerMessage) -> list[Does]:
        self.sent += 1
        sequenced = Sequenced(self.sent, message, self.got)
        if self.aside or self.tail or self._window_is_full():
            self.tail.append(sequenced)
            self.tail_bytes += size_bytes(message)
            return []
        self.waiting.append(sequenced)
        self.waiting_bytes += size_bytes(message)
        return self._send(sequenced)

    def _send(self, sequenced: Sequenced) -> list[Does]:
        if not self.up:
            return []
        self.told, self.got_bytes = self.got, 0
        return [Send(self.peer, sequenced)]

    def _window_is_full(self) -> bool:
        under_way = len(self.waiting)
        return under_way >= WINDOW_MESSAGES or (under_way > GOT_EVERY and self.waiting_bytes >= WINDOW_BYTES)

    def _has_room(self) -> bool:
        """Half a window: segments are fetched one at a time."""
        under_way = len(self.waiting)
        return under_way <= GOT_EVERY or (
            under_way <= WINDOW_MESSAGES // 2 and self.waiting_bytes <= WINDOW_BYTES // 2
        )

    def confirmed(self, number: int) -> None:
        while self.waiting and self.waiting[0].number <= number:
            self.waiting_bytes -= size_bytes(self.waiting.popleft().message)

    def tail_is_long(self) -> bool:
        return self.tail_bytes >= SEGMENT_BYTES or len(self.tail) >= SEGMENT_MESSAGES

    def cut_tail(self, number: int, unsendable: Callable[[str], None]) -> bytes:
        """All of the tail as a segment."""
        body = packed([each.message for each in self.tail], unsendable)
        self.aside.append(Segment(number, self.tail[0].number, len(self.tail), self.tail_bytes))
        self.aside_bytes += self.tail_bytes
        self.tail.clear()
        self.tail_bytes = 0
        return body

    def wanted_segment(self) -> int | None:
        """Which segment is to be fetched now."""
        if not self.up or self.fetching or not self._has_room():
            return None
        return self.salvage[0].number if self.salvage else self.aside[0].number if self.aside else None

    def fetched(self, number: int, body: bytes) -> tuple[list[BrokerMessage], list[Does]]:
        """The messages of a segment for an earlier life; of any other, what is sent of it now."""
        self.fetching = 0
        if self.salvage and self.salvage[0].number == number:
            return messages_of(self.salvage.popleft(), body), []
        if not self.aside or self.aside[0].number != number:
            return [], []
        segment = self.aside.popleft()
        self.aside_bytes -= segment.size_bytes
        effects: list[Does] = []
        for place, message in enumerate(messages_of(segment, body)):
            sequenced = Sequenced(segment.first + place, message, self.got)
            self.waiting.append(sequenced)
            self.waiting_bytes += size_bytes(message)
            effects += self._send(sequenced)
        return [], effects

    def refilled(self) -> list[Does]:
        """What there is room for now, once nothing older is aside."""
        effects: list[Does] = []
        while self.tail and not self.aside and not self._window_is_full():
            sequenced = self.tail.popleft()
            self.tail_bytes -= size_bytes(sequenced.message)
            self.waiting.append(sequenced)
            self.waiting_bytes += size_bytes(sequenced.message)
            effects += self._send(sequenced)
        return effects

    def resumed(self, hello: Hello) -> list[Does]:
        """The link is up again: whatever the neighbour has not got goes once more."""
        self.up, self.fetching = True, 0
        self.confirmed(hello.got)
        return [Send(self.peer, each) for each in self.waiting]

    def take(self, sequenced: Sequenced) -> tuple[BrokerMessage | None, list[Does]]:
        """The message if it is the next one, and a confirmation now and then."""
        self.confirmed(sequenced.got)
        if sequenced.number != self.got + 1:
            # One that came before is a copy; a gap cannot be on a link that keeps order.
            return None, [Note("stream_gap", self.peer)] if sequenced.number > self.got + 1 else []
        self.got = sequenced.number
        self.got_bytes += size_bytes(sequenced.message)
        if self.got - self.told < GOT_EVERY and self.got_bytes < GOT_BYTES:
            return sequenced.message, []
        self.told, self.got_bytes = self.got, 0
        return sequenced.message, [Send(self.peer, Got(self.got))]


class Streams:
    """The streams of one broker. `life` tells this life of it from earlier ones."""

    def __init__(self, life: int) -> None:
        self.life = life
        self.of: dict[str, Stream] = {}

    def hello(self, peer: str) -> Send:
        stream = self.of.get(peer)
        if stream is not None:
            stream.linked = True
            stream.told, stream.got_bytes = stream.got, 0
        return Send(peer, Hello(self.life, stream.peer_life if stream else 0, stream.got if stream else 0))

    def continues(self, peer: str, hello: Hello) -> bool:
        """Whether both sides know each other from before: then the stream goes on where it was."""
        stream = self.of.get(peer)
        return stream is not None and stream.peer_life == hello.life and hello.peer_life == self.life


def size_bytes(message: BrokerMessage) -> int:
    """About; nothing but bounds depends on it."""
    if type(message) is Notified:
        return MESSAGE_BYTES + len(message.event.body or b"")
    if type(message) is Replay:
        return MESSAGE_BYTES + sum([MESSAGE_BYTES + each.delivery.size_bytes for each in message.events])
    return MESSAGE_BYTES


def messages_of(segment: Segment, body: bytes) -> list[BrokerMessage]:
    """As many as there were, whatever the store gives back: their numbers are taken."""
    messages = unpacked(body)
    return messages if len(messages) == segment.messages else [NOTHING] * segment.messages
