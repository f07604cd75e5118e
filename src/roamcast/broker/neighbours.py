"""A broker's neighbours: who they are, what is said to them, and what becomes of them when their link goes down.

A link that goes down takes a neighbour away only when it stays down for longer than the patience, which is days;
until then its wishes stand and what it should get waits in its stream (`stream.py`). Whoever looks for something
behind it waits for seconds: then the neighbour counts as lost, until it is back. When more waits for it than the
bound, a broker with a disk refuses publications for it, and discards nothing; one of a simulation gives it up.
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
from roamcast.broker.stream import WINDOW_BYTES, Disk, Stream, Streams, size_bytes
from roamcast.model.space import Space
from roamcast.node.boundary import CancelTimer, Disconnect, Does, Note, Send, SetTimer

UNNUMBERED = 0
ONWARD = (Relocate, Replay, NotFound, Farewell, Abandon)
"""Messages that need nothing of what a broker on their way remembers."""
CLOCKS_DIFFER_US = 2_000_000
"""By less than this they may differ."""


class NeighbourBrokers:
    has_crashed = False
    """Whether a neighbour knew an earlier life of this broker, of which nothing is known here."""

    def __init__(
        self, life: int, params: BrokerParams, space: Space, in_tree: Callable[[str], bool] | None = None
    ) -> None:
        """`in_tree` says with which neighbours wishes are exchanged, where the links are more than a tree (M4)."""
        self.params = params
        self.in_tree = in_tree
        self.disk: Disk | None = None
        """Where what waits for a neighbour is; None: in memory."""
        self.segments = 0
        """How many there have been."""
        self.confirming: dict[str, None] = {}
        """Neighbours that have confirmed something in this input."""
        self.streams = Streams(life)
        self.router = Router(params.routing, space, params.merged_wishes_max, params.wishes_max)

    def send(self, outgoing: PeerMessages) -> list[Does]:
        """What is said has no number yet: it gets one when its turn comes, in `numbered`."""
        return [Send(peer, Sequenced(UNNUMBERED, message)) for peer, message in outgoing] if outgoing else []

    def numbered(self, effects: list[Does]) -> list[Does]:
        """All effects of one input, with what is said to neighbours numbered in the order in which it goes out. What
        waited for room under way to them goes behind it.
        """
        done: list[Does] = []
        touched: dict[str, None] = {}
        for effect in effects:
            if not isinstance(effect, Send) or not isinstance(effect.message, Sequenced) or effect.message.number:
                done.append(effect)
                continue
            stream = self.streams.of.get(effect.to)
            if stream is None:
                done.append(Note("no_neighbour", effect.to))
                continue
            done += stream.add(effect.message.message)
            touched[effect.to] = None
        if self.confirming:
            touched.update(self.confirming)
            self.confirming = {}
        for peer in touched:
            done += self._look_after(peer)
        return done

    def _look_after(self, peer: str) -> list[Does]:
        """After something was said to it, or it has confirmed something."""
        stream = self.streams.of.get(peer)
        if stream is None:
            return []
        done: list[Does] = []
        if stream.tail or stream.aside or stream.salvage:
            late = stream.refilled()
            done += late
            if self.disk is not None:
                self.disk.goes_late(late)
                self._move(stream, self.disk, done)
        kept_bytes, allowed_bytes = stream.kept_bytes, self.params.stream_bytes_max + stream.spared_bytes
        if stream.linked:
            # It may have got this and not confirmed it yet.
            allowed_bytes += WINDOW_BYTES
        if kept_bytes <= allowed_bytes:
            # There must be some room before publications are taken again.
            stream.full = stream.full and kept_bytes > allowed_bytes * 0.9
            return done
        if self.disk is None:
            # Who takes nothing while its link is up is cut off, or it would fill the memory.
            done += [Note("stream_overflow", peer), *([Disconnect(peer)] if stream.linked else [])]
            return [*done, *self.numbered(self.give_up(peer))]
        if not stream.full:
            stream.full = True
            done.append(Note("stream_full", f"{peer}: {stream.kept_messages} messages, {kept_bytes} bytes"))
        return done

    def _move(self, stream: Stream, disk: Disk, done: list[Does]) -> None:
        """To the disk what there is no room for, and from it what there is room for."""
        if stream.tail_is_long():
            self.segments += 1
            body = stream.cut_tail(self.segments, lambda problem: done.append(Note("unsendable", problem)))
            disk.set_aside(self.segments, body)
        wanted = stream.wanted_segment()
        if wanted is not None:
            stream.fetching = wanted
            disk.fetch(stream.peer, wanted)

    def fetched(self, peer: str, number: int, body: bytes) -> list[Does]:
        """A segment that was asked for; to be finished."""
        stream = self.streams.of.get(peer)
        if stream is None:
            return []
        self.confirming[peer] = None
        messages, effects = stream.fetched(number, body)
        if self.disk is not None:
            self.disk.goes_late(effects)
        return [*effects, *self.send([(peer, each) for each in messages if isinstance(each, ONWARD)])]

    def set_aside(self) -> frozenset[int]:
        """The segments that are needed still."""
        streams = self.streams.of.values()
        return frozenset(each.number for stream in streams for each in (*stream.salvage, *stream.aside))

    @property
    def full(self) -> list[str]:
        """For whom publications are refused."""
        return [peer for peer, stream in self.streams.of.items() if stream.full]

    def link_up(self, peer: str) -> list[Does]:
        # From here on both sides must judge alike whether the stream goes on, so nobody gives up any more.
        stream = self.streams.of.get(peer)
        if stream is not None:
            stream.down_us = 0
        self.router.lost.pop(peer, None)
        return [CancelTimer(f"link:{peer}"), self.streams.hello(peer)]

    def greet(self, peer: str, hello: Hello) -> list[Does]:
        """A neighbour that is new, or new again after a crash, is asked for what others want; else the stream goes
        on.
        """
        if hello.peer_life not in (0, self.streams.life):
            self.has_crashed = True
        if self.streams.continues(peer, hello):
            self.confirming[peer] = None
            return self.streams.of[peer].resumed(hello)
        before = self.streams.of.get(peer)
        waiting = () if before is None else (*before.waiting, *before.tail)
        effects = self.give_up(peer)
        stream = self.streams.of[peer] = Stream(peer, hello.life)
        if before is not None and (before.salvage or before.aside):
            stream.salvage.extend((*before.salvage, *before.aside))
            self.confirming[peer] = None
        if self.in_tree is None or self.in_tree(peer):
            effects += self.send(self.router.meet(peer))
        # What finds its way by itself goes once more; events cannot, before the neighbour knows again who wants them.
        return [*effects, *self.send([(peer, each.message) for each in waiting if isinstance(each.message, ONWARD)])]

    def set_clock(self, now_us: int, peer: str, hello: Hello) -> list[Does]:
        """By what a neighbour says of its own. The way took some milliseconds, so little is overlooked."""
        stream = self.streams.of.get(peer)
        if stream is None or not hello.at_us:
            return []
        before, ahead_us = stream.ahead_us, hello.at_us - now_us
        stream.ahead_us = ahead_us if abs(ahead_us) > CLOCKS_DIFFER_US else 0
        if not stream.ahead_us or before:
            return []
        return [Note("clocks_differ", f"{peer}: by {ahead_us / 1e6:+.1f} s; see whether both follow a time server")]

    def spare(self, peer: str, effects: list[Does]) -> None:
        """What two brokers have to say to each other when they meet is as much as they have clients and wishes: it
        does not count as waiting for too long."""
        stream = self.streams.of.get(peer)
        if stream is not None:
            said = [each.message for each in effects if isinstance(each, Send) and each.to == peer]
            stream.spared_bytes = sum([size_bytes(each.message) for each in said if isinstance(each, Sequenced)])

    def take(self, sequenced: Sequenced, sender: str) -> tuple[BrokerMessage | None, list[Does]]:
        stream = self.streams.of.get(sender)
        if stream is None:
            return None, [Note("no_neighbour", sender)]
        if stream.tail or stream.aside or stream.salvage or stream.full:
            self.confirming[sender] = None
        return stream.take(sequenced)

    def confirm(self, got: Got, sender: str) -> None:
        if sender in self.streams.of:
            self.streams.of[sender].confirmed(got.number)
            self.confirming[sender] = None

    def link_down(self, now_us: int, peer: str) -> list[Does]:
        stream = self.streams.of.get(peer)
        if stream is None:
            return []
        stream.up = stream.linked = False
        stream.down_us = stream.down_us or now_us
        wait_s = min(self.params.search_patience_s, self.params.stream_patience_s)
        return [SetTimer(f"link:{peer}", now_us + round(wait_s * 1e6))]

    def patience_over(self, now_us: int, peer: str) -> list[Does]:
        """Its link is down for longer than searches wait, or than anything does."""
        stream = self.streams.of.get(peer)
        if stream is None or stream.linked:
            return []
        ends_us = stream.down_us + round(self.params.stream_patience_s * 1e6)
        if now_us >= ends_us:
            return self.give_up(peer)
        self.router.lost[peer] = None
        note = Note("neighbour_lost", f"{peer}: {stream.kept_messages} messages wait for it")
        return [note, SetTimer(f"link:{peer}", ends_us)]

    def give_up(self, peer: str) -> list[Does]:
        """A neighbour is gone, and with it whatever it wanted."""
        stream = self.streams.of.pop(peer, None)
        if stream is None:
            return []
        detail = (
            f"{peer}: {stream.kept_messages} messages that waited for it are lost" if stream.kept_messages else peer
        )
        return [CancelTimer(f"link:{peer}"), Note("neighbour_gone", detail), *self.send(self.router.part(peer))]
