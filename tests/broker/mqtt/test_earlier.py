"""L3: what a broker remembers of where its clients were is what they had reported by then."""

import pickle
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.earlier import EARLIER_MAX, EARLIER_US, PUT_BACK_MAX, Earlier
from roamcast.broker.mqtt.properties import subscription_of
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.match import matches
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Point, Velocity
from roamcast.mqtt.messages import Subscription
from roamcast.mqtt.topics import parse_filter
from tests.effort import examples

HOSTS = ("ann", "bob", "eve")
REPORTS = st.lists(st.tuples(st.sampled_from(HOSTS), st.integers(1, 200_000)), max_size=40)


@given(reports=REPORTS, back_us=st.integers(0, 1_000_000))
@examples(200)
def test_l3_it_goes_back_to_the_last_report_before_a_moment(reports: list[tuple[str, int]], back_us: int) -> None:
    earlier, told, now_us = Earlier(), dict[str, list[Context]](), 10_000_000
    for host, later_us in reports:
        now_us += later_us
        context = Context(host, Point(now_us, 0), now_us)
        if host in told:
            earlier.replaced(told[host][-1], context)
        told.setdefault(host, []).append(context)
    moment_us = now_us - back_us
    expected = {
        host: max((each for each in all_of if each.at_us <= moment_us), key=at_us, default=all_of[0])
        for host, all_of in told.items()
        if all_of[-1].at_us > moment_us and len(all_of) > 1
    }
    assert {each.host: each for each in earlier.at(moment_us)} == expected


def at_us(context: Context) -> int:
    return context.at_us


def test_l3_a_report_from_another_broker_hides_nobody_who_reported_before_it() -> None:
    earlier = Earlier()
    earlier.replaced(Context("ann", Point(0, 0), 0), Context("ann", Point(9, 0), 900))
    earlier.replaced(Context("bob", Point(0, 0), 0), Context("bob", Point(1, 0), 100))
    assert [each.host for each in earlier.at(500)] == ["ann"]


def test_l3_of_very_many_only_those_who_reported_last_are_put_back() -> None:
    earlier = Earlier()
    names = [f"c{number}" for number in range(PUT_BACK_MAX + 100)]
    for number, name in enumerate(names, start=1):
        earlier.replaced(Context(name, Point(0, 0), 0), Context(name, Point(1, 0), number))
    assert [each.host for each in earlier.at(0)] == names[: -PUT_BACK_MAX - 1 : -1]


@pytest.mark.parametrize("every_us", [1_000, EARLIER_US // 4])
def test_l3_what_it_remembers_is_bounded(every_us: int) -> None:
    earlier, before = Earlier(), Context("ann", Point(0, 0), 0)
    for number in range(1, 1_000):
        now = Context("ann", Point(number, 0), number * every_us)
        earlier.replaced(before, now)
        before = now
    oldest = earlier.at(0)[0]
    assert before.at_us - oldest.at_us <= max(EARLIER_US + every_us, EARLIER_MAX * every_us)
    earlier.forget("ann")
    assert earlier.at(0) == []


def near_by(hosts: int) -> Audience:
    """Clients on a line, ten metres from each other and ten metres further with each of their two reports."""
    audience = Audience(Plane())
    asked = Subscription(parse_filter("t"), 1, user_properties=(("filter", "near(position, 4)"),))
    for number in range(hosts):
        name = f"c{number}"
        for report in range(2):
            place = Point(10.0 * (number + report), 0.0)
            audience.moved(Context(name, place, (100 + report) * 1_000_000, velocity=Velocity(10.0, 0.0)))
        audience.subscribe(name, asked, subscription_of(name, asked, 0, Plane()))
    return audience


def event_at(here: Point, published_us: int) -> Event:
    return Event("e", "t", Context("w", here, published_us), published_us, published_us, {"position": here})


@pytest.mark.parametrize("published_s", [40, 99])
def test_l3_what_is_late_beyond_memory_is_judged_by_the_oldest_report_as_it_was(published_s: int) -> None:
    """And not by where its client would have come from, a minute before, at the speed that it had later."""
    audience = near_by(3)
    found = audience.of(event_at(Point(10.0, 0.0), published_s * 1_000_000), 102_000_000)
    assert [client for client, _ in found] == ["c1"]
    now = audience.of(event_at(Point(20.0, 0.0), 101_000_000), 102_000_000)
    assert [client for client, _ in now] == ["c1"]


def test_l3_going_back_with_many_is_one_move(monkeypatch: pytest.MonkeyPatch) -> None:
    audience = near_by(200)
    moves = 0
    move = audience._engine._move

    def counted(*given: Any) -> None:
        nonlocal moves
        moves += 1
        move(*given)

    monkeypatch.setattr(audience._engine, "_move", counted)
    found = audience.of(event_at(Point(55.0 + 1_000.0, 0.0), 100_500_000), 101_500_000)
    assert [client for client, _ in found] == ["c105"]
    # All who have a velocity are carried first.
    assert moves <= 3


STEPS = st.lists(
    st.tuples(st.sampled_from(("move", "ask")), st.sampled_from(HOSTS), st.integers(0, 60), st.booleans()),
    max_size=30,
)


@given(steps=STEPS)
@examples(150)
def test_l3_who_is_where_does_not_depend_on_the_moments_asked_for_before(
    steps: list[tuple[str, str, int, bool]],
) -> None:
    """Reports and questions in any order, some of clients that move by themselves; a fresh copy answers the same."""
    audience, now_us = Audience(Plane()), 10_000_000
    asked = Subscription(parse_filter("t"), 1, user_properties=(("filter", "near(position, 4)"),))
    for host in HOSTS:
        audience.moved(Context(host, Point(0, 0), now_us))
        audience.subscribe(host, asked, subscription_of(host, asked, 0, Plane()))
    for what, host, number, moves in steps:
        now_us += 10_000
        if what == "move":
            velocity = Velocity(float(number % 12), 0.0) if moves else None
            audience.moved(Context(host, Point(number % 12, 0), now_us, velocity=velocity))
        else:
            event = event_at(Point(number % 12, 0.0), now_us - number // 12 * 15_000)
            fresh = pickle.loads(pickle.dumps(audience))
            assert audience.of(event, now_us) == fresh.of(event, now_us)


FILTERS = ("near(position, 20)", "near(position, 20) AND me.kind = 'tram'", "near(publisher.position, 45)")
SPACES: tuple[Space, ...] = (Plane(), Earth())
Told = dict[str, list[Context]]


class Step(NamedTuple):
    """A client reports, and then an event comes that was published before."""

    host: str
    at_m: int
    speed: float
    kind: str
    later_us: int
    event_m: int
    late_us: int


METRES = st.integers(-40, 40)
JUMPY_STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(HOSTS),
        METRES | METRES | st.integers(-400, 400),
        st.sampled_from((0.0, 0.0, 7.0, 3_000.0)),
        st.sampled_from(("tram", "bus")),
        st.integers(0, 20_000),
        METRES,
        st.sampled_from((0, 5_000, 30_000, 60_000)),
    ),
    min_size=10,
    max_size=30,
)


def where_it_was(told: list[Context], moment_us: int, space: Space) -> Context:
    """By the last report before a moment: that of the millisecond, where none has come since."""
    held = next((each for each in reversed(told) if each.at_us <= moment_us), told[0])
    begun_us = moment_us - moment_us % 1_000 if held is told[-1] else moment_us
    return held.at(max(begun_us, held.at_us), space)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_l3_late_events_match_by_the_definition(space: Space) -> None:
    """However late an event is and however far its receivers have gone since, C6 decides by where they were."""

    def along(metres: int) -> Point:
        return space.moved(Point(0.0, 0.0), metres, 0.0)

    @examples(300)
    @given(steps=JUMPY_STEPS)
    def equal(steps: list[Step]) -> None:
        audience, now_us, told = Audience(space), 10_000_000, Told()
        for host, text in zip(HOSTS, FILTERS, strict=True):
            asked = Subscription(parse_filter("t"), 1, user_properties=(("filter", text),))
            audience.subscribe(host, asked, subscription_of(host, asked, 0, space))
        for step in steps:
            now_us += step.later_us
            velocity = Velocity(step.speed, 0.0) if step.speed else None
            context = Context(step.host, along(step.at_m), now_us, velocity=velocity, attributes={"kind": step.kind})
            told.setdefault(step.host, []).append(context)
            audience.moved(context)
            event = event_at(along(step.event_m), now_us - step.late_us)
            then = {host: where_it_was(all_of, event.published_us, space) for host, all_of in told.items()}
            known = Configuration(space, then, None)
            expected = [
                entry.client
                for entry in audience.fitting("t")
                if matches(event, entry.wanted, known, event.published_us)
            ]
            for audience.ready in (True, False):
                assert [client for client, _ in audience.of(event, now_us)] == sorted(expected)
            audience.ready = True

    equal()


def test_l3_of_two_earlier_moments_each_has_who_was_where_then() -> None:
    audience = Audience(Plane())
    asked = Subscription(parse_filter("t"), 1, user_properties=(("filter", "near(position, 4)"),))
    for host, moved_s in (("ann", 1), ("bob", 2)):
        audience.subscribe(host, asked, subscription_of(host, asked, 0, Plane()))
        for x, at_s in ((0, 0), (100, moved_s)):
            audience.moved(Context(host, Point(x, 0), at_s * 1_000_000))

    def near(x: int, published_us: int) -> list[str]:
        return [client for client, _ in audience.of(event_at(Point(x, 0.0), published_us), 3_000_000)]

    for _ in range(2):
        assert (near(0, 500_000), near(100, 500_000)) == (["ann", "bob"], [])
        assert (near(0, 1_500_000), near(100, 1_500_000)) == (["bob"], ["ann"])
        assert (near(0, 2_500_000), near(100, 2_500_000)) == ([], ["ann", "bob"])
