"""L8: a broker that was killed, or starts with other settings, or on the data of another version."""

from pathlib import Path

import pytest

from roamcast.broker.logical.params import AheadParams, LogicalParams
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.stored import STATE_VERSION, BadState, check_same_kind, dumped
from roamcast.broker.params import BrokerParams
from roamcast.mqtt.limits import SessionLimits
from roamcast.mqtt.packets import AnyPacket, Publish, Subscribe, Wish
from roamcast.server.running import RunningBroker
from roamcast.server.settings import Settings
from roamcast.server.storage import StorageSettings
from roamcast.server.storage.log import FILE, Log
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient


def restart(scene: Scene, broker: str = "a") -> None:
    scene.stage.brokers[broker].kill()
    scene.rest(1.0)
    scene.stage.heal()
    scene.rest(1.0)


def test_a_queue_at_its_bound_holds_the_same_after_a_restart_rule_58() -> None:
    scene = Scene(params=CoreParams(session=SessionLimits(queue_messages_max=3)))
    writer, reader = scene.client("writer"), scene.client("reader")
    scene.subscribe(reader, "t")
    reader.drop(noticed=False)
    for number in range(5):
        scene.publish(writer, "t", b"%d" % number)
    restart(scene)
    scene.move(reader, "a")
    assert reader.taken == [b"0", b"1", b"2"]


def test_what_expired_while_its_client_was_away_is_not_delivered_after_a_restart_rule_44() -> None:
    scene = Scene()
    writer, reader = scene.client("writer"), scene.client("reader")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    for payload, expiry_s in ((b"soon", 1), (b"long", 600)):
        scene.publish(writer, "t", payload, expiry_s=expiry_s)
    restart(scene)
    scene.move(reader, "a")
    assert reader.taken == [b"long"]


def test_subscriptions_that_were_withdrawn_leave_room_for_others_after_a_restart_too_rule_55() -> None:
    scene = Scene(params=CoreParams(session=SessionLimits(subscriptions_max=3)))
    writer, reader = scene.client("writer"), scene.client("reader")
    for number in range(4):
        scene.subscribe(reader, f"t/{number}")
        if number < 3:
            scene.unsubscribe(reader, f"t/{number}")
    restart(scene)
    scene.move(writer, "a")
    scene.move(reader, "a")
    scene.publish(writer, "t/3", b"x")
    assert reader.taken == [b"x"]


def test_what_was_retained_is_numbered_alike_after_a_restart_rule_36() -> None:
    scene = Scene()
    writer, reader = scene.client("writer"), scene.client("reader")
    scene.publish(writer, "r", b"kept", retain=True)
    for _ in range(2):
        reader._say(Subscribe(9, (Wish("r", 1, retain_handling=1),)))
        scene.rest()
        scene.unsubscribe(reader, "r")
    scene.subscribe(reader, "t")
    hear, seen = reader._on, list[Publish]()

    def slow_to_acknowledge(packet: AnyPacket) -> list[AnyPacket]:
        if isinstance(packet, Publish):
            seen.append(packet)
            return []
        return hear(packet)

    reader._on = slow_to_acknowledge  # type: ignore[method-assign]
    for number in range(3):
        scene.publish(writer, "t", b"%d" % number)
    reader._say(*hear(seen[0]))
    scene.rest()
    restart(scene)
    reader._on = hear  # type: ignore[method-assign]
    scene.move(reader, "a")
    assert reader.taken == [b"kept", b"0", b"1", b"2"]


def test_messages_of_qos_0_pass_to_a_neighbour_before_and_after_a_restart_rule_34() -> None:
    scene = Scene("ab")
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.subscribe(reader, "t", qos=0)
    scene.publish(writer, "t", b"0", qos=0)
    scene.stage.brokers["a"].server.write_ahead.snapshot()
    scene.rest()
    for number in (1, 2, 3):
        scene.publish(writer, "t", b"%d" % number, qos=0)
    restart(scene)
    scene.move(writer, "a")
    for number in (4, 5, 6):
        scene.publish(writer, "t", b"%d" % number, qos=0)
    assert reader.taken == [b"%d" % number for number in range(7)]


def test_a_clock_that_was_set_back_before_a_restart_loses_nothing_rule_32() -> None:
    scene = Scene()
    writer, reader = scene.client("writer"), scene.client("reader")
    scene.subscribe(reader, "t")
    broker = scene.stage.brokers["a"]
    restart(scene)
    broker.server._clock_us = lambda: scene.stage.loop.now_us - 3_600_000_000
    for client in (writer, reader):
        scene.move(client, "a")
    scene.publish(writer, "t", b"x")
    assert reader.taken == [b"x"]


def recovered(directory: Path, settings: Settings) -> RunningBroker:
    broker, log = RunningBroker(settings), Log.open(directory, StorageSettings())
    try:
        broker.core = broker._recovered(log)  # type: ignore[attr-defined]
    finally:
        log.close()
    return broker


def test_other_bounds_of_the_protocol_hold_from_the_next_start(tmp_path: Path) -> None:
    recovered(tmp_path, Settings("a", str(tmp_path)))
    given = BrokerParams(sessions_max=7, arrows_max=8, wishes_max=9, search_patience_s=10, replay_wait_s_max=20)
    for _ in range(2):
        core = recovered(tmp_path, Settings("a", str(tmp_path), protocol=given)).core  # type: ignore[attr-defined]
        broker = core.broker
        assert broker.params == broker.border.params == broker.neighbours.params == given
        assert broker.neighbours.router.wishes_max == 9
        assert broker.handover.arrows.arrows_max == 8


def test_sessions_that_are_there_have_the_other_bounds_too() -> None:
    scene = Scene()
    scene.client("c")
    core = scene.stage.brokers["a"].server.core
    assert core.adopt(BrokerParams(marks_max=6), CoreParams(session=SessionLimits(queue_messages_max=5)), None)
    bounds = core.border.sessions["c"].window.bounds
    assert (bounds.entries_max, bounds.marks_max) == (5, 6)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (BrokerParams(routing="simple"), r'protocol.routing: the data was made with "covering", .* say "simple"'),
        (BrokerParams(logical=LogicalParams(steps=3)), "protocol.logical.steps: .* with null, and .* say 3"),
        (
            BrokerParams(ahead=AheadParams(events_max=9)),
            r"protocol.ahead.events_max: .* say 9\. Give \d+ again, or another data",
        ),
    ],
)
def test_a_protocol_of_another_kind_is_refused_with_the_setting_and_both_values_rule_71(
    tmp_path: Path, changed: BrokerParams, said: str
) -> None:
    recovered(tmp_path, Settings("a", str(tmp_path)))
    with pytest.raises(BadState, match=said):
        recovered(tmp_path, Settings("a", str(tmp_path), protocol=changed))
    recovered(tmp_path, Settings("a", str(tmp_path)))


def test_another_movement_model_is_no_other_kind_of_protocol() -> None:
    check_same_kind(BrokerParams(), BrokerParams(logical=LogicalParams(movement="walks.json"), sessions_max=3))


def test_data_that_cannot_be_read_is_refused_with_what_to_do_and_left_as_it_is_rule_71(tmp_path: Path) -> None:
    states = [b"an older one", dumped("no broker"), dumped(None).replace(b"state %d" % STATE_VERSION, b"state 99", 1)]
    for number, state in enumerate(states):
        folder = tmp_path / str(number)
        log = Log.open(folder, StorageSettings())
        log.snapshot(state)
        log.close()
        before = (folder / FILE).read_bytes()
        with pytest.raises(BadState, match=r"Nothing was changed\. Start it with the roamcast that wrote it"):
            recovered(folder, Settings("a", str(folder)))
        assert (folder / FILE).read_bytes() == before


def test_a_log_that_cannot_be_read_is_refused_with_what_to_do_and_left_as_it_is_rule_71(tmp_path: Path) -> None:
    recovered(tmp_path, Settings("a", str(tmp_path)))
    log = Log.open(tmp_path, StorageSettings())
    log.append(b"\x91\x92\x01\x91\xa3new")
    log.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(BadState, match=r"the log of .* cannot be read.*Start it with the roamcast that wrote it"):
        recovered(tmp_path, Settings("a", str(tmp_path)))
    assert (tmp_path / FILE).read_bytes() == before


def test_a_client_that_never_left_is_away_after_a_restart_rule_24() -> None:
    scene = Scene()
    scene.client("c")
    restart(scene)
    assert not scene.stage.brokers["a"].server.core.border.sessions["c"].connected
    scene.move(SimClient(scene.stage, "c"), "a")
