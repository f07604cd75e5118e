"""Fences as they are defined: moments on the way between fixes, hysteresis, certainty, time."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.context import Context
from roamcast.model.fence import (
    BEGIN,
    Fence,
    FenceRule,
    Fix,
    Occurrence,
    State,
    Transition,
    advance,
    due_us,
    elapsed,
    step,
)
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Box, Circle, Region
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import BadValue, Point, Value
from tests.effort import examples
from tests.model.test_region import grid_points, shapes

PLANE, EARTH = Plane(), Earth()
SECOND_US = 1_000_000
ENTER, LEAVE, CROSS, DWELL = Transition.ENTER, Transition.LEAVE, Transition.CROSS, Transition.DWELL
YARD = Box(Point(-50, -50), Point(50, 50))
ALL = (ENTER, LEAVE, CROSS)
HYSTERESES: list[dict[str, Any]] = [
    {"hysteresis_m": 0.0},
    {"hysteresis_m": 2.0},
    {"hysteresis_m": None},
    {"hysteresis_m": None, "outside_us": 5 * SECOND_US},
]


def fence(region: Region = YARD, **rule: Any) -> Fence:
    return Fence("yard", region, FenceRule(**{"hysteresis_m": 0.0, **rule}))


def fixes(*places: tuple[float, float, float], accuracy_m: float | None = None) -> list[Fix]:
    """Seconds, and metres east and north."""
    return [Fix(round(s * SECOND_US), Point(x, y), accuracy_m) for s, x, y in places]


def folded(of: Fence, given: Iterable[Fix], space: Space = PLANE) -> list[Occurrence]:
    state, found = BEGIN, list[Occurrence]()
    for fix in given:
        state, more = advance(of, state, fix, space)
        found += more
    return found


def said(found: list[Occurrence]) -> list[tuple[Transition, float]]:
    return [(each.transition, each.at_us / SECOND_US) for each in found]


# Moments.


def test_enter_and_leave_happen_on_the_way() -> None:
    found = folded(fence(), fixes((0, -100, 0), (10, 0, 0), (20, 200, 0)))
    assert said(found) == [(ENTER, 5.0), (LEAVE, 12.5)]
    assert [each.position for each in found] == [Point(-50, 0), Point(50, 0)]
    assert found[1].dwell_us == 7_500_000


def test_a_moment_is_to_the_millisecond() -> None:
    (found,) = folded(fence(on=(ENTER,)), fixes((0, -100, 0), (7, 17, 0)))
    assert found.at_us == 2_991_000


def test_the_first_fix_inside_enters_at_its_own_time() -> None:
    assert said(folded(fence(), fixes((3, 0, 0)))) == [(ENTER, 3.0)]


def test_a_host_that_passes_between_two_fixes_crosses() -> None:
    found = folded(fence(on=ALL), fixes((0, -150, 0), (10, 150, 0)))
    assert [(each, at) for each, at in said(found)] == [(ENTER, 3.333), (LEAVE, 6.667), (CROSS, 6.667)]


def test_a_host_that_was_seen_inside_does_not_cross() -> None:
    found = folded(fence(on=ALL), fixes((0, -150, 0), (5, 0, 0), (10, 150, 0)))
    assert [each for each, _ in said(found)] == [ENTER, LEAVE]


def test_only_what_a_rule_names_is_told() -> None:
    found = folded(fence(on=(LEAVE,)), fixes((0, -100, 0), (10, 0, 0), (20, 200, 0)))
    assert said(found) == [(LEAVE, 12.5)]


def test_a_fix_that_claims_to_be_older_counts_as_of_the_last_time() -> None:
    found = folded(fence(), fixes((10, -100, 0), (5, 0, 0)))
    assert said(found) == [(ENTER, 10.0)]


# Hysteresis.


def test_leaving_counts_when_a_fix_is_far_enough_outside_and_then_as_of_the_border() -> None:
    given = fixes((0, 0, 0), (10, 60, 0), (20, 75, 0), (30, 81, 0))
    assert said(folded(fence(hysteresis_m=30.0), given[:3])) == [(ENTER, 0.0)]
    assert said(folded(fence(hysteresis_m=30.0), given)) == [(ENTER, 0.0), (LEAVE, 8.333)]


def test_who_comes_back_before_leaving_counts_has_not_left() -> None:
    given = fixes((0, 0, 0), (10, 60, 0), (20, 40, 0), (30, 60, 0), (40, 100, 0))
    assert said(folded(fence(hysteresis_m=30.0), given)) == [(ENTER, 0.0), (LEAVE, 25.0)]


def test_leaving_counts_when_the_time_outside_is_over() -> None:
    rule: dict[str, Any] = {"hysteresis_m": None, "outside_us": 30 * SECOND_US}
    given = fixes((0, 0, 0), (10, 100, 0), (20, 100, 0), (34, 100, 0), (36, 100, 0))
    assert said(folded(fence(**rule), given[:4])) == [(ENTER, 0.0)]
    assert said(folded(fence(**rule), given)) == [(ENTER, 0.0), (LEAVE, 5.0)]


def test_the_time_outside_begins_anew_after_a_moment_inside() -> None:
    rule: dict[str, Any] = {"hysteresis_m": None, "outside_us": 30 * SECOND_US}
    given = fixes((0, 0, 0), (10, 100, 0), (20, 0, 0), (30, 100, 0), (50, 100, 0), (60, 100, 0))
    assert said(folded(fence(**rule), given)) == [(ENTER, 0.0), (LEAVE, 25.0)]


def test_a_time_outside_within_one_way_counts() -> None:
    rule: dict[str, Any] = {"hysteresis_m": None, "outside_us": 3 * SECOND_US}
    notch = Box(Point(0, 0), Point(1, 1))
    found = folded(fence(notch, **rule), fixes((0, 0.5, 0.5), (1, 5, 0.5), (10, 0.5, 0.5)))
    assert [each for each, _ in said(found)] == [ENTER, LEAVE, ENTER]


def test_with_both_whichever_comes_first_counts() -> None:
    rule: dict[str, Any] = {"hysteresis_m": 100.0, "outside_us": 60 * SECOND_US}
    far = fixes((0, 0, 0), (10, 200, 0))
    long = fixes((0, 0, 0), (10, 100, 0), (70, 100, 0))
    assert said(folded(fence(**rule), far)) == [(ENTER, 0.0), (LEAVE, 2.5)]
    assert said(folded(fence(**rule), long)) == [(ENTER, 0.0), (LEAVE, 5.0)]


def test_without_hysteresis_told_six_accuracies_are_taken() -> None:
    near, far = fixes((0, 0, 0), (1, 70, 0), accuracy_m=5.0), fixes((0, 0, 0), (1, 81, 0), accuracy_m=5.0)
    assert [each for each, _ in said(folded(fence(hysteresis_m=None), near))] == [ENTER]
    assert [each for each, _ in said(folded(fence(hysteresis_m=None), far))] == [ENTER, LEAVE]


# Certainty.


def test_surely_inside_is_with_all_of_the_accuracy() -> None:
    given = fixes((0, -100, 0), (10, -40, 0), (20, -20, 0), accuracy_m=25.0)
    assert said(folded(fence(certainty="surely"), given[:2])) == []
    assert said(folded(fence(certainty="surely"), given)) == [(ENTER, 8.333)]


def test_surely_outside_is_with_all_of_the_accuracy() -> None:
    given = fixes((0, 0, 0), (10, 60, 0), (20, 80, 0), accuracy_m=25.0)
    assert said(folded(fence(certainty="surely"), given[:2])) == [(ENTER, 0.0)]
    assert said(folded(fence(certainty="surely"), given)) == [(ENTER, 0.0), (LEAVE, 8.333)]


def test_a_pass_without_a_fix_inside_is_not_sure() -> None:
    given = fixes((0, -150, 0), (10, 150, 0), accuracy_m=10.0)
    assert said(folded(fence(certainty="surely", on=ALL), given)) == []


# Time.


def test_dwell_comes_once_when_the_time_is_over() -> None:
    rule: dict[str, Any] = {"on": (DWELL,), "dwell_us": 60 * SECOND_US}
    found = folded(fence(**rule), fixes((0, -100, 0), (10, 0, 0), (40, 1, 0), (70, 2, 0), (500, 3, 0)))
    assert said(found) == [(DWELL, 65.0)]


def test_who_leaves_before_does_not_dwell() -> None:
    rule: dict[str, Any] = {"on": (DWELL,), "dwell_us": 60 * SECOND_US}
    assert folded(fence(**rule), fixes((0, 0, 0), (30, 10, 0), (50, 200, 0), (500, 300, 0))) == []


def test_a_host_that_says_nothing_dwells_where_it_is() -> None:
    """Its way to the next fix is not known yet when the time is over."""
    of = fence(on=(LEAVE, DWELL), dwell_us=60 * SECOND_US)
    state, _ = advance(of, BEGIN, Fix(0, Point(0, 0)), PLANE)
    assert due_us(of, state) == 60 * SECOND_US
    state, found = elapsed(of, state, 60 * SECOND_US)
    assert said(list(found)) == [(DWELL, 60.0)]
    assert due_us(of, state) is None
    assert said(folded(of, fixes((0, 0, 0), (100, 200, 0)))) == [(DWELL, 60.0), (LEAVE, 25.0)]


def test_leaving_by_time_is_due_without_a_fix() -> None:
    of = fence(hysteresis_m=None, outside_us=30 * SECOND_US)
    state = BEGIN
    for fix in fixes((0, 0, 0), (10, 100, 0)):
        state, _ = advance(of, state, fix, PLANE)
    assert due_us(of, state) == 35 * SECOND_US
    assert said(list(elapsed(of, state, 35 * SECOND_US)[1])) == [(LEAVE, 5.0)]
    assert elapsed(of, state, 35 * SECOND_US - 1) == (state, ())


@examples(300)
@given(
    shapes,
    st.lists(st.tuples(st.integers(0, 20), grid_points, st.sampled_from([None, 0.5, 2.0])), max_size=12),
    st.sampled_from(HYSTERESES),
    st.sampled_from(["probably", "surely"]),
    st.integers(1, 5),
)  # fmt: skip
def test_a_clock_that_asks_in_between_changes_nothing(
    region: Region,
    moves: list[tuple[int, Point, float | None]],
    hysteresis: dict[str, Any],
    certainty: str,
    every_s: int,
) -> None:
    of = fence(region, on=(*ALL, DWELL), dwell_us=4 * SECOND_US, certainty=certainty, **hysteresis)
    plain, asked = BEGIN, BEGIN
    expected, found = list[Occurrence](), list[Occurrence]()
    now_us = 0
    for wait_s, place, accuracy_m in moves:
        for ask_us in range(now_us, now_us + wait_s * SECOND_US, every_s * SECOND_US):
            asked, more = elapsed(of, asked, ask_us)
            found += more
        now_us += wait_s * SECOND_US
        fix = Fix(now_us, place, accuracy_m)
        plain, more = advance(of, plain, fix, PLANE)
        expected += more
        asked, more = advance(of, asked, fix, PLANE)
        found += more
    assert (asked, found) == (plain, expected)


@examples(300)
@given(shapes, st.lists(grid_points, min_size=1, max_size=12), st.sampled_from([0.0, 1.0, None]))
def test_enter_and_leave_alternate_in_order(region: Region, places: list[Point], hysteresis_m: float | None) -> None:
    given = [Fix(number * SECOND_US, place) for number, place in enumerate(places)]
    found = folded(fence(region, hysteresis_m=hysteresis_m), given)
    assert [each.transition for each in found] == [ENTER, LEAVE] * (len(found) // 2) + [ENTER] * (len(found) % 2)
    assert [each.at_us for each in found] == sorted(each.at_us for each in found)


@examples(200)
@given(shapes, st.lists(grid_points, min_size=1, max_size=10), st.integers(0, 10))
def test_a_state_goes_on_elsewhere_as_it_would_have_here(region: Region, places: list[Point], cut: int) -> None:
    """What travels with a session is the state alone."""
    given = [Fix(number * SECOND_US, place) for number, place in enumerate(places)]
    state, found = BEGIN, list[Occurrence]()
    for number, fix in enumerate(given):
        if number == cut:
            state = State(state.last, state.stay)
        state, more = advance(fence(region), state, fix, PLANE)
        found += more
    assert found == folded(fence(region), given)


# Hosts.


def reported(s: float, x: float, **attributes: Value) -> Context:
    return Context("van-7", Point(x, 0), round(s * SECOND_US), attributes=attributes)


def test_a_host_that_the_filter_does_not_accept_is_not_told_of() -> None:
    of = fence(hosts=parse_text("kind = 'van'"))
    state, found = step(of, BEGIN, reported(0, 0, kind="bus"), PLANE)
    assert (state, found) == (BEGIN, ())
    state, found = step(of, state, reported(1, 0, kind="van"), PLANE)
    assert said(list(found)) == [(ENTER, 1.0)]
    assert step(of, state, reported(2, 0, kind="bus"), PLANE) == (BEGIN, ())


def test_a_way_breaks_off_where_the_position_is_not_known() -> None:
    state, _ = step(fence(), BEGIN, reported(0, 0), PLANE)
    state, found = step(fence(), state, Context("van-7", None, SECOND_US), PLANE)
    assert found == ()
    _, found = step(fence(), state, reported(9, 500), PLANE)
    assert said(list(found)) == [(LEAVE, 9.0)]


def test_a_dwell_that_was_over_when_the_position_was_lost_has_happened() -> None:
    of = fence(on=(Transition.DWELL,), dwell_us=5 * SECOND_US)
    state, _ = step(of, BEGIN, reported(0, 0), PLANE)
    state, found = step(of, state, Context("van-7", None, 9 * SECOND_US), PLANE)
    assert said(list(found)) == [(Transition.DWELL, 5.0)]
    assert step(of, state, reported(20, 0), PLANE)[1] == ()


def test_a_dwell_goes_on_while_nobody_knows_where_the_anchor_is() -> None:
    rule = FenceRule((Transition.DWELL,), dwell_us=5 * SECOND_US)
    of = Fence("ring", Anchored(Circle(Point(0, 0), 100), "ambulance"), rule)
    state, _ = step(of, BEGIN, reported(0, 0), PLANE, Point(0, 0))
    state, found = step(of, state, reported(3, 0), PLANE, None)
    assert found == ()
    assert said(list(elapsed(of, state, 9 * SECOND_US)[1])) == [(Transition.DWELL, 5.0)]


def test_a_host_tells_its_accuracy_as_an_attribute() -> None:
    of = fence(certainty="surely")
    assert step(of, BEGIN, reported(0, 40, accuracy_m=20), PLANE)[1] == ()
    assert step(of, BEGIN, reported(0, 20, accuracy_m=20), PLANE)[1] != ()


# Fences that move.


@pytest.mark.parametrize("space", [PLANE, EARTH])
def test_an_anchored_fence_is_passed_by_who_moves_relative_to_it(space: Space) -> None:
    around = fence(Anchored(Circle(Point(0, 0), 100), "ambulance"))
    home = Point(24.94, 60.17)
    apart = [-500.0, 0.0]
    given = [Fix(number * 10 * SECOND_US, home, None, space.moved(home, m, 0)) for number, m in enumerate(apart)]
    (found,) = folded(around, given, space)
    assert found.transition == ENTER
    assert found.at_us == pytest.approx(8 * SECOND_US, abs=20_000)
    assert found.position == home


# Jitter.

NOISE_M = 20.0
STEP_S = 10
HOURS = 24


def standing_at_a_border(seed: int) -> list[Fix]:
    """A van comes from afar, stands at the border for a day, goes in, and away again."""
    rng = random.Random(seed)
    steps = HOURS * 3600 // STEP_S
    at_border = [(-50.0, 0.0)] * steps
    path = [(-2_000.0 + 195 * k, 0.0) for k in range(11)] + at_border
    path += [(-50.0 + 10 * k, 0.0) for k in range(11)] + [(50.0 + 195 * k, 0.0) for k in range(11)]
    return [
        Fix(k * STEP_S * SECOND_US, Point(x + rng.gauss(0, NOISE_M), y + rng.gauss(0, NOISE_M)), NOISE_M)
        for k, (x, y) in enumerate(path)
    ]


@pytest.mark.parametrize("seed", [pytest.param(each, marks=pytest.mark.slow if each else ()) for each in range(42)])
def test_a_day_at_a_border_makes_no_false_transition_and_loses_none(seed: int) -> None:
    """42 seeds are 1,008 device hours."""
    region = Box(Point(-50, -500), Point(50, 500))
    found = folded(Fence("yard", region), standing_at_a_border(seed))
    assert [each.transition for each in found] == [ENTER, LEAVE]


def test_without_hysteresis_a_day_at_a_border_is_thousands_of_transitions() -> None:
    """The test above can fail."""
    region = Box(Point(-50, -500), Point(50, 500))
    assert len(folded(fence(region), standing_at_a_border(0))) > 2_000


# What is no fence.


@pytest.mark.parametrize(
    "rule",
    [
        {"on": ()},
        {"on": (ENTER, ENTER)},
        {"on": (DWELL,)},
        {"dwell_us": 5},
        {"on": (DWELL,), "dwell_us": 0},
        {"hysteresis_m": -1.0},
        {"outside_us": 0},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        FenceRule(**rule)


@pytest.mark.parametrize("name", ["", "a/+", "#", "x" * 1_025])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    with pytest.raises(BadValue):
        Fence(name, YARD)
