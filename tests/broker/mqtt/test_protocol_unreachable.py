"""L3, L7: a session whose broker is down: whose its client id stays (P-96), and what its client wants (P-97)."""

import pytest

from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.params import BrokerParams
from roamcast.mqtt.reasons import Reason
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient
from tests.broker.mqtt.test_arrivals import Ledger

OWNER, STRANGER = "alice", "mallory"


def guarded(brokers: str = "abc", params: CoreParams | None = None) -> tuple[Scene, Ledger]:
    scene, ledger = Scene(brokers, params, broker_params=BrokerParams(search_patience_s=20.0)), Ledger()
    for broker in scene.stage.brokers.values():
        broker.server.access = ledger
    return scene, ledger


def tries(scene: Scene, broker: str, unreachable: str = "", clean: bool = False, seconds: float = 4.0) -> SimClient:
    client = SimClient(scene.stage, "c")
    client.connect_properties = (("unreachable", unreachable),) if unreachable else ()
    client.connect(broker, clean=clean)
    scene.rest(seconds)
    return client


def reasons(client: SimClient) -> list[Reason]:
    return [each.reason for each in client.connacks]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_nobody_else_begins_with_a_client_id_while_the_broker_with_its_session_is_down_rule_96(
    clean: bool, lost: bool
) -> None:
    scene, ledger = guarded()
    client = scene.client("c")
    scene.subscribe(client, "private")
    scene.publish(scene.client("writer", "b"), "private", b"before")
    client.drop()
    scene.stage.brokers["a"].kill()
    scene.rest(30.0 if lost else 1.0)
    ledger.user = STRANGER
    for where in "bc":
        assert reasons(tries(scene, where, "anew", clean)) == [Reason.CLIENT_IDENTIFIER_NOT_VALID]
    ledger.user = OWNER
    scene.stage.heal()
    scene.stage.brokers["a"].server.access = ledger
    scene.rest()
    scene.publish(scene.client("other", "b"), "private", b"after")
    scene.move(client, "c")
    assert client.connacks[-1].session_present
    assert client.taken == [b"before", b"after"]


def test_a_broker_that_is_met_later_learns_whose_client_ids_are_rule_96() -> None:
    scene, ledger = guarded("ab")
    scene.client("c")
    b = scene.stage.brokers["b"]
    b.kill()
    b.disk.snapshot, b.disk.batches = None, []
    scene.stage.heal()
    b.server.access = ledger
    scene.rest()
    scene.stage.brokers["a"].kill()
    ledger.user = STRANGER
    assert reasons(tries(scene, "b")) == [Reason.CLIENT_IDENTIFIER_NOT_VALID]


def test_a_client_id_is_free_again_when_its_session_has_ended_rule_96() -> None:
    scene, ledger = guarded("ab")
    client = scene.client("c", expiry_s=5)
    client.drop()
    scene.rest(10.0)
    scene.stage.brokers["a"].kill()
    scene.rest(30.0)
    ledger.user = STRANGER
    assert tries(scene, "b").ready


def test_the_owner_frees_a_client_id_by_beginning_anew_without_a_session_rule_96() -> None:
    scene, ledger = guarded("ab")
    scene.client("c").drop()
    scene.stage.brokers["a"].kill()
    scene.rest(30.0)
    owner = SimClient(scene.stage, "c", expiry_s=0)
    owner.connect("b", clean=True)
    scene.rest(4.0)
    assert owner.ready
    owner.drop()
    scene.rest()
    ledger.user = STRANGER
    assert tries(scene, "b").ready


def test_a_client_that_wants_so_begins_anew_at_once_and_its_old_session_ends_later_rule_97() -> None:
    scene, _ = guarded()
    client = scene.client("c")
    scene.subscribe(client, "t")
    scene.stage.unlink("a", "b")
    scene.rest()
    anew = tries(scene, "c", "anew", seconds=0.5)
    assert anew.ready
    assert not anew.connacks[-1].session_present
    scene.subscribe(anew, "u")
    assert "c" in scene.stage.brokers["a"].server.core.border.sessions
    scene.stage.heal()
    scene.rest(2.0)
    assert "c" not in scene.stage.brokers["a"].server.core.border.sessions
    assert anew.ready
    scene.publish(scene.client("writer", "a"), "u", b"hello")
    assert anew.taken == [b"hello"]


def test_the_setting_says_it_for_clients_that_do_not_rule_97() -> None:
    scene, _ = guarded("ab", CoreParams(unreachable="anew"))
    scene.client("c").drop()
    scene.stage.brokers["a"].kill()
    scene.rest()
    assert reasons(tries(scene, "b", "wait", seconds=1.0)) == []
    assert tries(scene, "b", seconds=1.0).ready


def test_a_client_that_waits_is_told_for_what_rule_97() -> None:
    scene, _ = guarded("abc", CoreParams(reminder_wait_s=3.0))
    scene.client("c").drop()
    scene.stage.brokers["a"].kill()
    scene.rest()
    told = tries(scene, "b", "wait")
    assert reasons(told) == [Reason.SERVER_UNAVAILABLE]
    assert "the session may be at a or behind it" in str(told.connacks[-1].reason_text)
    assert reasons(tries(scene, "b")) == []


def test_an_old_session_that_ends_while_cut_off_frees_no_client_id_that_is_used_elsewhere_rule_96() -> None:
    scene, ledger = guarded()
    scene.client("c", expiry_s=60).drop()
    scene.stage.unlink("a", "b")
    scene.rest(1.0)
    anew = tries(scene, "c", "anew")
    assert anew.ready
    anew.drop()
    scene.rest(90.0)
    scene.stage.heal()
    scene.rest(5.0)
    scene.stage.brokers["c"].kill()
    scene.rest(30.0)
    ledger.user = STRANGER
    assert reasons(tries(scene, "b")) == [Reason.CLIENT_IDENTIFIER_NOT_VALID]
