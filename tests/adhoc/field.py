"""A field for tests of the proximity protocol: hosts with ports, and everything that happens on it written down."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.adhoc.proximity.messages import MESSAGES
from roamcast.adhoc.proximity.node import Proximity
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.event import ContentType, Delivery, Event, EventType
from roamcast.model.filter import EVERYTHING, Filter
from roamcast.model.region import Circle, Shape
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.values import Point, Value, Velocity
from roamcast.movement.legs import FOREVER_US, Leg, Track, resting_forever
from roamcast.node.compact import CompactCodec
from roamcast.node.kit import Seat
from roamcast.node.observer import Observer
from roamcast.node.port import Port
from roamcast.sim.faults import FaultParams
from roamcast.sim.ground import SimulatedGround
from roamcast.sim.hosts import Resident
from roamcast.sim.radio import RadioParams, UnitDiskParams
from roamcast.sim.world import World

ORIGIN = Point(0.0, 0.0)
DISK = UnitDiskParams(range_m=200)
SUBJECT = "warning"


class Witness(Observer):
    """Keeps deliveries, transmissions and notes."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[int, str, Event, str]] = []
        self.sent: list[tuple[int, str, str, str | None]] = []
        self.notes: Counter[str] = Counter()

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.deliveries.append((now_us, host, event, subscription_id))

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        self.sent.append((now_us, host, message_type, event_id))

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        self.notes[what] += 1


class Field:
    """Hosts at points or along legs. What is said with a time happens then; without, at once."""

    def __init__(
        self,
        hosts: dict[str, tuple[float, float] | list[Leg]],
        params: ProximityParams | None = None,
        radio: RadioParams = DISK,
        faults: FaultParams | None = None,
        seed: int = 1,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        self.params = params or ProximityParams()
        self.witness = Witness()
        self.nodes: dict[str, Proximity] = {}
        self.ports: dict[str, Port] = {}

        def make_node(seat: Seat) -> Proximity:
            node = Proximity(self.params, seat.rng, seat.refuses)
            self.nodes[seat.host] = node
            self.ports.pop(seat.host, None)
            return node

        residents = [Resident(name, track_of(where), make_node) for name, where in hosts.items()]
        self.world = World(residents, CompactCodec(MESSAGES), seed, radio, (), faults, (self.witness, *observers))
        self.run(0.000001)

    def run(self, until_s: float) -> None:
        for _ in self.world.run(round(until_s * 1e6)):
            pass

    def at(self, seconds: float, action: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        self.world.kernel.at(round(seconds * 1e6), lambda: action(*arguments, **named))

    def port(self, host: str) -> Port:
        if host not in self.ports:
            body = self.world.by_name[host]
            self.ports[host] = Port(host, SimulatedGround(self.world, body), incarnation=self.world.kernel.now_us)
        return self.ports[host]

    def announce(
        self,
        host: str,
        proximity: Shape | float | None,
        subject: str = SUBJECT,
        *,
        stationary: bool = False,
        content: dict[str, ContentType] | None = None,
        delivery: Delivery | None = None,
    ) -> None:
        shape = Circle(ORIGIN, proximity) if isinstance(proximity, float | int) else proximity
        event_type = EventType(subject, content or {}, delivery or Delivery())
        self.port(host).announce(event_type, shape, stationary=stationary)

    def subscribe(
        self,
        host: str,
        subject: str = SUBJECT,
        filter: str | Filter = EVERYTHING,  # noqa: A002 - as Port says it
        publishers: Scope = EVERYWHERE,
    ) -> str:
        return self.port(host).subscribe(subject, lambda event: None, filter, publishers=publishers)

    def raise_(self, host: str, subject: str = SUBJECT, lifetime_s: float = 0.0, **content: Value) -> Event:
        return self.port(host).raise_(subject, content, lifetime_s=lifetime_s)

    def got(self, host: str) -> list[str]:
        """The events that a host's subscriptions were given, in order."""
        return [event.id for _, where, event, _ in self.witness.deliveries if where == host]

    def frames(self, message_type: str, event: Event | None = None) -> int:
        return sum(
            kind == message_type and (event is None or event_id == event.id)
            for _, _, kind, event_id in self.witness.sent
        )

    def groups(self, host: str) -> set[int]:
        """The proximity groups that a host has joined, without that of discovery."""
        return self.world.by_name[host].groups - {DISCOVERY_GROUP}


def track_of(where: tuple[float, float] | list[Leg]) -> Track:
    return Track([resting_forever(0, Point(*where))] if isinstance(where, tuple) else where)


def drives(x: float, y: float, east_mps: float, north_mps: float = 0.0) -> list[Leg]:
    """Straight on for ever."""
    return [Leg(0, FOREVER_US, Point(x, y), Velocity(east_mps, north_mps), Point(x + 1e6, y))]
