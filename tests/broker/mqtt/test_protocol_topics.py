"""docs/PROTOCOL.md, sections 2 and 5: topics, payloads, and what clients report of themselves."""

import json

import pytest

from roamcast.model.context import Context
from roamcast.model.values import Point, Velocity
from roamcast.mqtt.packets import SubAck
from roamcast.mqtt.reasons import Reason
from roamcast.server.tracking import TrackingParams
from tests.broker.mqtt.scene import Scene, last


def test_a_wildcard_at_the_first_level_does_not_match_topics_of_the_broker_rule_1() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "#")
    scene.publish(writer, "a/b", b"seen")
    scene.report(writer, position=[1, 2])
    assert reader.taken == [b"seen"]


def test_numbers_texts_truth_values_and_positions_of_a_json_object_are_attributes_rule_2() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    filters = ("n > 2", "s = 'x'", "b = true", "near(place, 10)")
    for number, text in enumerate(filters):
        scene.subscribe(reader, f"$roam/{number}/t", subscription_id=number + 1, filter=text)
    scene.report(reader, position=[0, 0])
    payload = b'{"n": 3, "s": "x", "b": true, "place": [3, 4], "list": [1, {}], "none": null}'
    scene.publish(writer, "t", payload)
    assert reader.taken == [payload]
    assert [each.subscription_ids for each in reader.heard if hasattr(each, "subscription_ids")] == [(1, 2, 3, 4)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_numbers_and_texts_that_no_attribute_can_be_disturb_nobody_rule_2(qos: int) -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", qos=qos)
    scene.subscribe(reader, "$roam/filtered/t", qos=qos, filter="a > 1")
    huge = b"1" + b"0" * 400
    said = [
        b'{"a": [%s, 0]}' % huge,
        b'{"lon": %s, "lat": 0}' % huge,
        b'{"a": %s}' % huge,
        b'{"a": 1e999}',
        b'{"position": [1e308, 1e308]}',
        b'{"a": "\\ud800"}',
        b'{"a": 2}',
    ]
    for payload in said:
        scene.publish(writer, "t", payload, qos=qos)
    assert list(dict.fromkeys(reader.taken)) == said
    assert writer.ready


def test_a_geojson_point_is_a_position_rule_2() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", filter="near(spot, 10)")
    scene.report(reader, position=[0, 0])
    scene.publish(writer, "t", {"spot": {"type": "Point", "coordinates": [3, 4]}})
    assert len(reader.taken) == 1


def test_any_other_payload_is_opaque_and_no_filter_over_attributes_accepts_it_rule_3() -> None:
    scene = Scene()
    plain, picky, writer = scene.client("plain"), scene.client("picky"), scene.client("writer")
    scene.subscribe(plain, "t")
    scene.subscribe(picky, "t", filter="n < 3 OR NOT n < 3")
    for payload in (b"\xff\x00", b"[1, 2]", b'{"n": ', b""):
        scene.publish(writer, "t", payload)
    assert plain.taken == [b"\xff\x00", b"[1, 2]", b'{"n": ', b""]
    assert picky.taken == []


def test_an_event_without_a_position_has_that_of_its_publisher_rule_4() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", filter="near(position, 50)")
    scene.report(reader, position=[0, 0])
    scene.report(writer, position=[500, 0])
    scene.publish(writer, "t", b"far")
    scene.publish(writer, "t", {"lon": 1, "lat": 2})
    scene.report(writer, position=[10, 0])
    scene.publish(writer, "t", b"near")
    assert reader.taken == [b'{"lon": 1, "lat": 2}', b"near"]


def test_topics_that_begin_with_a_dollar_are_refused_rule_5() -> None:
    scene = Scene()
    writer = scene.client("writer")
    assert scene.publish(writer, "$roam/kept", b"forged") is Reason.TOPIC_NAME_INVALID
    assert scene.publish(writer, "$SYS/x", b"forged", qos=2) is Reason.TOPIC_NAME_INVALID


def context_of(scene: Scene, client: str) -> Context:
    return scene.stage.brokers["a"].server.core.border.context_of(client)


def test_a_report_says_where_and_what_a_client_is_and_keeps_what_it_leaves_out_rule_18() -> None:
    scene = Scene()
    client = scene.client("c")
    assert scene.report(client, position=[1, 2], velocity=[3, 4], attributes={"kind": "bus"}) is Reason.SUCCESS
    assert context_of(scene, "c").position == Point(1.0, 2.0)
    assert context_of(scene, "c").velocity == Velocity(3.0, 4.0)
    scene.report(client, attributes={"kind": "tram"})
    assert context_of(scene, "c").position == Point(1.0, 2.0)
    assert context_of(scene, "c").attributes == {"kind": "tram"}
    scene.report(client, position=[5, 6])
    assert context_of(scene, "c").velocity is None
    assert context_of(scene, "c").attributes == {"kind": "tram"}


def test_a_position_of_null_takes_the_position_away_rule_18() -> None:
    scene = Scene()
    client, writer = scene.client("c"), scene.client("writer")
    scene.subscribe(client, "t", filter="near(position, 50)")
    scene.report(client, position=[1, 2], velocity=[3, 4], attributes={"kind": "bus"})
    scene.publish(writer, "t", {"position": [1, 2], "n": 1})
    assert scene.report(client, position=None, velocity=[1, 1]) is Reason.SUCCESS
    assert context_of(scene, "c").position is None
    assert context_of(scene, "c").velocity is None
    assert context_of(scene, "c").attributes == {"kind": "bus"}
    scene.publish(writer, "t", {"position": [1, 2], "n": 2})
    scene.report(client, position=[1, 2])
    scene.publish(writer, "t", {"position": [1, 2], "n": 3})
    assert [json.loads(each)["n"] for each in client.taken] == [1, 3]


def test_a_report_of_qos_0_is_as_good_rule_18() -> None:
    scene = Scene()
    client = scene.client("c")
    scene.publish(client, "$roam/me", {"position": [1, 2]}, qos=0)
    assert context_of(scene, "c").position == Point(1.0, 2.0)


def test_a_report_that_cannot_be_understood_is_refused_and_changes_nothing_rule_19() -> None:
    scene = Scene()
    client = scene.client("c")
    scene.report(client, position=[1, 2])
    bad: list[dict[str, object]] = [
        {"position": [1]}, {"velocity": [1, 2, 3]}, {"attributes": {"x": {}}}, {"position": "here"},
    ]  # fmt: skip
    for said in bad:
        assert scene.report(client, **said) is Reason.PAYLOAD_FORMAT_INVALID
    scene.publish(client, "$roam/me", b"?", qos=0)
    assert context_of(scene, "c").position == Point(1.0, 2.0)
    assert "bad_report" in scene.remarks()


def test_between_reports_a_client_moves_with_its_velocity_rule_20() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", filter="near(position, 20)")
    scene.report(reader, position=[0, 0], velocity=[10, 0])
    scene.publish(writer, "t", {"position": [100, 0], "n": 1})
    scene.rest(9.0)
    scene.publish(writer, "t", {"position": [100, 0], "n": 2})
    assert [json.loads(each)["n"] for each in reader.taken] == [2]


def test_a_location_of_owntracks_moves_its_client_and_is_published_rule_21() -> None:
    scene = Scene(tracking=TrackingParams())
    reader, tracker = scene.client("reader"), scene.client("tracker")
    scene.report(tracker, attributes={"kind": "bus"})
    scene.subscribe(reader, "owntracks/#")
    scene.publish(tracker, "owntracks/u/d", {"_type": "location", "lon": 4, "lat": 5, "vel": 36, "cog": 90})
    context = context_of(scene, "tracker")
    assert context.position == Point(4.0, 5.0)
    assert context.velocity is not None
    assert round(context.velocity.east, 6) == 10.0
    assert context.attributes == {"kind": "bus"}
    assert len(reader.taken) == 1


@pytest.mark.parametrize("tracking", [None, TrackingParams()])
def test_nothing_else_of_owntracks_moves_a_client_and_nothing_at_all_unless_the_settings_say_so_rule_21(
    tracking: TrackingParams | None,
) -> None:
    scene = Scene(tracking=tracking)
    tracker = scene.client("tracker")
    there: dict[str, object] = {"_type": "location", "lon": 4, "lat": 5}
    said: list[tuple[str, bytes | dict[str, object]]] = [
        ("owntracks/u/d", {**there, "_type": "transition"}),
        ("owntracks/u/d", {**there, "lon": "4"}),
        ("owntracks/u/d", {**there, "tst": 1e300}),
        ("owntracks/u/d", b"{"),
        ("owntracks/u/d/event", there),
        ("owntracks/u", there),
        ("owntracks//d", there),
        ("tracks/u/d", there),
    ]
    for topic, payload in said if tracking else [*said, ("owntracks/u/d", there)]:
        assert scene.publish(tracker, topic, payload) is Reason.SUCCESS
    assert context_of(scene, "tracker").position is None


def test_a_location_of_owntracks_that_is_old_vague_late_or_far_off_is_published_and_not_used_rule_21() -> None:
    scene = Scene(tracking=TrackingParams())
    reader, tracker = scene.client("reader"), scene.client("tracker")
    scene.subscribe(reader, "owntracks/+/+")

    def now_s() -> float:
        return scene.stage.loop.time()

    def say(**said: object) -> None:
        scene.publish(tracker, "owntracks/u/d", {"_type": "location", "lon": 4, "lat": 5, **said})

    say(tst=now_s())
    say(lon=9, tst=now_s() - 3_600)
    say(lon=9, tst=now_s(), acc=5_000)
    say(lon=9, tst=now_s() - 20)
    say(lon=9e7, tst=now_s())
    assert context_of(scene, "tracker").position == Point(4.0, 5.0)
    assert len(reader.taken) == 5
    assert [each for each in scene.remarks() if each.startswith("location_")] == [
        "location_old",
        "location_vague",
        "location_clock_back",
        "location_jump",
    ]
    say(lon=6, tst=now_s(), vel=-1, cog=-1)
    assert context_of(scene, "tracker").position == Point(6.0, 5.0)
    assert context_of(scene, "tracker").velocity is None


def test_what_was_remembered_of_a_trackers_way_goes_with_its_connection_rule_21() -> None:
    scene = Scene(tracking=TrackingParams())
    tracker = scene.client("tracker")
    scene.publish(tracker, "owntracks/u/d", {"_type": "location", "lon": 4, "lat": 5})
    trackers = scene.stage.brokers["a"].server.trackers
    assert trackers is not None
    assert len(trackers) == 1
    tracker.drop(noticed=True)
    scene.rest()
    assert len(trackers) == 0


def test_reports_cannot_be_subscribed_to_rule_22() -> None:
    scene = Scene()
    client = scene.client("c")
    scene.subscribe(client, "$roam/me")
    assert last(client, SubAck).reasons == (Reason.TOPIC_FILTER_INVALID,)
