"""The world: hosts that move, the air between them, links, faults, and virtual time. A runtime for nodes.

A world is a pure function of its parts and its seed: every random choice comes from a generator named after its
purpose and host, so adding a host or a fault changes nothing else. `run` advances to the end and lets every checker
have its say.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random

from msgspec.structs import replace

from roamcast.model.context import Configuration, Context
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane
from roamcast.node.boundary import (
    Broadcast,
    CancelTimer,
    Connect,
    Deliver,
    Disconnect,
    Does,
    Input,
    JoinGroup,
    LeaveGroup,
    LinkDown,
    LinkUp,
    Message,
    Moved,
    Note,
    Received,
    Send,
    SetTimer,
    Start,
    Store,
    TimerFired,
)
from roamcast.node.codec import Codec
from roamcast.node.host import Host, Observer
from roamcast.node.port import Port
from roamcast.sim.faults import DatagramFaults, FaultParams, schedule
from roamcast.sim.kernel import Kernel
from roamcast.sim.links import LinkParams, Links
from roamcast.sim.mobility.legs import FOREVER_US
from roamcast.sim.radio import Frame, Radio, RadioParams, SharedMedium, SharedMediumParams, UnitDisk
from roamcast.sim.residents import Body, Resident, Seat
from roamcast.sim.stand import Stand
from roamcast.sim.whereabouts import Whereabouts

PAUSED_INPUTS_MAX = 10_000
PLANE = Plane()


class World:
    def __init__(
        self,
        residents: Sequence[Resident],
        codec: Codec,
        seed: int,
        radio: RadioParams | None = None,
        links: Sequence[LinkParams] = (),
        faults: FaultParams | None = None,
        observers: tuple[Observer, ...] = (),
        packet_bytes: int | None = None,
        graph: MovementGraph | None = None,
        say: Callable[[int, str, str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.say = say
        self.codec = codec
        self.kernel = Kernel()
        self.observers = observers
        self.packet_bytes = packet_bytes
        self.graph = graph
        self.faults = faults or FaultParams()
        self.datagram_faults = DatagramFaults(self.faults, self.rng("datagrams"))
        self.jitter = self.rng("jitter")
        self.range_m = radio.range_m if radio is not None else 0.0
        self.whereabouts = Whereabouts([resident.track for resident in residents], self.range_m or 1.0)
        self.radio = self._make_radio(radio)
        self.links = Links(self.kernel, self.rng("links"), self._link_arrival, self._link_change)
        refusing = self._draw_refusing(residents)
        self.bodies: list[Body] = []
        self.by_name: dict[str, Body] = {}
        for index, resident in enumerate(residents):
            self._seat(index, resident, resident.host in refusing)
        for link in links:
            self.check_known(link.a, link.b)
            self.links.add(link)
        schedule(self.faults, self)

    def rng(self, *purpose: object) -> Random:
        """A generator of its own for each purpose, the same in every process."""
        return Random(f"{self.seed}/" + "/".join(map(str, purpose)))

    # Building.

    def _make_radio(self, params: RadioParams | None) -> Radio | None:
        if params is None:
            return None
        if isinstance(params, SharedMediumParams):
            return SharedMedium(
                params,
                self.kernel,
                self.whereabouts,
                self.rng("radio"),
                self._frame_sent,
                self._frame_heard,
                self._frame_dropped,
            )
        return UnitDisk(params, self.kernel, self.whereabouts, self._frame_sent, self._frame_heard)

    def _draw_refusing(self, residents: Sequence[Resident]) -> set[str]:
        names = [resident.host for resident in residents]
        return set(self.rng("refuse").sample(names, round(self.faults.refuse_share * len(names))))

    def _seat(self, index: int, resident: Resident, refuses: bool) -> None:
        if resident.host in self.by_name:
            raise ValueError(f"two hosts are called '{resident.host}'")
        limit_ms = self.faults.clock_offset_ms
        offset_us = round(self.rng("clock", resident.host).uniform(-limit_ms, limit_ms) * 1_000)
        node = resident.make_node(Seat(resident.host, self.rng("node", resident.host, 0), refuses))
        body = Body(index, resident, Host(resident.host, node, self, self.observers, offset_us), refuses)
        self.bodies.append(body)
        self.by_name[resident.host] = body
        self.kernel.at(0, self._turn, body)

    def check_known(self, *hosts: str) -> None:
        for host in hosts:
            if host not in self.by_name:
                some = ", ".join(list(self.by_name)[:8]) + (" …" if len(self.by_name) > 8 else "")
                raise ValueError(f"no host is called '{host}'; there are {some}")

    # Running.

    def run(self, until_us: int, step_us: int = 1_000_000) -> Iterator[int]:
        """Advances to `until_us`, and yields the time after every `step_us`, so that a caller can show progress."""
        while self.kernel.now_us < until_us:
            self.kernel.run_until(min(until_us, self.kernel.now_us + step_us))
            yield self.kernel.now_us

    def give(self, host: str, given: Input) -> None:
        """An input from the application, or from the world itself."""
        self._give(self.by_name[host], given)

    def _give(self, body: Body, given: Input) -> None:
        if not body.up:
            return
        if body.frozen_inputs is None:
            body.host.give(self.kernel.now_us, given)
        elif len(body.frozen_inputs) < PAUSED_INPUTS_MAX:
            body.frozen_inputs.append(given)
        else:
            self._note(body, "paused_input_dropped")

    def context(self, body: Body) -> Context:
        """The host as its own location service sees it now, by its own clock."""
        now_us = self.kernel.now_us
        context = body.resident.track.context_at(now_us, body.resident.host, body.attributes)
        offset_us = body.host.clock_offset_us
        return replace(context, at_us=now_us + offset_us) if offset_us else context

    def context_of(self, host: str) -> Context | None:
        """As `context`, by name; None while the host is down."""
        body = self.by_name[host]
        return self.context(body) if body.up else None

    def configuration(self, at_us: int | None = None) -> Configuration:
        """K(now): every host that is up, by true time; or where those were a moment ago."""
        now_us = self.kernel.now_us if at_us is None else at_us
        return Configuration(
            PLANE,
            {
                body.resident.host: body.resident.track.context_at(now_us, body.resident.host, body.attributes)
                for body in self.bodies
                if body.up
            },
            self.range_m,
            self.graph,
        )

    def _turn(self, body: Body) -> None:
        """A new leg begins: the host comes, goes, or moves differently from now on."""
        leg = self.whereabouts.leg_at(body.index, self.kernel.now_us)
        if leg.end_us < FOREVER_US:
            self.kernel.at(leg.end_us, self._turn, body)
        if body.crashed:
            return
        if leg.present and not body.up:
            self._start(body, False)
        elif body.up and not leg.present:
            self._stop(body)
        elif body.up:
            self._give(body, Moved(self.context(body)))

    def _start(self, body: Body, restarted: bool) -> None:
        body.up = True
        self._give(body, Start(self.context(body), restarted, dict(body.disk)))
        for peer in self.links.peers(body.resident.host):
            if self.by_name[peer].up:
                self._give(body, LinkUp(peer))
                self._give(self.by_name[peer], LinkUp(body.resident.host))
        if body.resident.make_application is not None:
            body.port = Port(body.resident.host, Stand(self, body), incarnation=self.kernel.now_us)
            body.resident.make_application().start(body.port)

    def _stop(self, body: Body) -> None:
        body.up = False
        body.port = None
        body.frozen_inputs = None
        for handle in body.timers.values():
            handle.cancel()
        body.timers.clear()
        body.groups.clear()
        host, now_us = body.resident.host, self.kernel.now_us
        for observer in self.observers:
            observer.moved(now_us, Context(host, at_us=now_us))
        for peer in self.links.peers(host):
            self._give(self.by_name[peer], LinkDown(host))

    def crash(self, host: str, keeps_disk: bool) -> None:
        body = self.by_name[host]
        body.crashed = True
        if body.up:
            self._note(body, "crashed")
            self._stop(body)
        if not keeps_disk:
            body.disk.clear()

    def restart(self, host: str) -> None:
        """A new node on the old disk."""
        body = self.by_name[host]
        if not body.crashed:
            return
        body.crashed = False
        old = body.host
        seat = Seat(host, self.rng("node", host, self.kernel.now_us), body.refuses)
        body.host = Host(host, body.resident.make_node(seat), self, self.observers, old.clock_offset_us)
        if self.whereabouts.leg_at(body.index, self.kernel.now_us).present:
            self._start(body, True)

    def freeze(self, host: str) -> None:
        body = self.by_name[host]
        if body.up and body.frozen_inputs is None:
            body.frozen_inputs = deque()

    def thaw(self, host: str) -> None:
        body = self.by_name[host]
        waiting, body.frozen_inputs = body.frozen_inputs, None
        for given in waiting or ():
            self._give(body, given)

    # Effects.

    def perform(self, host: Host, effect: Does) -> None:
        body = self.by_name[host.id]
        match effect:
            case Broadcast():
                self._broadcast(body, effect)
            case Send(to, message):
                self._send(body, to, message)
            case SetTimer(name, at_us):
                self._cancel_timer(body, name)
                due_us = at_us - host.clock_offset_us
                body.timers[name] = self.kernel.at(due_us, self._fire, body, name)
            case CancelTimer(name):
                self._cancel_timer(body, name)
            case JoinGroup(group):
                body.groups.add(group)
            case LeaveGroup(group):
                body.groups.discard(group)
            case Store(key, value):
                if value is None:
                    body.disk.pop(key, None)
                else:
                    body.disk[key] = value
            case Connect(peer):
                self._connect(body, peer)
            case Disconnect(peer):
                if (host.id, peer) in self.links.between:
                    self.kernel.at(0, self.links.cut, host.id, peer)
            case Deliver(event, subscription_id):
                if body.port is not None:
                    self.kernel.at(0, body.port.deliver, event, subscription_id)
            case Note():
                return

    def _cancel_timer(self, body: Body, name: str) -> None:
        handle = body.timers.pop(name, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, body: Body, name: str) -> None:
        del body.timers[name]
        self._give(body, TimerFired(name))

    def _connect(self, body: Body, peer: str) -> None:
        """The answer comes as an input of its own, after all effects of this one were performed."""
        link = self.links.between.get((body.resident.host, peer))
        if link is None or not self.by_name[peer].up:
            self.kernel.at(0, self._give, body, LinkDown(peer))
        elif link.up:
            self.kernel.at(0, self._give, body, LinkUp(peer))
        else:
            self.kernel.at(0, self.links.heal, body.resident.host, peer)

    def _broadcast(self, body: Body, said: Broadcast) -> None:
        if self.radio is None:
            self._note(body, "no_radio")
        elif said.jitter_us > 0:
            delay_us = self.jitter.randint(0, said.jitter_us)
            self.kernel.at(self.kernel.now_us + delay_us, self._on_the_air, body, body.host, said)
        else:
            self._on_the_air(body, body.host, said)

    def _on_the_air(self, body: Body, host: Host, said: Broadcast) -> None:
        # What a host was about to say when it crashed is never said.
        if body.up and body.host is host and self.radio is not None:
            self.radio.broadcast(body.index, said, self._size_bytes(said.message))

    def _size_bytes(self, message: Message) -> int:
        return self.packet_bytes or len(self.codec.encode(message))

    def _frame_sent(self, frame: Frame) -> None:
        self._transmitted(self.bodies[frame.sender], frame.said.message, frame.bytes, None)

    def _frame_heard(self, frame: Frame, hearer: int) -> None:
        body = self.bodies[hearer]
        said = frame.said
        if not body.up or (said.group is not None and said.group not in body.groups):
            return
        received = frame.received
        if received is None:
            sender = self.bodies[frame.sender].resident.host
            received = frame.received = Received(said.message, sender, said.group)
        if self.datagram_faults.harmless:
            self._give(body, received)
            return
        for delay_us in self.datagram_faults.delays_us(self.kernel.now_us):
            self.kernel.at(self.kernel.now_us + delay_us, self._give, body, received)

    def _frame_dropped(self, sender: int, reason: str) -> None:
        self._note(self.bodies[sender], reason)

    def _send(self, body: Body, to: str, message: Message) -> None:
        link = self.links.send(body.resident.host, to, message)
        if link is None:
            self._note(body, "no_link", to)
            return
        size_bytes = self._size_bytes(message)
        for _ in range(link.params.hops):
            self._transmitted(body, message, size_bytes, to)

    def _link_arrival(self, sender: str, receiver: str, message: Message) -> None:
        self._give(self.by_name[receiver], Received(message, sender))

    def _link_change(self, a: str, b: str, up: bool) -> None:
        for host, peer in ((a, b), (b, a)):
            if not up:
                self._give(self.by_name[host], LinkDown(peer))
            elif self.by_name[peer].up:
                self._give(self.by_name[host], LinkUp(peer))

    # Telling.

    def _transmitted(self, body: Body, message: Message, size_bytes: int, to: str | None) -> None:
        tag = str(message.__struct_config__.tag)
        for observer in self.observers:
            observer.transmitted(self.kernel.now_us, body.resident.host, tag, size_bytes, to, message.event_id)

    def _note(self, body: Body, what: str, detail: str = "") -> None:
        for observer in self.observers:
            observer.noted(self.kernel.now_us, body.resident.host, what, detail)
