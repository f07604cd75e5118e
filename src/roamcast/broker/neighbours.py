"""A broker's neighbours: who they are, what is said to them, and what becomes of them when their link goes down.

A link that goes down takes a neighbour away only when it stays down for longer than the patience, or when more waits
for it than the bound; until then its wishes stand and what it should get waits in its stream (`stream.py`).
"""

from collections.abc import Callable

from roamcast.broker.messages import (
    Abandon,
    BrokerMessage,
    Farewell,
    Got,
    Hello,
    NotFound,
    Relocate,
    Replay,
    Sequenced,
)
from roamcast.broker.params import BrokerParams
from roamcast.broker.router import PeerMessages, Router
from roamcast.broker.stream import Stream, Streams
from roamcast.model.space import Space
from roamcast.node.boundary import CancelTimer, Disconnect, Does, Note, Send, SetTimer

UNNUMBERED = 0
ONWARD = (Relocate, Replay, NotFound, Farewell, Abandon)
"""Messages that need nothing of what a broker on their way remembers."""
UNCONFIRMED_MAX = 10_000
"""How much more may wait for a neighbour whose link is up: it may only be slow to confirm."""


class NeighbourBrokers:
    def __init__(
        self, life: int, params: BrokerParams, space: Space, in_tree: Callable[[str], bool] | None = None
    ) -> None:
        """`in_tree` says with which neighbours wishes are exchanged, where the links are more than a tree (M4)."""
        self.params = params
        self.in_tree = in_tree
        self.streams = Streams(life)
        self.router = Router(params.routing, space, params.merged_wishes_max, params.wishes_max)

    def send(self, outgoing: PeerMessages) -> list[Does]:
        """What is said has no number yet: it gets one when its turn comes, in `numbered`."""
        return [Send(peer, Sequenced(UNNUMBERED, message)) for peer, message in outgoing] if outgoing else []

    def numbered(self, effects: list[Does]) -> list[Does]:
        """All effects of one input, with what is said to neighbours numbered in the order in which it goes out.

        A neighbour for which too much waits is given up afterwards, and what that makes others hear follows.
        """
        if not effects:
            return effects
        done: list[Does] = []
        overflowing: dict[str, None] = {}
        for effect in effects:
            if not isinstance(effect, Send) or not isinstance(effect.message, Sequenced) or effect.message.number:
                done.append(effect)
                continue
            stream = self.streams.of.get(effect.to)
            if stream is None:
                done.append(Note("no_neighbour", effect.to))
                continue
            done += stream.add(effect.message.message)
            allowed = self.params.stream_messages_max + stream.spared + (UNCONFIRMED_MAX if stream.linked else 0)
            if len(stream.waiting) > allowed:
                overflowing[effect.to] = None
        for peer in overflowing:
            # Who takes nothing while its link is up is cut off, or it would fill the memory.
            linked = peer in self.streams.of and self.streams.of[peer].linked
            done += [Note("stream_overflow", peer), *([Disconnect(peer)] if linked else [])]
            done += self.numbered(self.give_up(peer))
        return done

    def link_up(self, peer: str) -> list[Does]:
        # From here on both sides must judge alike whether the stream goes on, so nobody gives up any more.
        return [CancelTimer(f"link:{peer}"), self.streams.hello(peer)]

    def greet(self, peer: str, hello: Hello) -> list[Does]:
        """A neighbour that is new, or new again after a crash, is asked for what others want; else the stream goes
        on.
        """
        if self.streams.continues(peer, hello):
            return self.streams.of[peer].resumed(hello)
        waiting = self.streams.of[peer].waiting if peer in self.streams.of else ()
        effects = self.give_up(peer)
        self.streams.of[peer] = Stream(peer, hello.life)
        if self.in_tree is None or self.in_tree(peer):
            effects += self.send(self.router.meet(peer))
        # What finds its way by itself goes once more; events cannot, before the neighbour knows again who wants them.
        return [*effects, *self.send([(peer, each.message) for each in waiting if isinstance(each.message, ONWARD)])]

    def spare(self, peer: str, effects: list[Does]) -> None:
        """What two brokers have to say to each other when they meet is as much as they have clients and wishes: it
        does not count as waiting for too long."""
        stream = self.streams.of.get(peer)
        if stream is not None:
            stream.spared = sum(isinstance(each, Send) and each.to == peer for each in effects)

    def take(self, sequenced: Sequenced, sender: str) -> tuple[BrokerMessage | None, list[Does]]:
        stream = self.streams.of.get(sender)
        return (None, [Note("no_neighbour", sender)]) if stream is None else stream.take(sequenced)

    def confirm(self, got: Got, sender: str) -> None:
        if sender in self.streams.of:
            self.streams.of[sender].confirmed(got.number)

    def link_down(self, now_us: int, peer: str) -> list[Does]:
        stream = self.streams.of.get(peer)
        if stream is None:
            return []
        stream.up = stream.linked = False
        return [SetTimer(f"link:{peer}", now_us + round(self.params.stream_patience_s * 1e6))]

    def give_up(self, peer: str) -> list[Does]:
        """A neighbour is gone, and with it whatever it wanted."""
        if self.streams.of.pop(peer, None) is None:
            return []
        return [CancelTimer(f"link:{peer}"), Note("neighbour_gone", peer), *self.send(self.router.part(peer))]
