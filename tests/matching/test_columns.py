"""Events in columns, batch after batch on one engine: what one batch said is not left over for the next (C6)."""

import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.matching import Engine
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Point, Value
from tests.effort import examples

FILTERS = (
    "near(position, 2500000)",
    "near(position, 2500000) AND level > 1",
    "near(target, 2500000) AND weight <> 2",
    "weight >= 2",
    "near(position, 2500000) OR level = 3",
)
SUBJECTS = ("news", "news/local", "unheard")
coordinates = st.sampled_from([-40.0, -20.0, 0.0, 10.0, 30.0, math.nan, math.inf])
numbers = st.sampled_from([1.0, 2.0, 3.0, math.nan])
rows = st.tuples(st.sampled_from(SUBJECTS), coordinates, coordinates, numbers, numbers)
batches = st.tuples(
    st.lists(rows, min_size=1, max_size=6),
    st.integers(1, 30),
    st.sampled_from(["position", "target"]),
    st.sets(st.sampled_from(["level", "weight"])),
    st.none() | st.sampled_from(FILTERS),
)


@examples(100)
@given(st.lists(batches, min_size=1, max_size=5), st.sampled_from([Plane(), Earth()]))
def test_c6_each_batch_of_columns_matches_as_its_events_whatever_came_before(
    asked: list[tuple[list[tuple[str, float, float, float, float]], int, str, set[str], str | None]],
    space: Space,
) -> None:
    engine = Engine(space)
    metres = 100_000.0 if isinstance(space, Plane) else 1.0
    for number in range(8):
        engine.place(Context(f"h{number}", Point((number * 10 - 40) * metres, 0.0)))
        wanted = parse_text(FILTERS[number % len(FILTERS)])
        engine.subscribe(Subscription(f"s{number}", f"h{number}", SUBJECTS[number % 2], 0, 100, wanted))
    for step, (some, times, position, given_names, text) in enumerate(asked):
        if text is not None:
            # Another place, another number: what is asked of events changes between batches.
            engine.subscribe(Subscription(f"more{step % 2}", f"h{step}", "news/#", 0, 100, parse_text(text)))
        rows = some * times
        columns = {"level": [row[3] for row in rows], "weight": [row[4] for row in rows]}
        columns = {name: values for name, values in columns.items() if name in given_names}
        xs, ys = [row[1] * metres for row in rows], [row[2] * metres for row in rows]
        events = [
            Event("e", row[0], Context("press"), 0, 100, content(index, position, xs, ys, columns))
            for index, row in enumerate(rows)
        ]
        subjects = [row[0] for row in rows]
        found = engine.match_columns(subjects, xs, ys, columns, events.__getitem__, 10, position)
        assert found.by_event(len(rows)) == engine.match(events, 10).by_event(len(rows))


def content(
    index: int, position: str, xs: list[float], ys: list[float], columns: dict[str, list[float]]
) -> dict[str, Value]:
    """What the same event says of itself: nothing of what is missing."""
    said: dict[str, Value] = {
        name: values[index] for name, values in columns.items() if not math.isnan(values[index])
    }
    if math.isfinite(xs[index] + ys[index]):
        said[position] = Point(xs[index], ys[index])
    return said


def test_of_a_large_batch_no_room_is_kept_and_the_next_is_matched_as_before() -> None:
    engine = Engine(Plane())
    engine.place(Context("me", Point(0.0, 0.0)))
    engine.subscribe(Subscription("s", "me", "news", 0, 100, parse_text("near(position, 5) AND level > 1")))

    def hits(count: int) -> int:
        at = [float(number % 10) for number in range(count)]
        return len(engine.match_columns(["news"] * count, at, at, {"level": at}, lambda _: pytest.fail("asked"), 10))

    before = hits(10)
    engine.match_columns(["news"] * 2, [0.0] * 2, [0.0] * 2, {"level": [2.0] * 2}, lambda _: pytest.fail("asked"), 10)
    tracemalloc.start()
    assert [hits(100_000), hits(100_000), hits(10)] == [10_000 * before, 10_000 * before, before]
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < 2_000_000


def test_columns_of_different_lengths_are_refused_and_said_which() -> None:
    engine = Engine(Plane())
    engine.place(Context("me", Point(0.0, 0.0)))
    engine.subscribe(Subscription("s", "me", "news", 0, 100, parse_text("level > 1")))
    with pytest.raises(BadValue, match="column 'level' has the shape"):
        engine.match_columns(["news"], [0.0], [0.0], {"level": [1.0, 2.0]}, lambda _: pytest.fail("not asked"), 10)
    with pytest.raises(BadValue, match="column 'position' has the shape"):
        engine.match_columns(["news"], [0.0, 1.0], [0.0], {}, lambda _: pytest.fail("not asked"), 10)
