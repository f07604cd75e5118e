"""Attribute values (S1): what may stand in an event or a context, and which values can be compared."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.values import (
    INTEGER_LIMIT,
    SPEED_LIMIT_M_PER_S,
    TEXT_LIMIT_CHARS,
    BadValue,
    Instant,
    Kind,
    Point,
    Value,
    Velocity,
    check_attributes,
    check_value,
    check_velocity,
    is_unicode,
    kind_of,
)
from tests.effort import examples


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Kind.BOOLEAN),
        (1, Kind.NUMBER),
        (1.5, Kind.NUMBER),
        ("a", Kind.TEXT),
        (Instant(1), Kind.TIME),
        (Point(0, 0), Kind.POSITION),
    ],
)
def test_s1_each_of_the_six_types_has_its_kind(value: Value, kind: Kind) -> None:
    check_value("a", value)
    assert kind_of(value) is kind


@pytest.mark.parametrize(
    "value", [INTEGER_LIMIT, -INTEGER_LIMIT, 1e308, "x" * TEXT_LIMIT_CHARS, Instant(INTEGER_LIMIT), "ü😀"]
)
def test_values_at_their_bound_pass(value: Value) -> None:
    check_value("a", value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (INTEGER_LIMIT + 1, "beyond ±2\\^53"),
        (-INTEGER_LIMIT - 1, "beyond ±2\\^53"),
        (math.nan, "not a finite number"),
        (-math.inf, "not a finite number"),
        ("x" * (TEXT_LIMIT_CHARS + 1), "65537 characters, at most 65536"),
        ("half \ud83d", "surrogate"),
        (Instant(INTEGER_LIMIT + 1), "instant .* is beyond"),
        (Point(math.nan, 0), "finite"),
        (Point(0, math.inf), "finite"),
        (None, "NoneType is not one of"),
        ([1], "list is not one of"),
        (b"raw", "bytes is not one of"),
        (Velocity(1, 1), "Velocity is not one of"),
    ],
)
def test_s1_a_value_of_no_type_is_refused_by_the_name_of_its_attribute(value: object, message: str) -> None:
    with pytest.raises(BadValue, match=f"'tempo'.*{message}"):
        check_value("tempo", value)


@examples(300)
@given(st.integers(-INTEGER_LIMIT, INTEGER_LIMIT))
def test_every_integer_that_passes_is_a_double(value: int) -> None:
    check_value("a", value)
    assert int(float(value)) == value


def test_the_first_bad_attribute_is_named() -> None:
    with pytest.raises(BadValue, match="'bad'"):
        check_attributes({"good": 1, "bad": math.nan})


@examples(300)
@given(st.text(st.characters()) | st.text(st.characters(categories=["Cs", "L"])))
def test_text_is_unicode_if_it_can_be_written_as_utf_8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        assert not is_unicode(text)
    else:
        assert is_unicode(text)


@pytest.mark.parametrize(
    "velocity", [Velocity(math.nan, 0), Velocity(0, -math.inf), Velocity(SPEED_LIMIT_M_PER_S, 1)]
)
def test_no_host_is_faster_than_light(velocity: Velocity) -> None:
    with pytest.raises(BadValue, match="faster than light"):
        check_velocity(velocity, "host 'a'")


def test_speed_is_the_length_of_the_velocity() -> None:
    assert Velocity(-3, 4).speed == 5
    check_velocity(Velocity(0, 0), "host 'a'")


def test_instants_are_ordered() -> None:
    assert Instant(1) < Instant(2)
