"""Same seed, same journal, byte for byte, in every process (docs/ARCHITECTURE.md)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.experiments.assemble import kit_of
from roamcast.journal.reader import journal_hash
from roamcast.sim.run import Run
from roamcast.sim.scenario import scenario_from

SCENARIO = """
name = "repeatable"
seconds = 20
area_m = [600, 600]

[protocol]
kind = "flooding"
forward_jitter_ms = 5

[radio]
kind = "shared-medium"
range_m = 200

[[hosts]]
name = "walker"
count = 25
mobility = { kind = "random-waypoint", width_m = 600, height_m = 600, speed_min_mps = 1, speed_max_mps = 20 }
attributes = { mood = { choice = ["calm", "busy"] }, age = { integer = [1, 90] } }

[[publish]]
by = "walker"
share = 0.3
subject = "street/news"
every_s = 2
lifetime_s = [0, 3]
content = { topic = { choice = ["art", "food", "sport"] }, weight = { number = [0, 1] } }
relevance = { box_m = [300, 300], at = "anywhere" }
audience = { circle_m = 300, at = "with-me", filter = "age > 20 AND neighbours.count() > 1" }

[[subscribe]]
by = "walker"
share = 0.7
subject = "street/#"
every_s = 6
filter = "topic IN ('art', 'food') OR near(position, 100)"
interest = { circle_m = 200, at = "here" }

[faults]
loss = 0.1
duplicate = 0.05
reorder = 0.05
refuse_share = 0.1
clock_offset_ms = 100
crash = [{ host = "walker-3", at_s = 5, restart_s = 9, keeps_disk = false }]
pause = [{ host = "walker-4", at_s = 6, until_s = 8 }]
"""


def hash_of_a_run(tmp_path: Path, name: str, seed: int, hash_seed: str) -> str:
    scenario = tmp_path / "repeatable.toml"
    scenario.write_text(SCENARIO)
    directory = tmp_path / name
    subprocess.run(
        [
            sys.executable,
            "-m",
            "roamcast",
            "sim",
            str(scenario),
            "--seed",
            str(seed),
            "--journal",
            str(directory),
            "--json",
        ],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        timeout=120,
    )
    return journal_hash(directory)


def test_the_journal_is_the_same_whatever_the_hash_seed_and_differs_with_the_seed(tmp_path: Path) -> None:
    first = hash_of_a_run(tmp_path, "first", seed=11, hash_seed="0")
    assert hash_of_a_run(tmp_path, "again", seed=11, hash_seed="0") == first
    assert hash_of_a_run(tmp_path, "other-hash-seed", seed=11, hash_seed="4711") == first
    assert hash_of_a_run(tmp_path, "other-seed", seed=12, hash_seed="0") != first


def test_adding_a_host_leaves_the_ways_of_the_others_as_they_are() -> None:
    """Every generator is named after its purpose and host, so worlds can be compared."""

    def way_of_the_first(count: int) -> list[tuple[float, float]]:
        walk = {"kind": "random-waypoint", "width_m": 100, "height_m": 100, "speed_min_mps": 1, "speed_max_mps": 9}
        scenario = scenario_from(
            {
                "name": "x",
                "seconds": 60,
                "protocol": {"kind": "flooding"},
                "hosts": [{"name": "h", "count": count, "mobility": walk}],
            }
        )
        world = Run(scenario, kit_of(scenario.protocol), 4).world
        points = [world.whereabouts.position(0, second * 1_000_000) for second in range(60)]
        return [(point.x, point.y) for point in points]

    assert way_of_the_first(3) == way_of_the_first(30)


@pytest.mark.parametrize("seed", [0, -5, 2**40])
def test_any_integer_is_a_seed(seed: int, tmp_path: Path) -> None:
    assert len(hash_of_a_run(tmp_path, "run", seed, "1")) == 64
