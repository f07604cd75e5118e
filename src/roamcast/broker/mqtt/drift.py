"""Clients that told their velocity, carried forward between their reports: many at once, in columns.

As `Context.position_at` does for one, but for the last bit of the arithmetic on Earth.
"""

import math

import numpy as np
from numpy.typing import NDArray

from roamcast.model.context import Context
from roamcast.model.space import ECCENTRICITY_SQUARED, EQUATOR_RADIUS_M, Plane, Space

Doubles = NDArray[np.float64]
ROWS_AT_FIRST = 64
LATITUDE_MAX = 85.0
SLACK_SHARE = 1e-3
SLACK_MIN_M = 1e-3
"""What distances on Earth differ by from steps east and north, and more, at speeds and times that are of use here."""


class Drift:
    """One row for each client that moves by itself."""

    def __init__(self, space: Space) -> None:
        self._flat = isinstance(space, Plane)
        self._row_of: dict[str, int] = {}
        self._hosts: list[str] = []
        self._columns: Doubles = np.zeros((5, ROWS_AT_FIRST))
        """x, y, east and north in metres a second, and since when in microseconds."""
        self.numbers: NDArray[np.int32] = np.zeros(ROWS_AT_FIRST, np.int32)
        self._speed_max_mps = 0.0
        self._polar = False
        """Somebody is where a step to the east is not as long as it says."""

    def __len__(self) -> int:
        return len(self._hosts)

    def put(self, context: Context, number: int) -> None:
        """`number` is what the matching engine calls the client."""
        velocity, position = context.velocity, context.position
        if position is None or velocity is None or velocity.speed == 0:
            if self._hosts:
                self.remove(context.host)
            return
        row = self._row_of.get(context.host)
        if row is None:
            row = self._row_of[context.host] = len(self._hosts)
            self._hosts.append(context.host)
            if row >= self._columns.shape[1]:
                self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
                self.numbers = np.concatenate([self.numbers, np.zeros_like(self.numbers)])
        self._columns[:, row] = (position.x, position.y, velocity.east, velocity.north, context.at_us)
        self.numbers[row] = number
        self._speed_max_mps = max(self._speed_max_mps, velocity.speed)
        self._polar |= not self._flat and abs(position.y) > LATITUDE_MAX

    def slack_m(self, since_us: int, now_us: int) -> float:
        """How far anybody can have come from where it was at one time, or reported later, until another."""
        if not self._hosts or since_us == now_us:
            return 0.0
        if self._polar:
            return math.inf
        return self._speed_max_mps * abs(now_us - since_us) / 1e6 * (1 + SLACK_SHARE) + SLACK_MIN_M

    def remove(self, host: str) -> None:
        row = self._row_of.pop(host, None)
        if row is None:
            return
        last = self._hosts.pop()
        if last != host:
            end = len(self._hosts)
            self._hosts[row] = last
            self._row_of[last] = row
            self._columns[:, row] = self._columns[:, end]
            self.numbers[row] = self.numbers[end]

    def positions(self, now_us: int) -> tuple[NDArray[np.int32], Doubles, Doubles]:
        count = len(self._hosts)
        x, y, east, north, since_us = self._columns[:, :count]
        self._speed_max_mps = float(np.hypot(east, north).max(initial=0.0))
        self._polar = not self._flat and bool((np.abs(y) > LATITUDE_MAX).any())
        seconds = np.maximum(0, now_us - since_us) / 1e6
        moved = (
            (x + east * seconds, y + north * seconds)
            if self._flat
            else on_earth(x, y, east * seconds, north * seconds)
        )
        return self.numbers[:count], *moved


def on_earth(x: Doubles, y: Doubles, east_m: Doubles, north_m: Doubles) -> tuple[Doubles, Doubles]:
    """As `Earth.moved`."""
    north_per_degree, _ = metres_per_degree(y)
    north_per_degree, _ = metres_per_degree(y + north_m / north_per_degree / 2)
    latitude = np.clip(y + north_m / north_per_degree, -90.0, 90.0)
    _, east_per_degree = metres_per_degree((y + latitude) / 2)
    longitude = x + east_m / np.maximum(east_per_degree, 1e-9)
    beyond = np.abs(longitude) > 180
    return np.where(beyond, (longitude + 180) % 360 - 180, longitude), latitude


def metres_per_degree(latitude: Doubles) -> tuple[Doubles, Doubles]:
    sine = np.sin(np.radians(latitude))
    squared = 1 - ECCENTRICITY_SQUARED * sine * sine
    normal = EQUATOR_RADIUS_M / np.sqrt(squared)
    meridian = normal * (1 - ECCENTRICITY_SQUARED) / squared
    return np.radians(meridian), np.radians(normal * np.cos(np.radians(latitude)))
