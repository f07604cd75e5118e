"""Trials of overlays (O2 to O7): hosts that move out of each other's reach while everything changes its place.

A trial is made from its seed alone. Brokers, clients and relays start together, then run about so fast that the
network falls apart again and again, then come together. Meanwhile brokers change their neighbours, clients their
home brokers, and modulators are sent upstream, downstream and anywhere; clients publish, subscribe, unsubscribe,
change subscriptions under the same name, and crash and start anew with the subscriptions they had. Every modulator
counts the events it has seen and writes the number on each. Afterwards every subscription must have got every event
it accepts, once, each publisher's in order, with the numbers 1, 2, 3, …, from 1 again after each change or crash; and
when all clients have been out of reach for long enough no broker may remember anything of them.

In some trials brokers crash as well while all run about, and come back with nothing. Then all of that must hold but
for one thing: an event that was published before they are together again may be missing from a subscription if a
broker had it when it crashed (`held_by`), or if its client was told that something is lost (`events_lost`).
"""

from collections.abc import Iterator
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.client import OverlayClient
from roamcast.broker.overlay.messages import MESSAGES
from roamcast.broker.overlay.modelled import ModelledBroker
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.relay import Relay
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Value
from roamcast.movement.legs import Leg, Track, moving, resting, resting_forever
from roamcast.node.boundary import Does, Message, Node, Publish, Subscribe, Unsubscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.papers.chaos import FILTERS, PAUSES_S, SUBJECT, Failure, accepted_by
from roamcast.papers.chaos_counting import COUNTING, Counts
from roamcast.sim.hosts import Resident
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.underlay import UnderlayParams
from roamcast.sim.world import World

RANGE_M = 250.0
TOGETHER_M = 120.0
"""Nobody is farther from the middle than this when they are together: then everybody reaches everybody."""
TOGETHER_S = 25.0
SETTLES_S = 60.0
LOSSES = (
    "counterpart_lost",
    "events_lost",
    "event_refused",
    "arrival_overflow",
    "order_given_up",
    "publication_refused",
    "modulator_refused",
)
BY_CRASHES = ("events_lost", "order_given_up")
"""Those that a crash of a broker brings about."""
BELIEFS = ("entries", "wishes")
"""What may stay behind after a crash: that a post is gone, maybe only the broker knew that crashed. The next event
that is sent there ends it."""
DOWN_S = (0.02, 2.0)


class OverlayTrialParams(Struct, frozen=True):
    brokers: int = 6
    clients: int = 5
    relays: int = 3
    area_m: float = 600.0
    speed_max_mps: float = 60.0
    seconds: float = 40.0
    """How long they run about."""
    crashes: bool = False
    """Whether brokers crash meanwhile."""


USUAL = OverlayTrialParams()
QUICK = OverlayParams(
    update_period_s=3.0,
    discovery_period_s=1.0,
    load_period_s=2.0,
    tend_s=0.5,
    resend_s=1.0,
    resend_s_max=4.0,
    clients=BrokerParams(counterpart_age_s_max=120.0),
)


class OverlayTrial:
    def __init__(self, seed: int, overlay: OverlayParams = QUICK, params: OverlayTrialParams = USUAL) -> None:
        self.rng = Random(f"overlay trial/{seed}")
        self.params = params
        self.overlay = overlay
        self.ledger = Counts()
        self.brokers = [f"B{index}" for index in range(params.brokers)]
        self.clients = [f"C{index}" for index in range(params.clients)]
        self.relays = [f"R{index}" for index in range(params.relays)]
        self.nodes: dict[str, OverlayBroker] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.earlier: dict[str, list[Subscription]] = {}
        """By subscription, what it was before it was changed, or its client crashed, each time."""
        self.unsure: set[str] = set()
        """Events whose publisher has crashed since: what it had not handed in is lost."""
        self.required_from_us: dict[str, int] = {}
        self.ended: set[str] = set()
        self.published: list[Event] = []
        self.apart_us = round((TOGETHER_S + params.seconds) * 1e6)
        # An event waits so long for one before it that a crash has taken.
        self.held_s = overlay.hold_s_max + 10 if params.crashes else 0.0
        self.leaves_us = self.apart_us + round((SETTLES_S + 3 * self.held_s + 30) * 1e6)
        self.faults = Random(f"overlay faults/{seed}")
        self.crashes = 0
        self.held: set[str] = set()
        """Events that a broker had when it crashed."""
        self.world = World(
            [
                Resident(name, Track(self._legs(name)), self._node)
                for name in [*self.brokers, *self.clients, *self.relays]
            ],
            Codec(MESSAGES),
            seed,
            radio=UnitDiskParams(RANGE_M),
            observers=(self.ledger,),
            round_trip=True,
            underlay=UnderlayParams(step_ms=20),
        )

    def _node(self, seat: Seat) -> Node:
        if seat.host in self.relays:
            return Relay(seat.host, self.overlay)
        if seat.host in self.clients:
            return OverlayClient(seat.host, self.overlay, seat.rng)
        self.nodes[seat.host] = ModelledBroker(seat.host, self.overlay, seat.rng)
        return self.nodes[seat.host]

    def _legs(self, name: str) -> Iterator[Leg]:
        """Together, apart, together; in the end clients go out of everybody's reach."""
        rng = Random(f"{self.rng.random()}/{name}")
        here = self._in_the_middle(rng)
        now_us = round(TOGETHER_S * 1e6)
        yield resting(0, here, now_us)
        while now_us < self.apart_us:
            to = Point(rng.uniform(0, self.params.area_m), rng.uniform(0, self.params.area_m))
            speed_mps = rng.uniform(5, self.params.speed_max_mps)
            leg = moving(now_us, here, to, speed_mps)
            if leg.end_us > self.apart_us:
                to = leg.position_at(self.apart_us)
                leg = replace(leg, end_us=self.apart_us, destination=to)
            yield leg
            now_us, here = leg.end_us, to
        leg = moving(now_us, here, self._in_the_middle(rng), self.params.speed_max_mps)
        yield leg
        now_us, here = leg.end_us, leg.destination
        if name in self.clients:
            yield resting(now_us, here, self.leaves_us - now_us)
            leg = moving(self.leaves_us, here, Point(here.x, here.y + 1e6), 1e5)
            yield leg
            now_us, here = leg.end_us, leg.destination
        yield resting_forever(now_us, here)

    def _in_the_middle(self, rng: Random) -> Point:
        middle, most = self.params.area_m / 2, TOGETHER_M / 2**0.5
        return Point(middle + rng.uniform(-most, most), middle + rng.uniform(-most, most))

    # What happens.

    def run(self) -> None:
        self.pass_s(8)
        for client in self.clients:
            for _ in range(self.rng.randint(1, 2)):
                self.subscribe(client)
        self.pass_s(TOGETHER_S - 8)
        while self.world.kernel.now_us < self.apart_us:
            self._act(self.rng.choice(self.clients))
            if self.params.crashes and self.faults.random() < 0.015:
                self.crash_broker(self.faults.choice(self.brokers))
            self.pass_s(self.rng.choice(PAUSES_S))
        self.pass_s(SETTLES_S + self.held_s)
        for _ in range(2 if self.params.crashes else 1):
            for client in self.clients:
                self.publish(client)
            self.pass_s(10 + self.held_s)

    def _act(self, client: str) -> None:
        draw = self.rng.random()
        if draw < 0.6:
            self.publish(client)
        elif draw < 0.86:
            self.relocate()
        elif draw < 0.9:
            self.subscribe(client)
        elif draw < 0.93:
            self.unsubscribe(client)
        elif draw < 0.97:
            self.change(client)
        else:
            self.crash(client)

    def relocate(self) -> None:
        """A broker sends something of its own elsewhere, on a whim."""
        name = self.rng.choice(self.brokers)
        clients, departing = self.nodes[name].clients, self.nodes[name].relocation.departing
        now_us, to = self.world.kernel.now_us, self.rng.choice(self.brokers)
        draw = self.rng.random()
        if draw < 0.5 and clients.sessions:
            self._perform(name, departing.horizontal(now_us, self.rng.choice(list(clients.sessions)), to))
        elif clients.posts:
            post = self.rng.choice(list(clients.posts))
            if draw < 0.65:
                self._perform(name, departing.upstream(now_us, post))
            elif draw < 0.8:
                self._perform(name, departing.downstream(now_us, post))
            else:
                self._perform(name, departing.place(now_us, post, to))

    def _perform(self, broker: str, effects: list[Does]) -> None:
        for effect in effects:
            self.world.perform(self.world.by_name[broker].host, effect)

    def subscribe(self, client: str, filter_text: str = "", modulator: str = COUNTING) -> None:
        now_us = self.world.kernel.now_us
        name = f"{client}/s{len(self.subscriptions)}"
        filter_ = parse_text(filter_text or self.rng.choice(FILTERS))
        subscription = Subscription(name, client, SUBJECT, now_us, FOREVER_US, filter_, modulator=modulator)
        self.subscriptions[name] = subscription
        # A subscription that is made on the run is known everywhere only when they are together again.
        self.required_from_us[name] = self.apart_us if now_us > TOGETHER_S * 1e6 else round(TOGETHER_S * 1e6)
        self.world.give(client, Subscribe(subscription))

    def _mine(self, client: str) -> list[str]:
        return [each for each in self.subscriptions if each.startswith(f"{client}/") and each not in self.ended]

    def _again(self, name: str, filter_text: str = "") -> None:
        """The same name once more, with another filter or the same."""
        before = self.subscriptions[name]
        self.earlier.setdefault(name, []).append(before)
        filter_ = parse_text(filter_text) if filter_text else before.filter
        self.subscriptions[name] = replace(before, filter=filter_)
        self.required_from_us[name] = self.apart_us
        self.world.give(before.subscriber, Subscribe(self.subscriptions[name]))

    def change(self, client: str) -> None:
        mine = self._mine(client)
        if mine:
            name, filter_text = self.rng.choice(mine), self.rng.choice(FILTERS)
            if parse_text(filter_text) != self.subscriptions[name].filter:
                self._again(name, filter_text)

    def crash(self, client: str) -> None:
        """It forgets everything, and its application says again what it wants."""
        self.unsure.update(event.id for event in self.published if event.publisher.host == client)
        self.world.crash(client, keeps_disk=False)
        self.pass_s(self.rng.choice(PAUSES_S))
        self.world.restart(client)
        for name in self._mine(client):
            self._again(name)

    def crash_broker(self, broker: str) -> None:
        """It forgets everything, and is back soon."""
        if self.world.by_name[broker].crashed:
            return
        self.crashes += 1
        self.held |= held_by(self.nodes[broker])
        self.world.crash(broker, keeps_disk=False)
        back_us = self.world.kernel.now_us + round(self.faults.uniform(*DOWN_S) * 1e6)
        self.world.kernel.at(back_us, self.world.restart, broker)

    def unsubscribe(self, client: str) -> None:
        mine = self._mine(client)
        if mine:
            name = self.rng.choice(mine)
            self.ended.add(name)
            self.world.give(client, Unsubscribe(name))

    def publish(self, client: str) -> None:
        now_us = self.world.kernel.now_us
        attributes: dict[str, Value] = {"price": self.rng.randint(0, 9), "kind": self.rng.choice("ab")}
        name = f"{client}:{len(self.published)}"
        event = Event(name, SUBJECT, Context(client, at_us=now_us), now_us, FOREVER_US, attributes)
        self.published.append(event)
        self.world.give(client, Publish(event))

    def pass_s(self, seconds: float) -> None:
        for _ in self.world.run(self.world.kernel.now_us + round(seconds * 1e6)):
            pass

    # What must hold.

    def check(self) -> None:
        for what in LOSSES:
            if what in self.ledger.notes and not (self.crashes and what in BY_CRASHES):
                raise Failure(f"{self.ledger.notes[what]} times '{what}' was noted")
        for subscription in self.subscriptions.values():
            self._check_subscription(subscription)

    def _check_subscription(self, subscription: Subscription) -> None:
        name = subscription.id
        got = self.ledger.got.get(name, [])
        if len(got) != len(set(got)):
            raise Failure(f"{name} got {next(each for each in got if got.count(each) > 1)} twice")
        wanted = [event for event in self.published if self._accepted(name, event)]
        place = {event.id: index for index, event in enumerate(wanted)}
        if not place.keys() >= set(got):
            raise Failure(f"{name} got {min(set(got) - place.keys())}, which it does not accept")
        if name not in self.ended:
            required = [
                each.id
                for each in wanted
                if each.published_us >= self.required_from_us[name]
                and each.id not in self.unsure
                and accepted_by(replace(subscription, modulator=""), each)
            ]
            missing = [each for each in required if each not in set(got) and not self._may_be_lost(name, each)]
            if missing:
                raise Failure(f"{name} never got {len(missing)} events, {missing[0]} the first of them")
        for publisher in self.clients:
            order = [place[each] for each in got if each.startswith(f"{publisher}:")]
            if order != sorted(order):
                raise Failure(f"{name} got the events of {publisher} out of order")
        self._check_counts(name)

    def _accepted(self, name: str, event: Event) -> bool:
        """By the subscription as it is, or as it was at some time."""
        versions = [self.subscriptions[name], *self.earlier.get(name, [])]
        return any(accepted_by(replace(each, modulator=""), event) for each in versions)

    def _may_be_lost(self, name: str, event_id: str) -> bool:
        """To a crash, as the top of this file says."""
        published_us = next(each.published_us for each in self.published if each.id == event_id)
        # What its client then wants anew is known everywhere only when all are together again.
        told = self.crashes > 0 and (self.subscriptions[name].subscriber, "events_lost") in self.ledger.noted_us
        return published_us <= self.apart_us and (event_id in self.held or told)

    def _check_counts(self, name: str) -> None:
        counts = self.ledger.counts.get(name, [])
        begun, before = 0, None
        for count in counts:
            begun += count == 1
            if count != 1 and (before is None or count != before + 1):
                raise Failure(f"the modulator of {name} has lost count: {counts}")
            before = count
        # A modulator that a crash took begins anew, for one crash maybe twice: with its own broker, and its home.
        if begun > 1 + len(self.earlier.get(name, [])) + 2 * self.crashes:
            raise Failure(f"the modulator of {name} has begun {begun} times: {counts}")

    def leave(self) -> None:
        """Everybody goes away for good, and nothing of them may stay behind."""
        left_s = (self.leaves_us - self.world.kernel.now_us) / 1e6
        self.pass_s(left_s + 2 * self.overlay.clients.counterpart_age_s_max + SETTLES_S)
        for name, broker in self.nodes.items():
            for what, count in broker.left().items():
                if self.crashes and what in BELIEFS:
                    continue
                # The other brokers are still there.
                if count > (len(self.brokers) - 1 if what == "brokers told" else 0):
                    raise Failure(f"{name} still has {count} {what} after everybody has left")


def held_by(broker: OverlayBroker) -> set[str]:
    """The events that a broker has: of clients, of modulators, for other brokers, and for what is to come."""
    held = {each.event_id for session in broker.clients.sessions.values() for each in session.lacking(0)}
    held |= {each.event.id for session in broker.clients.sessions.values() for each in session.ahead.values()}
    for post in broker.clients.posts.values():
        held |= {event.id for waiting in post.held.values() for event, _, _ in waiting}
    insides: list[Message] = []
    for flow in broker.brokers.flows.of.values():
        insides += [*(each.inside for each in flow.waiting), *flow.ahead.values()]
    for arrival in broker.relocation.arriving.arrivals.values():
        insides += [each[0] for each in arrival.buffered if isinstance(each, tuple)]
    return held | {each.event_id for each in insides if each.event_id is not None}


def try_overlay(seed: int, overlay: OverlayParams = QUICK, params: OverlayTrialParams = USUAL) -> OverlayTrial:
    """One trial from beginning to end; raises `Failure`."""
    trial = OverlayTrial(seed, overlay, params)
    trial.run()
    trial.check()
    trial.leave()
    return trial
