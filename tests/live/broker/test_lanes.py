"""L2: a plain message that comes alone goes where the one before it went, and nobody gets anything else for it."""

import random
from typing import Any

import pytest

from roamcast.mqtt.encoding import encode
from roamcast.mqtt.packets import V5, V311, Publish
from roamcast.server.connection import ClientSocket
from tests.live.broker.machines import Wire
from tests.live.broker.scene import Scene, published
from tests.live.broker.stage import SimClient

TRIALS = 25
STEPS = 60
TOPICS = ("t", "t/u", "street/näher", "x" * 140)
SIZES = (0, 1, 100, 121, 122, 123, 124, 200, 3_000, 20_000)


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


class Counted:
    """Counts what takes a lane."""

    def __init__(self, scene: Scene) -> None:
        server = scene.stage.brokers["a"].server
        self.count = 0
        self._take = server.takes
        server.takes = self

    def __call__(self, client: ClientSocket, data: bytes) -> bool:
        went = self._take(client, data)
        self.count += went
        return went


def test_l2_the_second_message_alone_takes_the_way_of_the_first() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    counted = Counted(scene)
    for number in range(5):
        writer._say(Publish("t", b"%d" % number))
        scene.rest()
    assert reader.taken == [b"0", b"1", b"2", b"3", b"4"]
    assert counted.count == 4


@pytest.mark.parametrize("unlike", ["subscription identifier", "version", "small packets", "away"])
def test_l2_who_would_get_other_bytes_has_no_lane(unlike: str) -> None:
    scene = Scene()
    reader = SimClient(scene.stage, "reader", 0, V311 if unlike == "version" else V5)
    reader.packet_bytes_max = 1_000 if unlike == "small packets" else None
    reader.connect("a")
    scene.rest()
    writer = scene.client("writer")
    scene.subscribe(reader, "t", 1, 7 if unlike == "subscription identifier" else None)
    if unlike == "away":
        socket_of(scene, "reader").pause_writing()
    counted = Counted(scene)
    for number in range(3):
        writer._say(Publish("t", b"%d" % number))
        scene.rest()
    assert counted.count == 0
    if unlike == "away":
        socket_of(scene, "reader").resume_writing()
        scene.rest()
    assert reader.taken == [b"0", b"1", b"2"]


def test_l2_a_message_alone_comes_after_what_waits_for_the_end_of_the_tick() -> None:
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


def test_l2_who_hears_nothing_else_of_a_client_still_knows_that_it_lives() -> None:
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


def test_l2_nothing_more_is_written_to_who_does_not_read() -> None:
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


def test_l2_a_length_in_more_bytes_than_it_needs_is_no_packet_here_either() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    packet = encode(Publish("t", bytes(123)), V5)
    assert packet[1] == 127
    say(scene, writer, packet)
    say(scene, writer, packet[:1] + b"\xff\0" + packet[2:])
    assert reader.taken == [bytes(123)]
    assert not writer.ready


def test_l2_a_message_that_lacks_the_length_of_its_properties_does_not_take_the_lane_of_the_other_version() -> None:
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
def test_l2_a_client_gets_nothing_behind_the_last_word(properties: dict[str, Any]) -> None:
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


def test_l2_half_a_packet_before_it_is_not_overtaken() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    writer._say(Publish("t", b"first"))
    scene.rest()
    long, alone = encode(Publish("t", bytes(300)), V5), encode(Publish("t", b"inside"), V5)
    say(scene, writer, long[:100])
    say(scene, writer, alone)
    assert [each.payload for each in published(reader)] == [b"first"]


def test_l2_a_lane_that_is_there_is_not_laid_again() -> None:
    scene = Scene()
    reader, writer = client_of(scene, "reader", V5), client_of(scene, "writer", V5)
    scene.subscribe(reader, "#", 0)
    lanes = scene.stage.brokers["a"].server.lanes
    both = encode(Publish("t", b"1"), V5) + encode(Publish("$roam/me", b'{"position": [1, 1]}'), V5)
    say(scene, writer, both)
    laid = dict(lanes._of)
    assert len(laid) == 2
    say(scene, writer, both)
    assert all(lanes._of[head] is lane for head, lane in laid.items())
    assert reader.taken == [b"1", b"1"]


def test_l2_who_may_publish_where_takes_no_more_room_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roamcast.server.lanes.PUBLISHERS_MAX", 5)
    scene = Scene()
    reader, *writers = (client_of(scene, name, V5) for name in ("reader", "one", "other"))
    scene.subscribe(reader, "#", 0)
    lanes = scene.stage.brokers["a"].server.lanes
    for number in range(60):
        say(scene, writers[number % 2], encode(Publish(f"t/{number % 10 // 2}", b"%d" % number), V5))
        assert sum(len(each.publishers) for each in lanes._of.values()) <= 5
    assert reader.taken == [b"%d" % number for number in range(60)]


def one_step(scene: Scene, rng: random.Random, clients: list[SimClient]) -> None:
    client = rng.choice(clients)
    topic = rng.choice(TOPICS)
    if not client.ready:
        client.connect("a", clean=True)
        scene.rest()
    chance = rng.random()
    if chance < 0.7:
        packet = Publish(topic, rng.randbytes(rng.choice(SIZES)), retain=rng.random() < 0.05)
        data = bytearray(encode(packet, client.version))
        if rng.random() < 0.05:
            data[rng.randrange(min(len(data), 8))] ^= 1 << rng.randrange(8)
        say(scene, client, bytes(data))
    elif chance < 0.78:
        scene.subscribe(client, rng.choice((*TOPICS, "#", "t/+")), 1, 3 if rng.random() < 0.2 else None)
    elif chance < 0.84:
        scene.unsubscribe(client, rng.choice((*TOPICS, "#", "t/+")))
    elif chance < 0.9:
        client.connect("a", clean=True)
        scene.rest()
    elif chance < 0.95:
        client._say(*(Publish(topic, rng.randbytes(20)) for _ in range(3)))
        scene.rest()
    else:
        socket = socket_of(scene, client.name)
        socket.pause_writing()
        for each in clients:
            each._say(Publish(topic, rng.randbytes(20)))
            scene.rest()
        socket.resume_writing()
        scene.rest()


def played(seed: int, lanes: bool) -> tuple[list[list[bytes]], int]:
    """What each client has taken, and how many messages took a lane."""
    scene, rng = Scene(), random.Random(seed)
    clients = [client_of(scene, f"c{number}", version) for number, version in enumerate((V5, V5, V5, V311, V311))]
    counted = Counted(scene)
    if not lanes:
        scene.stage.brokers["a"].server.takes = lambda *_: False
    for _ in range(STEPS):
        one_step(scene, rng, clients)
    return [each.taken for each in clients], counted.count


@pytest.mark.slow
def test_l2_with_lanes_clients_get_what_they_get_without() -> None:
    taken = 0
    for seed in range(TRIALS):
        with_lanes, count = played(seed, True)
        assert with_lanes == played(seed, False)[0], f"seed {seed}"
        taken += count
    assert taken > TRIALS


def test_l2_who_comes_back_gets_what_follows_though_a_lane_was_laid_before_it_was_let_in() -> None:
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
