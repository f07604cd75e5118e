"""Worlds for the tests of context-aware publish/subscribe: hosts at places, real nodes, simulated air."""

from collections.abc import Sequence
from typing import Any

from roamcast.adhoc.context.messages import MESSAGES
from roamcast.adhoc.context.node import ContextNode
from roamcast.adhoc.context.params import ContextParams
from roamcast.model.event import Event
from roamcast.model.filter import EVERYTHING, Filter, parse_text
from roamcast.model.region import Box, Circle, Region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Value
from roamcast.movement.legs import Leg, Track
from roamcast.node.boundary import Input, Publish, Subscribe
from roamcast.node.compact import CompactCodec
from roamcast.node.kit import Seat
from roamcast.sim.faults import FaultParams
from roamcast.sim.hosts import Resident
from roamcast.sim.observers import Tally
from roamcast.sim.radio import RadioParams, UnitDiskParams
from roamcast.sim.world import World
from tests.sim.worlds import track_of

DISK = UnitDiskParams(range_m=200.0)
FOREVER_S = 1_000.0


def box(west: float, south: float, east: float, north: float) -> Box:
    return Box(Point(west, south), Point(east, north))


def circle(x: float, y: float, radius_m: float) -> Circle:
    return Circle(Point(x, y), radius_m)


def where(region: Region | None = None, filter_: str = "") -> Scope:
    return Scope(region, parse_text(filter_) if filter_ else None)


class ContextWorld:
    """Hosts by name, with a place or legs, and attributes."""

    def __init__(
        self,
        hosts: dict[str, tuple[float, float] | list[Leg] | Track],
        attributes: dict[str, dict[str, Value]] | None = None,
        params: ContextParams | None = None,
        radio: RadioParams = DISK,
        faults: FaultParams | None = None,
        seed: int = 1,
    ) -> None:
        self.params = params or ContextParams()
        self.nodes: dict[str, ContextNode] = {}
        self.tally = Tally()

        def make_node(seat: Seat) -> ContextNode:
            self.nodes[seat.host] = ContextNode(seat.host, seat.rng, self.params, seat.refuses)
            return self.nodes[seat.host]

        residents = [
            Resident(
                name, at if isinstance(at, Track) else track_of(at), make_node, dict((attributes or {}).get(name, {}))
            )
            for name, at in hosts.items()
        ]
        self.world = World(
            residents,
            CompactCodec(MESSAGES),
            seed,
            radio,
            (),
            faults,
            (self.tally,),
            domain_hops=self.params.query_hops,
        )
        self.count = 0

    def at(self, seconds: float, host: str, given: Input) -> None:
        self.world.kernel.at(round(seconds * 1e6), self.world.give, host, given)

    def run(self, seconds: float) -> None:
        for _ in self.world.run(round(seconds * 1e6)):
            pass

    def publish(
        self,
        seconds: float,
        host: str,
        lifetime_s: float = 0.0,
        relevance: Scope = EVERYWHERE,
        audience: Scope = EVERYWHERE,
        attributes: dict[str, Value] | None = None,
        subject: str = "x",
    ) -> str:
        """Lets a host publish at a time, by its own clock; answers with the event's id."""
        self.count += 1
        event_id = f"e{self.count}"

        def now() -> None:
            me = self.world.context_of(host)
            if me is None:
                return
            expires_us = me.at_us + round(lifetime_s * 1e6)
            event = Event(event_id, subject, me, me.at_us, expires_us, attributes or {}, relevance, audience)
            self.world.give(host, Publish(event))

        self.world.kernel.at(round(seconds * 1e6), now)
        return event_id

    def subscribe(
        self,
        seconds: float,
        host: str,
        lifetime_s: float = FOREVER_S,
        interest: Scope = EVERYWHERE,
        publishers: Scope = EVERYWHERE,
        filter_: Filter = EVERYTHING,
        subject: str = "x",
    ) -> str:
        self.count += 1
        subscription_id = f"s{self.count}"

        def now() -> None:
            me = self.world.context_of(host)
            if me is None:
                return
            expires_us = me.at_us + round(lifetime_s * 1e6)
            subscription = Subscription(
                subscription_id, host, subject, me.at_us, expires_us, filter_, interest, publishers
            )
            self.world.give(host, Subscribe(subscription))

        self.world.kernel.at(round(seconds * 1e6), now)
        return subscription_id

    @property
    def deliveries(self) -> list[tuple[str, str]]:
        return sorted(self.tally.deliveries.elements())

    def sent(self, *kinds: str) -> int:
        return sum(self.tally.messages[kind] for kind in kinds)


def line(
    count: int, step_m: float = 150.0, start_m: float = 0.0
) -> dict[str, tuple[float, float] | list[Leg] | Track]:
    """Hosts h0, h1, … in a row."""
    return {f"h{number}": (start_m + number * step_m, 0.0) for number in range(count)}


def scenario(hosts: Sequence[dict[str, Any]], **rest: Any) -> dict[str, Any]:
    return {
        "name": "test",
        "seconds": 30,
        "protocol": {"kind": "context"},
        "radio": {"kind": "unit-disk", "range_m": 200},
        "hosts": list(hosts),
        **rest,
    }
