"""How long deliveries took, from publication on: counts by size, from which a quantile is read to 5 %."""

import math
from collections.abc import Iterable

PER_E = 10.0
"""So many sizes to a factor of e: neighbours are 10 % apart."""


class Latencies:
    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, latency_us: int, deliveries: int) -> None:
        size = round(PER_E * math.log(max(1, latency_us)))
        self._counts[size] = self._counts.get(size, 0) + deliveries

    def take(self) -> dict[int, int]:
        """What was added since the last time."""
        taken, self._counts = self._counts, {}
        return taken


def quantiles_ms(parts: Iterable[dict[int, int]], *quantiles: float) -> list[float] | None:
    """Of all parts together, in milliseconds; None if there were no deliveries."""
    counts: dict[int, int] = {}
    for part in parts:
        for size, count in part.items():
            counts[size] = counts.get(size, 0) + count
    total = sum(counts.values())
    if total == 0:
        return None
    return [ms_of(quantile_size(counts, quantile * total)) for quantile in quantiles]


def quantile_size(counts: dict[int, int], wanted: float) -> int:
    passed = 0
    for size in sorted(counts):
        passed += counts[size]
        if passed >= wanted:
            return size
    raise AssertionError("a quantile is at most 1")


def ms_of(size: int) -> float:
    return float(f"{math.exp(size / PER_E) / 1e3:.3g}")
