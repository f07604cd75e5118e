"""Handover in a mesh: a client talks to its own broker through whichever broker it passes (M2, M5 to M8).

A client's *serving* broker is the one it last reported its mobility status to. It keeps the client's session, which
is its entry in the client table: status, subscriptions, and numbered events until they are acknowledged. While the
client is in another cell, whatever the two say to each other travels from broker to broker (`geographic.py`), one
event a packet, and the broker of that cell hands it over.

When the client reports to another broker, the session moves as by relocation (R3), on the tree: the new broker
subscribes, and its claim follows the subscription on every link. Until the claim has reached the old broker, that one
goes on forwarding; when it has, the new subscription stands wherever an event for the client could turn off, and the
old broker hands over, unsubscribes and forgets. Only what the client still lacks travels apart from the replay, on
the short way through the mesh; the replay itself keeps to the tree and says how many to wait for, so that what the
client publishes next cannot overtake what it published before.

Guarantee: as relocation's, however wrong a prediction is. Numbers belong to the session and go on from broker to
broker, so a client knows copies and gaps; a gap, or the end of its trip, makes it report, and whatever did not find
it is still with its serving broker then.

Parts that differ are methods of a subclass: `waits` (whether new events are held back) and `chase` (what is done with
an event whose client is elsewhere).
"""

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.arrows import Arrow, back
from roamcast.broker.border import Border
from roamcast.broker.mesh.geographic import Compass, next_hop
from roamcast.broker.mesh.grid import Grid
from roamcast.broker.mesh.prediction import TRIP_S_MAX, Status, Trip, trip_of
from roamcast.broker.messages import (
    Attach,
    BrokerMessage,
    Confirmed,
    Forwarded,
    Has,
    NotFound,
    Numbered,
    Poll,
    Polled,
    Relocate,
    Replay,
    Routed,
    Welcomed,
)
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.broker.params import BrokerParams
from roamcast.broker.relocation import Relocation
from roamcast.broker.session import Session
from roamcast.model.movement import MovementModel
from roamcast.node.boundary import CancelTimer, Does, Note, SetTimer


class Waiting(Struct):
    """Events at a forwarding broker for a client that has not come yet."""

    events: list[Forwarded]


class MeshHandover(Relocation):
    def __init__(
        self,
        host: str,
        params: BrokerParams,
        border: Border,
        neighbours: NeighbourBrokers,
        grid: Grid,
        movement: MovementModel | None = None,
    ) -> None:
        super().__init__(host, params, border, neighbours)
        cell = grid.cell_of(host)
        if cell is None:
            raise ValueError(f"'{host}' is not a broker of the mesh; its brokers are called {grid.broker((0, 0))} …")
        self.grid = grid
        self.here = cell
        self.movement = movement
        self.waiting: dict[str, Waiting] = {}
        border.follows_clients = True

    # What differs.

    def waits(self, status: Status | None) -> bool:
        """Whether new events wait until the client asks for them or reports."""
        return False

    def chase(self, now_us: int, session: Session, numbered: Numbered) -> list[Does]:
        """What becomes of a new event whose client is in another cell: it waits for the client's report."""
        return []

    # Clients.

    def attach(self, now_us: int, client: str, attach: Attach) -> list[Does]:
        effects = super().attach(now_us, client, attach)
        session = self.border.sessions.get(client)
        if session is None or session.epoch != attach.epoch:
            return effects
        session.attachment.trip = None if attach.status is None else self._trip(replace(attach.status, at_us=now_us))
        session.attachment.quiet = self.waits(attach.status)
        # Who has started anew may have left something anywhere: its next broker must ask everybody, as this one does.
        settled = session.attachment.awaits is None and attach.came != "restarted"
        return [*effects, *self.border.tell(client, Welcomed(attach.epoch, settled))]

    def hear_client(self, now_us: int, message: Has | Poll, client: str) -> list[Does]:
        cargo: Confirmed | Polled = (
            Confirmed(client, message.epoch, message.number)
            if isinstance(message, Has)
            else Polled(client, message.epoch, message.after, self.host)
        )
        return self._arrived(now_us, cargo) if message.broker == self.host else self.route(message.broker, cargo)

    def linked(self, now_us: int, peer: str) -> list[Does]:
        self.border.links[peer] = None
        waiting = self.waiting.pop(peer, None)
        if waiting is None:
            return []
        effects: list[Does] = [CancelTimer(f"waiting:{peer}")]
        for each in waiting.events:
            effects += self.border.tell(peer, each.numbered)
        return effects

    def unlinked(self, now_us: int, peer: str) -> list[Does]:
        self.border.links.pop(peer, None)
        effects: list[Does] = []
        stream = self.neighbours.streams.of.get(peer)
        for carried in list(stream.waiting) if stream is not None else []:
            if isinstance(carried.message, Routed):
                # It may have arrived before the link went: whoever gets it twice knows its number.
                effects += self._pass(replace(carried.message, visited=(), way=()), wait=False)
        session = self.border.sessions.get(peer)
        if session is not None and session.attachment.trip is not None:
            left_s = min(session.attachment.trip.left_s(now_us, self.grid.space), TRIP_S_MAX)
            gone_s = left_s + self.params.counterpart_age_s_max
            effects.append(SetTimer(f"away:{peer}", now_us + round(gone_s * 1e6)))
        return effects

    def follow(self, now_us: int) -> list[Does]:
        stranded, self.border.stranded = self.border.stranded, []
        effects: list[Does] = []
        for session, numbered in stranded:
            effects += self.chase(now_us, session, numbered)
        return effects

    def fired(self, now_us: int, name: str) -> list[Does]:
        kind, rest = name.split(":", 1)
        if kind != "waiting":
            return super().fired(now_us, name)
        missed = self.waiting.pop(rest, None)
        return [] if missed is None else [Note("forward_missed", rest)] * len(missed.events)

    # Between brokers.

    def hear(self, now_us: int, message: BrokerMessage, sender: str) -> list[Does]:
        if not isinstance(message, Routed):
            return super().hear(now_us, message, sender)
        return self._arrived(now_us, message.cargo) if message.to == self.host else self._pass(message)

    def route(self, to: str, cargo: Forwarded | Confirmed | Polled) -> list[Does]:
        """Sends something to any broker of the mesh."""
        if self.grid.cell_of(to) is None:
            return [Note("unroutable", to)]
        return self._pass(Routed(to, cargo))

    def _pass(self, routed: Routed, wait: bool = True) -> list[Does]:
        streams = self.neighbours.streams.of
        step = next_hop(
            self.grid,
            self.host,
            routed,
            [peer for peer, stream in streams.items() if stream.up],
            self.params.mesh.trail_max,
        )
        if step is not None:
            return self.neighbours.send([step])
        # Nobody who is up leads there: it waits in the stream to a neighbour whose link may come back.
        down = Compass(self.grid, routed.to).nearest(peer for peer, stream in streams.items() if not stream.up)
        if down is None:
            return [Note("unroutable", routed.to)]
        return self.neighbours.send([(down, replace(routed, visited=(), way=()))]) if wait else []

    def _arrived(self, now_us: int, cargo: Forwarded | Confirmed | Polled) -> list[Does]:
        match cargo:
            case Forwarded() if cargo.claim:
                return self._collect(cargo)
            case Forwarded():
                return self._hand_over(now_us, cargo)
            case Confirmed(client, epoch, number):
                session = self.border.sessions.get(client)
                if session is not None and session.epoch == epoch:
                    session.window.acknowledge(number)
                return []
            case Polled():
                return self.polled(now_us, cargo)

    def polled(self, now_us: int, polled: Polled) -> list[Does]:
        return [Note("unexpected_message", polled.kind)]

    # The forwarding broker.

    def forward(self, now_us: int, forwarded: Forwarded, to: str) -> list[Does]:
        return self._hand_over(now_us, forwarded) if to == self.host else self.route(to, forwarded)

    def _hand_over(self, now_us: int, forwarded: Forwarded) -> list[Does]:
        """To the client if it is here; after it, if it should have left already; else it waits a moment."""
        if self.border.is_here(forwarded.client):
            return self.border.tell(forwarded.client, forwarded.numbered)
        if forwarded.status is not None and forwarded.chases < self.params.mesh.chases_max:
            to = self.grid.broker(self._predicted(now_us, self._trip(forwarded.status)))
            if to != self.host:
                return self.route(to, replace(forwarded, chases=forwarded.chases + 1))
        return self._wait(now_us, forwarded)

    def _wait(self, now_us: int, forwarded: Forwarded) -> list[Does]:
        client = forwarded.client
        waiting = self.waiting.get(client)
        effects: list[Does] = []
        if waiting is None:
            if len(self.waiting) >= self.params.sessions_max:
                return [Note("forward_missed", client)]
            waiting = self.waiting[client] = Waiting([])
            until_us = now_us + round(self.params.mesh.arrival_wait_s * 1e6)
            effects.append(SetTimer(f"waiting:{client}", until_us))
        waiting.events.append(forwarded)
        if len(waiting.events) > self.params.mesh.held_events_max:
            waiting.events.pop(0)
            effects.append(Note("forward_missed", client))
        return effects

    def _trip(self, status: Status) -> Trip:
        return trip_of(status, self.grid, self.movement, self.params.mesh.stays_max)

    def _predicted(self, now_us: int, trip: Trip) -> tuple[int, int]:
        return trip.forwarding_cell(now_us, self.here, self.params.mesh.hop_delay_ms / 1e3)

    # The old broker and the new one.

    def _welcome(self, now_us: int, claim: Relocate, attach: Attach) -> list[Does]:
        """What was sent here ahead of a client that cannot take it before its session has come stays for the replay,
        and need not come again."""
        waiting = self.waiting.pop(claim.client, None)
        if waiting is None:
            return super()._welcome(now_us, claim, attach)
        ahead = {each.numbered.number: replace(each.numbered, epoch=0) for each in waiting.events}
        has = tuple((number, numbered.event_id) for number, numbered in ahead.items())
        effects = super()._welcome(now_us, replace(claim, has=has), attach)
        self.border.sessions[claim.client].attachment.sent_ahead = ahead
        return [CancelTimer(f"waiting:{claim.client}"), *effects]

    def _pass_on(self, claim: Relocate, before: Arrow | None, sender: str | None) -> list[Does]:
        """Where nobody knows better, towards the broker that last had the whole session, rather than to everybody.

        That one has the session still, or an arrow to where it went. A broker that only awaits a session would not
        do: a later claim ends an earlier one where they meet, so it must go where that one was going.
        """
        was_at = self.grid.cell_of(claim.was_at)
        step = self.grid.tree_step(self.here, was_at) if before is None and was_at not in (None, self.here) else None
        towards = None if step is None else self.grid.broker(step)
        if towards is None or towards == sender or towards not in self.neighbours.router.neighbours:
            return super()._pass_on(claim, before, sender)
        return self.neighbours.send([(towards, claim)])

    def _answer(self, session: Session, claim: Relocate) -> list[Does]:
        self.border.complete(session)
        lacking, has = session.lacking(claim.after), dict(claim.has)
        ahead = tuple(each.number for each in lacking if has.get(each.number) == each.event_id)
        effects: list[Does] = []
        for numbered in lacking:
            if numbered.number not in ahead:
                effects += self.route(claim.path[0], Forwarded(session.client, numbered, claim=claim.epoch))
        replay = Replay(
            client=session.client,
            epoch=claim.epoch,
            path=claim.path,
            last=True,
            session=self.border.state_of(session),
            apart=tuple(each.number for each in lacking),
            ahead=ahead,
        )
        return [*effects, *self.neighbours.send(back(replay))]

    def _settle(self, session: Session, lost: bool = False) -> list[Does]:
        effects = super()._settle(session, lost)
        if session.attachment.claim is not None or not session.attachment.attached:
            return effects
        return [*effects, *self.border.tell(session.client, Welcomed(session.epoch, settled=True))]

    def _collect(self, forwarded: Forwarded) -> list[Does]:
        session = self._awaiting(forwarded.client, forwarded.claim)
        if session is None:
            return []
        session.attachment.apart[forwarded.numbered.number] = forwarded.numbered
        return self._complete(session)

    def _replayed(self, replay: Replay) -> list[Does]:
        session = self._awaiting(replay.client, replay.epoch) if len(replay.path) == 1 else None
        if session is None:
            return super()._replayed(replay)
        session.attachment.replay = replay
        return self._complete(session)

    def _complete(self, session: Session) -> list[Does]:
        """The replay and all that travelled apart from it are here: it is as if they had come together."""
        attachment = session.attachment
        replay = attachment.replay
        if replay is None:
            return []
        apart, sent_ahead = attachment.apart, attachment.sent_ahead
        apart.update({number: sent_ahead[number] for number in replay.ahead if number in sent_ahead})
        if not all(number in apart for number in replay.apart):
            return []
        events = tuple(apart[number] for number in replay.apart)
        apart.clear()
        sent_ahead.clear()
        attachment.replay = None
        return super()._replayed(replace(replay, events=events, apart=()))

    def _not_found(self, answer: NotFound) -> list[Does]:
        session = self._awaiting(answer.client, answer.epoch) if len(answer.path) == 1 else None
        if session is not None and session.attachment.replay is not None:
            # An earlier claim of ours was answered, so a later one finds nothing: what it brings is under way.
            return []
        return super()._not_found(answer)

    def left(self) -> dict[str, int]:
        return {**super().left(), "waiting events": len(self.waiting)}
