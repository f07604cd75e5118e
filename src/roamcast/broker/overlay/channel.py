"""The system channel of a broker (O6; section 3.3): its components say what happened, adaptors decide what follows.

The resource monitor, the broker manager and the client manager publish system events here and know nobody who
listens. An adaptor names the kinds of events it wants and answers each with effects, which it gets from the
components' services (`services.py`). Adding an adaptor is one class and one entry in `adaptors/make.py`; the broker
stays as it is.
"""

from typing import Protocol, TypeAlias

from msgspec import Struct

from roamcast.broker.overlay.search import Found
from roamcast.node.boundary import Does


class UpdateDue(Struct, frozen=True):
    """A time event: this broker's update period begins."""


class NeighboursFound(Struct, frozen=True):
    """A search for neighbours is over."""

    found: tuple[Found, ...]


class TopologyChanged(Struct, frozen=True):
    """Rows have come that are news; `joined` are brokers that were not known before."""

    joined: tuple[str, ...]


class NearestBroker(Struct, frozen=True):
    """A client has found a broker that is nearer than its home broker, or as near; `home_hops` is how far it is from
    here."""

    client: str
    candidate: Found
    home_hops: int


class LoadMeasured(Struct, frozen=True):
    """The share of its capacity that this broker used since the last time, and by which modulator."""

    load: float
    by_subscription: tuple[tuple[str, float], ...]


SystemEvent: TypeAlias = UpdateDue | NeighboursFound | TopologyChanged | NearestBroker | LoadMeasured


class Adaptor(Protocol):
    interests: tuple[type[SystemEvent], ...]

    def process(self, now_us: int, event: SystemEvent) -> list[Does]: ...


class SystemChannel:
    def __init__(self) -> None:
        self._interested: dict[type[SystemEvent], list[Adaptor]] = {}

    def register(self, adaptor: Adaptor) -> None:
        for kind in adaptor.interests:
            self._interested.setdefault(kind, []).append(adaptor)

    def publish(self, now_us: int, event: SystemEvent) -> list[Does]:
        effects: list[Does] = []
        for adaptor in self._interested.get(type(event), []):
            effects += adaptor.process(now_us, event)
        return effects
