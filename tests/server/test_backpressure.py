"""L8: what waits for a disk that is slow or full stays bounded, and nothing of it is lost."""

from collections.abc import Callable

from roamcast.broker.params import BrokerParams
from roamcast.mqtt.packets import PubAck
from roamcast.mqtt.reasons import Reason
from roamcast.server.backpressure import Backpressure
from tests.broker.mqtt.scene import Scene, dismissal, last
from tests.broker.mqtt.stage import SimClient

MAX_BYTES = 5_000


class Stuck:
    """The disk of a broker, which takes everything again when the test says so."""

    def __init__(self, scene: Scene, problem: Exception | None) -> None:
        server, head = scene.stage.brokers["a"].server, scene.stage.brokers["a"].head
        server.backpressure = Backpressure(server.write_ahead, MAX_BYTES)
        self.head = head
        self.loop = scene.stage.loop
        self.problem = problem
        self.kept: list[Callable[[], None]] = []
        self.submit, self.snapshot = head.submit, head.snapshot
        head.submit = self.refuse  # type: ignore[method-assign, assignment]
        head.snapshot = lambda state, behind, done, *_: self.refuse(state, done)  # type: ignore[method-assign]

    def refuse(self, data: bytes, done: Callable[[Exception | None], None], segments: object = ()) -> None:
        if self.problem is None:
            self.kept.append(lambda: self.submit(data, done))
        else:
            self.loop.after(1_000, lambda: done(self.problem))

    def mend(self) -> None:
        self.head.submit, self.head.snapshot = self.submit, self.snapshot  # type: ignore[method-assign]
        for again in self.kept:
            again()


def flood(scene: Scene, writer: SimClient, count: int = 100) -> list[bytes]:
    said = [b"%d %s" % (number, b"x" * 500) for number in range(count)]
    for each in said:
        writer.publish("t", each, 1)
        scene.rest(0.05)
    return said


def test_l8_a_slow_disk_holds_the_links_of_other_brokers_and_loses_nothing_of_theirs() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t")
    disk = Stuck(scene, None)
    said = flood(scene, writer)
    broker = scene.stage.brokers["a"]
    assert broker.server.write_ahead.waiting_bytes < 2 * MAX_BYTES
    assert list(broker.unread) == ["b"]
    disk.mend()
    scene.rest(5.0)
    assert (reader.taken, broker.unread) == (said, {})


def test_l8_a_full_disk_holds_the_links_of_other_brokers_and_loses_nothing_of_theirs() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t")
    disk = Stuck(scene, OSError("no space left"))
    said = flood(scene, writer)
    broker = scene.stage.brokers["a"]
    assert broker.server.write_ahead.waiting_bytes < 2 * MAX_BYTES
    assert "b" in broker.links
    disk.mend()
    scene.rest(10.0)
    assert reader.taken == said


def test_l8_a_client_that_says_more_than_a_slow_disk_takes_is_not_read_from_until_it_has() -> None:
    scene = Scene()
    writer, quiet = scene.client("writer"), scene.client("quiet")
    scene.subscribe(scene.client("reader"), "t")
    server = scene.stage.brokers["a"].server
    disk = Stuck(scene, None)
    for number in range(5):
        writer.publish("t", b"%d" % number + bytes(3_000), 1)
    scene.rest()
    assert server.clients["writer"]._waits
    assert not server.clients["quiet"]._waits
    assert quiet.ready
    disk.mend()
    scene.rest(2.0)
    assert not server.clients["writer"]._waits
    assert (writer.settled, len(server.backpressure.held)) == (True, 0)


def test_l8_what_a_message_says_beside_its_payload_waits_for_the_disk_too() -> None:
    scene = Scene()
    writer = scene.client("writer")
    server = scene.stage.brokers["a"].server
    Stuck(scene, None)
    for _ in range(5):
        writer.publish("t", b"", 1, note="x" * 3_000)
    scene.rest()
    assert server.clients["writer"]._waits


def test_l8_rule_76_who_publishes_to_more_new_topics_than_a_slow_disk_takes_is_not_read_from() -> None:
    scene = Scene("ab", broker_params=BrokerParams(advertisements=True))
    writer = scene.client("writer")
    server = scene.stage.brokers["a"].server
    Stuck(scene, None)
    for number in range(10):
        writer.publish(f"{number}/{'x' * 1_000}", b"", 0)
    scene.rest()
    assert server.clients["writer"]._waits


def test_l8_a_full_disk_refuses_what_clients_say_and_holds_none_of_them() -> None:
    scene = Scene()
    first, writer = scene.client("first"), scene.client("writer")
    reader = scene.client("reader")
    scene.subscribe(reader, "t")
    server = scene.stage.brokers["a"].server
    disk = Stuck(scene, OSError("no space left"))
    first.publish("t", b"finds the disk full", 1)
    scene.rest()
    assert last(first, PubAck).reason is Reason.QUOTA_EXCEEDED
    flood(scene, writer)
    assert last(writer, PubAck).reason is Reason.QUOTA_EXCEEDED
    assert server.write_ahead.waiting_bytes < MAX_BYTES
    assert len(server.backpressure.held) == 0
    disk.mend()
    scene.rest(5.0)
    assert b"finds the disk full" in reader.taken
    assert scene.publish(writer, "t", b"x") is Reason.SUCCESS


def test_l8_who_waits_for_a_full_disk_with_qos_2_is_disconnected() -> None:
    scene = Scene()
    writer, reader = scene.client("writer"), scene.client("reader")
    scene.subscribe(reader, "t", 2)
    disk = Stuck(scene, OSError("no space left"))
    writer.publish("t", b"finds the disk full", 2)
    scene.rest()
    assert dismissal(writer).reason is Reason.QUOTA_EXCEEDED
    disk.mend()
    scene.rest(5.0)
    scene.move(writer, "a")
    scene.rest(5.0)
    assert writer.settled
    assert reader.taken == [b"finds the disk full"]


def test_l8_who_comes_and_goes_while_nothing_can_be_stored_is_refused_in_the_end() -> None:
    scene = Scene()
    client = scene.client("c")
    scene.subscribe(scene.client("reader"), "t")
    server = scene.stage.brokers["a"].server
    disk = Stuck(scene, OSError("no space left"))
    client.publish("t", b"finds the disk full", 1)
    for _ in range(200):
        client.connect("a")
        scene.rest(0.05)
    assert client.connacks[-1].reason is Reason.QUOTA_EXCEEDED
    assert server.write_ahead.waiting_bytes < 3 * MAX_BYTES
    disk.mend()
    scene.rest(5.0)
    scene.move(client, "a")


def test_l8_a_client_that_leaves_is_held_no_more() -> None:
    scene = Scene()
    writer = scene.client("writer")
    scene.subscribe(scene.client("reader"), "t")
    server = scene.stage.brokers["a"].server
    Stuck(scene, None)
    for number in range(5):
        writer.publish("t", b"%d" % number + bytes(3_000), 1)
    scene.rest()
    assert len(server.backpressure.held) == 1
    writer.drop()
    scene.rest()
    assert len(server.backpressure.held) == 0


def test_l8_who_is_not_read_from_is_not_taken_for_gone() -> None:
    scene = Scene()
    client = SimClient(scene.stage, "c")
    client.keep_alive_s = 2
    client.connect("a")
    scene.rest()
    socket = scene.stage.brokers["a"].server.clients["c"]
    socket.hold(True)
    scene.rest(10.0)
    assert client.ready
    socket.hold(False)
    scene.rest(2.0)
    assert client.ready
    scene.rest(3.0)
    assert not client.ready


def test_l8_a_client_that_reports_more_than_a_slow_disk_takes_is_not_read_from_until_it_has() -> None:
    scene = Scene("ab")
    client = scene.client("c")
    server = scene.stage.brokers["a"].server
    disk = Stuck(scene, None)
    for _ in range(5):
        client.publish("$roam/me", b'{"attributes": {"note": "%s"}}' % (b"x" * 3_000), 0)
    scene.rest()
    assert server.clients["c"]._waits
    disk.mend()
    scene.rest(2.0)
    assert not server.clients["c"]._waits


def test_l8_reports_at_a_broker_that_is_alone_do_not_pile_up_for_a_slow_disk() -> None:
    scene = Scene()
    client = scene.client("c")
    server = scene.stage.brokers["a"].server
    disk = Stuck(scene, None)
    for _ in range(5):
        client.publish("$roam/me", b'{"attributes": {"note": "%s"}}' % (b"x" * 3_000), 0)
    scene.rest(2.0)
    assert not server.clients["c"]._waits
    assert server.write_ahead.waiting_bytes < 5_000
    disk.mend()
