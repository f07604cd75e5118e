"""Overlays in a world that moves: figure 15's three hosts, path lengths, and whole scenarios (O1, O2, O3, O8)."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from roamcast.broker.overlay.params import OverlayParams
from roamcast.papers.assemble import kit_of
from roamcast.papers.overlay import Arena, Setting, measure_brokers, measure_clients, measure_load
from roamcast.papers.overlay_hosts import OVERLAY, STATIC, ThreeHosts
from roamcast.sim.run import run_scenario
from roamcast.sim.scenario import load_scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def test_o8_three_hosts_take_the_paths_of_section_4_3() -> None:
    assert ThreeHosts(OVERLAY).stages() == ["A→B→C", "A→C", "A→C", "A→C"]


def test_o8_three_hosts_with_the_static_approach_take_its_detours() -> None:
    assert ThreeHosts(STATIC).stages() == ["A→B→C", "A→B→C", "A→C→B→C", "A→B→A→C"]


SMALL = Setting(hosts=40, side_m=(700.0, 700.0), seconds=120.0)


@pytest.mark.slow
def test_o2_updates_shorten_the_paths_of_brokers_and_cost_more_the_more_often_they_are() -> None:
    static = measure_brokers(1, None, SMALL, brokers=16)
    seldom = measure_brokers(1, 40.0, SMALL, brokers=16)
    often = measure_brokers(1, 10.0, SMALL, brokers=16)
    assert static.network == pytest.approx(often.network)
    assert static.network < often.overlay < seldom.overlay < static.overlay
    assert static.overhead_kbps < seldom.overhead_kbps < often.overhead_kbps


@pytest.mark.slow
def test_o3_clients_gain_by_home_brokers_and_more_by_both() -> None:
    lengths = [
        measure_clients(1, approach, 10.0, SMALL, brokers=10, producers=4, consumers=16).length
        for approach in ("static", "home broker only", "both", "best")
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) == 4


@pytest.mark.slow
def test_o3_balancing_lowers_the_highest_load() -> None:
    setting = Setting(20, (750.0, 500.0), (1.0, 20.0), 30.0, 250.0, 60.0)
    balanced = measure_load(2, 0.9, setting=setting)
    careless = measure_load(2, 0.9, balance=False, setting=setting)
    assert balanced.highest < careless.highest
    assert balanced.length > careless.length


def test_o1_hosts_move_alike_whatever_the_approach() -> None:
    one, other = (Arena(3, SMALL, OverlayParams(topology=topology), 10) for topology in ("given", "adaptive"))
    one.until(20)
    other.until(20)
    assert [one.network("broker-1", each) for each in one.brokers] == [
        other.network("broker-1", each) for each in other.brokers
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["overlay-clients", "overlay-static"])
def test_o1_every_event_of_the_scenarios_arrives_once_and_in_order(name: str) -> None:
    scenario = replace(load_scenario(SCENARIOS / f"{name}.toml"), seconds=40.0)
    publish = tuple(replace(rule, until_s=30.0) for rule in scenario.publish)
    result = run_scenario(replace(scenario, publish=publish), kit_of(scenario.protocol, scenario.radio), 1)
    assert result.expected > 500
    assert (result.missed, result.unwanted, result.duplicates) == (0, 0, 0)
