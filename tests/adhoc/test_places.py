"""Named places in ad hoc networks: `myloc` walks on the scenario's movement graph (R4, C2)."""

from typing import Any

import pytest

from roamcast.papers.assemble import kit_of
from roamcast.sim.run import run_scenario
from roamcast.sim.scenario import scenario_from


def rooms(protocol: str) -> dict[str, Any]:
    """Four rooms in a row; somebody in the hall tells of something in the kitchen."""
    at = {"kind": "at", "points": [[0, 0]]}
    teller = {"name": "teller", "attributes": {"place": "hall"}, "mobility": {"kind": "static", "placement": at}}
    line = {"kind": "line", "start": [10, 0], "end": [40, 0]}
    others = [
        {"name": room, "attributes": {"place": room}, "mobility": {"kind": "static", "placement": line}}
        for room in ("hall", "kitchen", "garden", "street")
    ]
    publish: dict[str, Any] = {
        "by": "teller",
        "subject": "smell",
        "every_s": 2,
        "first_s": 3,
        "until_s": 8,
        "lifetime_s": [1],
        "content": {"room": "kitchen"},
    }
    subscribe: dict[str, Any] = {"subject": "smell", "filter": "room IN myloc(1)"}
    if protocol == "proximity":
        publish["announce"] = {"circle_m": 100}
    else:
        publish["relevance"] = {"circle_m": 60}
        subscribe["interest"] = {"circle_m": 60}
    return {
        "name": "rooms",
        "seconds": 12,
        "protocol": {"kind": protocol},
        "radio": {"kind": "unit-disk", "range_m": 200},
        "hosts": [teller, *others],
        "places": {"hall": ["kitchen"], "kitchen": ["garden"], "garden": ["street"]},
        "publish": [publish],
        "subscribe": [{"by": group["name"], **subscribe} for group in others],
        "checks": ["no-duplicates", "only-matching", "complete"],
    }


@pytest.mark.parametrize("protocol", ["proximity", "context"])
def test_only_those_at_most_a_step_away_hear_of_it(protocol: str) -> None:
    scenario = scenario_from(rooms(protocol))
    result = run_scenario(scenario, kit_of(scenario.protocol, scenario.radio), seed=1)
    assert result.delivered == result.expected == 3 * result.events
