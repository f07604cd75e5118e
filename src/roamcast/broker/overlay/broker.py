"""A broker of an opportunistic overlay (O1 to O7): a second composition of broker parts.

It differs from `broker/broker.py` in what the papers assume: there brokers form a tree of links and events follow
wishes from neighbour to neighbour; here any host reaches any other through the network under the overlay, the broker
graph is general and changes, and an event leaves with its whole path (docs/decisions/0008). Sessions, counterparts,
wish tables, clients and modulators are the same parts.

    over the air            Search             relayed, and answered
    from brokers            Rows, Parcel       broker manager: topology, flows, directory
    from clients            Attach, Pub, …     client manager: sessions, posts
    from both, for a move   Ask to Handoff     relocation
    whatever happened       system channel     adaptors

Guarantee: every consumer gets what the modulators of its subscriptions make of every event they accept, once and in
the order of each producer, while brokers change their neighbours, clients their home brokers and modulators their
places; as long as no broker crashes, nobody is away for longer than the bounds, and no more waits than they allow.
"""

from collections.abc import Callable
from random import Random

from roamcast.broker.messages import Ack, Attach, Pub, Sub, Unsub
from roamcast.broker.overlay.adaptors.make import make_adaptors
from roamcast.broker.overlay.broker_manager import BrokerManager
from roamcast.broker.overlay.channel import NearestBroker, NeighboursFound, SystemChannel, UpdateDue
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.gauge import UNMEASURED, Gauge
from roamcast.broker.overlay.messages import (
    Aside,
    Discharge,
    Enrol,
    Here,
    Inside,
    Leave,
    Met,
    Modulated,
    Nearest,
    Parcel,
    Produces,
    Retire,
    Routed,
    Rows,
    Search,
    SwitchedOff,
    Unknown,
    Whereabouts,
)
from roamcast.broker.overlay.monitor import ResourceMonitor
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.broker.overlay.relocation import Relocation
from roamcast.broker.overlay.search import Answering, Found, Relaying, Searching
from roamcast.broker.overlay.services import Services
from roamcast.broker.overlay.tables import OverlayTables, tables_of
from roamcast.model.context import Context
from roamcast.model.space import Plane, Space
from roamcast.node.boundary import (
    Does,
    Input,
    LinkDown,
    Measured,
    Message,
    Moved,
    Note,
    Received,
    SetTimer,
    Start,
    TimerFired,
)

START_US = 1_000_000
"""Within so long after its start a broker looks for others."""


class OverlayBroker:
    def __init__(
        self,
        host: str,
        params: OverlayParams,
        rng: Random,
        space: Space | None = None,
        gauge: Gauge = UNMEASURED,
    ) -> None:
        """`gauge` runs the modulators; what it measures of them comes as an input."""
        self.host = host
        self.params = params
        self.rng = rng
        space = space or Plane()
        self.channel = SystemChannel()
        self.brokers = BrokerManager(host, params, rng.getrandbits(32) + 1, self.channel, space)
        self.clients = ClientManager(host, params, self.brokers, space, gauge)
        self.monitor = ResourceMonitor(params, self.clients, self.channel)
        self.relocation = Relocation(host, params, self.brokers, self.clients, space)
        self.relaying = Relaying(host, params)
        self.answering = Answering(params, rng)
        self.searching = Searching(host, params)
        self.brokers.take = self._hear_broker
        self.aside: Callable[[int, bytes, str], list[Does]] = lambda *_: [Note("unexpected_message", "aside")]
        """What whoever runs this broker does with what another one says to it."""
        services = Services(
            host, params, rng, self.brokers, self.clients, self.monitor, self.relocation.departing, self.searching
        )
        for adaptor in make_adaptors(services):
            self.channel.register(adaptor)

    def left(self) -> dict[str, int]:
        """How much of everything this broker still remembers: when all clients are gone, only the other brokers."""
        return {
            "sessions": len(self.clients.sessions),
            "posts": len(self.clients.posts),
            "clients that left": len(self.clients.gone),
            "entries": len(self.brokers.directory.entries),
            "wishes": len(self.brokers.directory.table),
            "producers": len(self.brokers.directory.producers),
            "moves": len(self.relocation.departing.moves),
            "arrivals": len(self.relocation.arriving.arrivals),
            "messages": self.brokers.flows.left(),
            "brokers told": len(self.brokers.told),
            "news": len(self.brokers.news),
        }

    def tables(self) -> OverlayTables:
        """What this broker knows, for people to look at."""
        return tables_of(self)

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Received(Search() as search):
                return self._searched(now_us, search)
            case Received(message, sender, _, hops):
                return self._hear(now_us, message, sender, hops or 1)
            case TimerFired(name):
                return self._fired(now_us, name)
            case LinkDown(peer):
                return [*self.brokers.unreachable(now_us, peer), *self.clients.unreachable(now_us, peer)]
            case Start(context):
                self._told_link(context)
                return [
                    SetTimer("update", now_us + self.rng.randint(0, START_US)),
                    SetTimer("tend", now_us + microseconds(self.params.tend_s)),
                    *self.monitor.start(now_us),
                ]
            case Measured():
                return self.monitor.measured(now_us, given)
            case Moved(context):
                self._told_link(context)
                return []
            case _:
                return [Note("not_a_client", type(given).__name__)]

    def _told_link(self, context: Context) -> None:
        told = context.attributes.get("link_kbps")
        if isinstance(told, int | float) and not isinstance(told, bool) and 0 < told < float("inf"):
            self.brokers.topology.kbps = float(told)
        else:
            self.brokers.topology.kbps = self.params.link_kbps

    def _searched(self, now_us: int, search: Search) -> list[Does]:
        new, effects = self.relaying.hear(search)
        return [*self.answering.owe(now_us, search, self.monitor.load), *effects] if new else effects

    def _fired(self, now_us: int, name: str) -> list[Does]:
        kind, _, rest = name.partition(":")
        match kind:
            case "update":
                return self.channel.publish(now_us, UpdateDue())
            case "ring":
                found, effects = self.searching.fired(now_us)
                if found is None:
                    return effects
                return [*effects, *self.channel.publish(now_us, NeighboursFound(tuple(found)))]
            case "answer":
                return self.answering.fired(name)
            case "news":
                return self.brokers.propagate()
            case "resend":
                return self.brokers.flows.resend(now_us, rest)
            case "acknowledge":
                return self.brokers.flows.acknowledge(rest)
            case "load":
                return self.monitor.start(now_us)
            case _:
                self.brokers.topology.forgive(now_us)
                again = SetTimer("tend", now_us + microseconds(self.params.tend_s))
                tended = [*self.clients.tend(now_us), *self.relocation.tend(now_us), *self.brokers.spread(now_us)]
                return [again, *tended, *self._give_up(now_us), *self.brokers.flows.knock(now_us)]

    def _give_up(self, now_us: int) -> list[Does]:
        """Whoever has not answered for too long."""
        effects: list[Does] = []
        for broker in self.brokers.flows.overdue(now_us):
            effects += [Note("broker_given_up", broker), *self.relocation.losses.bereave(now_us, broker)]
            effects += [*self.relocation.bereave(now_us, broker), *self.relocation.losses.recover(now_us, broker)]
            self.brokers.give_up(now_us, broker)
        self.brokers.forget_lost(now_us)
        return effects

    # Over the network.

    def _hear(self, now_us: int, message: Message, sender: str, hops: int) -> list[Does]:
        match message:
            case Here():
                self.searching.answered(message, sender)
                return []
            case Rows():
                effects = self._heard_again(now_us, sender)
                effects += self.brokers.learn(now_us, message, sender)
                for broker in self.brokers.topology.known():
                    effects += self.relocation.acquaintance.meet(now_us, broker)
                return effects
            case Parcel(path, at) if path[at] != self.host or path[0] == self.host:
                return [Note("parcel_astray", sender)]
            case Parcel(path) if path[-1] != self.host:
                return self.brokers.flows.pass_on(message)
            case Parcel():
                return self._open(now_us, message)
            case Attach():
                return self.clients.attach(now_us, sender, message, hops)
            case _:
                return self._hear_client(now_us, message, sender, hops)

    def _heard_again(self, now_us: int, broker: str) -> list[Does]:
        """One that was given up is met as if it were new."""
        return self.relocation.acquaintance.meet(now_us, broker) if broker in self.brokers.flows.lost else []

    def _open(self, now_us: int, parcel: Parcel) -> list[Does]:
        sender = parcel.path[0]
        ready, effects = self.brokers.flows.arrive(now_us, parcel)
        effects += self._heard_again(now_us, sender)
        for peer in self.brokers.flows.restarted:
            effects += self._restarted(now_us, peer)
        self.brokers.flows.restarted.clear()
        for inside in ready:
            effects += self._hear_broker(now_us, inside, sender)
        return effects

    def _restarted(self, now_us: int, peer: str) -> list[Does]:
        """A broker has crashed, and is here again."""
        relocation = self.relocation
        effects = relocation.acquaintance.introduce(now_us, peer)
        effects += [*relocation.losses.recover(now_us, peer), *relocation.losses.orphan(now_us, peer)]
        effects += [*relocation.arriving.bereave(now_us, peer), *relocation.departing.restarted(now_us, peer)]
        # What it has now it will tell. What it had is gone, also for those who believe it where it was before.
        for discharge in self.brokers.directory.without(peer):
            effects += self.brokers.say_all(now_us, discharge)
        return effects

    def _hear_client(self, now_us: int, message: Message, client: str, hops: int) -> list[Does]:
        session = self.clients.sessions.get(client)
        if session is None:
            return self.clients.stranger(client)
        session.heard_us, session.hops = now_us, hops
        match message:
            case Pub():
                return self.clients.publish(now_us, session, message)
            case Ack(number):
                session.window.acknowledge(number)
                return []
            case Nearest(broker, far, load):
                candidate = Found(broker, far, load)
                return self.channel.publish(now_us, NearestBroker(client, candidate, hops))
            case Sub(subscription) if not session.departing:
                return self.clients.subscribe(now_us, session, subscription)
            case Unsub(subscription_id) if not session.departing:
                return self.clients.unsubscribe(now_us, session, subscription_id)
            case Leave(born) if session.born < born:
                return self.clients.close(now_us, session)
            case _:
                # While a session departs, its next home broker hears from the client what it wants.
                return []

    # From brokers, in order.

    def _hear_broker(self, now_us: int, inside: Inside, sender: str) -> list[Does]:
        directory = self.brokers.directory
        match inside:
            case Routed(_, _, addresses):
                effects: list[Does] = []
                for address in addresses:
                    effects += self.relocation.arriving.route(now_us, inside, address, sender)
                return effects
            case Modulated() | SwitchedOff():
                return self.relocation.arriving.modulated(now_us, inside, sender)
            case Met():
                return self.relocation.acquaintance.meet(now_us, sender)
            case Enrol():
                return self.clients.enrolled(inside)
            case Discharge():
                return self.relocation.losses.discharged(now_us, inside)
            case Whereabouts():
                return self.clients.told_of(now_us, inside, sender)
            case Unknown():
                return self.clients.enquired(now_us, inside, sender)
            case Aside(data):
                return self.aside(now_us, data, sender)
            case Produces():
                directory.produces(inside)
                return []
            case Retire():
                return self.relocation.arriving.retire(now_us, inside)
            case _:
                return self.relocation.hear(now_us, inside, sender)
