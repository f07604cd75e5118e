"""Which broker a moving client is linked to (M1, R3)."""

import itertools
from typing import Any

import pytest

from roamcast.adhoc.flooding import MESSAGES, BrokerFlooding, FloodingParams
from roamcast.node.codec import Codec
from roamcast.node.kit import ProtocolKit, Seat
from roamcast.sim.access import AccessRule
from roamcast.sim.run import Run
from roamcast.sim.scenario import BadScenario, Scenario, scenario_from
from roamcast.sim.warnings import warnings_of

BROKERS = {
    "name": "broker",
    "count": 2,
    "mobility": {"kind": "static", "placement": {"kind": "at", "points": [[500, 500], [1500, 500]]}},
}


WALK = {
    "kind": "grid",
    "columns": 2,
    "rows": 1,
    "cell_m": 1000,
    "residence_s": [6, 6],
    "speed_mps": 250,
    "start": "c0r0",
}
"""From one broker's cell into the other's."""


def make_node(seat: Seat) -> BrokerFlooding:
    return BrokerFlooding(FloodingParams(over="links"), seat.refuses, seat.space, seat.graph)


KIT = ProtocolKit(Codec(MESSAGES), make_node)


def run_of(access: dict[str, Any], seconds: float, client_mobility: dict[str, Any] | None = None) -> Run:
    still = {"kind": "static", "placement": {"kind": "at", "points": [[600, 500]]}}
    clients = {"name": "client", "mobility": client_mobility or still}
    given = {
        "name": "access",
        "seconds": seconds,
        "protocol": {"kind": "flooding"},
        "hosts": [BROKERS, clients],
        "access": [{"by": "client", "to": "broker", **access}],
    }
    return Run(scenario_from(given), KIT, seed=1)


def links_over_time(run: Run, step_s: float = 0.1) -> list[list[str]]:
    found = []
    for _ in run.world.run(run.scenario.end_us, round(step_s * 1e6)):
        found.append(run.world.links.peers("client"))
    return found


def test_a_client_is_linked_to_the_nearest_broker() -> None:
    assert links_over_time(run_of({}, 1))[-1] == ["broker-1"]


def test_a_client_beyond_the_range_is_linked_to_nobody() -> None:
    assert links_over_time(run_of({"range_m": 50}, 1))[-1] == []


def test_r3_a_client_that_crosses_the_border_changes_its_broker_after_the_gap() -> None:
    run = run_of({"gap_s": 0.5}, 8, WALK)
    seen = links_over_time(run)
    assert seen[0] == ["broker-1"]
    assert seen[-1] == ["broker-2"]
    assert 4 <= seen.count([]) <= 6


def to_and_fro(*places_m: float) -> dict[str, Any]:
    """Along the line of the brokers, whose border is at 1,000 m, at 500 m/s."""
    points = [[each, 500] for each in places_m]
    route = {"name": "road", "points": points, "speed_mps": 500, "entries_s": [0]}
    return {"kind": "routes", "routes": [route]}


def test_r3_a_client_may_leave_a_cell_before_its_gap_ends() -> None:
    run = run_of({"gap_s": 0.5}, 2.5, to_and_fro(600, 1_060, 300))
    assert [each for each in links_over_time(run) if each][-1] == ["broker-1"]


def test_r3_a_cell_left_before_its_gap_ended_has_a_link_again_later() -> None:
    run = run_of({"gap_s": 0.5}, 7, to_and_fro(600, 1_600, 940, 1_600, 300))
    changes = [each for each, _ in itertools.groupby(links_over_time(run)) if each]
    assert changes == [["broker-1"], ["broker-2"], ["broker-2"], ["broker-1"]]


def test_r3_visits_go_from_broker_to_broker_with_time_away_in_between() -> None:
    run = run_of({"how": "visits", "stays_s": [1, 2], "away_s": [0.5, 1]}, 60)
    seen = [tuple(each) for each in links_over_time(run)]
    changes = [after for before, after in itertools.pairwise(seen) if before != after]
    assert len(changes) > 20
    assert {("broker-1",), ("broker-2",), ()} == set(changes)
    visited = [each for each in changes if each]
    assert all(before != after for before, after in itertools.pairwise(visited))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"to": "client"}, "different groups"),
        ({"to": "nobody"}, "names no group"),
        ({"range_m": 0}, "range_m"),
        ({"stays_s": [0, 0]}, "stays_s"),
        ({"away_s": [2, 1]}, "away_s"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadScenario, match=complaint):
        run_of(given, 1)


def test_a_rule_has_sensible_defaults() -> None:
    rule = AccessRule("client", "broker")
    assert (rule.how, rule.gap_s, rule.range_m) == ("nearest", 0.0, None)


def broker_scenario(**changes: object) -> Scenario:
    still = {"kind": "static", "placement": {"kind": "uniform", "width_m": 100, "height_m": 100}}
    given = {
        "name": "doubtful",
        "seconds": 1,
        "protocol": {"kind": "broker"},
        "hosts": [{"name": "broker", "count": 4, "mobility": still}, {"name": "car", "mobility": still}],
        "wiring": [{"of": "broker", "shape": "line"}],
        "access": [{"by": "car", "to": "broker"}],
    }
    return scenario_from({**given, **changes})


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"wiring": []}, "in 4 parts"),
        ({"access": []}, "no client has a link"),
    ],
)
def test_r1_scenario_warns_of_brokers_that_cannot_work(changes: dict[str, Any], warning: str) -> None:
    assert any(warning in each for each in warnings_of(broker_scenario(**changes)))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"protocol": {"kind": "broker", "brokers": ["brokers"]}}, "there is no group 'brokers'"),
        ({"protocol": {"kind": "overlay", "brokers": ["brokers"]}}, "there is no group 'brokers'"),
        ({"wiring": [{"of": "broker", "shape": "grid", "columns": 2}]}, "linked in a circle"),
        ({"access": [{"by": "car", "to": "broker", "stays_s": [1, 2]}]}, "stays_s is for how = 'visits'"),
        ({"access": [{"by": "car", "to": "broker", "away_s": [1, 2]}]}, "away_s is for how = 'visits'"),
    ],
)
def test_r1_brokers_that_cannot_work_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadScenario, match=complaint):
        broker_scenario(**changes)


def test_m4_brokers_of_a_mesh_may_be_linked_in_circles() -> None:
    mesh = {"kind": "broker", "handover": "predictive"}
    assert broker_scenario(protocol=mesh, wiring=[{"of": "broker", "shape": "grid", "columns": 2}])


def test_r1_scenario_does_not_warn_of_brokers_that_work() -> None:
    assert warnings_of(broker_scenario()) == []
