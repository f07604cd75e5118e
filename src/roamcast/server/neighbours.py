"""Between the server and its links to other brokers: what goes by the stream that is logged, and what beside it.

Frames on a link have a kind: STREAM carries what the protocols' brokers say to each other, and is logged by whoever
gets it before it is acted upon; PASSING carries messages of QoS 0. What goes to a neighbour in one tick of the event
loop is collected and leaves as one frame, or as few as its order allows.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Protocol, cast

from roamcast.broker.frames import CODEC, Encodings, stream_frames
from roamcast.broker.messages import Got, Sequenced
from roamcast.broker.mqtt.inputs import Heard, LinkChanged
from roamcast.broker.mqtt.passing import Passing, passing_frames, passing_in
from roamcast.node.boundary import Message
from roamcast.node.codec import BadMessage
from roamcast.server.server import BrokerServer

STREAM = 1
PASSING = 2


class Links(Protocol):
    def send(self, peer: str, kind: int, data: bytes) -> object: ...
    def cut(self, peer: str) -> None: ...
    def wait(self, peer: str, waits: bool) -> None:
        """Nothing is read from the peer while it waits."""
        ...


class HeldLink:
    def __init__(self, desk: "LinkDesk", peer: str) -> None:
        self.desk = desk
        self.peer = peer

    def wait(self, waits: bool) -> None:
        if self.desk.links is not None:
            self.desk.links.wait(self.peer, waits)


class LinkDesk:
    """What links tell, and what is told to neighbours."""

    def __init__(self, server: BrokerServer, links: Links | None = None) -> None:
        self.server = server
        self.links = links
        self.up_since: dict[str, int] = {}
        self._link_of: dict[str, int] = {}
        """By neighbour whose link is up, which of all links that is."""
        self._links_raised = 0
        self._holds: dict[str, HeldLink] = {}
        self._outgoing: dict[str, list[Message]] = {}
        """By neighbour, what has to go to it in this tick."""
        server.outbound.neighbours = self

    # From the links.

    def up(self, peer: str) -> None:
        self.up_since[peer] = self.server.now_us()
        self._links_raised += 1
        self._holds[peer] = HeldLink(self, peer)
        self._link_of[peer] = self._links_raised
        self.server.give(LinkChanged(peer, True))

    def down(self, peer: str) -> None:
        self.up_since.pop(peer, None)
        self._link_of.pop(peer, None)
        # The stream sends it again over the next link, in its order; the rest is lost with this one.
        self._outgoing.pop(peer, None)
        held = self._holds.pop(peer, None)
        if held is not None:
            self.server.backpressure.forget(held)
        self.server.give(LinkChanged(peer, False))

    def frame(self, peer: str, kind: int, data: bytes) -> None:
        if kind == STREAM:
            self._heard(peer, data)
        elif kind == PASSING:
            self._passing(peer, data)
        else:
            self.remark("unknown_frame", f"{peer}: kind {kind}")

    def _heard(self, peer: str, data: bytes) -> None:
        if self.server.passing and not self.server.core.border.linking.in_step_with(peer):
            # It may be a hello, after which what waits in the stream goes once more: this came before it.
            self.server.pass_waiting()
        self.server.give(Heard(peer, data))
        self.server.backpressure.said(self._holds[peer])

    def remark(self, what: str, detail: str) -> None:
        self.server.monitor.remark(what, detail)

    def _passing(self, peer: str, data: bytes) -> None:
        passing = passing_in(data, lambda problem: self.remark("bad_link_message", f"{peer}: {problem}"))
        if self.server.heard_passing(peer, passing):
            self.server.backpressure.said(self._holds[peer])

    # To the neighbours.

    def link_to(self, peer: str) -> int:
        return self._link_of.get(peer, 0)

    def tell(self, peer: str, message: Message, link: int | None = None) -> None:
        if peer not in self.up_since or self.links is None or link not in (None, self._link_of[peer]):
            # The stream keeps what it must; the rest is lost with the link.
            return
        outgoing = self._outgoing.get(peer)
        if outgoing is None:
            if not self._outgoing:
                self.server.loop.call_soon(self._flush)
            outgoing = self._outgoing[peer] = []
        outgoing.append(message)

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, {}
        encodings = Encodings(partial(self.remark, "unsendable"))
        for peer, messages in outgoing.items():
            for kind, data in frames_of(messages, encodings):
                if self.links is not None:
                    self.links.send(peer, kind, data)

    def cut(self, peer: str) -> None:
        if self.links is not None:
            self.links.cut(peer)


def frames_of(messages: list[Message], encodings: Encodings) -> Iterator[tuple[int, bytes]]:
    """With their kinds: one frame as a rule, and another one wherever the kind changes."""
    for kind, run in groupby(messages, kind_of):
        if kind is Sequenced:
            for data in stream_frames(cast(Iterable[Sequenced | Got], run), encodings):
                yield STREAM, data
        elif kind is Passing:
            for data in passing_frames(cast(Iterable[Passing], run), encodings):
                yield PASSING, data
        else:
            for message in run:
                try:
                    yield STREAM, CODEC.encode(message)
                except BadMessage as problem:
                    encodings.unsendable(str(problem))


def kind_of(message: Message) -> type[Message]:
    """Messages in a row for which this is the same share a frame, if it is `Sequenced` or `Passing`."""
    kind = type(message)
    return Sequenced if kind is Got else kind
