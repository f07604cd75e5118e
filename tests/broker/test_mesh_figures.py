"""What forwarding costs: the closed form of the paper and its baselines, on a small mesh (M8, M9)."""

import pytest

from roamcast.papers.mesh import Measured, MeshKind, Setting, closed_form, measure, run_world

K = 3


@pytest.fixture(scope="module")
def measured() -> dict[MeshKind, Measured]:
    kinds: tuple[MeshKind, ...] = ("predictive", "probing", "batch")
    return {kind: measure(Setting(kind, K, speed_mps=12.0, runs=120)) for kind in kinds}


@pytest.mark.slow
def test_m9_the_overhead_of_predictive_forwarding_is_that_of_equation_6(measured: dict[MeshKind, Measured]) -> None:
    assert measured["predictive"].overhead == pytest.approx(closed_form(K), rel=0.05)


def test_m9_batch_forwarding_costs_twice_as_much(measured: dict[MeshKind, Measured]) -> None:
    assert measured["batch"].overhead == pytest.approx(2 * measured["predictive"].overhead, rel=0.05)


def test_m9_probing_costs_more_by_its_probes_and_seconds(measured: dict[MeshKind, Measured]) -> None:
    saving = 1 - measured["predictive"].overhead / measured["probing"].overhead
    assert 0.28 <= saving <= 0.45
    assert 4.3 <= measured["probing"].delay_s - measured["predictive"].delay_s <= 5.1


@pytest.mark.slow
def test_m7_every_event_of_every_run_arrives_once(measured: dict[MeshKind, Measured]) -> None:
    assert [each.missing for each in measured.values()] == [0, 0, 0]


@pytest.mark.slow
def test_m9_overhead_depends_neither_on_speed_nor_on_arrivals() -> None:
    settings = [Setting("predictive", K, speed, interval, 120) for speed, interval in ((3.0, 8.0), (15.0, 4.0))]
    for setting in settings:
        assert measure(setting).overhead == pytest.approx(closed_form(K), rel=0.06)


@pytest.mark.slow
def test_m10_a_destination_that_is_wrong_costs_delay_and_no_event() -> None:
    right, wrong = (measure(Setting("predictive", K, 12.0, runs=60, noise_m=noise_m)) for noise_m in (0.0, 400.0))
    assert wrong.missing == 0
    assert wrong.delay_s > right.delay_s + 0.5


def test_a_run_does_not_depend_on_how_many_are_made_in_one_world() -> None:
    setting = Setting("predictive", 2, 15.0, 8.0)
    together = run_world(setting, 0, 6)
    apart = [run_world(setting, number, 1)[0] for number in range(6)]
    assert together == apart


def test_the_closed_form() -> None:
    assert closed_form(10) == 3.5
    assert closed_form(20) == pytest.approx(6.83, abs=0.01)
