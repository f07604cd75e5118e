"""Trials of roaming (R3): random brokers, clients that come and go at the worst moments, and what must hold then.

A trial is made from its seed alone. Brokers are linked as a random tree with delays of their own; clients publish,
subscribe, move, vanish, come back, and hang on two brokers at once; links between brokers go down and up. Afterwards
every subscription must have got every event it accepts, once, each publisher's in the order of publication; and when
all clients have been away for long enough, no broker may remember anything.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Value
from roamcast.node.boundary import Node, Publish, Subscribe, Unsubscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.protocols.broker.broker import Broker
from roamcast.protocols.broker.client import Client
from roamcast.protocols.broker.messages import MESSAGES
from roamcast.protocols.broker.params import BrokerParams
from roamcast.sim.links import LinkParams
from roamcast.sim.mobility.legs import Track, resting_forever
from roamcast.sim.observers import SilentObserver
from roamcast.sim.residents import Resident
from roamcast.sim.world import World

FILTERS = (
    "price < 5",
    "price < 3",
    "price >= 2 AND price < 7",
    "price IN (1, 4, 9)",
    "kind = 'a'",
    "kind = 'a' AND price < 6",
    "price > 8",
    "TRUE",
)
SUBJECT = "x"
PAUSES_S = (0.001, 0.01, 0.05, 0.3)
SETTLES_S = 30.0
FORBIDDEN = (
    "replay_missing",
    "counterpart_lost",
    "events_lost",
    "neighbour_gone",
    "publication_refused",
    "unsendable",
    "stream_gap",
    "stream_overflow",
    "wish_refused",
    "bad_claim",
    "event_looped",
)
"""Notes that would mean a loss: none is allowed while nothing crashes and no bound is reached."""


class Failure(Exception):
    """What did not hold."""


class TrialParams(Struct, frozen=True):
    brokers: int = 7
    clients: int = 6
    actions: int = 150
    cuts: bool = True
    """Whether links between brokers go down now and then."""


USUAL = TrialParams()


class Ledger(SilentObserver):
    """What each subscription got, in order, and what the nodes noted."""

    def __init__(self) -> None:
        self.got: dict[str, list[str]] = {}
        self.notes: dict[str, int] = {}

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.got.setdefault(subscription_id, []).append(event.id)

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        self.notes[what] = self.notes.get(what, 0) + 1


class Trial:
    def __init__(
        self,
        seed: int,
        broker: BrokerParams,
        params: TrialParams = USUAL,
        make_client: Callable[[Seat], Node] | None = None,
    ) -> None:
        """`make_client` puts another kind of client in the place of ours: a naive one must fail."""
        self.rng = Random(f"trial/{seed}")
        self.params = params
        self.broker_params = broker
        self.ledger = Ledger()
        self.brokers = self._names(params.brokers)
        self.clients = [f"C{index}" for index in range(params.clients)]
        self.nodes: dict[str, Broker] = {}
        self.at: dict[str, list[str]] = {client: [] for client in self.clients}
        self.subscriptions: dict[str, Subscription] = {}
        self.required_from_us: dict[str, int] = {}
        self.ended_us: dict[str, int] = {}
        self.published: list[Event] = []
        self.make_client = make_client or self._client
        self.tree = self._tree()
        self.world = World(
            [Resident(name, Track([resting_forever(0, Point(0, 0))]), self._node) for name in self.hosts()],
            Codec(MESSAGES),
            seed,
            links=list(self._links()),
            observers=(self.ledger,),
            round_trip=True,
        )
        for client in self.clients:
            for name in self.brokers:
                self.world.links.between[(client, name)].cuts = 1

    def _names(self, count: int) -> list[str]:
        return [f"B{index}" for index in range(count)]

    def hosts(self) -> list[str]:
        return [*self.brokers, *self.clients]

    def _node(self, seat: Seat) -> Node:
        if seat.host not in self.brokers:
            return self.make_client(seat)
        self.nodes[seat.host] = Broker(seat.host, self.broker_params, life=seat.rng.getrandbits(32))
        return self.nodes[seat.host]

    def _client(self, seat: Seat) -> Node:
        return Client(seat.host, self.broker_params, seat.space, seat.graph)

    def _tree(self) -> Sequence[tuple[str, str]]:
        return [
            (self.brokers[self.rng.randrange(index)], self.brokers[index]) for index in range(1, len(self.brokers))
        ]

    def _links(self) -> Iterator[LinkParams]:
        for one, other in self.tree:
            yield LinkParams(one, other, self.rng.uniform(1, 40), self.rng.uniform(0, 30))
        for client in self.clients:
            for name in self.brokers:
                yield LinkParams(client, name, self.rng.uniform(1, 10))

    # What happens.

    def run(self) -> None:
        self.pass_s(0.1)
        for client in self.clients:
            self.move(client, self.rng.choice(self.brokers))
        self.pass_s(1)
        for client in self.clients[1:]:
            for _ in range(self.rng.randint(1, 3)):
                self.subscribe(client)
        self.pass_s(SETTLES_S)
        self._act(self.params.actions)
        self.calm()
        self._act(self.params.actions // 3)
        self.calm()

    def _act(self, count: int) -> None:
        for _ in range(count):
            client = self.rng.choice(self.clients)
            draw = self.rng.random()
            if draw < 0.55:
                self.publish(client)
            elif draw < 0.8:
                self.move(client, self.rng.choice(self.brokers))
            elif draw < 0.87:
                self.hang_on_two(client, self.rng.choice(self.brokers))
            elif draw < 0.93:
                self.move(client, None)
            elif draw < 0.97 and self.params.cuts:
                self.cut(self.rng.choice(self.tree))
            elif draw < 0.985:
                self.subscribe(client)
            else:
                self.unsubscribe(client)
            self.pass_s(self.rng.choice(PAUSES_S))

    def calm(self) -> None:
        """Everybody is somewhere, and every message has arrived."""
        for client in self.clients:
            self.move(client, self.rng.choice(self.brokers))
            self.pass_s(self.rng.choice(PAUSES_S))
        self.pass_s(SETTLES_S)

    def move(self, client: str, broker: str | None) -> None:
        """The client's links to where it was go, one to `broker` comes; None: it is out of reach."""
        for old in self.at[client]:
            self.world.links.cut(client, old)
        self.at[client] = []
        if broker is not None:
            self.hang_on_two(client, broker)

    def hang_on_two(self, client: str, broker: str) -> None:
        """One more link, while the old one stays."""
        if broker not in self.at[client]:
            self.at[client].append(broker)
            self.world.links.heal(client, broker)

    def cut(self, link: tuple[str, str]) -> None:
        """For at most a second, less than the brokers' patience."""
        self.world.links.cut(*link)
        healed_us = self.world.kernel.now_us + round(self.rng.uniform(0.001, 1) * 1e6)
        self.world.kernel.at(healed_us, self.world.links.heal, *link)

    def subscribe(self, client: str, filter_text: str = "") -> str:
        now_us = self.world.kernel.now_us
        name = f"{client}/s{len(self.subscriptions)}"
        filter_ = parse_text(filter_text or self.rng.choice(FILTERS))
        subscription = Subscription(name, client, SUBJECT, now_us, FOREVER_US, filter_)
        self.subscriptions[name] = subscription
        # What is published while a new subscription is on its way may or may not reach it.
        self.required_from_us[name] = now_us + round(SETTLES_S * 1e6)
        self.world.give(client, Subscribe(subscription))
        return name

    def unsubscribe(self, client: str) -> None:
        mine = [each for each in self.subscriptions if each.startswith(f"{client}/") and each not in self.ended_us]
        if mine:
            name = self.rng.choice(mine)
            self.ended_us[name] = self.world.kernel.now_us
            self.world.give(client, Unsubscribe(name))

    def publish(self, client: str, content: dict[str, Value] | None = None) -> str:
        now_us = self.world.kernel.now_us
        attributes = content or {"price": self.rng.randint(0, 9), "kind": self.rng.choice("ab")}
        event = Event(
            f"{client}:{len(self.published)}", SUBJECT, Context(client, at_us=now_us), now_us, FOREVER_US, attributes
        )
        self.published.append(event)
        self.world.give(client, Publish(event))
        return event.id

    def pass_s(self, seconds: float) -> None:
        for _ in self.world.run(self.world.kernel.now_us + round(seconds * 1e6)):
            pass

    # What must hold.

    def check(self) -> None:
        for subscription in self.subscriptions.values():
            self._check_subscription(subscription)
        for what in FORBIDDEN:
            if what in self.ledger.notes:
                raise Failure(f"{self.ledger.notes[what]} times '{what}' was noted")

    def _check_subscription(self, subscription: Subscription) -> None:
        got = self.ledger.got.get(subscription.id, [])
        if len(got) != len(set(got)):
            raise Failure(f"{subscription.id} got {next(each for each in got if got.count(each) > 1)} twice")
        wanted = [event for event in self.published if accepted_by(subscription, event)]
        strange = set(got) - {event.id for event in wanted}
        if strange:
            raise Failure(f"{subscription.id} got {min(strange)}, which it does not accept")
        ended_us = self.ended_us.get(subscription.id)
        if ended_us is None:
            required = [each.id for each in wanted if each.published_us >= self.required_from_us[subscription.id]]
            missing = [each for each in required if each not in set(got)]
            if missing:
                raise Failure(f"{subscription.id} never got {len(missing)} events, {missing[0]} the first of them")
        place = {event.id: index for index, event in enumerate(self.published)}
        for publisher in self.clients:
            order = [place[each] for each in got if each.startswith(f"{publisher}:")]
            if order != sorted(order):
                raise Failure(f"{subscription.id} got the events of {publisher} out of order")

    def leave(self) -> None:
        """Everybody goes away for good, and nothing of them may stay behind."""
        for client in self.clients:
            self.move(client, None)
        self.pass_s(self.broker_params.counterpart_age_s_max + SETTLES_S)
        for name, broker in self.nodes.items():
            for what, count in broker.left().items():
                if count:
                    raise Failure(f"{name} still has {count} {what} after everybody has left")


def accepted_by(subscription: Subscription, event: Event) -> bool:
    return accepts(subscription.filter, Scene(event.attributes.get, None, event.publisher), Plane())


def try_seed(seed: int, broker: BrokerParams, params: TrialParams = USUAL) -> None:
    """One trial from beginning to end; raises `Failure`."""
    trial = Trial(seed, broker, params)
    trial.run()
    trial.check()
    trial.leave()
