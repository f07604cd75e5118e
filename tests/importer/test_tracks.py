"""M2: between two fixes a host moves by rule; outliers go, gaps say that nobody knows."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.importer.fixes import FIX, Columns, FixRows, Reading
from roamcast.importer.ordering import TimeSorted
from roamcast.importer.rules import InGaps, Rules
from roamcast.importer.tracks import Tracks
from roamcast.journal import Move
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point, Velocity
from roamcast.movement.clean import Limits
from tests.effort import examples
from tests.importer.given import moves_of

LIMITS = Limits(gap_us=60_000_000, speed_mps_max=50, jump_slack_m=50)


def tracked(fixes: list[tuple[float, float, float]], tmp_path: Path, **rules: object) -> list[Move]:
    """Of one host, from (seconds, x, y)."""
    text = "id,t,x,y\n" + "".join(f"a,{t},{x},{y}\n" for t, x, y in fixes)
    return moves_of(text, tmp_path, rules=Rules(LIMITS, **rules))  # type: ignore[arg-type]


def test_a_host_goes_straight_to_its_next_fix(tmp_path: Path) -> None:
    first, second, gone = tracked([(0, 0, 0), (10, 30, 40)], tmp_path)
    assert (first.position, first.velocity) == (Point(0, 0), Velocity(3, 4))
    assert (second.position, second.velocity) == (Point(30, 40), None)
    assert (gone.at_us, gone.up, gone.position) == (70_000_000, False, None)


def test_on_earth_a_host_arrives_where_its_next_fix_is(tmp_path: Path) -> None:
    text = "id,t,lon,lat\na,0,179.999,60.1\na,10,-179.999,60.101\n"
    first, second, _ = moves_of(text, tmp_path)
    assert first.position is not None
    assert first.velocity is not None
    assert second.position is not None
    arrived = Earth().moved(first.position, first.velocity.east * 10, first.velocity.north * 10)
    assert Earth().distance_m(arrived, second.position) < 0.01


@pytest.mark.parametrize(
    ("in_gaps", "metres", "expected"),
    [
        (InGaps.NEAR, 150, [(0, True, Velocity(0, 0)), (600, True, None)]),
        (InGaps.NEAR, 250, [(0, True, None), (60, False, None), (600, True, None)]),
        (InGaps.REST, 250, [(0, True, Velocity(0, 0)), (600, True, None)]),
        (InGaps.GONE, 150, [(0, True, None), (60, False, None), (600, True, None)]),
        (InGaps.UNKNOWN, 150, [(0, True, None), (60, True, None), (600, True, None)]),
    ],
)
def test_in_a_gap_a_host_does_what_the_rule_says(
    in_gaps: InGaps, metres: float, expected: list[tuple[float, bool, Velocity | None]], tmp_path: Path
) -> None:
    *found, _end = tracked([(0, 0, 0), (600, metres, 0)], tmp_path, in_gaps=in_gaps)
    assert [(each.at_us / 1e6, each.up, each.velocity) for each in found] == expected


def test_a_fix_that_cannot_be_reached_nor_left_is_dropped(tmp_path: Path) -> None:
    found = tracked([(0, 0, 0), (1, 9_000, 0), (2, 2, 0)], tmp_path)
    assert [each.position for each in found[:2]] == [Point(0, 0), Point(2, 0)]
    assert found[0].velocity == Velocity(1, 0)


def test_two_devices_under_one_name_do_not_remove_each_other(tmp_path: Path) -> None:
    found = tracked([(t, 9_000.0 * (t % 2), 0) for t in range(20)], tmp_path)
    assert len([each for each in found if each.position is not None]) >= 10


def test_a_jump_that_lasts_is_a_jump(tmp_path: Path) -> None:
    found = tracked([(0, 0, 0), (1, 1, 0), (2, 9_000, 0), (3, 9_001, 0)], tmp_path)
    assert [each.velocity for each in found[:3]] == [Velocity(1, 0), None, Velocity(1, 0)]


def test_a_fix_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    assert len(tracked([(0, 0, 0), (0, 5, 5)], tmp_path)) == 2


@pytest.mark.parametrize(("rule", "velocity"), [("told", Velocity(0, 10)), ("none", None)])
def test_velocities_may_be_told_or_left_out(rule: str, velocity: Velocity | None, tmp_path: Path) -> None:
    reading = Reading(columns=Columns(speed="v", heading="h"), speed_unit="kmh")
    text = "id,t,x,y,v,h\na,0,0,0,36,0\na,1,5,5,,\n"
    found = moves_of(text, tmp_path, reading, Rules(LIMITS, velocity=rule))  # type: ignore[arg-type]
    assert [each.velocity for each in found[:2]] == [velocity, None]


rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 400), st.sampled_from([0.0, 10.0, 5_000.0, 10_000.0, 20_000.0])),
    min_size=1,
    max_size=60,
)


def fixes_of(given: list[tuple[int, int, float]]) -> FixRows:
    fixes = np.zeros(len(given), FIX)
    for number, (host, seconds, x) in enumerate(given):
        fixes[number] = (host, 0, seconds * 1_000_000, x, 0.0, np.nan, np.nan)
    return fixes


def all_moves(fixes: FixRows, directory: Path, run_rows: int, range_rows: int) -> list[bytes]:
    ordered = TimeSorted(directory, run_rows=run_rows, range_rows=range_rows)
    for start in range(0, len(fixes), 7):
        ordered.add(fixes[start : start + 7])
    tracks = Tracks(Plane(), Rules(LIMITS))
    moves = [tracks.add(each) for each in ordered.ranges()] + [tracks.finish()]
    return sorted(row.tobytes() for each in moves for row in each)


@given(rows, st.integers(1, 30), st.integers(1, 30))
@examples(100)
def test_moves_do_not_depend_on_what_fits_in_memory(
    drawn: list[tuple[int, int, float]], run_rows: int, range_rows: int
) -> None:
    # Which of two fixes at one time counts depends on their order, so each time is there once.
    fixes = fixes_of(list({each[:2]: each for each in drawn}.values()))
    with tempfile.TemporaryDirectory() as name:
        assert all_moves(fixes, Path(name), run_rows, range_rows) == all_moves(fixes, Path(name), 1_000, 1_000)
