"""Same seed, same journal, byte for byte, in every process (docs/ARCHITECTURE.md)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.journal.reader import journal_hash
from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import scenario_from
from tests.sim.walkers import PROTOCOLS, walkers_toml


def hash_of_a_run(tmp_path: Path, name: str, seed: int, hash_seed: str, protocol: str = "flooding") -> str:
    scenario = tmp_path / "repeatable.toml"
    scenario.write_text(walkers_toml(protocol))
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


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_journal_is_the_same_whatever_the_hash_seed(protocol: str, tmp_path: Path) -> None:
    first = hash_of_a_run(tmp_path, "first", 11, "0", protocol)
    assert hash_of_a_run(tmp_path, "other-hash-seed", 11, "4711", protocol) == first


@pytest.mark.slow
def test_the_journal_differs_with_the_seed(tmp_path: Path) -> None:
    assert hash_of_a_run(tmp_path, "one", 11, "0") != hash_of_a_run(tmp_path, "other", 12, "0")


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, -5, 2**40])
def test_any_integer_is_a_seed(seed: int, tmp_path: Path) -> None:
    assert len(hash_of_a_run(tmp_path, "run", seed, "1")) == 64
