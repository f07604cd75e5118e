"""Scenario files: a mistake is named with its key and what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from roamcast.experiments.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import BadScenario, load_scenario, scenario_from

WALK = {"kind": "random-waypoint", "width_m": 100, "height_m": 100, "speed_min_mps": 1, "speed_max_mps": 2}


def small(**changes: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "seconds": 5,
        "protocol": {"kind": "flooding"},
        "radio": {"kind": "unit-disk", "range_m": 50},
        "hosts": [{"name": "car", "count": 3, "mobility": WALK}],
        **changes,
    }


def test_hosts_of_a_group_are_numbered_and_a_single_one_has_the_groups_name() -> None:
    scenario = scenario_from(
        small(hosts=[{"name": "car", "count": 2, "mobility": WALK}, {"name": "rsu", "mobility": WALK}])
    )
    assert [host for group in scenario.hosts for host in group.hosts()] == ["car-1", "car-2", "rsu"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"radio": {"kind": "laser", "range_m": 5}}, r"radio\.kind.*'laser'.*allowed: unit-disk, shared-medium"),
        ({"radio": {"kind": "unit-disk", "range_m": "wide"}}, r"radio\.range_m.*float.*str"),
        ({"radio": {"kind": "unit-disk", "range_m": -5}}, "range_m is -5"),
        ({"radio": {"kind": "unit-disk", "rang_m": 5}}, r"unknown key 'radio\.rang_m'; did you mean 'range_m'\?"),
        ({"secconds": 5}, "unknown key 'secconds'; did you mean 'seconds'.*allowed here: name, seconds"),
        ({"seconds": 0}, "seconds is 0"),
        (
            {"checks": ["everything"]},
            r"checks\[1\].*'everything'.*allowed: complete, no-duplicates, only-matching, sender-order",
        ),
        ({"hosts": []}, "at least one"),
        ({"hosts": [{"name": "car", "count": 0, "mobility": WALK}]}, r"hosts\[1\].*count is 0"),
        ({"hosts": [{"name": "car", "mobility": {"kind": "teleport"}}]}, r"mobility\.kind.*allowed: random-waypoint"),
        (
            {"publish": [{"by": "bus", "subject": "x", "every_s": 1}]},
            "by = 'bus' names no group of hosts; there are car",
        ),
        ({"publish": [{"by": "car", "subject": "a/#", "every_s": 1}]}, r"publish\[1\].*wildcards"),
        ({"publish": [{"by": "car", "subject": "x", "every_s": -1}]}, "every_s is -1"),
        (
            {"subscribe": [{"by": "car", "subject": "x", "filter": "price <"}]},
            r"(?s)subscribe\[1\].*expected a value.*price <",
        ),
        ({"faults": {"loss": 1.5}}, "loss is 1.5"),
        ({"publish": [{"by": "car", "subject": "x", "every_s": 1, "audience": {"circle_m": 0}}]}, "encloses no area"),
        (
            {"publish": [{"by": "car", "subject": "x", "every_s": 1, "audience": {"at": "there"}}]},
            "allowed: anywhere, here",
        ),
    ],
)
def test_a_mistake_is_named_with_its_key_and_what_is_allowed(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadScenario, match=expected):
        scenario_from(small(**changes))


def test_a_missing_key_is_named() -> None:
    given = small()
    del given["protocol"]
    with pytest.raises(BadScenario, match="protocol"):
        scenario_from(given)


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ({"kind": "telepathy"}, r"protocol\.kind.*'telepathy'.*allowed: flooding"),
        ({}, r"protocol\.kind"),
        ({"kind": "flooding", "jitter": 1}, "unknown key 'jitter'"),
        ({"kind": "flooding", "over": "pigeons"}, "over.*allowed: air, links"),
    ],
)
def test_a_mistake_in_the_protocol_is_named_too(protocol: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadScenario, match=expected):
        kit_of(protocol)


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match=r"nowhere\.toml: cannot be read"):
        load_scenario(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("name = \n")
    with pytest.raises(BadScenario, match=r"bad\.toml: not valid TOML.*line 1"):
        load_scenario(tmp_path / "bad.toml")


def test_two_hosts_of_one_name_are_refused() -> None:
    group = {"name": "car", "mobility": WALK}
    scenario = scenario_from(small(hosts=[group, group]))
    with pytest.raises(BadScenario, match="two hosts are called 'car'"):
        Run(scenario, kit_of(scenario.protocol), 1)


@pytest.mark.parametrize("path", sorted(Path("scenarios").glob("*.toml")), ids=lambda path: path.stem)
def test_every_scenario_of_the_repository_is_valid(path: Path) -> None:
    scenario = load_scenario(path)
    Run(scenario, kit_of(scenario.protocol), 1)
