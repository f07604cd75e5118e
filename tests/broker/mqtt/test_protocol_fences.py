"""docs/PROTOCOL.md, section 18: fences at brokers, and who is told that one was passed."""

import json
from typing import Any

import pytest

from roamcast.broker.mqtt.inputs import AnyGiven
from roamcast.model.space import Plane
from roamcast.mqtt.packets import PubAck
from roamcast.mqtt.reasons import Reason
from roamcast.server.access import PolicyAccess
from roamcast.server.security import Policy, RateLimits
from roamcast.server.security.rules import Rule
from tests.broker.mqtt.scene import Scene, last, published
from tests.broker.mqtt.stage import SimClient

YARD = [[-50, -50], [50, -50], [50, 50], [-50, 50], [-50, -50]]


def yard(**properties: object) -> dict[str, Any]:
    geometry = {"type": "Polygon", "coordinates": [YARD]}
    return {"type": "Feature", "geometry": geometry, "properties": {"hysteresis_m": 0, **properties}}


def put(scene: Scene, client: SimClient, name: str = "yard", given: object = None, **properties: Any) -> Reason:
    body = yard(**properties) if given is None else given
    reason = scene.publish(client, f"$roam/fences/{name}", json.dumps(body).encode(), retain=True)
    assert reason is not None
    return reason


def ring(host: str, radius_m: float = 100.0, **properties: object) -> dict[str, Any]:
    """A fence that moves with a host."""
    said = {"anchor": host, "radius_m": radius_m, "hysteresis_m": 0, **properties}
    return {"type": "Feature", "geometry": None, "properties": said}


def delete(scene: Scene, client: SimClient, name: str = "yard") -> None:
    assert scene.publish(client, f"$roam/fences/{name}", b"", retain=True) is Reason.SUCCESS


def told(client: SimClient) -> list[str]:
    """Fence and transition, in order."""
    return [each.topic.removeprefix("$roam/fence/") for each in published(client)]


def at(scene: Scene, client: SimClient, x: float, **attributes: object) -> None:
    said: dict[str, object] = {"position": [x, 0]}
    if attributes:
        said["attributes"] = attributes
    scene.publish(client, "$roam/me", said, qos=0)


def watched(brokers: str = "a", **properties: Any) -> tuple[Scene, SimClient, SimClient]:
    """A yard, somebody who is told at the last broker, and a van at the first."""
    scene = Scene(brokers)
    reader = scene.client("reader", brokers[-1])
    assert scene.subscribe(reader, "$roam/fence/#", 2) == (Reason.GRANTED_QOS_2,)
    assert put(scene, reader, **properties) is Reason.SUCCESS
    return scene, reader, scene.client("van-7", brokers[0])


# What is told.


@pytest.mark.parametrize("brokers", ["a", "abc"])
def test_a_client_that_goes_in_and_out_is_told_of_at_every_broker_rule_98(brokers: str) -> None:
    scene, reader, van = watched(brokers)
    for x in (-200, 0, 200):
        at(scene, van, x, kind="van")
    assert told(reader) == ["yard/enter", "yard/leave"]
    enter, leave = (json.loads(each) for each in reader.taken)
    assert (enter["host"], enter["fence"], enter["transition"], enter["kind"]) == ("van-7", "yard", "enter", "van")
    assert enter["position"] == [-50, 0]
    assert leave["position"] == [50, 0]
    assert leave["dwell_s"] == pytest.approx((leave["time"] - enter["time"]) / 1e6)


def test_the_moment_is_on_the_way_and_not_at_a_report_rule_99() -> None:
    scene, reader, van = watched()
    at(scene, van, -150)
    before_us = scene.stage.loop.now_us
    scene.rest(9.5)
    at(scene, van, 50)
    (enter,) = map(json.loads, reader.taken)
    assert enter["time"] % 1_000 == 0
    assert enter["time"] - before_us == pytest.approx(4.5e6, abs=0.3e6)


def test_a_way_through_between_two_reports_is_a_cross_rule_99() -> None:
    scene, reader, van = watched(on=["cross"])
    at(scene, van, -200)
    at(scene, van, 200)
    assert told(reader) == ["yard/cross"]


def test_filters_and_qos_are_those_of_any_subscription_rule_98() -> None:
    scene, _, van = watched()
    other = scene.client("other")
    scene.subscribe(other, "$roam/fence/+/leave", 0, filter="host = 'van-7' AND dwell_s >= 0")
    for x in (-200, 0, 200):
        at(scene, van, x)
    assert [(each.topic, each.qos) for each in published(other)] == [("$roam/fence/yard/leave", 0)]


def test_what_is_around_a_transition_finds_it_by_place_rule_98() -> None:
    scene, _, van = watched()
    near, far = scene.client("near"), scene.client("far")
    for client, x in ((near, -40), (far, 900)):
        scene.report(client, position=[x, 0])
        scene.subscribe(client, "$roam/fence/yard/enter", filter="near(position, 100)")
    at(scene, van, -200)
    at(scene, van, 0)
    assert "van-7" in [json.loads(each)["host"] for each in near.taken]
    assert "van-7" not in [json.loads(each)["host"] for each in far.taken]


def test_only_hosts_that_the_fence_asks_for_are_judged_rule_100() -> None:
    scene, reader, van = watched(hosts="kind = 'van'")
    for x in (-200, 0):
        at(scene, van, x, kind="bus")
    assert told(reader) == []
    at(scene, van, 10, kind="van")
    assert told(reader) == ["yard/enter"]


def test_dwell_is_told_when_its_time_is_over_and_nothing_is_said_rule_99() -> None:
    scene, reader, van = watched(on=["dwell"], dwell_s=60)
    at(scene, van, 0)
    scene.rest(59.0)
    assert told(reader) == []
    scene.rest(1.0)
    assert told(reader) == ["yard/dwell"]
    scene.rest(200.0)
    at(scene, van, 1)
    assert told(reader) == ["yard/dwell"]


def test_a_time_outside_makes_a_leave_when_it_is_over_rule_99() -> None:
    scene, reader, van = watched(hysteresis_m=None, outside_s=30)
    at(scene, van, 0)
    at(scene, van, 100)
    scene.rest(20.0)
    assert told(reader) == ["yard/enter"]
    scene.rest(12.0)
    assert told(reader) == ["yard/enter", "yard/leave"]


def test_jitter_at_the_border_is_told_of_once_rule_99() -> None:
    scene, reader, van = watched(hysteresis_m=None)
    for number in range(30):
        at(scene, van, -50 + (20 if number % 2 else -20))
    assert told(reader) == ["yard/enter"]


# What a fence is.


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"{", "GeoJSON"),
        (json.dumps({"type": "Feature", "geometry": None}).encode(), "geometry is missing"),
        (json.dumps(yard(on=["exit"])).encode(), "on is"),
        (json.dumps(yard(hysteresis_m=10**400)).encode(), "out of range"),
        (json.dumps({"type": "Feature", "properties": {"anchor": "", "radius_m": 5}}).encode(), "anchor is the name"),
    ],
)
def test_what_is_no_fence_is_refused_in_words_rule_101(payload: bytes, words: str) -> None:
    scene = Scene()
    client = scene.client("c")
    assert scene.publish(client, "$roam/fences/yard", payload, retain=True) is Reason.PAYLOAD_FORMAT_INVALID
    assert words in (last(client, PubAck).reason_text or "")


def test_a_fence_is_retained_and_does_not_expire_rule_101() -> None:
    scene = Scene()
    client = scene.client("c")
    body = json.dumps(yard()).encode()
    assert scene.publish(client, "$roam/fences/yard", body) is Reason.TOPIC_NAME_INVALID
    answer = scene.publish(client, "$roam/fences/yard", body, retain=True, expiry_s=9)
    assert answer is Reason.PAYLOAD_FORMAT_INVALID


@pytest.mark.parametrize("topic", ["$roam/fence/yard/enter", "$roam/fence/x", "$roam/fences"])
def test_nobody_else_says_that_a_fence_was_passed_rule_101(topic: str) -> None:
    scene = Scene()
    assert scene.publish(scene.client("c"), topic, b"{}", retain=True) is Reason.TOPIC_NAME_INVALID


def test_fences_can_be_listed_as_retained_messages_rule_101() -> None:
    scene, reader, _ = watched("ab")
    put(scene, reader, "north")
    other = scene.client("other", "a")
    scene.subscribe(other, "$roam/fences/#")
    assert [each.topic for each in published(other)] == ["$roam/fences/yard", "$roam/fences/north"]


def test_a_second_subscription_may_have_a_name_rule_11() -> None:
    scene, reader, van = watched()
    scene.subscribe(reader, "$roam/second/$roam/fence/+/enter", 2)
    at(scene, van, 0)
    assert told(reader) == ["yard/enter"]


def test_a_fence_of_a_collection_has_its_name_before_its_own_rule_101() -> None:
    scene, reader, van = watched()
    delete(scene, reader)
    features = [{**yard(), "id": "one"}, {**yard(), "id": "two"}]
    assert put(scene, reader, "depots", {"type": "FeatureCollection", "features": features}) is Reason.SUCCESS
    at(scene, van, 0)
    assert told(reader) == ["depots/one/enter", "depots/two/enter"]


def test_a_fence_that_was_deleted_tells_nothing_rule_101() -> None:
    scene, reader, van = watched("ab")
    at(scene, van, 0)
    delete(scene, reader)
    at(scene, van, 200)
    assert told(reader) == ["yard/enter"]


def test_a_new_fence_sees_the_next_report_as_the_first_rule_100() -> None:
    scene, reader, van = watched()
    at(scene, van, 0)
    put(scene, reader, "late")
    at(scene, van, 1)
    at(scene, van, 2)
    assert told(reader) == ["yard/enter", "late/enter"]


def test_a_new_fence_does_not_see_a_report_that_tells_no_place_rule_100() -> None:
    """Nobody has entered a fence before it was defined."""
    scene, reader, van = watched()
    at(scene, van, 0)
    put(scene, reader, "late", on=["enter"])
    for number in (1, 2):
        scene.publish(van, "$roam/me", {"attributes": {"number": number}}, qos=0)
    assert told(reader) == ["yard/enter"]
    before_us = scene.stage.loop.now_us
    at(scene, van, 1)
    assert told(reader) == ["yard/enter", "late/enter"]
    assert json.loads(reader.taken[-1])["time"] >= before_us


def test_a_fence_that_is_defined_anew_begins_anew_rule_100() -> None:
    scene, reader, van = watched()
    at(scene, van, 0)
    put(scene, reader, on=["enter"])
    at(scene, van, 1)
    assert told(reader) == ["yard/enter", "yard/enter"]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("brokers", ["a", "abc"])
def test_a_fence_that_is_defined_again_in_the_same_words_stays_as_it_is_rule_100(brokers: str, qos: int) -> None:
    """As by a client whose PUBACK was lost, or that says at each start what its fences are."""
    scene, reader, van = watched(brokers)
    at(scene, van, 0)
    for _ in range(2):
        answer = scene.publish(reader, "$roam/fences/yard", json.dumps(yard()).encode(), qos, retain=True)
        assert answer is (Reason.SUCCESS if qos else None)
    at(scene, van, 1)
    assert told(reader) == ["yard/enter"]


def test_two_messages_do_not_define_the_same_fence_rule_101() -> None:
    scene, reader, _ = watched()
    collection = {"type": "FeatureCollection", "features": [{**yard(), "id": "one"}]}
    assert put(scene, reader, "depots", collection) is Reason.SUCCESS
    assert put(scene, reader, "depots/one") is Reason.PAYLOAD_FORMAT_INVALID
    assert put(scene, reader, "depots", collection) is Reason.SUCCESS


# Once, whatever happens.


def test_reports_that_pass_no_fence_are_not_inputs_of_their_own_rule_102(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, _, van = watched()
    server = scene.stage.brokers["a"].server
    given: list[str] = []
    give = server.give

    def noting(one: AnyGiven) -> None:
        given.append(type(one).__name__)
        give(one)

    monkeypatch.setattr(server, "give", noting)
    for x in (-400, -300, -200, 0, 10, 20, 30, 300, 400):
        at(scene, van, x)
    assert given.count("Reported") == 2


def test_a_client_that_roams_inside_a_fence_is_told_of_once_rule_102() -> None:
    scene, reader, van = watched("abc", dwell_s=60)
    at(scene, van, -200)
    at(scene, van, 0)
    scene.move(van, "c")
    at(scene, van, 10)
    scene.rest(100.0)
    scene.move(van, "b")
    at(scene, van, 200)
    assert told(reader) == ["yard/enter", "yard/dwell", "yard/leave"]


def test_the_way_goes_on_at_the_next_broker_rule_102() -> None:
    scene, reader, van = watched("ab", on=["cross"])
    at(scene, van, -200)
    scene.move(van, "b")
    at(scene, van, 200)
    assert told(reader) == ["yard/cross"]


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_broker_that_was_killed_knows_who_is_inside_rule_102(snapshot: bool) -> None:
    scene, reader, van = watched("ab", dwell_s=60)
    at(scene, van, -200)
    at(scene, van, 0)
    broker = scene.stage.brokers["a"]
    if snapshot:
        broker.server.write_ahead.snapshot()
        scene.rest()
    broker.kill()
    scene.rest()
    broker.start()
    scene.stage.heal()
    scene.rest(100.0)
    scene.move(van, "a")
    at(scene, van, 200)
    assert told(reader) == ["yard/enter", "yard/dwell", "yard/leave"]


def test_a_log_that_is_read_again_makes_no_way_that_nobody_went_rule_102() -> None:
    """Around the yard, with reports of which only the last is logged."""
    scene, reader, van = watched("ab", on=["enter", "cross"])
    for x, y in ((-200, 0), (-200, 300), (200, 300), (200, 0)):
        scene.publish(van, "$roam/me", {"position": [x, y]}, qos=0)
    broker = scene.stage.brokers["a"]
    broker.kill()
    scene.rest()
    broker.start()
    scene.stage.heal()
    scene.rest(5.0)
    assert told(reader) == []


def test_a_fence_that_is_handed_over_again_is_not_a_new_one_rule_102() -> None:
    """As by a neighbour that lost its state and got it back from another one."""
    scene, reader, van = watched("ab")
    at(scene, van, 0)
    border = scene.stage.brokers["a"].server.core.border
    event, _ = border.retained.of["$roam/fences/yard"]
    border.keeping.take(event)
    at(scene, van, 1)
    assert told(reader) == ["yard/enter"]


def test_dwell_is_told_of_a_client_that_left_before_its_session_came_rule_102() -> None:
    scene, reader, van = watched("ab", dwell_s=60)
    at(scene, van, 0)
    van.connect("b")
    sessions = scene.stage.brokers["b"].server.core.border.sessions
    for _ in range(1_000):
        scene.stage.run(0.0005)
        if "van-7" in sessions and sessions["van-7"].coming:
            break
    assert sessions["van-7"].coming
    van.drop()
    scene.rest(100.0)
    assert told(reader) == ["yard/enter", "yard/dwell"]


# Brokers whose clocks differ by minutes.


def test_a_client_does_not_leave_before_it_entered_rule_99() -> None:
    scene, reader, van = watched("ab")
    scene.stage.brokers["a"].behind_us = -60_000_000
    at(scene, van, 0)
    scene.move(van, "b")
    at(scene, van, 1)
    at(scene, van, 200)
    enter, leave = map(json.loads, reader.taken)
    assert leave["time"] >= enter["time"]
    assert leave["dwell_s"] >= 0


def test_a_fence_of_a_broker_whose_clock_is_ahead_tells_dwell_rule_99() -> None:
    scene = Scene("ab")
    scene.stage.brokers["b"].behind_us = -600_000_000
    reader, van = scene.client("reader", "b"), scene.client("van-7", "a")
    scene.subscribe(reader, "$roam/fence/#", 2)
    put(scene, reader, dwell_s=60)
    at(scene, van, 0)
    scene.rest(100.0)
    assert told(reader) == ["yard/enter", "yard/dwell"]


# Rules.


def policy(*rules: Rule) -> PolicyAccess:
    return PolicyAccess(Policy(Plane(), rules), RateLimits(), Plane())


def test_rules_say_who_defines_fences_and_who_is_told_rule_101() -> None:
    scene = Scene()
    office, van = scene.client("office"), scene.client("van-7")
    scene.stage.brokers["a"].server.access = policy(
        Rule(clients=("office",), publish=("$roam/fences/#",), subscribe=("$roam/fence/#",)),
        Rule(clients=("van-7",), publish=("$roam/me",)),
    )
    assert put(scene, van) is Reason.NOT_AUTHORIZED
    assert put(scene, office) is Reason.SUCCESS
    assert scene.subscribe(van, "$roam/fence/yard/enter") == (Reason.NOT_AUTHORIZED,)
    assert scene.subscribe(office, "$roam/fence/yard/enter") == (Reason.GRANTED_QOS_1,)
    at(scene, van, 0)
    assert told(office) == ["yard/enter"]


# Fences that move with a client.


def encircled(brokers: str, **properties: Any) -> tuple[Scene, SimClient, SimClient, SimClient]:
    """A ring around an ambulance at the first broker; the van is at the last one, as the reader is."""
    scene = Scene(brokers)
    reader = scene.client("reader", brokers[-1])
    scene.subscribe(reader, "$roam/fence/#", 2)
    assert put(scene, reader, "ring", ring("ambulance", **properties)) is Reason.SUCCESS
    return scene, reader, scene.client("ambulance", brokers[0]), scene.client("van-7", brokers[-1])


@pytest.mark.parametrize("brokers", ["a", "abc"])
def test_a_fence_moves_with_a_client_wherever_that_is_rule_99(brokers: str) -> None:
    scene, reader, ambulance, van = encircled(brokers)
    at(scene, ambulance, 0)
    at(scene, van, 300)
    at(scene, ambulance, 250)
    assert told(reader) == []
    at(scene, van, 300)
    at(scene, ambulance, 1_000)
    at(scene, van, 300)
    assert told(reader) == ["ring/enter", "ring/leave"]


def test_the_way_is_seen_from_the_anchor_rule_99() -> None:
    """From 300 m before it to 50 m: the border at 100 m is passed after four fifths of the time."""
    scene, reader, ambulance, van = encircled("ab", on=["enter"])
    at(scene, ambulance, 0)
    at(scene, van, 300)
    began_us = scene.stage.loop.now_us
    scene.rest(10.0)
    at(scene, ambulance, 250)
    at(scene, van, 300)
    (said,) = [json.loads(each.payload) for each in published(reader)]
    assert said["position"] == [300.0, 0.0]
    assert abs(said["time"] - began_us - 8_000_000) < 1_000_000


def test_a_fence_does_not_concern_the_client_that_it_moves_with_rule_99() -> None:
    scene, reader, ambulance, _ = encircled("ab")
    at(scene, ambulance, 0)
    at(scene, ambulance, 500)
    assert told(reader) == []


def test_who_went_around_within_thirty_seconds_is_seen_from_where_the_anchor_was_rule_99() -> None:
    scene, reader, ambulance, van = encircled("ab", on=["cross"])
    at(scene, ambulance, 0)
    at(scene, van, 300)
    for x in (250, 500, 900):
        at(scene, ambulance, x)
    at(scene, van, 300)
    at(scene, ambulance, 0)
    scene.rest(40.0)
    at(scene, van, 300)
    assert told(reader) == ["ring/cross"]


def test_an_anchor_that_hides_has_no_fence_rule_99() -> None:
    scene, reader, ambulance, van = encircled("ab")
    at(scene, ambulance, 0, position_hidden=True)
    at(scene, van, 10)
    assert told(reader) == []
    at(scene, ambulance, 0, kind="ambulance")
    at(scene, van, 20)
    assert told(reader) == ["ring/enter"]
    scene.stage.run(1.0)


def test_a_ring_is_known_to_a_broker_that_was_killed_and_to_one_that_comes_later_rule_99() -> None:
    scene, reader, ambulance, van = encircled("ab")
    at(scene, ambulance, 0)
    at(scene, van, 300)
    broker = scene.stage.brokers["b"]
    broker.kill()
    scene.rest()
    broker.start()
    scene.stage.heal()
    scene.rest(5.0)
    scene.move(reader, "b")
    scene.move(van, "b")
    at(scene, van, 50)
    scene.move(ambulance, "b")
    at(scene, ambulance, 800)
    scene.move(van, "a")
    at(scene, van, 50)
    assert told(reader) == ["ring/enter", "ring/leave"]
