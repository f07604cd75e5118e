"""L4: gaps, jumps, missing speed, a clock that goes back, positions out of range: handled, counted, never fatal."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Point, Velocity
from roamcast.movement.clean import Cleaner, Limits, Reason
from roamcast.movement.fix import Fix
from tests.effort import examples

SECOND_US = 1_000_000


def at(second: float, x: float, y: float = 0.0, **more: float) -> Fix:
    return Fix(round(second * SECOND_US), (x, y), **more)


def cleaned(cleaner: Cleaner, *fixes: Fix) -> list[float | None]:
    """Where each fix puts the host, on the x axis."""
    return [None if used is None else used.position[0] for used in map(cleaner.add, fixes)]


def counted(cleaner: Cleaner) -> dict[str, int]:
    return {reason.value: count for reason, count in cleaner.counts.items() if count and reason is not Reason.TAKEN}


@pytest.fixture
def cleaner() -> Cleaner:
    return Cleaner(Plane(), Limits(speed_mps_max=50.0, jump_slack_m=10.0))


def test_l4_a_good_fix_with_speed_and_heading_passes_unchanged(cleaner: Cleaner) -> None:
    fixes = [at(0, 0, speed_mps=1.0, heading_deg=90.0), at(1, 1, speed_mps=1.0, heading_deg=90.0)]
    assert [cleaner.add(fix) for fix in fixes] == fixes
    assert counted(cleaner) == {}
    assert cleaner.counts[Reason.TAKEN] == 2


@pytest.mark.parametrize(
    ("space", "position"),
    [
        (Plane(), (math.nan, 0.0)),
        (Plane(), (0.0, math.inf)),
        (Earth(), (181.0, 0.0)),
        (Earth(), (0.0, -90.5)),
        (Earth(), (math.nan, math.nan)),
    ],
)
def test_l4_a_position_that_is_not_in_the_space_is_dropped(space: Space, position: tuple[float, float]) -> None:
    cleaner = Cleaner(space)
    assert cleaner.add(Fix(0, position)) is None
    assert counted(cleaner) == {"out_of_range": 1}
    assert cleaner.current(0) is None


def test_l4_a_vague_fix_is_dropped(cleaner: Cleaner) -> None:
    assert cleaned(cleaner, at(0, 0, accuracy_m=5_000.0), at(1, 1, accuracy_m=math.nan)) == [None, None]
    assert counted(cleaner) == {"vague": 2}
    assert cleaned(cleaner, at(2, 2, accuracy_m=5.0)) == [2]


def test_l4_the_same_time_again_is_dropped(cleaner: Cleaner) -> None:
    assert cleaned(cleaner, at(1, 1), at(1, 1), at(1, 2)) == [1, None, None]
    assert counted(cleaner) == {"repeated": 2}


def test_l4_a_jump_that_the_next_fix_does_not_confirm_is_dropped(cleaner: Cleaner) -> None:
    assert cleaned(cleaner, at(0, 0), at(1, 5_000), at(2, 2), at(3, 3)) == [0, None, 2, 3]
    assert counted(cleaner) == {"jump": 1, "unconfirmed": 1, "speed_derived": 2, "heading_derived": 2}


def test_l4_a_jump_that_the_next_fix_confirms_is_where_the_host_is(cleaner: Cleaner) -> None:
    assert cleaned(cleaner, at(0, 0), at(1, 5_000), at(2, 5_020)) == [0, None, 5_020]
    assert counted(cleaner) == {"jump": 1, "confirmed": 1, "speed_derived": 1, "heading_derived": 1}
    used = cleaner.current(2 * SECOND_US)
    assert used is not None
    assert used.speed_mps == 20.0


def test_l4_of_jumps_to_ever_other_places_none_is_believed(cleaner: Cleaner) -> None:
    assert cleaned(cleaner, at(0, 0), at(1, 5_000), at(2, -5_000), at(3, 9_000)) == [0, None, None, None]
    assert (cleaner.counts[Reason.JUMP], cleaner.counts[Reason.UNCONFIRMED]) == (3, 2)


def test_l4_who_was_silent_for_long_may_be_far_away(cleaner: Cleaner) -> None:
    assert cleaned(cleaner, at(0, 0), at(200, 9_000)) == [0, 9_000]
    assert counted(cleaner) == {"gap": 1}


def test_l4_a_fix_that_comes_late_is_dropped(cleaner: Cleaner) -> None:
    assert cleaned(cleaner, at(0, 0), at(2, 2), at(1, 1), at(3, 3)) == [0, 2, None, 3]
    assert (cleaner.counts[Reason.CLOCK_BACK], cleaner.counts[Reason.UNCONFIRMED]) == (1, 1)


def test_l4_a_clock_that_was_set_back_is_believed_with_the_second_fix(cleaner: Cleaner) -> None:
    assert cleaned(cleaner, at(9_000, 0), at(9_001, 1), at(10, 2), at(11, 3), at(12, 4)) == [0, 1, None, 3, 4]
    assert (cleaner.counts[Reason.CLOCK_BACK], cleaner.counts[Reason.CONFIRMED]) == (1, 1)
    assert cleaner.current(12 * SECOND_US) is not None


def test_l4_a_clock_that_was_wrong_for_one_fix_costs_one_more(cleaner: Cleaner) -> None:
    ahead = 2_000_000_000
    assert cleaned(cleaner, at(0, 0), at(ahead, 1), at(2, 2), at(3, 3), at(4, 4)) == [0, 1, None, 3, 4]


def test_l4_a_position_older_than_the_limit_is_no_position(cleaner: Cleaner) -> None:
    gap_us = cleaner.limits.gap_us
    cleaner.add(at(1, 7))
    used = cleaner.current(SECOND_US + gap_us)
    assert used is not None
    assert used.position == (7, 0.0)
    assert cleaner.current(SECOND_US + gap_us + 1) is None


def test_l4_missing_speed_and_heading_come_from_the_last_two_fixes(cleaner: Cleaner) -> None:
    cleaner.add(at(0, 0, 0))
    used = cleaner.add(at(2, 6, -8))
    assert used is not None
    assert used.speed_mps == 5.0
    assert used.velocity is not None
    assert math.isclose(used.velocity.east, 3.0)
    assert math.isclose(used.velocity.north, -4.0)


def test_l4_nothing_is_derived_across_a_gap(cleaner: Cleaner) -> None:
    cleaner.add(at(0, 0))
    used = cleaner.add(at(60, 60))
    assert used is not None
    assert used.velocity is None


def test_l4_who_stands_still_has_a_speed_and_no_heading(cleaner: Cleaner) -> None:
    cleaner.add(at(0, 0))
    used = cleaner.add(at(1, 0))
    assert used is not None
    assert (used.speed_mps, used.heading_deg, used.velocity) == (0.0, None, Velocity(0.0, 0.0))


@pytest.mark.parametrize("speed_mps", [-1.0, math.nan, math.inf, 1e9])
def test_l4_a_speed_that_makes_no_sense_is_derived_instead(cleaner: Cleaner, speed_mps: float) -> None:
    cleaner.add(at(0, 0))
    used = cleaner.add(at(1, 3, speed_mps=speed_mps, heading_deg=math.nan))
    assert used is not None
    assert (used.speed_mps, used.heading_deg) == (3.0, 90.0)
    assert counted(cleaner) == {"bad_speed": 1, "bad_heading": 1, "speed_derived": 1, "heading_derived": 1}


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_limits_that_make_no_sense_are_refused(name: str) -> None:
    for value in (0, -1, math.nan, math.inf):
        given: dict[str, Any] = {name: value}
        with pytest.raises(ValueError, match=name):
            Limits(**given)


anything = st.floats(allow_nan=True, allow_infinity=True)
wild_fixes = st.lists(
    st.builds(
        Fix,
        st.integers(-(2**60), 2**60) | st.integers(0, 20 * SECOND_US),
        st.tuples(anything | st.floats(-400, 400), anything | st.floats(-400, 400)),
        st.none() | anything,
        st.none() | anything,
        st.none() | anything,
    ),
    max_size=30,
)
spaces = st.sampled_from([Plane(), Earth()])


@given(wild_fixes, spaces)
@examples(150)
def test_l4_whatever_comes_nothing_fails_and_what_passes_makes_sense(fixes: list[Fix], space: Space) -> None:
    cleaner = Cleaner(space)
    for fix in fixes:
        used = cleaner.add(fix)
        if used is None:
            continue
        assert (used.at_us, used.position) == (fix.at_us, fix.position)
        space.check(used.point)
        assert used.speed_mps is None or 0 <= used.speed_mps <= cleaner.limits.speed_mps_max
        assert used.heading_deg is None or 0 <= used.heading_deg < 360
        assert used.velocity is None or math.isfinite(used.velocity.speed)
        assert cleaner.current(used.at_us) == used


@given(wild_fixes, spaces)
@examples(100)
def test_l4_every_fix_is_counted_once(fixes: list[Fix], space: Space) -> None:
    cleaner = Cleaner(space)
    used = sum(cleaner.add(fix) is not None for fix in fixes)
    counts = cleaner.counts
    held = counts[Reason.JUMP] + counts[Reason.CLOCK_BACK]
    dropped = counts[Reason.OUT_OF_RANGE] + counts[Reason.VAGUE] + counts[Reason.REPEATED]
    assert counts[Reason.TAKEN] == used
    assert used + dropped + held == len(fixes)
    assert held - counts[Reason.CONFIRMED] - counts[Reason.UNCONFIRMED] in (0, 1)


walks = st.lists(st.tuples(st.integers(100_000, 8_000_000), st.floats(-1, 1), st.floats(-1, 1)), max_size=20)


def walked(steps: list[tuple[int, float, float]], space: Space) -> list[Fix]:
    """The fixes of somebody who walks, at most 20 m a second."""
    here, now_us = Point(24.9, 60.2), 0
    fixes = [Fix(now_us, (here.x, here.y))]
    for step_us, east, north in steps:
        here = space.moved(here, east * 14 * step_us / 1e6, north * 14 * step_us / 1e6)
        now_us += step_us
        fixes.append(Fix(now_us, (here.x, here.y)))
    return fixes


@given(walks, spaces)
@examples(100)
def test_l4_who_walks_is_never_held_back(steps: list[tuple[int, float, float]], space: Space) -> None:
    cleaner = Cleaner(space)
    fixes = walked(steps, space)
    assert [cleaner.add(fix) is not None for fix in fixes] == [True] * len(fixes)
    assert cleaner.counts[Reason.SPEED_DERIVED] == len(steps)


@given(walks, spaces, st.data())
@examples(100)
def test_l4_one_outlier_changes_nothing_but_its_own_place(
    steps: list[tuple[int, float, float]], space: Space, data: st.DataObject
) -> None:
    """Whatever single wrong position is put between two good ones, all fixes around it are used as without it."""
    fixes = walked(steps, space)
    place = data.draw(st.integers(1, len(fixes)))
    before = fixes[place - 1]
    far = space.moved(before.point, data.draw(st.floats(20_000, 90_000)), 0)
    outlier = Fix(before.at_us + 50_000, (far.x, far.y))
    with_it, without = Cleaner(space), Cleaner(space)
    used = [with_it.add(fix) for fix in (*fixes[:place], outlier, *fixes[place:])]
    assert used.pop(place) is None
    assert used == [without.add(fix) for fix in fixes]


@given(wild_fixes)
@examples(100)
def test_l4_no_two_fixes_in_a_row_are_further_apart_than_anything_moves_unless_confirmed(fixes: list[Fix]) -> None:
    cleaner, space = Cleaner(Plane()), Plane()
    used: list[Fix] = []
    for fix in fixes:
        confirmed = cleaner.counts[Reason.CONFIRMED]
        passed = cleaner.add(fix)
        if passed is not None:
            used = [passed] if cleaner.counts[Reason.CONFIRMED] > confirmed else [*used, passed]
    for one, other in pairwise(used):
        seconds = (other.at_us - one.at_us) / 1e6
        assert seconds > 0
        assert space.distance_m(one.point, other.point) <= 50 + 100 * seconds
