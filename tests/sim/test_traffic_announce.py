"""Announcements in scenarios: a publish rule with `announce` (S3)."""

from typing import Any

import pytest

from roamcast.model.event import Announcement, ContentType, Delivery, Event
from roamcast.model.region import Anchored, Circle
from roamcast.model.values import Point
from roamcast.node.observer import Observer
from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import BadScenario, scenario_from


def scenario(announce: dict[str, Any], **rule: Any) -> dict[str, Any]:
    at = {"kind": "static", "placement": {"kind": "at", "points": [[30, 40]]}}
    late = {"name": "way", "points": [[30, 50], [30, 1050]], "speed_mps": 10, "entries_s": [4]}
    publish = {"by": "p", "subject": "x", "every_s": 1, "first_s": 2.5, "announce": announce, **rule}
    return {
        "name": "announced",
        "seconds": 12,
        "protocol": {"kind": "proximity"},
        "radio": {"kind": "unit-disk", "range_m": 200},
        "hosts": [
            {"name": "p", "mobility": at},
            {"name": "late", "mobility": {"kind": "routes", "routes": [late]}},
        ],
        "publish": [publish],
        "subscribe": [{"by": "late", "subject": "x"}],
        "checks": ["no-duplicates", "only-matching"],
    }


class Heard(Observer):
    def __init__(self) -> None:
        self.announcements: list[Announcement] = []
        self.announced_s: list[float] = []
        self.published_s: list[float] = []

    def announced(self, now_us: int, host: str, announcement: Announcement) -> None:
        self.announcements.append(announcement)
        self.announced_s.append(now_us / 1e6)

    def published(self, now_us: int, host: str, event: Event) -> None:
        self.published_s.append(now_us / 1e6)


def run(given: dict[str, Any]) -> tuple[Run, Heard]:
    loaded = scenario_from(given)
    made, heard = Run(loaded, kit_of(loaded.protocol), 1), Heard()
    for body in made.world.bodies:
        body.host.observers = (*body.host.observers, heard)
    for _ in made.steps():
        pass
    return made, heard


def test_a_rule_announces_once_with_the_type_of_its_content() -> None:
    """S1 and S3: drawn values have the type of what is drawn."""
    content = {"n": {"integer": [1, 5]}, "level": {"number": [0, 1]}, "what": {"choice": ["ice"]}, "on": True}
    attributes = {"circle_m": 60, "priority": 3, "deadline_s": 2.0, "order": "sender"}
    _, heard = run(scenario(attributes, content=content))
    (announcement,) = heard.announcements
    assert announcement.proximity == Anchored(Circle(Point(0.0, 0.0), 60.0), "p")
    assert announcement.event_type.content == {
        "n": ContentType.INTEGER,
        "level": ContentType.DOUBLE,
        "what": ContentType.STRING,
        "on": ContentType.BOOLEAN,
        "position": ContentType.POSITION,
    }
    assert announcement.event_type.delivery == Delivery(None, 3, 2_000_000, "sender")


def test_a_stationary_proximity_is_where_the_producer_stood_and_a_host_that_comes_later_subscribes_then() -> None:
    """S2 and S3."""
    made, heard = run(scenario({"circle_m": 60, "stationary": True}))
    assert heard.announcements[0].proximity == Circle(Point(30.0, 40.0), 60.0)
    result = made.finish()
    assert (result.subscriptions, result.missed) == (1, 0)
    assert result.delivered >= 3


def test_a_producer_that_comes_later_announces_then() -> None:
    """S3."""
    _, heard = run(scenario({"circle_m": 60}, by="late"))
    assert [announcement.initial_naval for announcement in heard.announcements] == [Point(30.0, 50.0)]


def test_s3_nothing_is_announced_before_its_time_and_nothing_published_before_it_is_announced() -> None:
    """The first event is due at 2.5 s."""
    made, heard = run(scenario({"circle_m": 60, "first_s": 6}))
    assert heard.announced_s == [6.0]
    assert heard.published_s == [6.5, 7.5, 8.5, 9.5, 10.5, 11.5]
    assert "not_announced" not in made.result().notes


def test_s3_an_event_that_is_due_with_its_announcement_comes_right_after_it() -> None:
    _, heard = run(scenario({"circle_m": 60, "first_s": 2.5}))
    assert (heard.announced_s[0], heard.published_s[0]) == (2.5, 2.5)


@pytest.mark.parametrize(
    ("announce", "expected"),
    [
        ({"circle_m": 60, "box_m": [1, 2]}, r"publish\[1\].*announce: a proximity has one shape"),
        ({"circle_m": 0}, "encloses no area"),
        ({"radius_m": 60}, r"unknown key 'publish\[1\]\.announce\.radius_m'.*circle_m"),
        ({"circle_m": 60, "deadline_s": -1}, "deadline_s is -1.0; give seconds from 0"),
        ({"circle_m": 60, "order": "any"}, "order.*allowed: none, sender"),
    ],
)
def test_a_mistake_in_an_announcement_is_named(announce: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadScenario, match=expected):
        scenario_from(scenario(announce))


def test_an_announced_proximity_and_an_audience_with_a_shape_contradict_each_other() -> None:
    with pytest.raises(BadScenario, match="the announced proximity is the audience's region"):
        scenario_from(scenario({"circle_m": 60}, audience={"circle_m": 30}))
