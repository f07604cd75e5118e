"""The naive solutions of Rebeca, figures 2 and 3, as baselines: small, readable, and wrong on purpose (R6).

Physical mobility: a client that meets another broker subscribes there again. If it still can, and `unsubscribes`, it
unsubscribes at the old one. Nobody keeps anything for it and nothing is replayed, so what is published while it is
between two brokers is lost, and what is under way to both it gets twice.

Logical mobility, for filters over the client's place, in one of two ways:

| location | what the client does when it moves | blackout |
|---|---|---|
| resubscribe | subscribes for the new place, unsubscribes for the old one | 2 t_d: the wish there, an event back |
| flood | nothing: it subscribes for every place and judges what arrives | t_d: an event back |

The brokers are ours without sessions: the same streams and routing, and a client is whoever has a link.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.logical.reach import relaxed
from roamcast.broker.messages import Got, Hello, Notified, Pub, Sequenced, Sub, Unsub, Unwanted, Wanted
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.broker.params import BrokerParams
from roamcast.broker.router import CLIENT
from roamcast.broker.routing import Strategy
from roamcast.broker.wishes import Wish
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter.bound import bind, is_bound
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import (
    Deliver,
    Does,
    Input,
    LinkDown,
    LinkUp,
    Message,
    Moved,
    Note,
    Publish,
    Received,
    Send,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from roamcast.node.local_match import wanted_here

MESSAGES: tuple[type[Message], ...] = (Hello, Sequenced, Got, Notified, Pub, Sub, Unsub)


class ResubscribingParams(Struct, frozen=True, forbid_unknown_fields=True):
    routing: Strategy = "simple"
    """As of the brokers; with `flooding`, events go everywhere and only border brokers look at subscriptions."""
    unsubscribes: bool = True
    """Whether a client that meets another broker unsubscribes at the old one, as long as it can."""
    location: Literal["resubscribe", "flood"] = "resubscribe"
    """What becomes of a subscription over the client's own place."""


class ResubscribingBroker:
    def __init__(self, params: ResubscribingParams, life: int, space: Space | None = None) -> None:
        self.neighbours = NeighbourBrokers(life, BrokerParams(routing=params.routing), space or Plane())
        self.clients: dict[str, None] = {}

    def handle(self, now_us: int, given: Input) -> list[Does]:
        return self.neighbours.numbered(self._handle(now_us, given))

    def _handle(self, now_us: int, given: Input) -> list[Does]:
        neighbours = self.neighbours
        match given:
            case Received(Sequenced() as sequenced, sender):
                message, effects = neighbours.take(sequenced, sender)
                return [*self._hear_neighbour(message, sender), *effects]
            case Received(Hello() as hello, sender):
                return neighbours.greet(sender, hello)
            case Received(Got() as got, sender):
                neighbours.confirm(got, sender)
                return []
            case Received(message, sender):
                return self._hear_client(message, sender)
            case LinkUp(peer):
                return neighbours.link_up(peer)
            case LinkDown(peer):
                self.clients.pop(peer, None)
                return neighbours.link_down(now_us, peer)
            case TimerFired(name):
                return neighbours.patience_over(now_us, name.split(":", 1)[1])
            case _:
                return []

    def _hear_neighbour(self, message: Message | None, sender: str) -> list[Does]:
        router = self.neighbours.router
        match message:
            case Notified() as notified:
                return self._route(notified, sender)
            case Wanted(wish):
                return self.neighbours.send(router.want(sender, wish))
            case Unwanted(wish_id):
                return self.neighbours.send(router.unwant(sender, wish_id))
            case _:
                return []

    def _hear_client(self, message: Message, client: str) -> list[Does]:
        self.clients[client] = None
        router = self.neighbours.router
        match message:
            case Sub(subscription):
                wish = Wish(subscription.id, subscription.subject, relaxed(subscription.filter))
                return self.neighbours.send(router.want(CLIENT + client, wish))
            case Unsub(subscription_id):
                return self.neighbours.send(router.unwant(CLIENT + client, subscription_id))
            case Pub(serial, event):
                return self._route(Notified(event, serial), CLIENT + client)
            case _:
                return []

    def _route(self, notified: Notified, source: str) -> list[Does]:
        outgoing, clients = self.neighbours.router.route(notified, source)
        here = [Send(client, notified) for client in clients if client in self.clients]
        return [*self.neighbours.send(outgoing), *here]

    def left(self) -> dict[str, int]:
        """What it still remembers, as `Broker.left`."""
        return {"wishes": len(self.neighbours.router.table), "clients": len(self.clients)}


class ResubscribingClient:
    def __init__(
        self,
        host: str,
        params: ResubscribingParams,
        space: Space | None = None,
        graph: MovementGraph | None = None,
    ) -> None:
        self.params = params
        self.space = space or Plane()
        self.graph = graph
        self.me = Context(host)
        self.broker: str | None = None
        self.links: dict[str, None] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.asked: dict[str, Subscription] = {}
        """By subscription, what the broker is asked for."""
        self._bound = 0
        self._published = 0

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Received(Notified(event), _):
                return self._deliver(now_us, event)
            case LinkUp(peer):
                self.links[peer] = None
                return self._go_to(peer)
            case LinkDown(peer):
                self.links.pop(peer, None)
                self.broker = self.broker if peer != self.broker else next(reversed(self.links), None)
                return []
            case Publish(event):
                self._published += 1
                return self._say(Pub(self._published, event)) or [Note("no_broker", event.id)]
            case Subscribe(subscription):
                self.subscriptions[subscription.id] = subscription
                return self._ask(subscription)
            case Unsubscribe(subscription_id):
                self.subscriptions.pop(subscription_id, None)
                asked = self.asked.pop(subscription_id, None)
                return self._say(Unsub(asked.id)) if asked is not None else []
            case Start(context):
                self.me = context
                return []
            case Moved(context):
                moved = context.attributes.get("place") != self.me.attributes.get("place")
                self.me = context
                return self._ask_for_places() if moved else []
            case _:
                return []

    def _say(self, message: Message) -> list[Does]:
        return [Send(self.broker, message)] if self.broker is not None else []

    def _go_to(self, broker: str) -> list[Does]:
        farewell: list[Does] = []
        if self.broker is not None and self.params.unsubscribes:
            farewell = [Send(self.broker, Unsub(asked.id)) for asked in self.asked.values()]
        self.broker = broker
        return [*farewell, *[Send(broker, Sub(asked)) for asked in self.asked.values()]]

    def _ask(self, subscription: Subscription) -> list[Does]:
        before = self.asked.get(subscription.id)
        asked = subscription
        if not is_bound(subscription.filter) and self.params.location == "resubscribe":
            self._bound += 1
            bound = bind(subscription.filter, self.me, self.space, self.graph)
            asked = replace(subscription, id=f"{subscription.id} {self._bound}", filter=bound)
        self.asked[subscription.id] = asked
        effects = self._say(Sub(asked))
        return effects if before is None else [*effects, *self._say(Unsub(before.id))]

    def _ask_for_places(self) -> list[Does]:
        if self.params.location == "flood":
            return []
        effects: list[Does] = []
        for subscription in self.subscriptions.values():
            if not is_bound(subscription.filter):
                effects += self._ask(subscription)
        return effects

    def _deliver(self, now_us: int, event: Event) -> list[Does]:
        wanted = wanted_here(event, self.subscriptions.values(), self.me, now_us, self.space, self.graph)
        return [Deliver(event, subscription.id) for subscription in wanted]
