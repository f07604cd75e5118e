"""The world: hosts that move, what carries their messages, faults, and virtual time. A runtime for nodes.

A world is a pure function of its parts and its seed: what happens to a host by chance comes from generators named
after the purpose and the host (or link), so one more host or fault changes nobody else's luck. Only who is among a
share of all hosts is drawn over all of them. `run` advances to the end.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from roamcast.model.context import Context
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane
from roamcast.movement.legs import FOREVER_US
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
    Moved,
    Note,
    Send,
    SetTimer,
    Start,
    Store,
    TimerFired,
)
from roamcast.node.codec import Codec
from roamcast.node.host import Host
from roamcast.node.kit import Seat
from roamcast.node.observer import Observer
from roamcast.node.port import TROUBLES, Port
from roamcast.sim.applications import begin, watched
from roamcast.sim.faults import FaultParams, schedule
from roamcast.sim.ground import SimulatedGround
from roamcast.sim.hosts import Body, Resident
from roamcast.sim.instant import Instant
from roamcast.sim.kernel import Handle
from roamcast.sim.links import LinkParams
from roamcast.sim.radio import RadioParams
from roamcast.sim.transport import Transport
from roamcast.sim.underlay import UnderlayParams
from roamcast.sim.whereabouts import Whereabouts

PAUSED_INPUTS_MAX = 10_000
"""More than so much does not wait at a paused host; what arrives then is dropped and noted."""
PLANE = Plane()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Cycles of garbage are looked for between steps: few arise in one, and looking takes a tenth of its time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class World(Transport):
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
        round_trip: bool = False,
        underlay: UnderlayParams | None = None,
        domain_hops: int = 1,
    ) -> None:
        """`round_trip`: every message is encoded and decoded once on its way, as it would be on a real network."""
        self.say = say
        self.graph = graph
        self.domain_hops = domain_hops
        self.faults = faults or FaultParams()
        self.range_m = radio.range_m if radio is not None else 0.0
        whereabouts = Whereabouts([resident.track for resident in residents], self.range_m or 1.0)
        super().__init__(seed, codec, whereabouts, radio, underlay, self.faults, observers, packet_bytes, round_trip)
        refusing = self._draw_refusing(residents)
        for index, resident in enumerate(residents):
            self._seat(index, resident, resident.host in refusing)
        for link in links:
            self.check_known(link.a, link.b)
            self.links.add(link)
        schedule(self.faults, self)

    # Building.

    def _draw_refusing(self, residents: Sequence[Resident]) -> set[str]:
        names = [resident.host for resident in residents]
        return set(self.rng("refuse").sample(names, round(self.faults.refuse_share * len(names))))

    def _seat(self, index: int, resident: Resident, refuses: bool) -> None:
        if resident.host in self.by_name:
            raise ValueError(f"two hosts are called '{resident.host}'")
        body = Body(index, resident, self._make_host(resident, 0, refuses), refuses, self.rng)
        self.bodies.append(body)
        self.by_name[resident.host] = body
        self.kernel.at(0, self._turn, body)

    def _make_host(self, resident: Resident, life: int, refuses: bool) -> Host:
        name, limit_ms = resident.host, self.faults.clock_offset_ms
        offset_us = round(self.rng("clock", name).uniform(-limit_ms, limit_ms) * 1_000)
        node = resident.make_node(Seat(name, self.rng("node", name, life), refuses, self.graph, PLANE))
        return Host(name, node, self, self.observers, offset_us)

    def check_known(self, *hosts: str) -> None:
        for host in hosts:
            if host not in self.by_name:
                some = ", ".join(list(self.by_name)[:8]) + (" …" if len(self.by_name) > 8 else "")
                raise ValueError(f"no host is called '{host}'; there are {some}")

    # Running.

    def run(self, until_us: int, step_us: int = 1_000_000) -> Iterator[int]:
        """Advances to `until_us`, and yields the time after every `step_us`, so that a caller can show progress."""
        while self.kernel.now_us < until_us:
            with seldom_collected():
                self.kernel.run_until(min(until_us, self.kernel.now_us + step_us))
            yield self.kernel.now_us

    def give(self, host: str, given: Input) -> None:
        """An input from the application, or from the world itself."""
        self._give(self.by_name[host], given)

    def _give(self, body: Body, given: Input) -> None:
        if not body.up:
            return
        if body.waiting is None:
            body.host.give(self.kernel.now_us, given)
        elif len(body.waiting) < PAUSED_INPUTS_MAX:
            body.act(self._give, body, given)
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

    def configuration(self) -> Instant:
        """K(now): every host that is up, by true time."""
        now_us, hops = self.kernel.now_us, self.domain_hops
        return Instant(self.bodies, self.by_name, self.whereabouts, now_us, self.range_m, self.graph, hops)

    def _turn(self, body: Body) -> None:
        """A new leg begins: the host comes, goes, or moves differently from now on."""
        leg = self.whereabouts.leg_at(body.index, self.kernel.now_us)
        if leg.end_us < FOREVER_US:
            self.kernel.at(leg.end_us, self._turn, body)
        if body.crashed:
            return
        if leg.present and not body.up:
            self._start(body)
        elif body.up and not leg.present:
            self._stop(body)
        elif body.up:
            self._give(body, Moved(self.context(body)))

    def _start(self, body: Body) -> None:
        """The host comes up: for the first time, or as a new node on its old disk."""
        name, restarted = body.resident.host, body.starts > 0
        if restarted:
            body.host = self._make_host(body.resident, body.starts, body.refuses)
        body.starts += 1
        body.up = True
        if self.underlay is not None:
            self.underlay.changed()
        self._give(body, Start(self.context(body), restarted, dict(body.disk)))
        for peer in self.links.peers(name):
            if self.by_name[peer].up:
                self._give(body, LinkUp(peer))
                self._give(self.by_name[peer], LinkUp(name))
        if body.resident.make_application is not None:
            body.port = Port(name, SimulatedGround(self, body), self.kernel.now_us, body.resident.runs_modulators)
            watched(name, self.kernel.now_us, partial(begin, body.resident.make_application, body.port))

    def _into_application(self, body: Body, action: Callable[[], None]) -> None:
        watched(body.resident.host, self.kernel.now_us, action)

    def _stop(self, body: Body) -> None:
        """The host goes down, by a crash or because it leaves: whatever it was about to do, it does not do."""
        body.die()
        host, now_us = body.resident.host, self.kernel.now_us
        if self.radio is not None:
            self.radio.silence(body.index)
        if self.underlay is not None:
            self.underlay.changed()
        self.links.drop_all(host)
        for observer in self.observers:
            observer.gone(now_us, host)
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
        """A crash is over: the host comes up, or will when it is there again."""
        body = self.by_name[host]
        body.crashed = False
        if not body.up and self.whereabouts.leg_at(body.index, self.kernel.now_us).present:
            self._start(body)

    def pause(self, host: str, until_us: int) -> None:
        """The host stands still. A crash ends that too: whoever comes up afterwards is awake."""
        body = self.by_name[host]
        if body.up:
            body.pause()
            self.kernel.at(until_us, self._wake, body, body.host)

    def _wake(self, body: Body, host: Host) -> None:
        if body.lives_as(host):
            body.wake()

    # Effects.

    def perform(self, host: Host, effect: Does) -> None:
        body = self.by_name[host.id]
        # Nearly all are one of these, and a `match` would take as long as what they come to.
        if type(effect) is SetTimer:
            due_us = effect.at_us - host.clock_offset_us
            body.set_timer(effect.name, self.kernel.at(due_us, self._fire, body, effect.name))
        elif type(effect) is CancelTimer:
            body.cancel_timer(effect.name)
        elif type(effect) is Broadcast:
            self._broadcast(body, effect)
        else:
            self._perform_others(body, effect)

    def _perform_others(self, body: Body, effect: Does) -> None:
        match effect:
            case Send(to, message):
                self._send(body, to, message)
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
                self._afterwards(body, self._connect, body, peer)
            case Disconnect(peer):
                if (body.host.id, peer) in self.links.between:
                    self._afterwards(body, self.links.close, body.host.id, peer)
            case Deliver(event, subscription_id):
                if body.port is not None:
                    delivery = partial(body.port.deliver, event, subscription_id)
                    self._afterwards(body, body.act, self._into_application, body, delivery)
            case Note(what, subscription_id):
                if body.port is not None and what in TROUBLES:
                    trouble = partial(body.port.trouble, what, subscription_id)
                    self._afterwards(body, body.act, self._into_application, body, trouble)
            case SetTimer() | CancelTimer() | Broadcast():
                return
            case _:
                assert_never(effect)

    def _fire(self, body: Body, name: str) -> None:
        if body.waiting is None:
            del body.timers[name]
            body.host.tell(self.kernel.now_us, TimerFired(name))
        else:
            body.act(self._fired, body, name, body.timers[name])

    def _fired(self, body: Body, name: str, handle: Handle) -> None:
        # An input that waited with it in a pause may have cancelled this timer or set it anew.
        if body.timers.get(name) is handle:
            del body.timers[name]
            body.host.tell(self.kernel.now_us, TimerFired(name))

    def _connect(self, body: Body, peer: str) -> None:
        """The answer comes as an input of its own. An attempt that fails leaves a closed link closed."""
        host = body.resident.host
        link = self.links.between.get((host, peer))
        if link is None or link.cuts or not self.by_name[peer].up:
            self._give(body, LinkDown(peer))
        elif link.open:
            self._give(body, LinkUp(peer))
        else:
            self.links.reopen(host, peer)

    def _link_change(self, a: str, b: str, up: bool) -> None:
        one, other = self.by_name[a], self.by_name[b]
        # An end that is down is told when it comes up, and the other one heard of it when it went down.
        if one.up and other.up:
            self._give(one, LinkUp(b) if up else LinkDown(b))
            self._give(other, LinkUp(a) if up else LinkDown(a))
