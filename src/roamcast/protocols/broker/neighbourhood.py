"""A broker's neighbours: who they are, what is said to them, and what becomes of them when their link goes down.

A link that goes down takes a neighbour away only when it stays down for longer than the patience, or when more waits
for it than the bound; until then its wishes stand and what it should get waits in its stream (`steady.py`).
"""

from collections.abc import Callable

from roamcast.model.space import Space
from roamcast.node.boundary import CancelTimer, Does, Note, SetTimer
from roamcast.protocols.broker.messages import Between, Carried, Got, Hello
from roamcast.protocols.broker.params import BrokerParams
from roamcast.protocols.broker.router import Router, Said
from roamcast.protocols.broker.steady import Stream, Streams


class Neighbourhood:
    def __init__(
        self, life: int, params: BrokerParams, space: Space, in_tree: Callable[[str], bool] | None = None
    ) -> None:
        """`in_tree` says with which neighbours wishes are exchanged, where the links are more than a tree (M4)."""
        self.params = params
        self.in_tree = in_tree
        self.streams = Streams(life)
        self.router = Router(params.routing, space, params.merged_wishes_max, params.wishes_max)

    def say(self, said: Said) -> list[Does]:
        """Numbers what is said, so the effects of two calls must be performed in the order of the calls."""
        effects: list[Does] = []
        for peer, message in said:
            stream = self.streams.of.get(peer)
            if stream is None:
                effects.append(Note("no_neighbour", peer))
                continue
            effects += stream.say(message)
            if len(stream.waiting) > self.params.stream_messages_max and not stream.linked:
                effects += [Note("stream_overflow", peer), *self.give_up(peer)]
        return effects

    def link_up(self, peer: str) -> list[Does]:
        # From here on both sides must judge alike whether the stream goes on, so nobody gives up any more.
        return [CancelTimer(f"link:{peer}"), self.streams.hello(peer)]

    def greet(self, peer: str, hello: Hello) -> list[Does]:
        """A neighbour that is new, or new again after a crash, is asked for what others want; else the stream goes
        on.
        """
        if self.streams.continues(peer, hello):
            return self.streams.of[peer].resumed(hello)
        effects = self.give_up(peer)
        self.streams.of[peer] = Stream(peer, hello.life)
        if self.in_tree is not None and not self.in_tree(peer):
            return effects
        return [*effects, *self.say(self.router.meet(peer))]

    def take(self, carried: Carried, sender: str) -> tuple[Between | None, list[Does]]:
        stream = self.streams.of.get(sender)
        return (None, [Note("no_neighbour", sender)]) if stream is None else stream.take(carried)

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
        return [CancelTimer(f"link:{peer}"), Note("neighbour_gone", peer), *self.say(self.router.part(peer))]
