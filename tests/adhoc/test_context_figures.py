"""C12: what section 4.2 of the paper says of delivery and cost, in runs of the base scenario as the paper has it.

Rates are pooled over a few runs: one has some fifty deliveries to go by. Seeds are fixed, so nothing here is left to
chance; `papers/context.py` has the same claims with the paper's number of runs.
"""

from functools import cache

import pytest

from roamcast.papers.context import base_run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("context figures")]
"""One worker, since tests share runs."""

SEEDS = (1, 2, 3)


@cache
def delivered(speed_mps: float = 10, hosts: int = 100, per_km2: float = 100, seconds: float = 450) -> float:
    """The share of what an ideal system delivers."""
    parameters = {"speed_mps": speed_mps, "hosts": hosts, "per_km2": per_km2, "seconds": seconds}
    runs = [base_run(parameters, seed) for seed in SEEDS]
    expected = sum(run["expected"] for run in runs)
    assert expected > 30, "too few deliveries to speak of a rate"
    return 1 - sum(run["missed"] for run in runs) / expected


def test_c12_the_base_scenario_delivers_more_than_93_percent_of_the_ideal() -> None:
    assert delivered() > 0.93


def test_c12_delivery_falls_with_speed() -> None:
    assert delivered(speed_mps=1) - delivered(speed_mps=20) >= 0.02


def test_c12_delivery_does_not_depend_on_the_size_of_the_area() -> None:
    assert delivered(hosts=225, seconds=150) == pytest.approx(delivered(), abs=0.05)


def test_c12_delivery_is_high_above_60_hosts_per_square_kilometre_and_low_below() -> None:
    assert delivered(per_km2=80) >= 0.88
    assert delivered(per_km2=44) <= 0.75


def test_c12_c11_the_cost_is_well_below_that_of_flooding() -> None:
    """In packets of 128 bytes, and in real bytes."""
    ours, flooding = (base_run({"seconds": 100, "protocol": kind}, 1) for kind in ("context", "flooding"))
    recommended = base_run({"seconds": 100, "preset": "recommended"}, 1)
    assert 0 < ours["megabits_128"] <= 0.6 * flooding["megabits_128"]
    assert 0 < ours["megabits"] <= 0.5 * flooding["megabits"]
    assert recommended["megabits"] <= 0.75 * flooding["megabits"]
