"""The definition of matching (C6) once more, as the sets of section 2.3, against `matches` on generated cases."""

import math
from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.filter.tree import (
    Filter,
)
from roamcast.model.match import (
    matches,
)
from roamcast.model.region import Anchored, Box, Circle, Region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from tests.effort import examples
from tests.model.hosts import FASTER, PLANE, conditions, configuration_of, host, where


class Described(NamedTuple):
    """A scope, and a way of telling its members that shares no code with it."""

    scope: Scope
    member: Callable[[Context, list[Context]], bool]


NAMES = ["a", "b", "c", "d"]
RANGE_M = 6.0
small = st.integers(-6, 6)


def near_enough(a: Context, b: Context, metres: float) -> bool:
    assert a.position is not None
    assert b.position is not None
    return math.dist((a.position.x, a.position.y), (b.position.x, b.position.y)) <= metres


@st.composite
def regions(draw: st.DrawFn) -> tuple[Region | None, Callable[[Context, list[Context]], bool]]:
    kind = draw(st.sampled_from(["none", "none", "circle", "box", "anchored"]))
    x, y, size = draw(small), draw(small), draw(st.integers(4, 12))
    if kind == "none":
        return None, lambda _host, _hosts: True
    if kind == "circle":
        return Circle(Point(x, y), size), lambda one, _: near_enough(one, host("centre", x, y), size)
    if kind == "box":
        return (
            Box(Point(x, y), Point(x + size, y + size)),
            lambda one, _: (
                one.position is not None and x <= one.position.x <= x + size and y <= one.position.y <= y + size
            ),
        )
    anchor = draw(st.sampled_from(NAMES))
    return Anchored(Circle(Point(0, 0), size), anchor), lambda one, hosts: any(
        near_enough(one, other, size) for other in hosts if other.host == anchor
    )


def faster_than_around(one: Context, hosts: list[Context]) -> bool:
    speeds = [
        float(str(other.attributes["speed"]))
        for other in hosts
        if other.host != one.host and near_enough(one, other, RANGE_M) and "speed" in other.attributes
    ]
    return "speed" in one.attributes and bool(speeds) and float(str(one.attributes["speed"])) > fmean(speeds)


@st.composite
def filters(draw: st.DrawFn) -> tuple[Filter | None, Callable[[Context, list[Context]], bool]]:
    kind = draw(st.sampled_from(["none", "none", "none", "limit", "faster"]))
    if kind == "none":
        return None, lambda _host, _hosts: True
    if kind == "faster":
        return FASTER.filter, faster_than_around
    limit = draw(st.integers(0, 3))
    return Filter(
        where("speed", ">=", limit)
    ), lambda one, _: "speed" in one.attributes and float(str(one.attributes["speed"])) >= limit


@st.composite
def scopes(draw: st.DrawFn) -> Described:
    region, in_region = draw(regions())
    filter_, fits = draw(filters())
    return Described(Scope(region, filter_), lambda one, hosts: in_region(one, hosts) and fits(one, hosts))


speeds = st.sampled_from([{"speed": speed} for speed in range(4)] + [{}])


@st.composite
def configurations(draw: st.DrawFn) -> list[Context]:
    present = draw(st.lists(st.sampled_from(NAMES), min_size=2, unique=True))
    return [host(name, draw(small), draw(small), **draw(speeds)) for name in present]


class Case(NamedTuple):
    hosts: list[Context]
    now_us: int
    relevance: Described
    audience: Described
    interest: Described
    publishers: Described
    event: Event
    subscription: Subscription
    limit: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    relevance, audience, interest, publishers = (draw(scopes()) for _ in range(4))
    start_us, length_us, limit = draw(st.integers(0, 2)), draw(st.integers(0, 6)), draw(st.integers(0, 1))
    event = Event(
        "e",
        draw(st.sampled_from(["t/x", "t/x", "t/y"])),
        host(draw(st.sampled_from(NAMES))),
        start_us,
        start_us + length_us,
        {"value": draw(st.integers(0, 3))},
        relevance.scope,
        audience.scope,
    )
    subscription = Subscription(
        "s",
        draw(st.sampled_from(NAMES)),
        draw(st.sampled_from(["t/x", "t/+", "#"])),
        0,
        draw(st.integers(2, 8)),
        Filter(where("value", ">=", limit)),
        interest.scope,
        publishers.scope,
    )
    now_us = draw(st.integers(1, 4))
    return Case(draw(configurations()), now_us, relevance, audience, interest, publishers, event, subscription, limit)


def by_sets(case: Case) -> list[bool]:
    """Section 2.3 as it is printed: [p, e, τe, r, s̃] against [s, ẽ, τs, r̃, p̃] at τ in the configuration c."""
    everybody = set(NAMES)

    def context(described: Described) -> set[str]:
        return {one.host for one in case.hosts if described.member(one, case.hosts)}

    def domain(described: Described) -> set[str]:
        return everybody if described.scope == EVERYWHERE else context(described)

    event, subscription, tau = case.event, case.subscription, case.now_us
    wanted_subject = {"t/x": {"t/x"}, "t/+": {"t/x", "t/y"}, "#": {"t/x", "t/y"}}[subscription.subject]
    wanted = {(subject, value) for subject in wanted_subject for value in range(case.limit, 4)}
    alive = (
        range(event.published_us, event.expires_us + 1),
        range(subscription.issued_us, subscription.expires_us + 1),
    )
    return [
        (event.subject, event.attributes["value"]) in wanted,
        all(tau in lifetime for lifetime in alive),
        not context(case.relevance).isdisjoint(context(case.interest)),
        event.publisher.host in domain(case.publishers),
        subscription.subscriber in domain(case.audience),
    ]


@examples(800)
@given(cases())
def test_c6_matching_equals_the_papers_sets(case: Case) -> None:
    configuration = Configuration(PLANE, case.hosts, RANGE_M)
    expected = by_sets(case)
    assert conditions(case.event, case.subscription, configuration, case.now_us) == expected
    assert matches(case.event, case.subscription, configuration, case.now_us) == all(expected)


def test_the_set_formulation_can_disagree() -> None:
    """The comparison above can fail: leave one host out on one side and the two differ."""
    event = Event("e", "t/x", host("a"), 0, 9, {"value": 1})
    subscription = Subscription("s", "b", "t/x", 0, 9, Filter(where("value", ">=", 0)))
    open_ = Described(EVERYWHERE, lambda _host, _hosts: True)
    case = Case([host("a")], 1, open_, open_, open_, open_, event, subscription, 0)
    assert all(by_sets(case))
    assert not matches(event, subscription, configuration_of(), 1)
