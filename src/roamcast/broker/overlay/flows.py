"""Flows: what a broker says to another one arrives once, in order, over whatever path there is (O5, O7).

Each message is numbered for its receiver and leaves with the path that the sender's view of the topology gives
(source routing). The receiver puts in order what came on different paths, and acknowledges. What is not acknowledged
is sent again, over the path that is known by then; so a receiver that cannot be reached for a while gets everything
later.

A broker on the way that cannot reach the next one takes another path of its own; if it knows none, it tries the
receiver itself, over no further broker. If that fails too it drops the parcel: its sender still has it.

Guarantee: in order, once, complete, as long as neither broker crashes and no more waits than the bound. Beyond the
bound events are refused (`full`), never what keeps the brokers in agreement. A broker that crashed has another
`life`: what it had not acknowledged is numbered anew for it.

A broker that leaves what it is told unanswered for too long is `lost`: what waits for it is dropped, and it gets a
bare parcel from time to time. The flow that begins when it is heard again has another life on this side, so that for
the other one this broker has crashed, which is what it amounts to.
"""

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.overlay.messages import Inside, Parcel, Row
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.broker.overlay.topology import Topology
from roamcast.node.boundary import Does, Note, Send, SetTimer

LIVES_MAX = 16
"""How many earlier lives of another broker are remembered."""


class Waiting(Struct, frozen=True):
    number: int
    inside: Inside


class Lost(Struct):
    """A broker that was given up, since when, and what its row was."""

    since_us: int
    knocked_us: int
    row: Row | None
    life: int
    """Of the next flow to it."""
    forgotten: bool = False
    """Whether it is so long ago that nothing is known of it but this."""


class Flow:
    """Both directions between this broker and one other."""

    def __init__(self, life: int) -> None:
        self.life = life
        """Which flow to this peer it is."""
        self.heard_us = 0
        """When the other side was last heard, or, if it was silent with reason, when it was told something."""
        self.peer_life = 0
        """0: not known yet."""
        self.peer_lives_before: deque[int] = deque(maxlen=LIVES_MAX)
        """Lives of the other side that are over: a parcel of one of them that comes late says nothing of this one."""
        self.sent = 0
        """The number of the last message said."""
        self.out = 0
        """The number of the last message that was put on its way."""
        self.waiting: deque[Waiting] = deque()
        """Said, and not known to have arrived."""
        self.resend_s = 0.0
        """How long to wait before it is sent again; 0: no timer is set."""
        self.got = 0
        self.ahead: dict[int, Inside] = {}
        """What came before its turn."""
        self.owes = False
        """Whether something has come that was not acknowledged yet."""

    def confirmed(self, number: int) -> bool:
        """Whether that was news."""
        before = len(self.waiting)
        while self.waiting and self.waiting[0].number <= number:
            self.waiting.popleft()
        return len(self.waiting) < before

    def restart(self, life: int) -> None:
        """The other side has forgotten everything: it gets what it had not acknowledged, from 1 on."""
        self.peer_lives_before.append(self.peer_life)
        self.peer_life = life
        self.got, self.ahead = 0, {}
        self.waiting = deque(Waiting(number, each.inside) for number, each in enumerate(self.waiting, start=1))
        self.sent, self.out = len(self.waiting), 0


class Flows:
    def __init__(self, host: str, params: OverlayParams, life: int, topology: Topology) -> None:
        self.host = host
        self.params = params
        self.life = life
        self.topology = topology
        self.of: dict[str, Flow] = {}
        self.lost: dict[str, Lost] = {}
        """The one that was given up longest ago comes first."""
        self._given_up = 0
        self.restarted: list[str] = []
        """Peers that were found to have crashed, until somebody asks."""
        self._passed: deque[tuple[str, Parcel]] = deque(maxlen=params.parcels_remembered_max)
        """To whom which parcels went lately."""

    def flow(self, peer: str) -> Flow | None:
        """None: there are too many."""
        if peer not in self.of and len(self.of) < self.params.brokers_max:
            self.of[peer] = Flow(self._life(peer))
        return self.of.get(peer)

    def _life(self, peer: str) -> int:
        """Of the next flow: no earlier flow to the same peer had it."""
        return self.lost[peer].life if peer in self.lost else self.life + self._given_up

    # Sending.

    def full(self, peer: str) -> bool:
        return peer in self.lost or (
            peer in self.of and len(self.of[peer].waiting) >= self.params.stored_messages_max
        )

    def say(self, now_us: int, peer: str, inside: Inside) -> list[Does]:
        flow = self.flow(peer)
        if flow is None:
            return [Note("broker_refused", peer)]
        if not flow.waiting:
            flow.heard_us = now_us
        flow.sent += 1
        flow.waiting.append(Waiting(flow.sent, inside))
        return self._go_on(now_us, peer, flow)

    def _go_on(self, now_us: int, peer: str, flow: Flow) -> list[Does]:
        """Puts on its way what the window has room for."""
        effects: list[Does] = []
        if flow.waiting:
            last = flow.waiting[0].number + self.params.window_messages - 1
            first = flow.out + 1 - flow.waiting[0].number
            for index in range(max(0, first), min(len(flow.waiting), self.params.window_messages)):
                waiting = flow.waiting[index]
                effects += self._dispatch(self._parcel(peer, flow, waiting))
            flow.out = max(flow.out, min(last, flow.sent))
            if not flow.resend_s:
                flow.resend_s = self.params.resend_s
                effects.append(SetTimer(f"resend:{peer}", now_us + microseconds(flow.resend_s)))
        return effects

    def _parcel(self, peer: str, flow: Flow, waiting: Waiting | None) -> Parcel:
        flow.owes = False
        path = self.topology.path(peer) or (self.host, peer)
        number, inside = (waiting.number, waiting.inside) if waiting is not None else (0, None)
        return Parcel(path, 0, flow.life, flow.peer_life, flow.got, number, inside)

    def _dispatch(self, parcel: Parcel) -> list[Does]:
        parcel = replace(parcel, at=parcel.at + 1)
        towards = parcel.path[parcel.at]
        self._passed.append((towards, parcel))
        return [Send(towards, parcel)]

    def resend(self, now_us: int, peer: str) -> list[Does]:
        """The timer has fired: whatever is under way goes once more, and the next time is later."""
        flow = self.of.get(peer)
        if flow is None:
            return []
        if not flow.waiting:
            flow.resend_s = 0.0
            return []
        flow.out = flow.waiting[0].number - 1
        flow.resend_s = min(2 * flow.resend_s, self.params.resend_s_max)
        timer = SetTimer(f"resend:{peer}", now_us + microseconds(flow.resend_s))
        return [Note("parcels_resent", peer), *self._go_on(now_us, peer, flow), timer]

    def acknowledge(self, peer: str) -> list[Does]:
        flow = self.of.get(peer)
        return [] if flow is None or not flow.owes else self._dispatch(self._parcel(peer, flow, None))

    # Brokers that are gone.

    def overdue(self, now_us: int) -> list[str]:
        """Who has not answered for too long, or for whom twice as much waits as events may."""
        patience_us, most = microseconds(self.params.give_up_s), 2 * self.params.stored_messages_max
        return [
            peer
            for peer, flow in self.of.items()
            if flow.waiting and (now_us - flow.heard_us > patience_us or len(flow.waiting) > most)
        ]

    def quiet(self, now_us: int, peer: str) -> bool:
        """Whether nothing was heard of a peer for long, without reason to expect anything."""
        flow = self.of.get(peer)
        if flow is None:
            return peer not in self.lost
        return not flow.waiting and now_us - flow.heard_us > microseconds(self.params.give_up_s) // 2

    def give_up(self, now_us: int, peer: str) -> None:
        self.of.pop(peer, None)
        self._given_up += 1
        self.lost.pop(peer, None)
        self.lost[peer] = Lost(now_us, now_us, self.topology.forget(peer), self.life + self._given_up)
        if len(self.lost) > self.params.brokers_max:
            del self.lost[next(iter(self.lost))]

    def knock(self, now_us: int) -> list[Does]:
        """Asks those who were given up whether they are there, as often as it takes to give one up."""
        effects: list[Does] = []
        for peer, lost in self.lost.items():
            if peer not in self.of and now_us - lost.knocked_us > microseconds(self.params.give_up_s):
                lost.knocked_us = now_us
                effects += self._dispatch(self._parcel(peer, Flow(lost.life), None))
        return effects

    def found_again(self, peer: str) -> None:
        self.flow(peer)
        lost = self.lost.pop(peer, None)
        if lost is not None and lost.row is not None:
            self.topology.learn(lost.row)

    # On the way.

    def unreachable(self, now_us: int, peer: str) -> list[Does]:
        """Whatever went to this broker lately takes another path."""
        self.topology.avoid(peer, now_us + microseconds(self.params.resend_s))
        lost = [parcel for towards, parcel in self._passed if towards == peer]
        kept = [each for each in self._passed if each[0] != peer]
        self._passed.clear()
        self._passed.extend(kept)
        effects: list[Does] = []
        for parcel in lost:
            effects += self._divert(parcel, peer)
        return effects

    def _divert(self, parcel: Parcel, lost: str) -> list[Does]:
        to, gone = parcel.path[-1], parcel.path[: parcel.at - 1]
        path = self.topology.path(to)
        if path is None or any(broker in gone for broker in path):
            path = (self.host, to)
        if to == lost and (gone or len(path) == 2):
            # Only the sender tries again and again.
            return [Note("parcel_stopped", to)]
        return self._dispatch(replace(parcel, path=(*gone, *path), at=parcel.at - 1))

    def pass_on(self, parcel: Parcel) -> list[Does]:
        return self._dispatch(parcel)

    # Arriving.

    def arrive(self, now_us: int, parcel: Parcel) -> tuple[list[Inside], list[Does]]:
        """What is now in order, and what is to be sent."""
        peer = parcel.path[0]
        flow = self.flow(peer)
        if flow is None:
            return [], [Note("broker_refused", peer)]
        if parcel.life in flow.peer_lives_before:
            return [], [Note("parcel_of_before", peer)]
        flow.heard_us = now_us
        if parcel.peer_life not in (0, flow.life):
            # Meant for this broker before it crashed; an answer tells the other one.
            flow.owes = True
            return [], self.acknowledge(peer)
        if flow.peer_life != parcel.life:
            if flow.peer_life:
                flow.restart(parcel.life)
                self.restarted.append(peer)
            flow.peer_life = parcel.life
        effects: list[Does] = []
        if parcel.peer_life == flow.life and flow.confirmed(parcel.got):
            flow.resend_s = self.params.resend_s
            effects = [SetTimer(f"resend:{peer}", now_us + microseconds(flow.resend_s))]
        effects += self._go_on(now_us, peer, flow)
        if not parcel.number:
            return [], effects
        if not flow.owes:
            flow.owes = True
            effects.append(SetTimer(f"acknowledge:{peer}", now_us + microseconds(self.params.acknowledge_s)))
        return self._ordered(flow, parcel), effects

    def _ordered(self, flow: Flow, parcel: Parcel) -> list[Inside]:
        if parcel.inside is not None and flow.got < parcel.number <= flow.got + self.params.stored_messages_max:
            flow.ahead[parcel.number] = parcel.inside
        ready: list[Inside] = []
        while flow.got + 1 in flow.ahead:
            flow.got += 1
            ready.append(flow.ahead.pop(flow.got))
        return ready

    def left(self) -> int:
        return sum(len(flow.waiting) + len(flow.ahead) for flow in self.of.values())
