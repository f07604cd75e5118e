"""What a port keeps for its application: no more than is subscribed to now."""

from collections.abc import Callable

import pytest

from roamcast.model.context import Context
from roamcast.model.event import BadEvent, ContentType, Event, EventType
from roamcast.model.region import Box, Circle, Polygon
from roamcast.model.scope import Scope
from roamcast.model.space import Plane, Space
from roamcast.model.values import BadValue, Point, Value
from roamcast.node.boundary import Input, Unsubscribe
from roamcast.node.port import Port


class Bench:
    """A ground whose time is set by hand."""

    def __init__(self) -> None:
        self.space: Space = Plane()
        self.time_us = 0
        self.given: list[Input] = []

    def now_us(self) -> int:
        return self.time_us

    def context(self) -> Context:
        return Context("a", Point(0.0, 0.0))

    def give(self, given: Input) -> None:
        self.given.append(given)

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        raise AssertionError

    def say(self, text: str) -> None:
        raise AssertionError

    def set_attributes(self, attributes: dict[str, Value]) -> None:
        raise AssertionError


def test_s3_handlers_go_when_subscriptions_end_by_a_call_or_by_their_lifetime() -> None:
    ground = Bench()
    port = Port("a", ground)
    for second in range(1_000):
        ground.time_us = second * 1_000_000
        port.subscribe("x", print, lifetime_s=5)
        port.unsubscribe(port.subscribe("x", print))
    assert len(port.handlers) <= 6


def test_s3_a_subscription_that_has_ended_can_be_ended_and_one_that_never_was_cannot() -> None:
    ground = Bench()
    port = Port("a", ground)
    brief = port.subscribe("x", print, lifetime_s=1)
    ground.time_us = 5_000_000
    port.subscribe("x", print)
    port.unsubscribe(brief)
    assert not any(isinstance(each, Unsubscribe) for each in ground.given)
    for stranger in ("s", "b:s0.1", "a:s0.99", "a:s1.1", "a:e0.1", "a:s0.", "a:s0.-1"):
        with pytest.raises(BadValue, match="no subscription"):
            port.unsubscribe(stranger)


def test_s3_a_handler_that_changes_its_event_changes_it_for_nobody_else() -> None:
    port = Port("a", Bench())
    event = Event("e", "x", Context("b"), 0, 0, {"speed": 1})
    subscription = port.subscribe("x", lambda given: given.attributes.update(speed=99))
    port.deliver(event, subscription)
    assert event.attributes == {"speed": 1}


@pytest.mark.parametrize("filter_", [5, None, b"TRUE", ("a", "b")])
def test_s4_a_filter_that_is_none_is_refused_at_the_call(filter_: object) -> None:
    ground = Bench()
    port = Port("a", ground)
    with pytest.raises(BadValue, match="a filter is text or a Filter"):
        port.subscribe("x", print, filter_)  # type: ignore[arg-type]
    assert ground.given == []


@pytest.mark.parametrize("x", ["a", None, True])
def test_s2_a_position_that_is_not_a_number_is_refused_where_it_is_given(x: object) -> None:
    with pytest.raises(BadValue, match="not a position"):
        Circle(Point(x, 0.0), 5.0)  # type: ignore[arg-type]
    with pytest.raises(BadValue, match="radius"):
        Circle(Point(0.0, 0.0), x)  # type: ignore[arg-type]


LINE = (Point(0.0, 0.0), Point(5.0, 5.0), Point(10.0, 10.0))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda port: port.raise_("y", {"n": 1}), "no event type with subject"),
        (lambda port: port.raise_("x", {"n": "one"}), "must be integer, not str"),
        (lambda port: port.raise_("x", {"n": 1}, lifetime_s=-1.0), "lifetime"),
        (lambda port: port.raise_("x", {"n": 1}, lifetime_s=float("nan")), "lifetime"),
        (lambda port: port.raise_("x", {"n": 1}, relevance=Scope(Circle(Point(0.0, 0.0), 0.0))), "radius|area"),
        (lambda port: port.raise_("x", {"n": 1}, relevance=Scope(Polygon(LINE))), "area"),
        (lambda port: port.raise_("x", {"n": 1}, audience=Circle(Point(0.0, 0.0), 5.0)), "expected a Scope"),
        (lambda port: port.subscribe("x", print, lifetime_s=-1.0), "lifetime"),
        (lambda port: port.subscribe("x", print, interest=Scope(Box(LINE[0], Point(0.0, 9.0)))), "area"),
        (
            lambda port: port.subscribe("x", print, publishers=Scope(Circle(Point(float("nan"), 0.0), 5.0))),
            "position",
        ),
        (lambda port: port.subscribe("", print), "subject"),
    ],
)
def test_c3_c4_bad_input_is_refused_at_the_call_and_changes_nothing(
    call: Callable[[Port], object], what: str
) -> None:
    """Unknown subject, wrong type, region without area, negative expiry, position not a number, for events and
    subscriptions that contexts scope."""
    ground = Bench()
    port = Port("a", ground)
    port.announce(EventType("x", {"n": ContentType.INTEGER}))
    before = list(ground.given)
    with pytest.raises((BadValue, BadEvent), match=what):
        call(port)
    assert ground.given == before
    assert not port.handlers
    port.raise_("x", {"n": 1})
    assert len(ground.given) == len(before) + 1
