"""What carries messages in a simulated world: the air, links, and an underlay of radio hops.

The sending side asks how large a message is, puts it on the air or on a link, and tells the observers. The receiving
side hands a frame to all who heard it, as often and as late as faults let it. Hosts, and what else happens to them,
are the world's (`sim/world.py`), which is built on this.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from roamcast.node.boundary import Broadcast, Input, LinkDown, Message, Received
from roamcast.node.codec import BadMessage, Codec
from roamcast.node.host import Host
from roamcast.node.observer import Observer
from roamcast.sim.faults import DatagramFaults, FaultParams
from roamcast.sim.hosts import Body
from roamcast.sim.kernel import Kernel
from roamcast.sim.links import Links
from roamcast.sim.radio import Frame, Radio, RadioParams, make_radio
from roamcast.sim.underlay import Underlay, UnderlayParams
from roamcast.sim.whereabouts import Whereabouts


class Transport(ABC):
    def __init__(
        self,
        seed: int,
        codec: Codec,
        whereabouts: Whereabouts,
        radio: RadioParams | None,
        underlay: UnderlayParams | None,
        faults: FaultParams,
        observers: tuple[Observer, ...],
        packet_bytes: int | None,
        round_trip: bool,
    ) -> None:
        self.seed = seed
        self.codec = codec
        self.kernel = Kernel()
        self.observers = observers
        self.packet_bytes = packet_bytes
        self.round_trip = round_trip
        self.datagram_faults = DatagramFaults(faults)
        self.whereabouts = whereabouts
        self.bodies: list[Body] = []
        self.by_name: dict[str, Body] = {}
        self.radio: Radio | None = None
        if radio is not None:
            hooks = (self._frame_sent, self._frame_heard, self._frame_dropped)
            self.radio = make_radio(radio, self.kernel, whereabouts, self._backoff_rng, *hooks)
        self.links = Links(self.kernel, self._link_rng, self._link_arrival, self._link_change, self._link_loss)
        self.underlay: Underlay | None = None
        if underlay is not None:
            self.underlay = Underlay(underlay, self.kernel, whereabouts, lambda index: self.bodies[index].up)

    @abstractmethod
    def _give(self, body: Body, given: Input) -> None:
        """Gives an input to a host, if it is up."""

    @abstractmethod
    def _link_change(self, a: str, b: str, up: bool) -> None: ...

    def rng(self, *purpose: object) -> Random:
        """A generator of its own for each purpose, the same in every process."""
        return Random(f"{self.seed}/" + "/".join(map(str, purpose)))

    def _backoff_rng(self, index: int) -> Random:
        return self.bodies[index].rng("radio")

    def _link_rng(self, a: str, b: str) -> Random:
        return self.rng("link", a, b)

    # Over the air.

    def _broadcast(self, body: Body, said: Broadcast) -> None:
        if self.radio is None:
            self._note(body, "no_radio")
        elif said.jitter_us > 0:
            delay_us = body.rng("jitter").randint(0, said.jitter_us)
            action = (self._on_the_air, body, said)
            self.kernel.at(self.kernel.now_us + delay_us, self._if_alive, body, body.host, body.act, action)
        else:
            self._on_the_air(body, said)

    def _on_the_air(self, body: Body, said: Broadcast) -> None:
        sendable = self._sendable(body, said.message)
        if sendable is None or self.radio is None:
            return
        message, size_bytes = sendable
        if message is not said.message:
            said = replace(said, message=message)
        self.radio.broadcast(body.index, said, size_bytes)

    def _sendable(self, body: Body, message: Message) -> tuple[Message, int] | None:
        """The message as it arrives at the other side, and its size; None if it cannot be bytes, which is noted.

        Where every message counts as so many bytes anyway, it is not encoded to find out.
        """
        if self.packet_bytes is not None and not self.round_trip:
            return message, self.packet_bytes
        try:
            encoded = self.codec.encode(message)
        except BadMessage as problem:
            self._note(body, "unsendable", str(problem))
            return None
        if self.round_trip:
            message = self.codec.decode(encoded)
        return message, self.packet_bytes or len(encoded)

    def _frame_sent(self, frame: Frame) -> None:
        self._transmitted(self.bodies[frame.sender], frame.said.message, frame.bytes, None)

    def _frame_heard(self, frame: Frame, hearers: list[int]) -> None:
        if self.datagram_faults.harmless:
            self._frame_arrives(frame, hearers)
            return
        now_us = self.kernel.now_us
        for hearer in hearers:
            for delay_us in self.datagram_faults.delays_us(now_us, self.bodies[hearer].rng("datagrams")):
                self.kernel.at(now_us + delay_us, self._frame_arrives, frame, [hearer])

    def _frame_arrives(self, frame: Frame, hearers: list[int]) -> None:
        """What counts is who is up and in the group now: a frame may have been late. All are given the same value."""
        bodies, now_us, group = self.bodies, self.kernel.now_us, frame.said.group
        received = Received(frame.said.message, bodies[frame.sender].resident.host, group)
        for hearer in hearers:
            body = bodies[hearer]
            if not body.up or (group is not None and group not in body.groups):
                continue
            if body.waiting is None:
                body.host.tell(now_us, received)
            else:
                self._give(body, received)

    def _frame_dropped(self, sender: int, reason: str) -> None:
        self._note(self.bodies[sender], reason)

    # Over links, or over hops.

    def _send(self, body: Body, to: str, message: Message) -> None:
        host = body.resident.host
        if self.underlay is not None and (host, to) not in self.links.between:
            self._send_through(self.underlay, body, to, message)
            return
        link = self.links.up(host, to)
        if link is None or not self.by_name[to].up:
            self._note(body, "no_link", to)
            return
        sendable = self._sendable(body, message)
        if sendable is None:
            return
        message, size_bytes = sendable
        self.links.send(link, host, to, message)
        for _ in range(link.params.hops):
            self._transmitted(body, message, size_bytes, to)

    def _send_through(self, underlay: Underlay, body: Body, to: str, message: Message) -> None:
        """Over as many hops as it takes; whoever cannot be reached is told of as of a link that went down."""
        receiver = self.by_name.get(to)
        hops = None if receiver is None else underlay.hops(body.index, receiver.index)
        if receiver is None or hops is None:
            self._note(body, "no_path", to)
            self._afterwards(body, self._give, body, LinkDown(to))
            return
        sendable = self._sendable(body, message)
        if sendable is None:
            return
        message, size_bytes = sendable
        received = Received(message, body.resident.host, hops=hops)
        self.kernel.at(underlay.arrival_us(body.index, receiver.index, hops), self._give, receiver, received)
        for _ in range(hops):
            self._transmitted(body, message, size_bytes, to)

    def _link_arrival(self, sender: str, receiver: str, message: Message) -> None:
        self._give(self.by_name[receiver], Received(message, sender))

    def _link_loss(self, sender: str, receiver: str) -> None:
        self._note(self.by_name[sender], "link_lost", receiver)

    # Telling, and doing later.

    def _transmitted(self, body: Body, message: Message, size_bytes: int, to: str | None) -> None:
        now_us, host = self.kernel.now_us, body.resident.host
        kind, event_id = message.kind, message.event_id
        for observer in self.observers:
            observer.transmitted(now_us, host, kind, size_bytes, to, event_id)

    def _note(self, body: Body, what: str, detail: str = "") -> None:
        for observer in self.observers:
            observer.noted(self.kernel.now_us, body.resident.host, what, detail)

    def _afterwards(self, body: Body, action: Callable[..., None], *arguments: object) -> None:
        """Once all effects of the same answer were performed, unless the host is gone by then."""
        self.kernel.at(0, self._if_alive, body, body.host, action, arguments)

    def _if_alive(self, body: Body, host: Host, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if body.lives_as(host):
            action(*arguments)
