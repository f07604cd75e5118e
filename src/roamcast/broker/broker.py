"""A broker: routes events by wishes, and keeps sessions for the clients attached to it (R1 to R3).

Its parts: the neighbours (other brokers, what they want and are asked for), the border (clients and their
sessions), and the handover, which moves a session to where its client has gone. This file hands each input to its
part.

Guarantee: over an acyclic graph of brokers each client gets every event that one of its subscriptions accepts once,
in the order in which its publisher published; whoever of them moves, under every routing strategy, and across links
that go down for less than the patience, which is days.
"""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from roamcast.broker.border import Border
from roamcast.broker.handover import Handover
from roamcast.broker.logical.ahead import Ahead
from roamcast.broker.logical.logical import Logical
from roamcast.broker.memory import Memory
from roamcast.broker.mesh.grid import Grid
from roamcast.broker.mesh.identity import EventIds
from roamcast.broker.mesh.presets import mesh_handover
from roamcast.broker.messages import (
    Ack,
    Advertise,
    Advertised,
    Attach,
    BrokerMessage,
    Echo,
    Got,
    Has,
    Hello,
    Located,
    Notified,
    Poll,
    Probe,
    Pub,
    Remember,
    Remembered,
    Report,
    Sequenced,
    Settled,
    Sub,
    Subscribed,
    Unadvertised,
    Unlocated,
    Unsub,
    Unwanted,
    Wanted,
)
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.broker.params import BrokerParams
from roamcast.broker.relocation import Relocation
from roamcast.broker.session import Session
from roamcast.broker.transfer import Interest
from roamcast.broker.wishes import Wish
from roamcast.model.movement import MovementModel
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.node.boundary import Does, Input, LinkDown, LinkUp, Message, Note, Received, Send, Start, TimerFired


class NeighbourRoutes(Struct, frozen=True):
    peer: str
    up: bool
    wants: tuple[Wish, ...]
    asked: tuple[Wish, ...]


class ClientRoutes(Struct, frozen=True):
    client: str
    attached: bool
    awaits_replay: bool
    kept: int
    """How many events wait for it or for its acknowledgement."""
    wants: tuple[Wish, ...]


class Routes(Struct, frozen=True):
    broker: str
    neighbours: tuple[NeighbourRoutes, ...]
    clients: tuple[ClientRoutes, ...]


class Broker:
    def __init__(
        self,
        host: str,
        params: BrokerParams,
        life: int,
        space: Space | None = None,
        graph: MovementGraph | None = None,
        movement: MovementModel | None = None,
        border: Callable[["Broker"], Border] = Border,
    ) -> None:
        """`life` must differ from one start of the broker to the next; `border` is how it meets its clients."""
        self.host = host
        self.params = params
        self.space = space = space or Plane()
        grid = Grid(params.mesh, space) if params.handover != "relocation" else None
        self.neighbours = NeighbourBrokers(life, params, space, partial(grid.in_tree, host) if grid else None)
        self.logical = Logical(self.neighbours, params.logical, graph)
        self.border = border(self)
        if grid is not None:
            self.border.ids = EventIds(host, life, 2 * grid.columns * grid.rows)
        self.handover: Handover = (
            mesh_handover(host, params, self.border, self.neighbours, grid, movement)
            if grid is not None
            else relocation(host, params, self.border, self.neighbours)
        )
        self.memory = Memory(host, self.border, self.neighbours, self.handover.arrow_of)

    def adopt(self, params: BrokerParams) -> None:
        """Goes on with other bounds (`BOUNDS`); everything else is as before."""
        self.params = self.neighbours.params = params
        self.neighbours.router.wishes_max = params.wishes_max
        self.border.adopt(params)
        self.handover.adopt(params)

    def routes(self) -> Routes:
        """What this broker knows, for people to look at."""
        router = self.neighbours.router
        neighbours = tuple(
            NeighbourRoutes(peer, stream.up, self._wants(peer), tuple(router.neighbours[peer].asked()))
            for peer, stream in self.neighbours.streams.of.items()
            if peer in router.neighbours
        )
        clients = tuple(
            ClientRoutes(
                session.client,
                session.attachment.attached,
                session.attachment.awaits is not None,
                len(session.window),
                self._wants_of(session),
            )
            for session in self.border.sessions.values()
        )
        return Routes(self.host, neighbours, clients)

    def _wants(self, source: str) -> tuple[Wish, ...]:
        return (*self.neighbours.router.table.of(source), *self.logical.following.table.of(source))

    def _wants_of(self, session: Session) -> tuple[Wish, ...]:
        """Clients may share a source."""
        own = set(session.wishes.values())
        return tuple(wish for wish in self._wants(self.border.source_of(session)) if wish.id in own)

    def left(self) -> dict[str, int]:
        """How much of everything this broker still remembers: nothing, when all clients are gone."""
        router = self.neighbours.router
        return {
            "sessions": len(self.border.sessions),
            "wishes": len(router.table),
            "advertisements": len(self.border.advertising or ()),
            "followed wishes": len(self.logical.following),
            "asked wishes": sum(len(asking.asked()) for asking in router.neighbours.values()),
            **self.handover.left(),
        }

    def handle(self, now_us: int, given: Input) -> list[Does]:
        return self.finish(now_us, self._handle(now_us, given))

    def finish(self, now_us: int, effects: list[Does]) -> list[Does]:
        """What follows from the effects of an input, and what neighbours are told in its order."""
        border, advertising = self.border, self.border.advertising
        while advertising is not None and advertising.settled:
            for client in advertising.take_settled():
                effects = [*effects, *border.settled(client)]
        if border.stranded or border.changed:
            effects = [*effects, *self.handover.follow(now_us)]
        return self.neighbours.numbered(effects) if effects or self.neighbours.confirming else effects

    def _handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Received(Sequenced() as sequenced, sender):
                return self.hear_stream(now_us, sequenced, sender)
            case Received(message, sender):
                return self._hear(now_us, message, sender)
            case LinkUp(peer):
                return [*self.neighbours.link_up(peer), *self.handover.linked(now_us, peer)]
            case LinkDown(peer):
                effects = [*self.neighbours.link_down(now_us, peer), *self.border.link_down(now_us, peer)]
                return [*effects, *self.handover.unlinked(now_us, peer)]
            case TimerFired(name):
                return self._fired(now_us, name)
            case Start():
                return self.logical.started(now_us)
            case _:
                return [Note("not_a_client", type(given).__name__)]

    def hear_stream(self, now_us: int, sequenced: Sequenced, sender: str) -> list[Does]:
        """To be finished (`finish`)."""
        message, effects = self.neighbours.take(sequenced, sender)
        return effects if message is None else self._hear_neighbour(now_us, message, sender) + effects

    def _hear_neighbour(self, now_us: int, message: BrokerMessage, sender: str) -> list[Does]:
        router = self.neighbours.router
        match message:
            case Notified(event, _, event_id):
                ids = self.border.ids
                if ids is not None and event_id is not None and not ids.is_new(event_id):
                    return [Note("event_again", event.id)]
                return self.border.route(message, sender)
            case Wanted(wish):
                return (
                    [Note("wish_refused", wish.id)]
                    if router.full()
                    else self.neighbours.send(router.want(sender, wish))
                )
            case Unwanted(wish_id):
                return self.neighbours.send(router.unwant(sender, wish_id))
            case Advertised() if router.full():
                return [Note("advertisement_refused", message.subject)]
            case Advertised() | Unadvertised() | Settled():
                advertising = self.border.advertising
                return [] if advertising is None else self.neighbours.send(advertising.hear(message, sender))
            case Located() | Unlocated():
                return self.logical.hear(message, sender)
            case Remember() | Remembered():
                return self.memory.hear(message, sender)
            case _:
                return self.handover.hear(now_us, message, sender)

    def _hear(self, now_us: int, message: Message, sender: str) -> list[Does]:
        match message:
            case Got():
                self.neighbours.confirm(message, sender)
                return []
            case Hello():
                return self._greet(now_us, message, sender)
            case Probe(at_us):
                return [Send(sender, Echo(at_us))]
            case Echo():
                return self.logical.echoed(now_us, message, sender)
            case Attach():
                return self.handover.attach(now_us, sender, message)
            case Has() | Poll():
                return self.handover.hear_client(now_us, message, sender)
            case _:
                return self._hear_client(message, sender)

    def _greet(self, now_us: int, hello: Hello, peer: str) -> list[Does]:
        known = self.neighbours.streams.continues(peer, hello)
        effects = self.neighbours.greet(peer, hello)
        effects += self.neighbours.set_clock(now_us, peer, hello)
        if not known:
            effects += self.handover.met(peer)
            self.neighbours.spare(peer, effects)
        return [*effects, *self.logical.greeted(now_us, peer)]

    def _hear_client(self, message: Message, client: str) -> list[Does]:
        session = self.border.sessions.get(client)
        if session is None:
            return [Note("no_session", client)]
        match message:
            case Pub():
                return self.border.publish(session, message)
            case Ack(number):
                session.window.acknowledge(number)
                return []
            case Advertise(subject, ends):
                change = self.border.unadvertise if ends else self.border.advertise
                return change(session, subject)
            case Report(state):
                return self.border.report(session, state)
            case Sub(subscription, number):
                effects = self.border.subscribe(session, Interest(subscription))
                return [*effects, *self._confirm(session, number)]
            case Unsub(subscription_id, number):
                return [*self.border.unsubscribe(session, subscription_id), *self._confirm(session, number)]
            case _:
                return [Note("unexpected_message", str(message.__struct_config__.tag))]

    def _confirm(self, session: Session, number: int) -> list[Does]:
        return self.border.tell(session.client, Subscribed(number)) if number else []

    def _fired(self, now_us: int, name: str) -> list[Does]:
        kind, rest = name.split(":", 1)
        if kind == "probe":
            return self.logical.fired(now_us)
        if kind != "link":
            return self.handover.fired(now_us, name)
        effects, advertising = self.neighbours.patience_over(now_us, rest), self.border.advertising
        return effects if advertising is None else [*effects, *self.neighbours.send(advertising.answer_all())]


def relocation(host: str, params: BrokerParams, border: Border, neighbours: NeighbourBrokers) -> Handover:
    """Plain, or with brokers that subscribe ahead (R7)."""
    plain = Relocation(host, params, border, neighbours)
    return Ahead(host, params.ahead, plain, border, neighbours) if params.ahead.next_brokers else plain
