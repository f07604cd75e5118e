"""A place that never changes: a sensor on a wall, a traffic light, a broker's own host."""

from collections.abc import AsyncIterator

from roamcast.model.values import Point
from roamcast.movement.fix import Clock, Fix, HostClock

PERIOD_US = 5_000_000
"""Said again so often, that nobody takes the position for lost."""


class Fixed:
    def __init__(self, position: tuple[float, float], clock: Clock | None = None) -> None:
        self.position = position
        self._clock = clock or HostClock()

    @property
    def point(self) -> Point:
        return Point(*self.position)

    async def fixes(self) -> AsyncIterator[Fix]:
        while True:
            at_us = self._clock.now_us()
            yield Fix(at_us, self.position, speed_mps=0.0)
            await self._clock.until(at_us + PERIOD_US)
