"""Between the server and its links to other brokers: what goes by the stream that is logged, and what beside it.

Frames on a link have a kind: STREAM carries what the protocols' brokers say to each other, and is logged by whoever
gets it before it is acted upon; PASSING carries messages of QoS 0.
"""

from typing import Protocol

from roamcast.broker.messages import Sequenced, Unwanted
from roamcast.live.broker.inputs import Heard, LinkChanged
from roamcast.live.broker.passing import Passing
from roamcast.live.broker.station import CODEC, LINK_MESSAGE_BYTES_MAX
from roamcast.node.boundary import Message
from roamcast.node.codec import BadMessage, Codec
from roamcast.server.server import BrokerServer

STREAM = 1
PASSING = 2
PASSING_CODEC = Codec((Passing,), LINK_MESSAGE_BYTES_MAX)


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
        self.server.watch.remark(what, detail)

    def _passing(self, peer: str, data: bytes) -> None:
        try:
            passing = PASSING_CODEC.decode(data)
        except BadMessage as problem:
            self.remark("bad_link_message", f"{peer}: {problem}")
            return
        if isinstance(passing, Passing) and self.server.heard_passing(peer, passing):
            self.server.backpressure.said(self._held(peer))

    # To the neighbours.

    def link_to(self, peer: str) -> int:
        return self._link_of.get(peer, 0)

    def tell(self, peer: str, message: Message, link: int | None = None) -> None:
        if peer not in self.up_since or self.links is None or link not in (None, self._link_of[peer]):
            # The stream keeps what it must; the rest is lost with the link.
            return
        kind, codec = (PASSING, PASSING_CODEC) if isinstance(message, Passing) else (STREAM, CODEC)
        try:
            data = codec.encode(message)
        except BadMessage as problem:
            self.remark("unsendable", f"{peer}: {problem}")
            if not isinstance(message, Sequenced):
                return
            # Its place in the stream is taken: something must stand there, or nothing behind it is ever heard.
            data = codec.encode(Sequenced(message.number, Unwanted("")))
        self.links.send(peer, kind, data)

    def cut(self, peer: str) -> None:
        if self.links is not None:
            self.links.cut(peer)
