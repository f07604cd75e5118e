"""A broker of a simulation: what its work costs is modelled (O6)."""

from random import Random

from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.gauge import EventCosts
from roamcast.broker.overlay.monitor import TIMER
from roamcast.broker.overlay.params import OverlayParams
from roamcast.model.space import Space
from roamcast.node.boundary import Does, Input, TimerFired

DUE = TimerFired(TIMER)


class ModelledBroker(OverlayBroker):
    def __init__(self, host: str, params: OverlayParams, rng: Random, space: Space | None = None) -> None:
        self.costs = EventCosts(params.event_cost_ms, params.load_period_s)
        super().__init__(host, params, rng, space, self.costs)

    def handle(self, now_us: int, given: Input) -> list[Does]:
        effects = super().handle(now_us, given)
        if given == DUE:
            effects += super().handle(now_us, self.costs.measured(now_us))
        return effects
