"""Trials of logical mobility (R4, R5): clients that walk on a movement graph.

`WalkTrial`: nobody changes brokers, and links have no jitter, so it is known to the microsecond when an event arrives
if it is passed on at all. Each subscription must get exactly what it accepts where its client is at that moment: as
if by flooding.

`LogicalTrial`: everything else of a trial of roaming happens to the walkers too, so nobody can say when an event
should arrive. A client must get each event that it accepts wherever it has been since shortly before the publication
and is until everything has settled, and none that it does not accept where it is on arrival; once, and in order.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.broker import Broker
from roamcast.broker.client import Client
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Value
from roamcast.node.boundary import Moved, Node
from roamcast.node.kit import Seat
from roamcast.papers.chaos import PAUSES_S, SETTLES_S, USUAL, Trial, TrialParams
from roamcast.sim.links import LinkParams

FILTERS = (
    "place IN myloc(0)",
    "place IN myloc(1)",
    "place IN myloc(0) AND price < 5",
    "kind = 'a' AND place IN myloc(1)",
    "place IN myloc(0) OR price = 9",
)
LOOKS_BACK_US = 2_000_000
"""Longer than news of a move take to the farthest broker, links that are down for up to a second included."""


STROLL_STEPS = 4
STROLL_EVENTS = 40


class Stay(Struct, frozen=True):
    place: str
    from_us: int


def ring_of_places(rng: Random, count: int = 8) -> MovementGraph:
    """A ring with a chord, so that it has places of two and of three neighbours."""
    names = [f"p{index}" for index in range(count)]
    edges = {one: [other] for one, other in pairwise([*names, names[0]])}
    edges[names[0]].append(names[rng.randrange(2, count - 1)])
    return movement_graph(edges)


class LogicalTrial(Trial):
    """A trial whose clients walk about their homes; with one action in four somebody makes a step."""

    def __init__(self, seed: int, broker: BrokerParams, params: TrialParams = USUAL) -> None:
        self.walks = Random(f"walks/{seed}")
        self.graph = self._graph()
        self.places = sorted(self.graph.neighbours)
        self.stays: dict[str, list[Stay]] = {}
        super().__init__(seed, broker, params)
        self.world.graph = self.graph

    def _graph(self) -> MovementGraph:
        return ring_of_places(self.walks)

    def _node(self, seat: Seat) -> Node:
        if seat.host not in self.brokers:
            return self.make_client(seat)
        life = seat.rng.getrandbits(32)
        self.nodes[seat.host] = Broker(seat.host, self.broker_params, life, graph=self.graph)
        return self.nodes[seat.host]

    def _client(self, seat: Seat) -> Node:
        return Client(seat.host, self.broker_params, seat.space, self.graph)

    # What happens.

    def run(self) -> None:
        self.settle_down()
        super().run()
        self._stroll(away=False)
        self._stroll(away=True)

    def _stroll(self, away: bool) -> None:
        """Everybody but the first walks several steps, attached or out of reach; when that is old news, there are
        events. Whoever is followed to where it was before, and not to where it is, misses some."""
        walkers = self.clients[1:]
        for client in walkers if away else ():
            self.move(client, None)
        for _ in range(STROLL_STEPS):
            for client in walkers:
                self.stand(client, self.walks.choice(self.graph.neighbours[self.stays[client][-1].place]))
            self.pass_s(0.3)
        self.pass_s(LOOKS_BACK_US / 1e6 + 0.5)
        for _ in range(STROLL_EVENTS):
            self.publish(self.clients[0])
            self.pass_s(0.01)
        self.calm()

    def settle_down(self) -> None:
        """Everybody is at home."""
        self.pass_s(0.01)
        for client in self.clients:
            self.stand(client, self.walks.choice(self.places))

    def stand(self, client: str, place: str, **attributes: Value) -> None:
        """The client is at a place from now on."""
        body = self.world.by_name[client]
        body.attributes = {**body.attributes, **attributes, "place": place}
        self.stays.setdefault(client, []).append(Stay(place, self.world.kernel.now_us))
        self.world.give(client, Moved(self.world.context(body)))

    def step(self, client: str) -> None:
        home, here = self.stays[client][0].place, self.stays[client][-1].place
        nexts = self.graph.neighbours[here]
        self.stand(client, home if home in nexts and self.walks.random() < 0.9 else self.walks.choice(nexts))

    def _act(self, count: int) -> None:
        for _ in range(count):
            super()._act(1)
            if self.walks.random() < 0.25:
                self.step(self.walks.choice(self.clients))

    def subscribe(self, client: str, filter_text: str = "") -> str:
        return super().subscribe(client, filter_text or self.walks.choice(FILTERS))

    def other_filters(self) -> Sequence[str]:
        return (*FILTERS, "kind = 'a'", "price < 6")

    def publish(self, client: str, content: dict[str, Value] | None = None) -> str:
        usual: dict[str, Value] = {
            "price": self.walks.randint(0, 9),
            "kind": self.walks.choice("ab"),
            "place": self.walks.choice(self.places),
        }
        return super().publish(client, content or usual)

    # What must hold.

    def accepted(self, version: Subscription, event: Event, at_us: int) -> bool:
        return self.accepts_at(version, event, self.place_at(version, at_us))

    def must_arrive(self, name: str, event: Event) -> bool:
        """Whether the client accepts the event wherever it is while the event may be under way."""
        subscription = self.subscriptions[name]
        from_us, until_us = event.published_us - LOOKS_BACK_US, self.settled_after(event)
        stays = self.stays[subscription.subscriber]
        places = {stay.place for stay in stays if from_us < stay.from_us <= until_us}
        places.add(self.place_at(subscription, from_us))
        return all(
            version is not None and self.accepts_at(version, event, place)
            for version in self.standing(name, event)
            for place in sorted(places)
        )

    def place_at(self, subscription: Subscription, now_us: int) -> str:
        stays = self.stays[subscription.subscriber]
        return next(stay.place for stay in reversed(stays) if stay.from_us <= now_us)

    def accepts_at(self, subscription: Subscription, event: Event, place: str) -> bool:
        me = Context(subscription.subscriber, attributes={"place": place})
        scene = Scene(event.attributes.get, me, event.publisher)
        return accepts(subscription.filter, scene, Plane(), self.graph)


class WalkTrial(LogicalTrial):
    """Clients that stay at one broker each and walk: each stay lasts from `stay_s` to twice that."""

    def __init__(self, seed: int, broker: BrokerParams, stay_s: float, params: TrialParams = USUAL) -> None:
        self.stay_s = stay_s
        self.walking = True
        super().__init__(seed, broker, params)

    def _links(self) -> Iterator[LinkParams]:
        for link in super()._links():
            yield replace(link, jitter_ms=0)

    def run(self) -> None:
        self.settle_down()
        for client in self.clients:
            self.move(client, self.rng.choice(self.brokers))
        self.pass_s(1)
        for client in self.clients[1:]:
            self.subscribe(client)
        self.pass_s(SETTLES_S)
        for client in self.clients:
            self._walk(client)
        for _ in range(self.params.actions):
            self.publish(self.rng.choice(self.clients))
            self.pass_s(self.rng.choice(PAUSES_S))
        self.pass_s(1)
        self.walking = False
        self.pass_s(1)

    def _walk(self, client: str) -> None:
        if not self.walking:
            return
        kernel = self.world.kernel
        self.stand(client, self.walks.choice(self.graph.neighbours[self.stays[client][-1].place]))
        kernel.at(kernel.now_us + round(self.walks.uniform(1, 2) * self.stay_s * 1e6), self._walk, client)

    def must_arrive(self, name: str, event: Event) -> bool:
        subscription = self.subscriptions[name]
        arrives_us = event.published_us + self.delay_us(event.publisher.host, subscription.subscriber)
        return self.accepts_at(subscription, event, self.place_at(subscription, arrives_us))

    def delay_us(self, publisher: str, subscriber: str) -> int:
        way = [publisher, *self._way(self.at[publisher][0], self.at[subscriber][0]), subscriber]
        return sum(self.round_trip_us(one, other) // 2 for one, other in pairwise(way))

    def round_trip_us(self, one: str, other: str) -> int:
        return 2 * round(1_000 * self.world.links.between[(one, other)].params.delay_ms)

    def _way(self, start: str, end: str) -> list[str]:
        """The brokers from one to the other, both included."""
        ways = {start: [start]}
        waiting = [start]
        while end not in ways:
            here = waiting.pop()
            for one, other in [*self.tree, *((b, a) for a, b in self.tree)]:
                if one == here and other not in ways:
                    ways[other] = [*ways[here], other]
                    waiting.append(other)
        return ways[end]


def try_logical_seed(seed: int, broker: BrokerParams, params: TrialParams = USUAL) -> None:
    """One trial of walking and roaming from beginning to end; raises `Failure`."""
    trial = LogicalTrial(seed, broker, params)
    trial.run()
    trial.check()
    trial.leave()
