"""Between the server and its links to other brokers: what goes by the stream that is logged, and what beside it.

Frames on a link have a kind: STREAM carries what the protocols' brokers say to each other, and is logged by whoever
gets it before it is acted upon; PASSING carries messages of QoS 0. What goes to a neighbour in one tick of the event
loop is collected (`Outbox`) and leaves as one frame, or as few as its order allows.
"""

from typing import Protocol

from roamcast.broker.frames import CODEC, NOTHING, Encodings, FrameBuilder
from roamcast.broker.messages import Got, Sequenced
from roamcast.live.broker.inputs import Heard, LinkChanged
from roamcast.live.broker.passing import Passing, PassingBuilder, passing_in
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


class Outbox:
    """What goes to one neighbour at the end of this tick, in order."""

    def __init__(self, encodings: Encodings) -> None:
        self._encodings = encodings
        self._frames: list[FrameBuilder | PassingBuilder | bytes] = []

    def add(self, message: Message) -> None:
        """Raises `BadMessage` for what cannot be bytes; the next message goes all the same."""
        match message:
            case Sequenced(number, inside, got):
                self._add_sequenced(number, inside, got)
            case Got(number):
                self._stream_frame().confirm(number)
            case Passing():
                encoded = self._encodings.of(message)
                last = self._frames[-1] if self._frames else None
                if not isinstance(last, PassingBuilder) or not last.takes(len(encoded)):
                    last = PassingBuilder()
                    self._frames.append(last)
                last.add(encoded)
            case _:
                self._frames.append(CODEC.encode(message))

    def _add_sequenced(self, number: int, message: Message, got: int) -> None:
        problem = None
        try:
            encoded = self._encodings.of(message)
        except BadMessage as found:
            # Its place in the stream is taken: something must stand there, or nothing behind it is ever heard.
            problem, encoded = found, self._encodings.of(NOTHING)
        frame = self._stream_frame()
        if not frame.takes(number, len(encoded)):
            frame = FrameBuilder()
            self._frames.append(frame)
        frame.add(number, got, encoded)
        if problem is not None:
            raise problem

    def _stream_frame(self) -> FrameBuilder:
        last = self._frames[-1] if self._frames else None
        if not isinstance(last, FrameBuilder):
            last = FrameBuilder()
            self._frames.append(last)
        return last

    def frames(self) -> list[tuple[int, bytes]]:
        """Each with its kind."""
        return [
            (STREAM, each)
            if isinstance(each, bytes)
            else (PASSING if isinstance(each, PassingBuilder) else STREAM, each.encode())
            for each in self._frames
        ]


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
        self._encodings = Encodings()
        self._outboxes: dict[str, Outbox] = {}
        """By neighbour, what has to go to it in this tick."""
        server.outbound.neighbours = self

    # From the links.

    def up(self, peer: str) -> None:
        self.up_since[peer] = self.server.now_us()
        self._links_raised += 1
        self._link_of[peer] = self._links_raised
        self.server.give(LinkChanged(peer, True))

    def down(self, peer: str) -> None:
        self.up_since.pop(peer, None)
        self._link_of.pop(peer, None)
        # The stream sends it again over the next link, in its order; the rest is lost with this one.
        self._outboxes.pop(peer, None)
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
        if self.server.passing and not self.server.core.station.in_step_with(peer):
            # It may be a hello, after which what waits in the stream goes once more: this came before it.
            self.server.pass_waiting()
        self.server.give(Heard(peer, data))
        self.server.backpressure.said(self._held(peer))

    def _held(self, peer: str) -> "HeldLink":
        return self._holds.setdefault(peer, HeldLink(self, peer))

    def remark(self, what: str, detail: str) -> None:
        self.server.monitor.remark(what, detail)

    def _passing(self, peer: str, data: bytes) -> None:
        try:
            messages = passing_in(data)
        except BadMessage as problem:
            self.remark("bad_link_message", f"{peer}: {problem}")
            return
        for message in messages:
            if self.server.heard_passing(peer, message):
                self.server.backpressure.said(self._held(peer))

    # To the neighbours.

    def link_to(self, peer: str) -> int:
        return self._link_of.get(peer, 0)

    def tell(self, peer: str, message: Message, link: int | None = None) -> None:
        if peer not in self.up_since or self.links is None or link not in (None, self._link_of[peer]):
            # The stream keeps what it must; the rest is lost with the link.
            return
        if not self._outboxes:
            self.server.loop.call_soon(self._flush)
        outbox = self._outboxes.get(peer)
        if outbox is None:
            outbox = self._outboxes[peer] = Outbox(self._encodings)
        try:
            outbox.add(message)
        except BadMessage as problem:
            self.remark("unsendable", f"{peer}: {problem}")

    def _flush(self) -> None:
        outboxes, self._outboxes = self._outboxes, {}
        self._encodings.clear()
        if self.links is None:
            return
        for peer, outbox in outboxes.items():
            for kind, data in outbox.frames():
                self.links.send(peer, kind, data)

    def cut(self, peer: str) -> None:
        if self.links is not None:
            self.links.cut(peer)
