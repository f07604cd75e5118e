"""L5: quantiles of latencies are those of all deliveries, within the width of a size."""

import math

from hypothesis import given
from hypothesis import strategies as st

from roamcast.server.studio.latencies import PER_E, Latencies, quantiles_ms
from tests.effort import examples

LATENCIES_US = st.lists(st.integers(1, 10**9), min_size=1, max_size=60)


@examples(100)
@given(LATENCIES_US, st.sampled_from([0.01, 0.5, 0.99]))
def test_l5_a_quantile_is_within_a_size_of_the_true_one(values: list[int], quantile: float) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value, 1)
    told = quantiles_ms([latencies.take()], quantile)
    assert told is not None
    exact = sorted(values)[math.ceil(quantile * len(values)) - 1] / 1e3
    assert abs(math.log(told[0] / exact)) <= 0.5 / PER_E + 0.006


def test_l5_deliveries_weigh_alike_however_many_an_event_has() -> None:
    latencies = Latencies()
    latencies.add(1_000, 98)
    latencies.add(1_000_000, 2)
    first = latencies.take()
    told = quantiles_ms([first, latencies.take()], 0.5, 0.99)
    assert told is not None
    assert 0.9 < told[0] < 1.1
    assert 900 < told[1] < 1_100


def test_l5_without_deliveries_there_is_no_latency() -> None:
    assert quantiles_ms([{}], 0.5) is None
