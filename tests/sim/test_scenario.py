"""Scenario files: a mistake is named with its key and what is allowed."""

import math
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from roamcast.papers.assemble import kit_of
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
        ({"radio": {"kind": "unit-disk", "range_m": "wide"}}, r"radio\.range_m: expected a number, not text$"),
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
            r"(?s)subscribe\[1\]\.filter: .*expected a value.*price <",
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


def publishing(**changes: Any) -> dict[str, Any]:
    return {"publish": [{"by": "car", "subject": "x", "every_s": 1, **changes}]}


def subscribing(**changes: Any) -> dict[str, Any]:
    return {"subscribe": [{"by": "car", "subject": "x", **changes}]}


def having(value: Any) -> dict[str, Any]:
    return {"hosts": [{"name": "car", "mobility": WALK, "attributes": {"seats": 4, "load": value}}]}


INFINITE, NOTHING = math.inf, math.nan


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"seconds": INFINITE}, "seconds is inf"),
        ({"seconds": NOTHING}, "seconds is nan"),
        ({"area_m": [-1, 5]}, r"area_m is \[-1.0, 5.0\]"),
        ({"area_m": [NOTHING, 5]}, "area_m is"),
        ({"packet_bytes": 0}, "packet_bytes is 0; give at least 1"),
        ({"packet_bytes": -128}, "packet_bytes is -128"),
        (
            {"radio": {"kind": "shared-medium", "range_m": 50, "queue_frames_max": 0}},
            r"radio.*queue_frames_max is 0; give at least 1",
        ),
        (publishing(every_s=0), r"publish\[1\].*every_s is 0.0; give a period of 0.001"),
        (publishing(every_s=0.000_9), "every_s is 0.0009"),
        (publishing(every_s=INFINITE), "every_s is inf"),
        (publishing(every_s=NOTHING), "every_s is nan"),
        (publishing(lifetime_s=[1, INFINITE]), "lifetime_s is inf"),
        (publishing(lifetime_s=[]), "lifetime_s is empty"),
        (publishing(first_s=-1), "first_s is -1"),
        (publishing(until_s=NOTHING), "until_s is nan"),
        (publishing(share=NOTHING), "share is nan"),
        (publishing(content={"a": 1, "b": NOTHING}), r"publish\[1\]\.content: attribute 'b': nan"),
        (publishing(content={"a": 1, "b": {"number": [0, INFINITE]}}), r"publish\[1\]\.content\.b: .*'number': inf"),
        (publishing(content={"b": {"choice": [1, NOTHING]}}), r"content\.b: .*'choice': nan"),
        (publishing(content={f"a{n}": n for n in range(256)}), "content has 256 entries"),
        (publishing(audience={"box_m": [-5, 5]}), r"audience.*box_m is \[-5.0, 5.0\]"),
        (publishing(audience={"circle_m": 5, "box_m": [5, 5]}), "one shape"),
        (publishing(announce={"first_s": INFINITE}), "first_s is inf"),
        (subscribing(every_s=0), r"subscribe\[1\].*every_s is 0.0; give a period"),
        (subscribing(every_s=NOTHING), "every_s is nan"),
        (subscribing(lifetime_s=[]), "lifetime_s is empty"),
        (subscribing(lifetime_s=[NOTHING]), "lifetime_s is nan"),
        (subscribing(first_s=INFINITE), "first_s is inf"),
        (having(INFINITE), r"hosts\[1\]\.attributes: attribute 'load': inf"),
        (having({"number": [0, INFINITE]}), r"hosts\[1\]\.attributes\.load: .*'number': inf"),
        (having({"numbr": [0, 1]}), r"unknown key 'hosts\[1\]\.attributes\.load\.numbr'; did you mean 'number'"),
        (
            having([1, 2]),
            r"hosts\[1\]\.attributes\.load: expected true or false, a number, text or a table, not a list$",
        ),
    ],
)
def test_an_amount_that_makes_no_sense_is_refused_with_its_key(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadScenario, match=expected):
        scenario_from(small(**changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hosts": {"name": "car", "mobility": WALK}}, r"hosts: .*write \[\[hosts\]\]"),
        ({"faults": {"crash": {"host": "car", "at_s": 1}}}, r"faults\.crash: .*write \[\[faults\.crash\]\]"),
        ({"radio": [{"kind": "unit-disk", "range_m": 5}]}, r"radio: .*write \[radio\]"),
        (publishing(audience=[{"circle_m": 5}]), r"publish\[1\]\.audience: .*write \[publish\.audience\]"),
    ],
)
def test_one_bracket_for_two_or_two_for_one_gets_a_hint(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadScenario, match=expected):
        scenario_from(small(**changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hosts": [{"mobility": WALK}]}, r"hosts\[1\]: missing key 'name'"),
        ({"publish": [{"by": "car", "subject": "x"}]}, r"publish\[1\]: missing key 'every_s'"),
        ({"protocol": None}, "the file: missing key 'protocol'"),
    ],
)
def test_a_missing_key_is_named(changes: dict[str, Any], expected: str) -> None:
    given = {key: value for key, value in small(**changes).items() if value is not None}
    with pytest.raises(BadScenario, match=expected):
        scenario_from(given)


def test_the_filter_of_a_scope_is_named_where_it_stands() -> None:
    with pytest.raises(BadScenario, match=r"publish\[1\]\.audience\.filter: "):
        scenario_from(small(**publishing(audience={"filter": "price <"})))


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ({"kind": "telepathy"}, r"protocol\.kind.*'telepathy'.*allowed: flooding"),
        ({}, r"protocol\.kind"),
        ({"kind": "flooding", "jitter": 1}, "unknown key 'jitter'"),
        ({"kind": "flooding", "over": "pigeons"}, "over.*allowed: air, links"),
        ({"kind": "flooding", "seen_ids_max": 0}, "seen_ids_max is 0; give at least 1"),
        ({"kind": "flooding", "hops_max": 0}, "hops_max is 0"),
        ({"kind": "flooding", "forward_jitter_ms": -1}, "forward_jitter_ms is -1.0; give 0 to"),
        ({"kind": "flooding", "forward_jitter_ms": math.nan}, "forward_jitter_ms is nan"),
        ({"kind": "flooding", "forward_jitter_ms": math.inf}, "forward_jitter_ms is inf"),
    ],
)
def test_a_mistake_in_the_protocol_is_named_too(protocol: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadScenario, match=expected):
        kit_of(protocol)


@pytest.mark.parametrize("kind", ["proximity", "context"])
@pytest.mark.parametrize(("preset", "named"), [("boat", "'boat'"), (["vehicle"], r"\['vehicle'\]")])
def test_a_preset_that_there_is_not_is_named(kind: str, preset: object, named: str) -> None:
    with pytest.raises(BadScenario, match=rf"^protocol\.preset: there is no {named} \(allowed: .*vehicle"):
        kit_of({"kind": kind, "preset": preset})


def rules(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    rule = {"by": "car", "subject": "x", "every_s": 1}
    return small(publish=[rule | {"subject": "y"}, rule | one, rule | other])


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ({"content": {"n": 1}}, {"content": {"n": "ice"}}, "attribute 'n' was integer and is now string"),
        (
            {"content": {"n": 1}},
            {"content": {"n": {"number": [0, 1]}}},
            "attribute 'n' was integer and is now double",
        ),
        ({}, {"content": {"n": 1}}, "attribute 'n' was absent and is now integer"),
        ({"announce": {"priority": 1}}, {"announce": {"priority": 2}}, r"its delivery attributes \(validity,"),
    ],
)
def test_s1_two_rules_of_one_subject_with_two_structures_are_refused_with_what_to_do(
    one: dict[str, Any], other: dict[str, Any], difference: str
) -> None:
    """On the air the second would only be a note at whoever hears it."""
    with pytest.raises(BadScenario) as refused:
        scenario_from(rules(one, other))
    said = str(refused.value)
    assert re.search(rf"publish\[3\]: 'x' has another structure than in publish\[2\]: {difference}", said)
    assert "give both rules the same content" in said
    assert "or one of them another subject" in said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"content": {"n": 1}}, {"content": {"n": {"integer": [5, 9]}}}),
        ({"announce": {"priority": 1, "circle_m": 50}}, {"announce": {"priority": 1, "circle_m": 90}}),
        ({"announce": {"priority": 1}}, {}),
        ({}, {"announce": {"priority": 1}}),
        ({"content": {"n": 1}}, {"content": {"n": "ice"}, "subject": "z"}),
    ],
)
def test_s1_rules_of_one_structure_or_of_two_subjects_may_stand_together(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    scenario_from(rules(one, other))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"seconds": [5]}, "seconds: expected a number, not a list"),
        ({"seconds": True}, "seconds: expected a number, not true or false"),
        ({"seconds": date(2026, 1, 1)}, "seconds: expected a number, not a date"),
        ({"name": 5}, "name: expected text, not an integer"),
        ({"packet_bytes": 1.5}, "packet_bytes: expected an integer, not a number with a fraction"),
        ({"area_m": [1, 2, 3]}, "area_m: expected a list of 2, not of 3"),
        ({"protocol": "flooding"}, "protocol: expected a table, not text"),
        ({"radio": 5}, "radio: expected a table, not an integer"),
        (
            {"hosts": [{"name": "car", "mobility": WALK | {"pause_s": "5"}}]},
            "pause_s: expected a number or a list, not text",
        ),
        (
            {"publish": [{"by": "car", "subject": "x", "every_s": 1, "lifetime_s": 5}]},
            "lifetime_s: expected a list, not an",
        ),
        ({"checks": ["all"]}, "checks[1]: there is no 'all' (allowed: "),
    ],
)
def test_a_value_of_another_type_is_named_in_the_words_of_the_reference(
    changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(BadScenario, match=re.escape(expected)):
        scenario_from(small(**changes))


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
