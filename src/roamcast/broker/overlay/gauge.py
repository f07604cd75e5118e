"""Who runs the modulators of a broker, and knows what that costs (O6; section 3.3, resource monitor).

A node reads no clock. It has its modulators run by a gauge, which whoever runs the node gives it; whenever the
broker's load timer has fired, that one gives it what was measured meanwhile as an input, `Measured`. Nothing follows
from a gauge but through that input.

A live broker is measured (`server/gauge.py`). In a simulation, `ModelledBroker` is a broker whose gauge says
that each event a post takes costs the same.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from roamcast.model.event import Event
from roamcast.node.boundary import Measured

Result = TypeVar("Result")


class Gauge(Protocol):
    def modulate(self, subscription_id: str, work: Callable[[], list[Event]]) -> list[Event]:
        """Has one modulator work on one event."""
        ...

    def measured(self, now_us: int) -> Measured:
        """Since this was last asked."""
        ...


class Unmeasured:
    def modulate(self, subscription_id: str, work: Callable[[], list[Event]]) -> list[Event]:
        return work()

    def measured(self, now_us: int) -> Measured:
        return Measured(1.0)


UNMEASURED = Unmeasured()


class EventCosts:
    """A model: each event that a modulator takes costs the same."""

    def __init__(self, event_cost_ms: float, period_s: float) -> None:
        self.event_cost_s = event_cost_ms / 1_000
        self.period_s = period_s
        self._events: dict[str, int] = {}

    def modulate(self, subscription_id: str, work: Callable[[], list[Event]]) -> list[Event]:
        self._events[subscription_id] = self._events.get(subscription_id, 0) + 1
        return work()

    def measured(self, now_us: int) -> Measured:
        events, self._events = self._events, {}
        costs = tuple((name, count * self.event_cost_s) for name, count in events.items())
        return Measured(self.period_s, costs)


class LiveGauge(Gauge, Protocol):
    queued: Callable[[], int]
    """How many messages wait to be taken by others."""

    def serve(self, client: str | None, work: Callable[[], Result]) -> Result:
        """Has a node do something for a client, or for nobody in particular."""
        ...


class ModelledGauge(EventCosts):
    """Of a test: as in a simulation."""

    def __init__(self, event_cost_ms: float, period_s: float) -> None:
        super().__init__(event_cost_ms, period_s)
        self.queued: Callable[[], int] = lambda: 0

    def serve(self, client: str | None, work: Callable[[], Result]) -> Result:
        return work()
