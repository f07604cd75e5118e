"""L2: an unmodified paho client over a loopback socket."""

import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roamcast.mqtt import Limits, Reason
from tests.mqtt.memory_broker import MemoryBroker
from tests.mqtt.server import Server, serving

mqtt = pytest.importorskip("paho.mqtt.client")
from paho.mqtt.packettypes import PacketTypes  # noqa: E402
from paho.mqtt.properties import Properties  # noqa: E402
from paho.mqtt.subscribeoptions import SubscribeOptions  # noqa: E402

pytestmark = pytest.mark.timeout(60)
PATIENCE_S = 20.0


class Paho:
    """A client whose callbacks end up in queues, waited for with a bound."""

    def __init__(self, server: Server, name: str, version: int, clean: bool = True, **properties: Any) -> None:
        self.version = version
        clean_session = clean if version == mqtt.MQTTv311 else None
        api = mqtt.CallbackAPIVersion.VERSION2
        self.client = mqtt.Client(api, name, clean_session, protocol=version)
        self.messages: queue.Queue[Any] = queue.Queue()
        self.connected: queue.Queue[Any] = queue.Queue()
        self.disconnected: queue.Queue[Any] = queue.Queue()
        self.acknowledged: queue.Queue[Any] = queue.Queue()
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_connect = lambda _c, _d, flags, reason, props: self.connected.put((flags, reason, props))
        self.client.on_disconnect = lambda _c, _d, _flags, reason, props: self.disconnected.put((reason, props))
        acknowledged = lambda _c, _d, mid, reasons, _p: self.acknowledged.put((mid, reasons))  # noqa: E731
        self.client.on_subscribe = self.client.on_unsubscribe = self.client.on_publish = acknowledged
        self.server = server
        self.clean = clean
        self.properties = properties

    def connect(self, wait: bool = True) -> Any:
        if self.version == mqtt.MQTTv5:
            told = properties(PacketTypes.CONNECT, **self.properties)
            self.client.connect("127.0.0.1", self.server.port, 30, clean_start=self.clean, properties=told)
        else:
            self.client.connect("127.0.0.1", self.server.port, 30)
        self.client.loop_start()
        return self.connected.get(timeout=PATIENCE_S) if wait else None

    def subscribe(self, *arguments: Any, **options: Any) -> list[int]:
        _, mid = self.client.subscribe(*arguments, **options)
        told, reasons = self.acknowledged.get(timeout=PATIENCE_S)
        assert told == mid
        return [each.value for each in reasons]

    def publish(self, topic: str, payload: bytes, qos: int = 0, **options: Any) -> None:
        self.client.publish(topic, payload, qos, **options)
        self.acknowledged.get(timeout=PATIENCE_S)

    def take(self, count: int) -> list[Any]:
        return [self.messages.get(timeout=PATIENCE_S) for _ in range(count)]

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def vanish(self) -> None:
        """Without a word: the socket is closed under it."""
        self.client.loop_stop()
        socket = self.client.socket()
        if socket is not None:
            socket.close()


def properties(kind: int, **fields: Any) -> Any:
    made = Properties(kind)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def eventually(check: Callable[[], bool]) -> None:
    """Until it holds, at most as long as anybody has patience."""
    until = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < until


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(MemoryBroker(Limits(receive_max=20))) as running:
        yield running


@pytest.fixture
def make(server: Server) -> Iterator[Callable[..., Paho]]:
    made: list[Paho] = []

    def start(name: str, version: int = mqtt.MQTTv5, clean: bool = True, **fields: Any) -> Paho:
        made.append(Paho(server, name, version, clean, **fields))
        return made[-1]

    yield start
    for each in made:
        each.close()


Make = Callable[..., Paho]


@pytest.mark.parametrize("version", [mqtt.MQTTv5, mqtt.MQTTv311])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_every_quality_arrive_in_order(make: Make, version: int, qos: int) -> None:
    reader, writer = make("reader", version), make("writer", version)
    reader.connect()
    writer.connect()
    assert reader.subscribe("t/#", qos) == [qos]
    for number in range(50):
        writer.client.publish("t/x", b"%d" % number, qos)
    assert [int(each.payload) for each in reader.take(50)] == list(range(50))


def test_properties_pass_through(make: Make) -> None:
    reader, writer = make("reader"), make("writer")
    reader.connect()
    writer.connect()
    reader.client.subscribe(
        "t", options=SubscribeOptions(1), properties=properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=300)
    )
    reader.acknowledged.get(timeout=PATIENCE_S)
    said = properties(
        PacketTypes.PUBLISH,
        UserProperty=[("relevance", "a"), ("relevance", "b")],
        MessageExpiryInterval=60,
        ContentType="text/plain",
        ResponseTopic="answer",
        CorrelationData=b"\x00\x01",
        PayloadFormatIndicator=1,
    )
    writer.publish("t", b"x", 1, properties=said)
    (message,) = reader.take(1)
    heard = message.properties
    assert heard.UserProperty == [("relevance", "a"), ("relevance", "b")]
    assert heard.SubscriptionIdentifier == [300]
    assert (heard.ContentType, heard.ResponseTopic, heard.CorrelationData) == ("text/plain", "answer", b"\x00\x01")
    assert 59 <= heard.MessageExpiryInterval <= 60


def test_a_retained_message_meets_a_late_subscriber(make: Make) -> None:
    writer = make("writer")
    writer.connect()
    writer.publish("t", b"kept", 1, retain=True)
    reader = make("reader")
    reader.connect()
    reader.subscribe("t", 1)
    (message,) = reader.take(1)
    assert (message.payload, message.retain) == (b"kept", True)


@pytest.mark.parametrize("version", [mqtt.MQTTv5, mqtt.MQTTv311])
def test_a_session_waits_for_its_client(make: Make, server: Server, version: int) -> None:
    fields = {"SessionExpiryInterval": 100} if version == mqtt.MQTTv5 else {}
    reader = make("reader", version, False, **fields)
    reader.connect()
    reader.subscribe("t", 2)
    reader.close()
    eventually(lambda: server.call(lambda broker, _: "reader" not in broker.attached))
    writer = make("writer")
    writer.connect()
    for number in range(30):
        writer.publish("t", b"%d" % number, 2)
    again = make("reader", version, False, **fields)
    flags, _, _ = again.connect()
    assert flags.session_present
    assert [int(each.payload) for each in again.take(30)] == list(range(30))


def test_a_will_is_published_when_the_socket_dies(make: Make) -> None:
    reader, other = make("reader"), make("other")
    reader.connect()
    reader.subscribe("will", 1)
    other.client.will_set("will", b"gone", 1)
    other.connect()
    other.vanish()
    (message,) = reader.take(1)
    assert message.payload == b"gone"


def test_a_second_connection_takes_over(make: Make) -> None:
    first, second = make("same"), make("same")
    first.client.reconnect_delay_set(60, 60)
    first.connect()
    second.connect()
    reason, _ = first.disconnected.get(timeout=PATIENCE_S)
    assert reason.value == Reason.SESSION_TAKEN_OVER


def test_a_client_is_told_where_to_go(make: Make, server: Server) -> None:
    peer = make("c")
    peer.client.reconnect_delay_set(60, 60)
    peer.connect()
    server.call(
        lambda broker, now_us: broker.attached["c"].disconnect(
            now_us, Reason.USE_ANOTHER_SERVER, server_reference="b2:1883"
        )
    )
    reason, told = peer.disconnected.get(timeout=PATIENCE_S)
    assert reason.value == Reason.USE_ANOTHER_SERVER
    assert told.ServerReference == "b2:1883"


@pytest.mark.parametrize("version", [mqtt.MQTTv5, mqtt.MQTTv311])
def test_a_wrong_password_is_refused(make: Make, server: Server, version: int) -> None:
    server.broker.passwords = {"u": b"right"}
    peer = make("c", version)
    peer.client.reconnect_delay_set(60, 60)
    peer.client.username_pw_set("u", "wrong")
    _, reason, _ = peer.connect()
    assert reason.is_failure
    right = make("d", version)
    right.client.username_pw_set("u", "right")
    _, reason, _ = right.connect()
    assert not reason.is_failure


def test_an_assigned_name_limits_and_refused_subscriptions_are_told(make: Make, server: Server) -> None:
    server.broker.forbidden = ("secret",)
    peer = make("")
    _, _, told = peer.connect()
    assert told.AssignedClientIdentifier == "made-up-1"
    assert told.ReceiveMaximum == 20
    assert peer.subscribe([("secret/x", 1), ("open", 1), ("$roam/a/open", 0)]) == [Reason.NOT_AUTHORIZED, 1, 0]


def test_a_shared_subscription_is_shared(make: Make) -> None:
    readers = [make(name) for name in ("one", "two")]
    for reader in readers:
        reader.connect()
        reader.subscribe("$share/g/t", 1)
    writer = make("writer")
    writer.connect()
    for number in range(10):
        writer.publish("t", b"%d" % number, 1)
    assert sorted(int(each.payload) for reader in readers for each in reader.take(5)) == list(range(10))


def test_no_local_and_retain_as_published_are_kept(make: Make) -> None:
    peer, other = make("c"), make("d")
    peer.connect()
    other.connect()
    peer.subscribe("t", options=SubscribeOptions(1, noLocal=True, retainAsPublished=True))
    peer.publish("t", b"mine", 1)
    other.publish("t", b"theirs", 1, retain=True)
    (message,) = peer.take(1)
    assert (message.payload, message.retain) == (b"theirs", True)
