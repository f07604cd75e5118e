"""L2, L3: all brokers know of each member of a group whether it is connected, whatever others said while cut off."""

import pytest

from roamcast.broker.mqtt.core import Core
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient

SHARED = "$share/g/t"


def members(scene: Scene) -> list[dict[str, bool]]:
    """As each broker has them."""
    return [dict(each.server.core.border.groups.members.get(("g", "t"), {})) for each in scene.stage.brokers.values()]


def member_that_begins_anew(scene: Scene, expiry_s: int) -> SimClient:
    """At b, while the broker that it was at before is cut off and takes its connection for open."""
    client = SimClient(scene.stage, "c", expiry_s)
    client.connect("a")
    scene.rest()
    scene.subscribe(client, SHARED)
    assert members(scene) == [{"c": True}] * len(scene.stage.brokers)
    scene.stage.unlink("a", "b")
    scene.rest()
    client.drop(noticed=False)
    client.connect("b", clean=True)
    scene.rest(3.0)
    scene.subscribe(client, SHARED)
    return client


@pytest.mark.parametrize("expiry_s", [100, 0], ids=["away", "gone"])
def test_l3_a_connected_member_is_known_as_such_when_brokers_that_were_cut_off_meet_again(expiry_s: int) -> None:
    scene = Scene("abc")
    member = member_that_begins_anew(scene, expiry_s)
    (stale,) = scene.stage.brokers["a"].server.sockets
    stale.connection_lost(None)
    scene.rest()
    scene.stage.link("a", "b")
    scene.rest(2.0)
    assert members(scene) == [{"c": True}] * 3
    other = scene.client("other", "c")
    scene.subscribe(other, SHARED)
    writer = scene.client("writer", "a")
    for number in range(4):
        scene.publish(writer, "t", b"%d" % number)
    assert (member.taken, other.taken) == ([b"0", b"2"], [b"1", b"3"])


def test_l3_a_broker_whose_clock_is_ahead_does_not_have_the_last_word_on_a_member() -> None:
    scene = Scene("ab")
    for name in "b":
        scene.stage.brokers[name].behind_us = 30_000_000
    scene.rest(31.0)
    member_that_begins_anew(scene, 100)
    (stale,) = scene.stage.brokers["a"].server.sockets
    stale.connection_lost(None)
    scene.rest()
    scene.stage.link("a", "b")
    scene.rest(2.0)
    assert members(scene) == [{"c": True}] * 2


def test_l3_a_member_that_leaves_after_brokers_met_again_is_away_for_all() -> None:
    scene = Scene("ab")
    member = member_that_begins_anew(scene, 100)
    scene.stage.link("a", "b")
    scene.rest(2.0)
    member.drop()
    scene.rest()
    assert members(scene) == [{"c": False}] * 2


def test_l3_nobody_goes_on_contradicting() -> None:
    """Two brokers of which each takes the member for its own end up with the one that has it."""
    scene = Scene("ab")
    member_that_begins_anew(scene, 100)
    scene.stage.link("a", "b")
    scene.rest(2.0)
    made = [each.server.core.events.made for each in scene.stage.brokers.values()]
    scene.rest(10.0)
    assert [each.server.core.events.made for each in scene.stage.brokers.values()] == made
    assert members(scene) == [{"c": True}] * 2


def test_l8_a_state_without_doubts_is_restored() -> None:
    groups = Core("a", 1).border.groups
    state = groups.__getstate__()
    del state["doubtful"]
    groups.__setstate__(state)
    groups.insist()
