"""Declarative modulators against plain Python that says the same (O1)."""

import math
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.modulators.spec import (
    Aggregate,
    AggregateFunction,
    AtMostOne,
    ByCount,
    ByTime,
    Declarative,
    Every,
    Sampling,
    Window,
)
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.values import Value
from tests.broker.modulator_samples import event, made
from tests.effort import examples

FUNCTIONS: tuple[AggregateFunction, ...] = ("count", "min", "max", "mean", "sum")
AGGREGATES = (*(Aggregate(function, "mm") for function in FUNCTIONS), Aggregate("count"))

NUMBERS = st.one_of(st.integers(-100, 100), st.floats(-1e6, 1e6))
CONTENT = st.fixed_dictionaries(
    {},
    optional={"mm": st.one_of(NUMBERS, st.just("much"), st.booleans()), "where": st.sampled_from("ab"), "x": NUMBERS},
)
STREAMS = st.lists(st.tuples(st.integers(0, 40), CONTENT), max_size=40)


def arrivals(stream: list[tuple[int, dict[str, Value]]]) -> list[tuple[int, Event]]:
    """Events with the times at which they come: the first of each pair is how long after the one before."""
    now_us, arriving = 0, []
    for number, (pause_us, content) in enumerate(stream):
        now_us += pause_us
        arriving.append((now_us, event(number, **content)))
    return arriving


def outputs(spec: Declarative, arriving: Iterable[tuple[int, Event]]) -> list[tuple[str, dict[str, Value]]]:
    modulator = made(spec)
    given = [each for now_us, one in arriving for each in modulator.take(one, now_us)]
    assert modulator.problems == {}
    return [(each.id, each.attributes) for each in given]


@examples(100)
@given(STREAMS)
def test_o1_a_filter_lets_pass_what_it_accepts(stream: list[tuple[int, dict[str, Value]]]) -> None:
    arriving = arrivals(stream)
    expected = [
        (one.id, one.attributes)
        for _, one in arriving
        if isinstance(mm := one.attributes.get("mm"), int | float) and not isinstance(mm, bool) and mm > 3
    ]
    assert outputs(Declarative(parse_text("mm > 3")), arriving) == expected


@examples(50)
@given(STREAMS, st.lists(st.sampled_from(["mm", "where", "other"]), unique=True))
def test_o1_a_projection_keeps_the_named_attributes(
    stream: list[tuple[int, dict[str, Value]]], keep: list[str]
) -> None:
    arriving = arrivals(stream)
    expected = [
        (one.id, {name: value for name, value in one.attributes.items() if name in keep}) for _, one in arriving
    ]
    assert outputs(Declarative(keep=tuple(keep)), arriving) == expected


@examples(50)
@given(STREAMS, st.integers(1, 7))
def test_o1_sampling_every_nth_begins_with_the_first(stream: list[tuple[int, dict[str, Value]]], n: int) -> None:
    arriving = arrivals(stream)
    expected = [(one.id, one.attributes) for _, one in arriving[::n]]
    assert outputs(Declarative(sampling=Every(n)), arriving) == expected


def spaced(arriving: list[tuple[int, Event]], interval_us: int) -> list[tuple[int, Event]]:
    """By what it means: an event passes if none has passed in the interval before it."""
    passed: list[tuple[int, Event]] = []
    for now_us, one in arriving:
        if all(now_us - before_us >= interval_us for before_us, _ in passed):
            passed.append((now_us, one))
    return passed


@examples(100)
@given(STREAMS, st.integers(1, 100))
def test_o1_sampling_by_time_passes_at_most_one_an_interval(
    stream: list[tuple[int, dict[str, Value]]], interval_us: int
) -> None:
    arriving = arrivals(stream)
    expected = [(one.id, one.attributes) for _, one in spaced(arriving, interval_us)]
    assert outputs(Declarative(sampling=AtMostOne(interval_us)), arriving) == expected


def summary(window: list[Event]) -> tuple[str, dict[str, Value]]:
    found = [one.attributes["mm"] for one in window if "mm" in one.attributes]
    numbers = [each for each in found if isinstance(each, int | float) and not isinstance(each, bool)]
    results: dict[str, Value] = {"count_mm": len(numbers), "count": len(window)}
    if numbers:
        total = sum(numbers)
        results |= {"min_mm": min(numbers), "max_mm": max(numbers), "mean_mm": total / len(numbers), "sum_mm": total}
    return window[-1].id, results


def by_count(arriving: list[tuple[int, Event]], size: int) -> list[list[Event]]:
    events = [one for _, one in arriving]
    return [events[start : start + size] for start in range(0, len(events) - size + 1, size)]


def by_time(arriving: list[tuple[int, Event]], width_us: int) -> list[list[Event]]:
    """Every interval in which something came, but for the last: nothing shows that it is over."""
    windows: dict[int, list[Event]] = {}
    for now_us, one in arriving:
        windows.setdefault(now_us // width_us, []).append(one)
    return list(windows.values())[:-1]


@examples(100)
@given(STREAMS, st.integers(1, 10))
def test_o1_aggregates_by_count(stream: list[tuple[int, dict[str, Value]]], size: int) -> None:
    arriving = arrivals(stream)
    spec = Declarative(window=ByCount(size), aggregates=AGGREGATES)
    assert outputs(spec, arriving) == [summary(window) for window in by_count(arriving, size)]


@examples(100)
@given(STREAMS, st.integers(1, 100))
def test_o1_aggregates_by_time(stream: list[tuple[int, dict[str, Value]]], width_us: int) -> None:
    arriving = arrivals(stream)
    spec = Declarative(window=ByTime(width_us), aggregates=AGGREGATES)
    assert outputs(spec, arriving) == [summary(window) for window in by_time(arriving, width_us)]


@examples(200)
@given(
    STREAMS,
    st.one_of(st.builds(Every, st.integers(1, 4)), st.builds(AtMostOne, st.integers(1, 60))),
    st.one_of(st.builds(ByCount, st.integers(1, 4)), st.builds(ByTime, st.integers(1, 90))),
)
def test_o1_the_stages_come_in_their_order(
    stream: list[tuple[int, dict[str, Value]]], sampling: Sampling, window: Window
) -> None:
    """Filter, projection, sampling, aggregation: each sees only what the one before let pass."""
    wanted = parse_text("where = 'a'")
    spec = Declarative(wanted, ("mm",), sampling, window, AGGREGATES)
    arriving = [(now_us, one) for now_us, one in arrivals(stream) if one.attributes.get("where") == "a"]
    sampled = arriving[:: sampling.events] if isinstance(sampling, Every) else spaced(arriving, sampling.interval_us)
    windows = by_count(sampled, window.events) if isinstance(window, ByCount) else by_time(sampled, window.width_us)
    assert outputs(spec, arrivals(stream)) == [summary(each) for each in windows]


def test_o1_the_comparison_with_plain_python_can_fail() -> None:
    arriving = arrivals([(1, {"mm": 1}), (1, {"mm": 2}), (1, {"mm": 3})])
    assert outputs(Declarative(sampling=Every(2)), arriving) != [(one.id, one.attributes) for _, one in arriving[::3]]


def test_o1_what_comes_out_has_the_publisher_times_and_scopes_of_what_went_in() -> None:
    one = event(1, mm=4, where="a")
    (out,) = made(Declarative(keep=("mm",))).take(one, 50)
    assert (out.id, out.subject, out.publisher, out.published_us, out.expires_us) == (
        one.id,
        one.subject,
        one.publisher,
        one.published_us,
        one.expires_us,
    )
    assert (out.relevance, out.audience) == (one.relevance, one.audience)


def test_o9_a_sum_beyond_the_doubles_is_left_out_and_the_rest_stays() -> None:
    modulator = made(Declarative(window=ByCount(2), aggregates=AGGREGATES))
    assert modulator.take(event(1, mm=1.7e308), 0) == []
    (out,) = modulator.take(event(2, mm=1.7e308), 0)
    assert out.attributes == {"count_mm": 2, "count": 2, "min_mm": 1.7e308, "max_mm": 1.7e308}
    assert modulator.problems == {}


def test_o9_a_sum_of_integers_beyond_the_exact_ones_is_a_double() -> None:
    modulator = made(Declarative(window=ByCount(3), aggregates=(Aggregate("sum", "mm"),)))
    for number in (1, 2):
        modulator.take(event(number, mm=2**53), 0)
    (out,) = modulator.take(event(3, mm=2**53), 0)
    assert isinstance(total := out.attributes["sum_mm"], float)
    assert math.isclose(total, 3 * 2**53)


def test_o4_a_clock_that_is_behind_after_a_move_stops_neither_sampling_nor_windows() -> None:
    sampled = made(Declarative(sampling=AtMostOne(100)))
    windowed = made(Declarative(window=ByTime(100), aggregates=(Aggregate("count"),)))
    late_us, early_us = 10**12, 5
    assert len(sampled.take(event(1), late_us)) == 1
    assert len(sampled.take(event(2), early_us)) == 1
    assert windowed.take(event(1), late_us) == []
    assert len(windowed.take(event(2), early_us)) == 1
