"""L3, L8: a neighbour that is away for long costs no acknowledged message (P-32, P-57)."""

from collections.abc import Callable

import pytest

from roamcast.broker import stream
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.params import BrokerParams
from roamcast.broker.stream import Stream
from roamcast.mqtt.packets import PubAck
from roamcast.mqtt.reasons import Reason
from tests.broker.mqtt.machines import Head
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient

TEN_MINUTES_S = 600.0


@pytest.fixture
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW_MESSAGES", 130)
    monkeypatch.setattr(stream, "SEGMENT_MESSAGES", 50)


def cut_off(params: BrokerParams | None = None, core: CoreParams | None = None) -> tuple[Scene, SimClient, SimClient]:
    """A writer at a and a reader at b, whose link is down."""
    scene = Scene("ab", core, broker_params=params)
    writer, reader = scene.client("writer"), scene.client("reader", "b")
    scene.subscribe(reader, "t")
    scene.stage.unlink("a", "b")
    scene.rest()
    return scene, writer, reader


def say(scene: Scene, writer: SimClient, count: int, first: int = 0) -> list[bytes]:
    said = [b"%d" % number for number in range(first, first + count)]
    for each in said:
        writer.publish("t", each, 1)
    scene.rest(5.0 + count / 50)
    return said


def come_back(scene: Scene, seconds: float = 10.0) -> None:
    scene.stage.heal()
    scene.rest(seconds)


def stream_to_b(scene: Scene) -> Stream:
    return scene.stage.brokers["a"].server.core.broker.neighbours.streams.of["b"]


def answers(writer: SimClient) -> list[Reason]:
    return [each.reason for each in writer.heard if isinstance(each, PubAck)]


def test_a_neighbour_that_is_away_for_ten_minutes_costs_nothing_that_was_acknowledged_rule_32() -> None:
    scene, writer, reader = cut_off()
    said = say(scene, writer, 20)
    scene.rest(TEN_MINUTES_S)
    said += say(scene, writer, 20, first=20)
    assert answers(writer) == [Reason.SUCCESS] * 40
    come_back(scene)
    assert reader.taken == said
    assert "neighbour_lost" in scene.remarks()
    assert "neighbour_gone" not in scene.remarks()


def test_a_neighbour_that_is_away_for_longer_than_the_patience_is_given_up_and_its_loss_counted_rule_32() -> None:
    scene, writer, reader = cut_off(BrokerParams(stream_patience_s=100.0))
    say(scene, writer, 3)
    scene.rest(100.0)
    lost = [detail for what, detail in scene.stage.brokers["a"].monitor.said if what == "neighbour_gone"]
    assert lost == ["b: 3 messages that waited for it are lost"]
    come_back(scene)
    assert say(scene, writer, 1, first=3) == reader.taken == [b"3"]


@pytest.mark.usefixtures("small_window")
def test_what_waits_for_a_neighbour_is_on_the_disk_and_comes_in_order_after_a_crash_rule_32() -> None:
    scene, writer, reader = cut_off()
    said = say(scene, writer, 500)
    broker = scene.stage.brokers["a"]
    waits = stream_to_b(scene)
    assert len(waits.waiting) + len(waits.tail) <= 180
    assert len(broker.disk.segments) == len(waits.aside) == 7
    broker.kill()
    broker.start()
    scene.rest()
    assert stream_to_b(scene).kept_messages == waits.kept_messages
    writer.connect("a")
    said += say(scene, writer, 20, first=500)
    come_back(scene, 20.0)
    assert reader.taken == said
    broker.server.write_ahead.snapshot()
    scene.rest()
    assert broker.disk.segments == {}


@pytest.mark.usefixtures("small_window")
def test_a_broker_that_is_killed_while_it_catches_up_goes_on_where_it_was_rule_32() -> None:
    scene, writer, reader = cut_off()
    said = say(scene, writer, 500)
    for _ in range(6):
        scene.stage.heal()
        scene.rest(0.12)
        scene.stage.brokers["a"].kill()
        scene.stage.brokers["a"].start()
        scene.rest(0.1)
    writer.connect("a")
    come_back(scene, 20.0)
    assert reader.taken == said
    assert stream_to_b(scene).kept_messages < stream.GOT_EVERY


@pytest.mark.usefixtures("small_window")
def test_what_is_said_while_a_neighbour_catches_up_comes_behind_what_waits_rule_32() -> None:
    scene, writer, reader = cut_off()
    said = say(scene, writer, 400)
    scene.stage.heal()
    for number in range(400, 440):
        said.append(b"%d" % number)
        writer.publish("t", said[-1], 1)
        scene.rest(0.02)
    scene.rest(20.0)
    assert reader.taken == said


@pytest.mark.usefixtures("small_window")
def test_a_link_that_goes_down_while_a_segment_is_read_has_none_read_twice_rule_32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    fetch = Head.fetch

    def slow(head: Head, number: int, then: Callable[[bytes | None], None]) -> None:
        asked.append(number)
        head.course.loop.after(1_000_000, lambda: fetch(head, number, then))

    monkeypatch.setattr(Head, "fetch", slow)
    scene, writer, reader = cut_off()
    said = say(scene, writer, 500)
    scene.stage.heal()
    while not asked:
        scene.rest(0.1)
    scene.stage.unlink("a", "b")
    scene.rest(0.2)
    come_back(scene, 30.0)
    assert reader.taken == said
    assert asked == [1, *range(1, 8)]


@pytest.mark.usefixtures("small_window")
def test_a_replay_that_waits_on_the_disk_reaches_a_neighbour_that_has_lost_its_memory_rule_32() -> None:
    """It finds its way by itself; events cannot, for nobody there wants them any more."""
    scene, writer, _ = cut_off()
    say(scene, writer, 500)
    b = scene.stage.brokers["b"]
    b.kill()
    b.disk.snapshot, b.disk.batches = None, []
    come_back(scene, 20.0)
    assert not stream_to_b(scene).salvage
    lost = [detail for what, detail in scene.stage.brokers["a"].monitor.said if what == "neighbour_gone"]
    assert len(lost) == 1
    assert "messages that waited for it are lost" in lost[0]


def test_publications_are_refused_when_too_much_waits_for_a_neighbour_and_none_is_lost_rule_57() -> None:
    scene, writer, reader = cut_off(BrokerParams(stream_bytes_max=40_000))
    said = say(scene, writer, 200)
    reasons = answers(writer)
    taken = reasons.count(Reason.SUCCESS)
    assert 100 < taken < 150
    assert reasons == [Reason.SUCCESS] * taken + [Reason.QUOTA_EXCEEDED] * (200 - taken)
    assert scene.publish(writer, "u", b"for nobody there") is Reason.SUCCESS
    assert scene.remarks().count("stream_full") == 1
    come_back(scene)
    assert reader.taken == said[:taken]
    assert scene.publish(writer, "t", b"again") is Reason.SUCCESS
    assert reader.taken[-1] == b"again"


def test_a_session_behind_a_neighbour_that_is_lost_is_searched_for_seconds_and_ends_when_it_is_back_rule_25() -> None:
    scene = Scene("ab", CoreParams(reminder_wait_s=3.0), broker_params=BrokerParams(search_patience_s=20.0))
    client = scene.client("c", "b")
    scene.subscribe(client, "t")
    scene.stage.unlink("a", "b")
    scene.rest(10.0)
    client.connect("a")
    scene.rest(5.0)
    assert not client.ready
    scene.rest(10.0)
    scene.move(client, "a")
    assert not client.connacks[-1].session_present
    assert "c" in scene.stage.brokers["b"].server.core.border.sessions
    come_back(scene)
    assert "c" not in scene.stage.brokers["b"].server.core.border.sessions
    assert client.ready


def test_with_advertisements_nobody_waits_for_a_neighbour_that_is_lost_rule_76() -> None:
    params = BrokerParams(advertisements=True, search_patience_s=20.0)
    scene, writer, _ = cut_off(params)
    writer.publish("t", b"x", 1)
    scene.rest(10.0)
    assert answers(writer) == []
    scene.rest(15.0)
    assert answers(writer) == [Reason.SUCCESS]
