"""The topology adaptor: keeps the broker network congruent with the network under it (O2; section 2.3).

Every period it searches for the nearest brokers, makes them this broker's row, and sends on whatever rows have
changed since the last period. A topology that is `given` is found once.
"""

from roamcast.broker.overlay.channel import NeighboursFound, SystemEvent, UpdateDue
from roamcast.broker.overlay.params import microseconds
from roamcast.broker.overlay.services import Services
from roamcast.node.boundary import Does, SetTimer

TIMER = "update"
ALONE_S = 2.0
"""A broker that has found nobody looks again so soon."""


class TopologyAdaptor:
    interests: tuple[type[SystemEvent], ...] = (UpdateDue, NeighboursFound)

    def __init__(self, services: Services) -> None:
        self.services = services
        self.period_us = microseconds(services.params.update_period_s)
        self.begun = False

    def process(self, now_us: int, event: SystemEvent) -> list[Does]:
        match event:
            case UpdateDue():
                return [*self._next(now_us), *self.services.searching.begin(now_us, self.services.params.neighbours)]
            case NeighboursFound(found):
                self.services.brokers.found(now_us, found)
                alone: list[Does] = [] if found else [SetTimer(TIMER, now_us + microseconds(ALONE_S))]
                return [*alone, *self.services.brokers.propagate()]
            case _:
                return []

    def _next(self, now_us: int) -> list[Does]:
        if self.services.params.topology == "given":
            return []
        # The first period ends anywhere in it, so that brokers do not update all at the same time.
        wait_us = self.period_us if self.begun else self.services.rng.randint(1, self.period_us)
        self.begun = True
        return [SetTimer(TIMER, now_us + wait_us)]
