"""The client's side of logical mobility: what it tells its border broker about itself, and when (R4, R5, R7).

Only what one of its subscriptions reads: the place where it is and how long it stays at one, the cells in which its
attributes are, and how long a word to its broker takes. It says so when that changes and not otherwise.
"""

import math
from collections import deque
from collections.abc import Iterable

from roamcast.broker.logical.delays import LITTLE, MUCH, Delays, steadied
from roamcast.broker.logical.params import LogicalParams
from roamcast.broker.logical.reach import reads_attributes, reads_place
from roamcast.broker.logical.template import DURATION_US_MAX, State
from roamcast.model.context import Context
from roamcast.model.subscription import Subscription

ACCESS = "access"
"""All brokers are one here: the next one will be about as far away as the last."""


class Traveller:
    def __init__(self, params: LogicalParams, residence_us: int = 0) -> None:
        """`residence_us` is what was measured of the client elsewhere."""
        self.place: str | None = None
        self.context: Context | None = None
        self.delays = Delays(params.delays_max)
        self._since_us = 0
        self._stays: deque[int] = deque(maxlen=params.stays_max)
        self._residence_us = residence_us
        self._reads_place = False
        self._attributes: dict[str, None] = {}
        self.adopt(params)

    def adopt(self, params: LogicalParams) -> None:
        self.params = params
        if params.residence_s is not None:
            self._residence_us = min(round(params.residence_s * 1e6), DURATION_US_MAX)

    def follow(self, subscriptions: Iterable[Subscription]) -> None:
        """The client's subscriptions have changed, and so may what is worth telling."""
        self._reads_place, self._attributes = False, {}
        for each in subscriptions:
            self.follow_also(each)

    def follow_also(self, subscription: Subscription) -> None:
        self._reads_place = self._reads_place or reads_place(subscription.filter)
        read = reads_attributes(subscription.filter)
        self._attributes.update(dict.fromkeys(name for name in read if name in self.params.drifts))

    def moved(self, now_us: int, context: Context) -> None:
        self.context = context
        place = context.attributes.get("place")
        now_at = place if isinstance(place, str) else None
        if now_at == self.place:
            return
        if self.place is not None and self.params.residence_s is None:
            self._stays.append(min(max(1, now_us - self._since_us), DURATION_US_MAX))
            average_us = sum(self._stays) // len(self._stays)
            self._residence_us = steadied(self._residence_us, average_us, MUCH, LITTLE)
        self.place, self._since_us = now_at, now_us

    def echoed(self, round_trip_us: int) -> None:
        self.delays.measured(ACCESS, round_trip_us)

    def state(self) -> State | None:
        """What a border broker should know; None if nothing that the client wants depends on it."""
        if not self._reads_place and not self._attributes:
            return None
        cells = ((name, self._cell(name)) for name in self._attributes)
        return State(
            place=self.place if self._reads_place else None,
            residence_us=self._residence_us,
            access_us=self.delays.of(ACCESS),
            values=tuple((name, *cell) for name, cell in cells if cell is not None),
        )

    def _cell(self, name: str) -> tuple[float, float] | None:
        value = self.context.value(name) if self.context is not None else None
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        grid = self.params.drifts[name].grid
        # The products may be off by a rounding; the cell must hold the value.
        return min(value, math.floor(value / grid) * grid), max(value, math.ceil(value / grid) * grid)
