"""L2: messages that come alone, in pieces or damaged, and readers that do not read or have just left."""

from typing import Any

import pytest

from roamcast.mqtt.encoding import encode
from roamcast.mqtt.packets import V5, V311, Publish
from roamcast.server.connection import ClientSocket
from tests.broker.mqtt.machines import Wire
from tests.broker.mqtt.scene import Scene, published
from tests.broker.mqtt.stage import SimClient


def client_of(scene: Scene, name: str, version: int) -> SimClient:
    client = SimClient(scene.stage, name, 0, version)
    client.connect("a", clean=True)
    scene.rest()
    assert client.ready
    return client


def socket_of(scene: Scene, name: str) -> ClientSocket:
    return scene.stage.brokers["a"].server.clients[name]


def say(scene: Scene, client: SimClient, data: bytes) -> None:
    if client._up is not None:
        client._up.write(data)
    scene.rest()


def test_l2_segments_of_one_tick_are_delivered_in_order() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    writer._say(Publish("t", b"first"))
    scene.rest()
    data = [encode(each, V5) for each in (Publish("t", b"1"), Publish("t", b"2"), Publish("t", b"3"))]
    socket = socket_of(scene, "writer")
    socket.data_received(data[0] + data[1])
    socket.data_received(data[2])
    scene.rest()
    assert reader.taken == [b"first", b"1", b"2", b"3"]


def test_l2_a_client_that_only_publishes_is_alive() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), SimClient(scene.stage, "writer", 0)
    writer.keep_alive_s = 2
    writer.connect("a")
    scene.rest()
    scene.subscribe(reader, "t")
    for _ in range(10):
        writer._say(Publish("t", b"x"))
        scene.rest(1.0)
    assert writer.ready


def test_l2_nothing_is_written_to_a_client_that_does_not_read() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    writer._say(Publish("t", b"1"))
    scene.rest()
    socket_of(scene, "reader").pause_writing()
    writer._say(Publish("t", b"2"))
    scene.rest()
    assert reader.taken == [b"1"]
    socket_of(scene, "reader").resume_writing()
    scene.rest()
    assert reader.taken == [b"1", b"2"]


def test_l2_an_overlong_remaining_length_is_malformed() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    packet = encode(Publish("t", bytes(123)), V5)
    assert packet[1] == 127
    say(scene, writer, packet)
    say(scene, writer, packet[:1] + b"\xff\0" + packet[2:])
    assert reader.taken == [bytes(123)]
    assert not writer.ready


def test_l2_a_packet_of_the_other_version_is_malformed() -> None:
    """In MQTT 5 it lacks the length of its properties."""
    scene = Scene()
    reader, old = client_of(scene, "reader", V311), client_of(scene, "old", V311)
    writer = client_of(scene, "writer", V5)
    scene.subscribe(reader, "t/u", 0)
    packet = encode(Publish("t/u", b""), V311)
    say(scene, old, packet)
    say(scene, writer, packet)
    assert reader.taken == [b""]
    assert not writer.ready


@pytest.mark.parametrize("properties", [{}, {"filter": "near(position, 60)"}])
def test_l2_a_client_gets_nothing_behind_disconnect(properties: dict[str, Any]) -> None:
    scene = Scene()
    reader, writer = client_of(scene, "reader", V5), client_of(scene, "writer", V5)
    scene.subscribe(reader, "t", 0, **properties)
    scene.report(reader, position=[0, 0])
    packet = encode(Publish("t", b'{"position": [1, 1]}'), V5)
    say(scene, writer, packet)
    assert len(reader.taken) == 1
    wire, written = socket_of(scene, "reader").transport, list[bytes]()
    assert isinstance(wire, Wire)
    wire.receive = written.append
    no_packet = b"\0\0"
    say(scene, reader, packet + no_packet)
    assert b"".join(written)[:1] == b"\xe0"
    assert packet not in b"".join(written)


def test_l2_a_packet_inside_an_unfinished_one_is_payload() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    writer._say(Publish("t", b"first"))
    scene.rest()
    long, alone = encode(Publish("t", bytes(300)), V5), encode(Publish("t", b"inside"), V5)
    say(scene, writer, long[:100])
    say(scene, writer, alone)
    assert [each.payload for each in published(reader)] == [b"first"]


def test_l2_a_client_that_comes_back_gets_what_follows_its_connack() -> None:
    scene = Scene()
    reader, other, writer = scene.client("reader"), scene.client("other", expiry_s=0), scene.client("writer")
    for each in (reader, other):
        scene.subscribe(each, "t", 0)
    reader.drop()
    scene.rest()
    reader.connect("a")
    server, alone = scene.stage.brokers["a"].server, encode(Publish("t", b"meanwhile"), V5)
    while "reader" not in server.arriving:
        scene.rest(0.000_1)
    socket_of(scene, "writer").data_received(alone)
    assert "reader" in server.arriving
    scene.rest()
    assert reader.ready
    writer._say(Publish("t", b"after"))
    scene.rest()
    assert reader.taken == [b"after"]
    assert other.taken == [b"meanwhile", b"after"]
