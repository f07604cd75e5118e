"""Areas and brokers around real `Crossing`s, with a network that delivers in any order and now and then twice.

Readers know an event by its id, as nodes of an area and brokers do (tests of both are elsewhere). So what is checked
here is what that needs: ids that stay, everything reached, and no more copies than there are gateways.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from roamcast.client.content import payload_of
from roamcast.gateway.crossing import Crossing, CrossingParams, FromArea, FromBrokers, Publish, Raise, Woken
from roamcast.gateway.parcel import (
    Parcel,
    event_for_area,
    parcel_from_area,
    parcel_from_broker,
    publication_of,
)
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.values import Point

BROKERS = -1
"""The place of the brokers among the areas."""


class Copy(Struct, frozen=True):
    """On its way to everybody in a place, one by one."""

    place: int
    to: str
    parcel: Parcel
    brought: bool


class World:
    def __init__(self, gateways_of: Sequence[int], params: CrossingParams | None = None) -> None:
        """`gateways_of` says how many gateways each area has."""
        self.gateways = {
            f"{area}-{number}": (area, Crossing(params, announces=area % 2 == 0))
            for area, count in enumerate(gateways_of)
            for number in range(count)
        }
        self.areas = len(gateways_of)
        self.now_us = 0
        self.under_way: list[Copy] = []
        self.got: dict[int, Counter[str]] = {place: Counter() for place in range(BROKERS, self.areas)}
        """By place, whose publisher and id its reader met, as often as a copy came."""
        self.crossings: Counter[tuple[str, str]] = Counter()
        self.began: dict[str, int] = {}

    def begin(self, place: int) -> None:
        """Something is raised in an area, or published at a broker."""
        name = f"{'broker' if place == BROKERS else 'node'}{place}"
        event = Event(f"{name}:e{len(self.began)}", "ice", Context(name, Point(1.0, 2.0)), 0, 0, {"depth": 3})
        self.began[event.id] = place
        self._spread(place, Parcel(event, payload_of(event.attributes)), False)

    def deliver(self, number: int, twice: bool = False) -> None:
        copy = self.under_way[number % len(self.under_way)]
        if not twice:
            self.under_way.remove(copy)
        self.now_us += 1_000_000
        if copy.to == "reader":
            self.got[copy.place][copy.parcel.event.id] += 1
            return
        area, crossing = self.gateways[copy.to]
        given = FromBrokers(copy.parcel) if copy.place == BROKERS else FromArea(copy.parcel, copy.brought)
        for act in (*crossing.handle(self.now_us, given), *crossing.handle(self.now_us, Woken())):
            match act:
                case Publish(parcel):
                    self.crossings[copy.to, parcel.event.id] += 1
                    said = publication_of(parcel, self.now_us)
                    self._spread(BROKERS, parcel_from_broker(said.subject, said.payload, said.properties), False)
                case Raise(parcel):
                    self.crossings[copy.to, parcel.event.id] += 1
                    event = event_for_area(parcel, copy.to, Plane(), None)
                    self._spread(area, parcel_from_area(event, None), True)
                case _:
                    pass

    def settle(self, steps_max: int = 10_000) -> None:
        """Everything arrives, and what waits for others to join goes on."""
        for _ in range(steps_max):
            if self.under_way:
                self.deliver(0)
                continue
            self.now_us += 10_000_000
            if not self._wake():
                return
        raise AssertionError("events go around for ever")

    def _wake(self) -> bool:
        for name, (area, crossing) in self.gateways.items():
            for act in crossing.handle(self.now_us, Woken()):
                assert isinstance(act, Raise)
                self.crossings[name, act.parcel.event.id] += 1
                self._spread(area, act.parcel, True)
        return bool(self.under_way)

    def _spread(self, place: int, parcel: Parcel, brought: bool) -> None:
        members = [name for name, (area, _) in self.gateways.items() if place in (BROKERS, area)]
        self.under_way += [Copy(place, each, parcel, brought) for each in ("reader", *members)]

    # What must hold.

    def complaints(self) -> list[str]:
        found = [
            f"{name} carried {event} {count} times" for (name, event), count in self.crossings.items() if count > 1
        ]
        unknown = {event for got in self.got.values() for event in got} - set(self.began)
        return found + [f"nobody raised {event}" for event in sorted(unknown)]

    def missing(self) -> list[str]:
        """What did not come, once everything has settled, to a place that gateways lead to."""
        led_to = {BROKERS, *(area for area, _ in self.gateways.values())}
        return [
            f"{event} of {place} did not reach {other}"
            for event, place in self.began.items()
            for other in self.got
            if (other == place or {place, other} <= led_to) and not self.got[other][event]
        ]
