"""Orders of the state machine, performed on the sockets of those they concern."""

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from roamcast.broker.mqtt.effects import (
    Accept,
    Acknowledge,
    Admit,
    AnyEffect,
    CaughtUp,
    Complete,
    Cut,
    Deliver,
    Deny,
    Dismiss,
    Fetch,
    Gave,
    Grant,
    Hand,
    HangUp,
    Release,
    Remark,
    Revoke,
    SetAside,
    Tell,
)
from roamcast.broker.mqtt.inputs import Left
from roamcast.mqtt.connection import CLOSED
from roamcast.mqtt.reasons import Reason
from roamcast.node.boundary import Message

if TYPE_CHECKING:
    from roamcast.broker.session import Session
    from roamcast.server.connection import ClientSocket
    from roamcast.server.server import BrokerServer

TRY_AGAIN = (Reason.SERVER_UNAVAILABLE, Reason.SERVER_BUSY)
"""Where a client is not refused, but comes too early."""


class NeighbourLinks(Protocol):
    """The links to other brokers."""

    def tell(self, peer: str, message: Message, link: int | None = None) -> None: ...
    def link_to(self, peer: str) -> int:
        """Which link to it this is, of all that there were to anybody; 0 if there is none."""
        ...

    def cut(self, peer: str) -> None: ...


class Outbound:
    def __init__(self, server: "BrokerServer") -> None:
        self.server = server
        self.neighbours: NeighbourLinks | None = None

    def perform(self, effects: list[AnyEffect]) -> None:
        """Each by itself: what cannot be done for one client is no reason to forget the others."""
        now_us = self.server.heard_us
        stored: dict[Session, int] = {}
        """By session, the last number that may be sent now."""
        for effect in effects:
            if type(effect) is Deliver:
                self._count(effect)
                stored.update(effect.receivers)
                continue
            if stored:
                self._deliver(now_us, stored)
                stored = {}
            try:
                self._perform(now_us, effect)
            except Exception as problem:
                client = getattr(effect, "client", None)
                socket = None if client is None else self.server.clients.get(client)
                self.failed(type(effect).__name__, problem, socket)
        if stored:
            self._deliver(now_us, stored)

    def failed(self, what: str, problem: Exception, socket: "ClientSocket | None") -> None:
        """A client for which something could not be done starts again."""
        self.server.monitor.remark("internal_error", f"{what}: {problem!r}")
        if socket is not None and socket.transport is not None:
            socket.transport.abort()

    def _perform(self, now_us: int, effect: AnyEffect) -> None:
        match effect:
            case Hand():
                self._hand(now_us, effect)
            case Deliver():
                self._count(effect)
                self._deliver(now_us, dict(effect.receivers))
            case Accept():
                socket = self.server.clients.get(effect.client)
                if socket is not None:
                    socket.mqtt.acknowledge_all(now_us, effect.packet_ids)
                    socket.attend()
            case Gave(client, more):
                self.server.gave(client, more)
            case Tell(peer, message, link):
                if self.neighbours is not None:
                    self.neighbours.tell(peer, message, link)
            case Cut(peer):
                if self.neighbours is not None:
                    self.neighbours.cut(peer)
            case Fetch(peer, number):
                self.server.fetch(peer, number)
            case SetAside(number, body):
                self.server.write_ahead.set_aside(number, body)
            case Remark(what, detail):
                self.server.monitor.remark(what, detail)
            case CaughtUp(keys):
                self.server.ahead.caught_up(keys)
            case Admit() | Deny():
                self._answer_arrival(now_us, effect)
            case _:
                socket = self.server.clients.get(effect.client)
                if socket is not None:
                    self._perform_for(now_us, socket, effect)
                    socket.attend()

    def _hand(self, now_us: int, effect: Hand) -> None:
        batch, retain, ids, clients = effect.batch, effect.retain, effect.subscription_ids, self.server.clients
        for name in effect.clients:
            socket = clients.get(name)
            if socket is not None:
                mqtt = socket.mqtt
                mqtt.deliver_batch(now_us, batch, retain, ids)
                if mqtt.pending:
                    socket.attend()
                elif not socket.dirty:
                    socket.mark()
        count = len(effect.clients)
        self.server.metrics.sent(0, batch.payload_bytes * count, len(batch.messages) * count)

    def bound_to_links(self, effects: list[AnyEffect]) -> list[AnyEffect]:
        """What goes to neighbours goes over the links of now or not at all: over the next one it could come before
        what that one has to bring again."""
        neighbours = self.neighbours
        if neighbours is None:
            return effects
        return [
            replace(each, link=neighbours.link_to(each.peer)) if isinstance(each, Tell) else each for each in effects
        ]

    def remarked(self, effects: list[AnyEffect]) -> list[AnyEffect]:
        """Performs what nobody outside sees, and answers with the effects that wait for the disk."""
        others: list[AnyEffect] = []
        for effect in effects:
            if type(effect) is Remark:
                self.server.monitor.remark(effect.what, effect.detail)
            elif type(effect) is SetAside:
                self.server.write_ahead.set_aside(effect.number, effect.body)
            else:
                others.append(effect)
        return others

    def _perform_for(
        self,
        now_us: int,
        socket: "ClientSocket",
        effect: Acknowledge | Complete | Release | Grant | Revoke | Dismiss | HangUp,
    ) -> None:
        match effect:
            case Acknowledge(_, packet_id, reason, text):
                socket.mqtt.acknowledge(now_us, packet_id, reason, text)
            case Complete(_, packet_id):
                socket.mqtt.complete(now_us, packet_id)
            case Release(_, number):
                socket.mqtt.release(now_us, number)
            case Grant(_, packet_id, reasons, text):
                socket.mqtt.answer_subscribe(now_us, packet_id, reasons, text)
            case Revoke(_, packet_id, reasons):
                socket.mqtt.answer_unsubscribe(now_us, packet_id, reasons)
            case HangUp(_, reason, text):
                socket.mqtt.disconnect(now_us, reason, text)
            case Dismiss(client, reason, text):
                # Its session is not this broker's any more, so its leaving changes nothing here.
                del self.server.clients[client]
                if self.server.trackers is not None:
                    self.server.trackers.forget(client)
                socket.mqtt.disconnect(now_us, reason, text)

    def _answer_arrival(self, now_us: int, effect: Admit | Deny) -> None:
        socket = self.server.arriving.get(effect.client)
        if socket is None or socket.arrival != effect.arrival:
            # It has gone, or come again since: that one has an answer of its own.
            return
        del self.server.arriving[effect.client]
        if isinstance(effect, Deny):
            if effect.reason in TRY_AGAIN and not effect.explains:
                socket.mqtt.hang_up()
            else:
                socket.mqtt.refuse(now_us, effect.reason, effect.text)
            socket.attend()
            return
        if not self.server.access.may_stay(socket):
            # The rules have changed since it was let in.
            socket.mqtt.refuse(now_us, Reason.NOT_AUTHORIZED, "the rules have changed")
            socket.attend()
            self.server.give(Left(effect.client, None, True))
            return
        self.server.clients[effect.client] = socket
        self.server.inbound.forbid(socket, effect.session, effect.session.window.sent_through)
        through, early = effect.through, socket.stored_early
        if early is not None and early[0] is effect.session:
            through = max(through, early[1])
        if socket.mqtt.accept(now_us, effect.session, effect.present, through):
            socket.attend()
            return
        del self.server.clients[effect.client]
        # Its connection was never accepted, and neither was its will.
        self.server.give(Left(effect.client, None, True))
        socket.mark()

    def refuse_waiting(self, problem: Exception, effects: list[AnyEffect]) -> list[AnyEffect]:
        """The disk is full, and these wait for it: nobody is to wait in silence (P-57). Messages of QoS 1 are
        refused, and may reach their subscribers all the same when there is room. Who waits for another answer is
        disconnected. The effects that are left."""
        text = f"the broker cannot store anything: {problem}"
        return [each for each in effects if not self._refuse(each, text)]

    def _refuse(self, effect: AnyEffect, text: str) -> bool:
        """Whether it needs no other answer."""
        match effect:
            case Acknowledge(client, packet_id):
                packet_ids: tuple[int, ...] = (packet_id,)
            case Accept(client, packet_ids):
                pass
            case Complete(client) | Release(client) | Grant(client) | Revoke(client) | Admit(client):
                packet_ids = ()
            case _:
                return False
        here = self.server.arriving if isinstance(effect, Admit) else self.server.clients
        socket, now_us = here.get(client), self.server.now_us()
        if socket is None or socket.mqtt.state is CLOSED:
            return False
        refused = bool(packet_ids) and all(map(socket.mqtt.expects_puback, packet_ids))
        if refused:
            for packet_id in packet_ids:
                socket.mqtt.acknowledge(now_us, packet_id, Reason.QUOTA_EXCEEDED, text)
        else:
            socket.mqtt.disconnect(now_us, Reason.QUOTA_EXCEEDED, text)
        socket.attend()
        return refused

    def _deliver(self, now_us: int, stored: dict["Session", int]) -> None:
        """By session, the last number that is stored: several deliveries that stand side by side are one call."""
        clients = self.server.clients
        for session, number in stored.items():
            socket = clients.get(session.client) or self.server.arriving.get(session.client)
            if socket is None or socket.mqtt.session is not session:
                if socket is not None and socket.mqtt.session is None:
                    socket.stored_early = session, number
                continue
            mqtt = socket.mqtt
            try:
                mqtt.deliver(now_us, number)
            except Exception as problem:
                self.failed("Deliver", problem, socket)
            if mqtt.pending:
                socket.attend()
            elif not socket.dirty:
                socket.mark()

    def _count(self, effect: Deliver) -> None:
        run, form, count = effect.run, effect.run[0].form, len(effect.receivers)
        if form is not None:
            size_bytes = run[0].size_bytes if len(run) == 1 else sum([each.size_bytes for each in run])
            self.server.metrics.sent(form.qos, size_bytes * count, len(run) * count)
