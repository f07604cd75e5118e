"""Trials of roaming (R3): random brokers, clients that come and go at the worst moments, and what must hold then.

A trial is made from its seed alone. Brokers are linked as a random tree with delays of their own; clients publish,
subscribe, unsubscribe, replace the filters of their subscriptions, move, vanish, come back, and hang on two brokers
at once; links between brokers go down and up, and in some trials brokers crash and come back with nothing.

What must hold without a crash:

    complete    a subscription gets every event that it accepts, by its filter as it is and, while that changes, by
                each filter that brokers may go by while the event is under way;
    wanted      it gets nothing that the filter in force on arrival does not accept, and nothing once it has ended;
    once, FIFO  no event twice, and each publisher's events in the order of publication;
    nothing     is left at any broker when all clients have been away for long enough.

What must hold with crashes: all of that, but for one thing. An event that was published before everybody has
recovered may be missing from a subscription if it was under way (`Ledger.under_way_us`) close to a crash, so that the
crashed broker alone may have had it or nobody knew who wanted it; or if its client has been told since, by the note
`events_lost`, that what was kept for it is gone. Every other loss is a failure, and so is a loss that anybody notes
after recovery.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.broker import Broker
from roamcast.broker.client import Client
from roamcast.broker.messages import MESSAGES
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Value
from roamcast.movement.legs import Track, resting_forever
from roamcast.node.boundary import Node, Publish, Subscribe, Unsubscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.papers.chaos_record import BY_CRASHES, FORBIDDEN, Ledger, Versions
from roamcast.sim.hosts import Resident
from roamcast.sim.links import LinkParams
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
TRANSIT_US = 2_500_000
"""Longer than an event waits at a broker for a link that is down, or takes over one."""
RECOVERS_US = 6_000_000
"""Longer than it takes from a crash until all brokers know again who wants what, links that are down included."""
DOWN_S = (0.02, 1.0)
"""From and to how long a crashed broker is away."""


class Failure(Exception):
    """What did not hold."""


class TrialParams(Struct, frozen=True):
    brokers: int = 7
    clients: int = 6
    actions: int = 150
    cuts: bool = True
    """Whether links between brokers go down now and then."""
    crashes: bool = False
    """Whether brokers crash now and then."""


USUAL = TrialParams()


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
        self.versions = Versions()
        self.required_from_us: dict[str, int] = {}
        self.required = 0
        """How many deliveries the last check asked for."""
        self.settled_us: list[int] = []
        """When everything had arrived."""
        self.faults = Random(f"faults/{seed}")
        self.crashes_us: list[int] = []
        self.published: list[Event] = []
        self.make_client = make_client or self._client
        self.recovered_us = FOREVER_US
        """From then on nothing crashes, and nothing may be lost."""
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
        self.recovered_us = self.world.kernel.now_us
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
            self._disturb()
            self.pass_s(self.rng.choice(PAUSES_S))

    def _disturb(self) -> None:
        """What happens besides, from a generator of its own."""
        draw = self.faults.random()
        if draw < 0.04:
            self.change(self.faults.choice(self.clients))
        elif draw < 0.06 and self.params.crashes and self.world.kernel.now_us < self.recovered_us:
            self.crash(self.faults.choice(self.brokers))

    def calm(self) -> None:
        """Everybody is somewhere, and every message has arrived."""
        for client in self.clients:
            self.move(client, self.rng.choice(self.brokers))
            self.pass_s(self.rng.choice(PAUSES_S))
        self.settle()

    def settle(self) -> None:
        """A broker may wait for a replay that a crash has swallowed."""
        self.pass_s(SETTLES_S + (self.broker_params.replay_wait_s_max if self.crashes_us else 0))
        self.settled_us.append(self.world.kernel.now_us)
        # So that what happens next happens later.
        self.pass_s(0.001)

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

    def crash(self, broker: str) -> None:
        """It forgets everything, and is back within a second."""
        now_us = self.world.kernel.now_us
        if self.world.by_name[broker].crashed:
            return
        self.crashes_us.append(now_us)
        self.world.crash(broker, keeps_disk=False)
        self.world.kernel.at(now_us + round(self.faults.uniform(*DOWN_S) * 1e6), self.world.restart, broker)

    def subscribe(self, client: str, filter_text: str = "") -> str:
        now_us = self.world.kernel.now_us
        name = f"{client}/s{len(self.subscriptions)}"
        filter_ = parse_text(filter_text or self.rng.choice(FILTERS))
        subscription = Subscription(name, client, SUBJECT, now_us, FOREVER_US, filter_)
        self._subscribe(subscription)
        return name

    def _subscribe(self, subscription: Subscription) -> None:
        now_us, name = self.world.kernel.now_us, subscription.id
        self.subscriptions[name] = subscription
        self.versions.now(now_us, name, subscription)
        # What is published while a new subscription is on its way may or may not reach it.
        self.required_from_us[name] = now_us + round(SETTLES_S * 1e6)
        self.world.give(subscription.subscriber, Subscribe(subscription))

    def _of(self, client: str) -> list[str]:
        return [
            each for each in self.subscriptions if each.startswith(f"{client}/") and not self.versions.ended(each)
        ]

    def unsubscribe(self, client: str) -> None:
        mine = self._of(client)
        if mine:
            self._unsubscribe(self.rng.choice(mine))

    def _unsubscribe(self, name: str) -> None:
        self.versions.now(self.world.kernel.now_us, name, None)
        self.world.give(self.subscriptions[name].subscriber, Unsubscribe(name))

    def change(self, client: str) -> None:
        """Another filter for a subscription, mostly in its place; else it ends, and begins anew under its name."""
        mine = self._of(client)
        if not mine:
            return
        name = self.faults.choice(mine)
        changed = replace(self.subscriptions[name], filter=parse_text(self.faults.choice(self.other_filters())))
        from_us = self.required_from_us[name]
        anew = self.faults.random() < 0.25
        if anew:
            self._unsubscribe(name)
        self._subscribe(changed)
        if not anew:
            # There is no moment at which neither the old filter nor the new one is wanted.
            self.required_from_us[name] = from_us

    def other_filters(self) -> Sequence[str]:
        return FILTERS

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
        self.required = 0
        for subscription in self.subscriptions.values():
            self._check_subscription(subscription)
        for (host, what), noted_us in self.ledger.noted_us.items():
            excused = bool(self.crashes_us) and what in BY_CRASHES and noted_us <= self.recovered_us
            if what in FORBIDDEN and not excused:
                raise Failure(f"{host} noted '{what}' at {noted_us / 1e6:g} s")

    def _check_subscription(self, subscription: Subscription) -> None:
        name = subscription.id
        got = self.ledger.got.get(name, [])
        if len(got) != len(set(got)):
            raise Failure(f"{name} got {next(each for each in got if got.count(each) > 1)} twice")
        events = {event.id: event for event in self.published}
        for each in got:
            at_us = self.ledger.at_us[name, each]
            version = self.versions.at(name, at_us)
            if version is None or not self.accepted(version, events[each], at_us):
                raise Failure(f"{name} got {each}, which it did not accept at {at_us / 1e6:g} s")
        if not self.versions.ended(name):
            self._check_complete(name, set(got))
        self._check_order(name, got)

    def _check_complete(self, name: str, got: set[str]) -> None:
        for event in self.published:
            if event.published_us >= self.required_from_us[name] and self.must_arrive(name, event):
                self.required += 1
                if event.id not in got and not self.may_be_lost(name, event):
                    raise Failure(f"{name} never got {event.id}, published at {event.published_us / 1e6:g} s")

    def _check_order(self, name: str, got: Sequence[str]) -> None:
        place = {event.id: index for index, event in enumerate(self.published)}
        for publisher in self.clients:
            order = [place[each] for each in got if each.startswith(f"{publisher}:")]
            if order != sorted(order):
                raise Failure(f"{name} got the events of {publisher} out of order")

    def accepted(self, version: Subscription, event: Event, at_us: int) -> bool:
        return accepted_by(version, event)

    def must_arrive(self, name: str, event: Event) -> bool:
        """Whether it is accepted by every filter that may stand somewhere while it is under way."""
        return all(
            version is not None and self.accepted(version, event, event.published_us)
            for version in self.standing(name, event)
        )

    def standing(self, name: str, event: Event) -> list[Subscription | None]:
        """What the subscription has been since all brokers agreed on it last, until they do again."""
        agreed_us = [each for each in self.settled_us if each <= event.published_us]
        from_us = max([*agreed_us, self.versions.of[name][0].from_us])
        return self.versions.between(name, from_us, self.settled_after(event))

    def settled_after(self, event: Event) -> int:
        return next((each for each in self.settled_us if each > event.published_us), self.world.kernel.now_us)

    def may_be_lost(self, name: str, event: Event) -> bool:
        """To a crash, as the top of this file says."""
        if not self.crashes_us or event.published_us > self.recovered_us:
            return False
        told_us = self.ledger.noted_us.get((self.subscriptions[name].subscriber, "events_lost"), -1)
        first_us, last_us = self.ledger.under_way_us.get(event.id, (event.published_us, event.published_us))
        return told_us >= event.published_us or any(
            first_us <= crashed_us + RECOVERS_US and last_us >= crashed_us - TRANSIT_US
            for crashed_us in self.crashes_us
        )

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
