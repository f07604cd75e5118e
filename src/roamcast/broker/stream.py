"""Streams between brokers that survive their link (R1 asks for links that lose nothing and keep order).

Each broker numbers what it sends to a neighbour, keeps it until the neighbour has confirmed it, and sends the rest
again when a link that was down comes up. The neighbour takes each number once, in order. Every message confirms what
has come the other way; where nothing goes that way, `Got` does, once in a while. A broker that crashed comes back
with another `life`, and a stream to it begins anew: it has forgotten what it got.

States of a stream: up, or down since a moment. Guarantee: what is said to a neighbour arrives once, in order, unless
it crashes, or stays away for longer than the patience, or more waits for it than the bound; then it is given up, as
if it had never been there.
"""

from collections import deque
from typing import Final

from roamcast.broker.messages import BrokerMessage, Got, Hello, Sequenced
from roamcast.node.boundary import Does, Note, Send

GOT_EVERY: Final = 64
"""How many messages may arrive before the sender is told, if nothing goes to it that tells it anyway."""


class Stream:
    """What goes to one neighbour and comes from it."""

    def __init__(self, peer: str, peer_life: int) -> None:
        self.peer = peer
        self.peer_life = peer_life
        self.linked = True
        """Whether its link is up."""
        self.up = True
        """Whether the neighbour has said hello on this link, so that messages can go."""
        self.sent = 0
        self.waiting: deque[Sequenced] = deque()
        """Sent, or to be sent when the link is up, and not known to have arrived."""
        self.got = 0
        self.told = 0
        """Up to where the neighbour has been told what has come from it."""
        self.spared = 0
        """How many more may wait: those that were said when the two met."""

    def add(self, message: BrokerMessage) -> list[Does]:
        self.sent += 1
        sequenced = Sequenced(self.sent, message, self.got)
        self.waiting.append(sequenced)
        if not self.up:
            return []
        self.told = self.got
        return [Send(self.peer, sequenced)]

    def confirmed(self, number: int) -> None:
        while self.waiting and self.waiting[0].number <= number:
            self.waiting.popleft()

    def resumed(self, hello: Hello) -> list[Does]:
        """The link is up again: whatever the neighbour has not got goes once more."""
        self.up = True
        self.confirmed(hello.got)
        return [Send(self.peer, each) for each in self.waiting]

    def take(self, sequenced: Sequenced) -> tuple[BrokerMessage | None, list[Does]]:
        """The message if it is the next one, and a confirmation now and then."""
        self.confirmed(sequenced.got)
        if sequenced.number != self.got + 1:
            # One that came before is a copy; a gap cannot be on a link that keeps order.
            return None, [Note("stream_gap", self.peer)] if sequenced.number > self.got + 1 else []
        self.got = sequenced.number
        if self.got - self.told < GOT_EVERY:
            return sequenced.message, []
        self.told = self.got
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
            stream.told = stream.got
        return Send(peer, Hello(self.life, stream.peer_life if stream else 0, stream.got if stream else 0))

    def continues(self, peer: str, hello: Hello) -> bool:
        """Whether both sides know each other from before: then the stream goes on where it was."""
        stream = self.of.get(peer)
        return stream is not None and stream.peer_life == hello.life and hello.peer_life == self.life
