"""A broker: routes events by wishes, and keeps sessions for the clients attached to it (R1 to R3).

Its parts: the neighbourhood (other brokers, what they want and are asked for), the border (clients and their
sessions), and the handover, which moves a session to where its client has gone. This file hands each input to its
part.

Guarantee: over an acyclic graph of brokers each client gets every event that one of its subscriptions accepts once,
in the order in which its publisher published; whoever of them moves, under every routing strategy, and across links
that go down for less than the patience.
"""

from roamcast.model.space import Plane, Space
from roamcast.node.boundary import Does, Input, LinkDown, LinkUp, Message, Note, Received, Start, TimerFired
from roamcast.protocols.broker.border import Border
from roamcast.protocols.broker.handover import Handover
from roamcast.protocols.broker.messages import (
    Ack,
    Attach,
    Between,
    Carried,
    Got,
    Hello,
    Notified,
    Pub,
    Sub,
    Unsub,
    Unwanted,
    Wanted,
)
from roamcast.protocols.broker.neighbourhood import Neighbourhood
from roamcast.protocols.broker.params import BrokerParams
from roamcast.protocols.broker.relocation import Relocation


class Broker:
    def __init__(self, host: str, params: BrokerParams, life: int, space: Space | None = None) -> None:
        """`life` must differ from one start of the broker to the next."""
        self.host = host
        self.params = params
        space = space or Plane()
        self.neighbourhood = Neighbourhood(life, params, space)
        self.border = Border(self.neighbourhood, params, space)
        self.handover: Handover = Relocation(host, params, self.border, self.neighbourhood)

    def left(self) -> dict[str, int]:
        """How much of everything this broker still remembers: nothing, when all clients are gone."""
        router = self.neighbourhood.router
        return {
            "sessions": len(self.border.sessions),
            "wishes": len(router.table),
            "asked wishes": sum(len(asking.asked()) for asking in router.neighbours.values()),
            **self.handover.left(),
        }

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Received(Carried() as carried, sender):
                message, effects = self.neighbourhood.take(carried, sender)
                return effects if message is None else [*self._hear_neighbour(now_us, message, sender), *effects]
            case Received(message, sender):
                return self._hear(now_us, message, sender)
            case LinkUp(peer):
                return self.neighbourhood.link_up(peer)
            case LinkDown(peer):
                return [*self.neighbourhood.link_down(now_us, peer), *self.border.link_down(now_us, peer)]
            case TimerFired(name):
                return self._fired(now_us, name)
            case Start():
                return []
            case _:
                return [Note("not_a_client", type(given).__name__)]

    def _hear_neighbour(self, now_us: int, message: Between, sender: str) -> list[Does]:
        router = self.neighbourhood.router
        match message:
            case Notified(event, serial):
                return self.border.route(event, serial, sender)
            case Wanted(wish):
                return (
                    [Note("wish_refused", wish.id)]
                    if router.full()
                    else self.neighbourhood.say(router.want(sender, wish))
                )
            case Unwanted(wish_id):
                return self.neighbourhood.say(router.unwant(sender, wish_id))
            case _:
                return self.handover.hear(now_us, message, sender)

    def _hear(self, now_us: int, message: Message, sender: str) -> list[Does]:
        match message:
            case Got():
                self.neighbourhood.confirm(message, sender)
                return []
            case Hello():
                return self.neighbourhood.greet(sender, message)
            case Attach():
                return self.handover.attach(now_us, sender, message)
            case _:
                return self._hear_client(message, sender)

    def _hear_client(self, message: Message, client: str) -> list[Does]:
        session = self.border.sessions.get(client)
        if session is None:
            return [Note("no_session", client)]
        match message:
            case Pub():
                return self.border.publish(session, message)
            case Ack(number):
                session.counterpart.acknowledge(number)
                return []
            case Sub(subscription):
                return self.border.subscribe(session, subscription)
            case Unsub(subscription_id):
                return self.border.unsubscribe(session, subscription_id)
            case _:
                return [Note("unexpected_message", str(message.__struct_config__.tag))]

    def _fired(self, now_us: int, name: str) -> list[Does]:
        kind, rest = name.split(":", 1)
        return self.neighbourhood.give_up(rest) if kind == "link" else self.handover.fired(now_us, name)
