"""docs/PROTOCOL.md, P-2: attributes of payloads that are not flat, as the settings say by topic."""

import json

import pytest

from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.payloads import PayloadParams, Payloads
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Instant, Point, Value
from roamcast.server.settings import settings_from
from tests.broker.mqtt.scene import Scene

FEATURE = {
    "type": "Feature",
    "id": "bus-3",
    "geometry": {"type": "Point", "coordinates": [24.9, 60.1]},
    "properties": {"speed": 42, "depot": {"at": [24.8, 60.2]}, "doors": [{"open": True}]},
}


def read(payload: object, format: str = "json", **attributes: str) -> dict[str, Value]:  # noqa: A002
    params = PayloadParams(("t",), format, attributes)  # type: ignore[arg-type]
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Payloads((params,)).attributes_of("t", body, Earth())


def test_a_feature_gives_its_properties_and_its_place_rule_2() -> None:
    assert read(FEATURE, "geojson") == {"position": Point(24.9, 60.1), "id": "bus-3", "speed": 42}


def test_attributes_by_path_rule_2() -> None:
    paths = {
        "speed": "properties.speed",
        "place": "geometry",
        "depot": "properties.depot.at",
        "door": "properties.doors.0.open",
    }
    found = read(FEATURE, **paths, none="properties.doors.7.open", lost="id.x")
    assert found == {
        "speed": 42,
        "place": Point(24.9, 60.1),
        "depot": Point(24.8, 60.2),
        "door": True,
        "type": "Feature",
        "id": "bus-3",
        "geometry": Point(24.9, 60.1),
    }


def test_a_path_goes_before_what_the_format_says_rule_2() -> None:
    assert read({"a": 1, "b": {"a": 2}}, a="b.a") == {"a": 2}


def test_an_array_has_attributes_by_path_alone_rule_2() -> None:
    assert read([{"v": 7}], v="0.v") == {"v": 7}


def test_a_cloud_event_gives_its_data_and_its_own_attributes_rule_2() -> None:
    event = {
        "specversion": "1.0",
        "type": "ice",
        "source": "/road/7",
        "id": "1",
        "time": "2026-11-19T10:00:00Z",
        "data": {"mm": 3, "position": [24.9, 60.1]},
    }
    assert read(event, "cloudevents") == {
        "ce_type": "ice",
        "ce_source": "/road/7",
        "ce_id": "1",
        "ce_time": Instant(1_795_082_400_000_000),
        "mm": 3,
        "position": Point(24.9, 60.1),
    }


def test_a_location_of_owntracks_is_in_our_units_rule_2() -> None:
    said = {
        "_type": "location",
        "lon": 24.9,
        "lat": 60.1,
        "vel": 36,
        "acc": 12,
        "cog": -1,
        "batt": 80,
        "tst": 1_700_000_000,
    }
    assert read(said, "owntracks") == {
        "position": Point(24.9, 60.1),
        "speed_mps": 10.0,
        "accuracy_m": 12,
        "battery": 80,
        "time": Instant(1_700_000_000_000_000),
    }


@pytest.mark.parametrize("format_", ["json", "geojson", "cloudevents", "owntracks"])
@pytest.mark.parametrize(
    "payload", [b"", b"\xff", b"[" * 9_000, b"7", b'{"type": "Feature", "properties": 7}', b"{}"]
)
def test_what_is_something_else_disturbs_nobody_rule_2(format_: str, payload: bytes) -> None:
    assert read(payload, format_, a="b.c").keys() <= {"type", "properties"}


def test_a_speed_beyond_all_numbers_is_left_out_rule_2() -> None:
    said = b'{"_type": "location", "batt": 80, "vel": 1' + b"0" * 400 + b"}"
    assert read(said, "owntracks") == {"battery": 80}


def test_the_first_table_that_fits_counts_and_other_topics_are_as_ever_rule_2() -> None:
    payloads = Payloads((PayloadParams(("a/#",), attributes={"x": "p.x"}), PayloadParams(("a/b",), "geojson")))
    assert payloads.attributes_of("a/b", b'{"p": {"x": 1}}', Plane()) == {"x": 1}
    assert payloads.attributes_of("b", b'{"p": {"x": 1}, "y": 2}', Plane()) == {"y": 2}


@pytest.mark.parametrize("qos", [0, 1])
def test_filters_find_what_is_nested_rule_2(qos: int) -> None:
    params = CoreParams(payloads=(PayloadParams(("fleet/#",), "geojson"),))
    scene = Scene("ab", params=params)
    reader, writer = scene.client("reader", "b"), scene.client("writer", "a")
    scene.report(reader, position=[0, 0])
    scene.subscribe(reader, "fleet/#", filter="speed > 30 AND near(position, 100)")
    for speed, x in ((42, 50), (20, 50), (42, 500)):
        said: dict[str, object] = {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [x, 0]},
            "properties": {"speed": speed},
        }
        scene.publish(writer, "fleet/bus-3", said, qos=qos)
    (taken,) = reader.taken
    assert json.loads(taken)["properties"] == {"speed": 42}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"topics": []}, "topics is empty"),
        ({"topics": ["a/#/b"]}, "topics"),
        ({"topics": ["a"], "format": "xml"}, "format"),
        ({"topics": ["a"], "attributes": {"x": "a..b"}}, "is no path"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(table: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings_from({"name": "a", "data": "d", "keeping": {"payloads": [table]}}, "test")
