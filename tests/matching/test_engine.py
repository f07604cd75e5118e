"""What the engine promises beside its answers: bounds, refusals, memory that comes back (C6, L2)."""

import math

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from roamcast.matching import Engine, finding
from roamcast.matching import kernel as numba_kernel
from roamcast.matching.clauses import COLUMNS_MAX, WHOLE_COLUMNS_EVENTS_MIN
from roamcast.matching.columns import all_finite
from roamcast.matching.engine import LOCATORS_MAX
from roamcast.matching.finding import HITS_AT_FIRST
from roamcast.matching.names import Names
from roamcast.matching.topics import Topics
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.filter.tree import Attribute, Filter, Inside
from roamcast.model.region import Box, Circle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Plane
from roamcast.model.subject import subject_matches
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Instant, Point, Value
from tests.matching.worlds import NOW_US, PATTERNS, SUBJECTS, World


@pytest.mark.parametrize("numbers", [[7], [-1], [1 << 20]])
def test_only_hosts_with_a_position_can_be_moved(numbers: list[int]) -> None:
    engine = Engine(Plane())
    engine.place(Context("here", Point(0, 0)))
    with pytest.raises(BadValue, match="place them first"):
        engine.move(numbers, [0.0], [0.0])


@pytest.mark.parametrize(("x", "y"), [([math.nan], [0.0]), ([0.0], [math.inf]), ([0.0, 1.0], [0.0])])
def test_a_move_to_no_place_is_refused(x: list[float], y: list[float]) -> None:
    engine = Engine(Plane())
    number = engine.place(Context("here", Point(0, 0)))
    with pytest.raises(BadValue):
        engine.move([number], x, y)


def test_positions_in_whole_numbers_have_nothing_compiled_anew() -> None:
    engine = Engine(Plane())
    engine.warm_up()
    known = len(numba_kernel.move.signatures)  # type: ignore[attr-defined]
    for position in (Point(1, 2), Point(3, 4), Point(5 * 10**9, 6), Point(7, 8)):
        engine.place(Context("here", position))
        assert engine.configuration.contexts["here"].position == position
    assert len(numba_kernel.move.signatures) == known  # type: ignore[attr-defined]


@pytest.mark.parametrize("slot", [-1, 0, 99])
def test_a_slot_that_stands_for_nothing_is_refused(slot: int) -> None:
    with pytest.raises(BadValue, match="no subscription has the slot"):
        Engine(Plane()).id_of(slot)


def test_events_in_columns_match_as_events() -> None:
    world = World(Plane())
    for number in range(40):
        world.place(Context(f"h{number}", Point(10.0 * number, 0.0)))
        text = "near(position, 25) AND level > 1" if number % 2 else "near(position, 25) AND level <> 2"
        world.subscribe(Subscription(f"s{number}", f"h{number}", "news", 0, 100, parse_text(text)))
    places = [0.0, 55.0, 395.0, math.nan]
    levels = [1.0, 2.0, 3.0, 3.0]
    events = [
        Event(
            "e",
            "news",
            Context("press"),
            0,
            100,
            {"level": level, **({} if math.isnan(x) else {"position": Point(x, 0)})},
        )
        for x, level in zip(places, levels, strict=True)
    ]
    by_columns = world.engine.match_columns(
        ["news"] * 4, places, [0.0] * 4, {"level": levels}, events.__getitem__, 10
    )
    assert by_columns.by_event(4) == world.engine.match(events, 10).by_event(4)
    world.check(events)


def test_more_hits_than_there_was_room_for_are_all_found(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(Plane())
    engine.place(Context("me"))
    for number in range(HITS_AT_FIRST + 500):
        engine.subscribe(Subscription(f"s{number}", "me", "news", 0, 100))
    events = [Event("e", "news", Context("press"), 0, 100)] * 3
    monkeypatch.setattr(finding, "HITS_AHEAD_MAX", 2 * HITS_AT_FIRST)
    assert [len(each) for each in engine.match(events, 10).by_event(3)] == [HITS_AT_FIRST + 500] * 3


def test_many_events_match_as_a_few_of_them_do_wherever_they_came_from() -> None:
    """Calls in which some are for everybody and some are not, some from over a wire."""
    world = World(Plane())
    for number in range(40):
        world.place(Context(f"h{number}", Point(20.0 * number, 0.0)))
        wanted = parse_text("near(position, 60) AND level >= 2" if number % 2 else "near(position, 30)")
        world.subscribe(Subscription(f"s{number}", f"h{number}", "news", 0, 100, wanted))
    said: list[dict[str, Value]] = [
        {"position": Point(3.0 * number, 10.0), "level": number % 4} for number in range(3 * MANY)
    ]
    happened = [Event(f"e{number}", "news", Context("press"), 0, 100, each) for number, each in enumerate(said)]
    wire = [msgspec.json.decode(msgspec.json.encode(each), type=Event) for each in happened[:MANY]]
    assert wire[0].audience is not EVERYWHERE
    near = Scope(Circle(Point(300.0, 0.0), 100.0))
    happened[MANY + 5] = replace(happened[MANY + 5], audience=near)
    for events in (happened, happened[: MANY + 1], wire, [*wire, *happened]):
        world.check(events)
        alone = [world.found([each], NOW_US)[0] for each in events]
        assert world.found(events, NOW_US) == alone
    assert sum(map(len, world.found(happened, NOW_US))) > 100


def test_columns_of_coordinates_beyond_all_bounds_are_finite_still() -> None:
    assert not all_finite(np.array([0.0, math.inf]), np.array([0.0, 0.0]))
    assert not all_finite(np.array([math.nan, 1.0]), np.array([0.0, 0.0]))
    engine = Engine(Plane())
    engine.place(Context("me", Point(1e200, 1e200)))
    engine.subscribe(Subscription("s", "me", "news", 0, 100, parse_text("near(position, 5)")))
    found = engine.match_columns(["news"] * 2, [1e200, 0.0], [1e200, 0.0], {}, [].__getitem__, 10)
    assert found.by_event(2) == [[engine.slot_of("s")], []]


def test_attributes_and_places_beyond_the_bounds_are_left_to_the_model() -> None:
    world = World(Plane())
    world.place(Context("me", Point(0, 0)))
    for number in range(COLUMNS_MAX + LOCATORS_MAX + 10):
        wanted = parse_text(f"near(at{number}, 5) AND value{number} > 3")
        world.subscribe(Subscription(f"s{number}", "me", "news", 0, 100, wanted))
    last = COLUMNS_MAX + LOCATORS_MAX + 9
    for number in (0, last):
        content: dict[str, Value] = {f"at{number}": Point(1, 1), f"value{number}": 4}
        events = [Event("e", "news", Context("press"), 0, 100, content)]
        world.check(events)
        assert world.found(events, 10) == [[f"s{number}"]]


@pytest.mark.slow
def test_what_comes_and_goes_leaves_nothing_behind() -> None:
    engine = Engine(Plane())
    for number in range(3_000):
        wanted = parse_text(f"near(position, {number % 100 + 1}) AND kind = 'k{number}'")
        engine.place(Context(f"h{number}", Point(number, 0)))
        engine.subscribe(Subscription("s", f"h{number}", f"subject/{number}", 0, 100, wanted))
        engine.unsubscribe("s")
        engine.forget(f"h{number}")
    assert len(engine) == 0
    assert len(engine._hosts.names) == len(engine._topics) == len(engine._clauses.texts) == 0
    assert len(engine._pool.entries) < 10_000
    assert len(engine._hosts.rows) < 100


@pytest.mark.parametrize("subject", [*SUBJECTS, "x", "a/x/c", "/", "/b"])
def test_topics_are_found_as_the_model_matches_them(subject: str) -> None:
    topics = Topics()
    patterns = (*PATTERNS, "/+", "+/#", "a/+/c", "/#")
    channels = {topics.take(pattern): pattern for pattern in patterns}
    found = [channels[each] for each in topics.channels_of(subject)]
    assert sorted(found) == sorted(pattern for pattern in patterns if subject_matches(pattern, subject))
    for channel in channels:
        assert topics.drop(channel)
    assert topics.channels_of(subject) == ()
    assert not len(topics._trie)


def test_names_keep_their_numbers_while_others_come_and_go() -> None:
    names, numbers = Names(), {}
    for number in range(500):
        numbers[f"näme {number}"] = names.add(f"näme {number}")
        if number % 3 == 0:
            names.remove(numbers.pop(f"näme {number // 2 * 2 if number % 2 == 0 else number}"))
    assert {name: names.find(name) for name in numbers} == numbers
    assert all(names.name(number) == name for name, number in numbers.items())
    assert names.find("nobody") == -1
    assert len(names) == len(numbers)


def test_names_of_any_length_are_found_and_none_that_only_begins_like_one() -> None:
    names = Names()
    lengths = [0, 1, 127, 128, 253, 254, 255, 256, 70_000]
    numbers = {length: names.add("x" * length) for length in lengths}
    assert {length: names.find("x" * length) for length in lengths} == numbers
    assert [names.name(number) for number in numbers.values()] == ["x" * length for length in lengths]
    assert [names.find("x" * length) for length in (2, 129, 252, 257, 69_999)] == [-1] * 5
    for length in lengths[:-1]:
        names.remove(numbers[length])
    assert names.find("x" * 255) == -1
    assert not names.is_used(numbers[255])
    assert names.name(numbers[70_000]) == "x" * 70_000


MANY = 64
MIXED: tuple[Value | None, ...] = (1, 1.0, 2.5, True, False, "p", "q", "1", Instant(1), Point(0.5, 4.0), None)
ASKED = ("a = 1", "a >= 1", "a = TRUE", "a = 'p'", "a = 'never said'", "a <= TIMESTAMP('{t}')")


@pytest.mark.parametrize("alike", [False, True], ids=["mixed", "alike"])
def test_c6_events_of_one_call_are_told_apart_by_the_kinds_of_their_values(alike: bool) -> None:
    """More than are asked one by one; mixed, or as many of each value after the other."""
    world = World(Plane())
    world.place(Context("h", Point(0.0, 0.0)))
    asked = [parse_text(text.format(t="1970-01-01T00:00:02Z")) for text in ASKED]
    asked.append(Filter(Inside(Attribute("a"), Box(Point(0.0, 3.0), Point(1.0, 5.0)))))
    for number, wanted in enumerate(asked):
        world.subscribe(Subscription(f"s{number}", "h", "news", 0, 100, wanted))
    said: list[dict[str, Value]] = [{} if value is None else {"a": value} for value in MIXED for _ in range(12)]
    happened = [Event("e", "news", Context("press"), 0, 100, content) for content in said]
    step = 12 if alike else 1
    for begin in range(0, len(happened) if alike else 12, step):
        call = happened[begin : begin + 12] if alike else happened[begin::12] * 2
        assert len(call) >= WHOLE_COLUMNS_EVENTS_MIN
        world.check(call)
    assert any(map(any, world.expected(happened, NOW_US)))
