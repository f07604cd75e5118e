"""4.5.2, 5.2: how often an announcement is repeated, and several proximities of one type."""

import pytest

from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.event import Announcement, BadEvent, EventType
from roamcast.model.region import Box, Circle, Polygon
from roamcast.model.values import Point
from tests.adhoc.field import Field

ICE = EventType("ice")
MIDDLE = Point(0.0, 0.0)


def beacons(period_s: float | None, seconds: float = 12.0) -> int:
    field = Field({"p": (0, 0), "c": (50, 0)})
    field.run(1)
    field.port("p").announce(ICE, Circle(MIDDLE, 100.0), period_s=period_s)
    field.run(seconds)
    return field.frames("announced")


def test_an_announcement_has_a_period_of_its_own() -> None:
    usual = beacons(None)
    assert usual == pytest.approx(11 / (ProximityParams().announcement_period_ms / 1e3), abs=2)
    assert beacons(0.25) == pytest.approx(4 * 11, abs=2)
    assert beacons(5.0) == 3


def test_silence_is_measured_by_the_announcements_own_period() -> None:
    """A proximity that is announced every 20 s is not forgotten after 30 periods of a second."""
    params = ProximityParams(announcements_missed_max=3)
    field = Field({"p": (0, 0), "c": (50, 0)}, params)
    field.subscribe("c", "ice")
    field.run(1)
    field.port("p").announce(ICE, Circle(MIDDLE, 100.0), period_s=20.0)
    field.run(19)
    assert len(field.nodes["c"].discovery.relevant) == 1


def test_an_announcement_is_not_repeated_without_pause() -> None:
    with pytest.raises(BadEvent, match="give 1000 or more"):
        Announcement("p:a1", ICE, "p", Circle(MIDDLE, 9.0), MIDDLE, 10)


def nested() -> Field:
    """A warning of its own for who is near, and one for who is not far."""
    field = Field({"p": (0, 0), "near": (20, 0), "aside": (0, 150), "far": (150, 0)})
    for host in ("near", "aside", "far"):
        field.subscribe(host, "ice")
    field.run(1)
    port = field.port("p")
    port.announce(ICE, Polygon((Point(-50.0, -50.0), Point(50.0, -50.0), Point(0.0, 50.0))), name="inner")
    port.announce(ICE, Box(Point(-180.0, -60.0), Point(180.0, 60.0)), name="outer")
    field.run(3)
    return field


def test_a_type_has_nested_proximities_of_different_shapes() -> None:
    field = nested()
    for name in ("inner", "outer", "outer"):
        field.port("p").raise_("ice", within=name)
    field.run(5)
    assert {host: len(field.got(host)) for host in ("near", "aside", "far")} == {"near": 3, "aside": 0, "far": 2}


def test_one_of_them_is_withdrawn_by_its_name() -> None:
    field = nested()
    field.port("p").unannounce("ice", "outer")
    field.run(4)
    assert len(field.nodes["far"].discovery.relevant) == 0
    assert len(field.nodes["near"].discovery.relevant) == 1
    with pytest.raises(BadEvent, match="within is one of"):
        field.port("p").raise_("ice", within="outer")


def test_the_same_proximity_is_not_announced_twice() -> None:
    field = nested()
    with pytest.raises(BadEvent, match="another name"):
        field.port("p").announce(ICE, Circle(MIDDLE, 5.0), name="inner")
    with pytest.raises(BadEvent, match="the same proximity"):
        field.port("p").announce(ICE, Box(Point(-180.0, -60.0), Point(180.0, 60.0)), name="third")
    with pytest.raises(BadEvent, match="within is one of"):
        field.port("p").raise_("ice")
