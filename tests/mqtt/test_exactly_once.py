"""L3, L8: whatever is cut and whenever, QoS 1 arrives at least once, QoS 2 exactly once, both in order.

Two publishers and a subscriber that keep the rules of the standard talk through a broker. Connections are
cut in the middle of packets, acknowledgements wait for commits, and the broker forgets everything that it did not
commit, with all connections, and goes on from its stored sessions. Then the faults stop and everything must arrive.
"""

from collections import deque
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from roamcast.broker.session import Session
from roamcast.broker.transfer import SessionState
from roamcast.broker.window import Delivery
from roamcast.mqtt import (
    Connection,
    Decoder,
    Form,
    Frames,
    Limits,
    encode,
)
from roamcast.mqtt.events import (
    Acknowledged,
    AnyEvent,
    ConnectRequested,
    Disconnected,
    Published,
    Received,
    Released,
)
from roamcast.mqtt.packets import (
    NEVER_S,
    V5,
    V311,
    AnyPacket,
    ConnAck,
    Connect,
    Disconnect,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
)
from tests.effort import seeds
from tests.mqtt.sessions import delivery_of, message_in, new_session, published
from tests.mqtt.unbatched import unbatched

PUBLISHERS = ("one", "two")
MESSAGES = 30
"""Of each publisher."""


class Client:
    """Publishes its messages in order, takes what comes, and keeps its state through all reconnects."""

    def __init__(self, name: str, version: int, outbox: list[Publish]) -> None:
        self.name = name
        self.version = version
        self.outbox = deque(outbox)
        self.in_flight: dict[int, Publish | PubRel] = {}
        self.window = 5
        self.taken: list[bytes] = []
        self.received: dict[int, None] = {}
        self.ready = False
        self._next_id = 0
        self._decoder = Decoder(version)

    def connect(self) -> list[AnyPacket]:
        self.ready = False
        self._decoder = Decoder(self.version)
        expiry_s = NEVER_S if self.version == V311 else 1_000
        receive_max = 3 if self.version == V5 else 0xFFFF
        return [Connect(self.name, self.version, False, 0, session_expiry_s=expiry_s, receive_max=receive_max)]

    def hear(self, data: bytes) -> list[AnyPacket]:
        self._decoder.feed(data)
        said: list[AnyPacket] = []
        while (packet := self._decoder.next_packet()) is not None:
            said += self._on(packet)
        return said + self._publish()

    def _publish(self) -> list[AnyPacket]:
        said: list[AnyPacket] = []
        while self.ready and self.outbox and len(self.in_flight) < self.window:
            self._next_id = self._next_id % 7 + 1
            while self._next_id in self.in_flight:
                self._next_id = self._next_id % 7 + 1
            packet = replace(self.outbox.popleft(), packet_id=self._next_id)
            self.in_flight[self._next_id] = packet
            said.append(packet)
        return said

    def _on(self, packet: AnyPacket) -> list[AnyPacket]:
        match packet:
            case ConnAck():
                self.ready = True
                return [
                    replace(each, dup=True) if isinstance(each, Publish) else each for each in self.in_flight.values()
                ]
            case PubAck() | PubComp():
                self.in_flight.pop(packet.packet_id, None)
            case PubRec():
                self.in_flight.pop(packet.packet_id, None)
                self.in_flight[packet.packet_id] = PubRel(packet.packet_id)
                return [PubRel(packet.packet_id)]
            case Publish(qos=1):
                self.taken.append(packet.payload)
                return [PubAck(packet.packet_id)]
            case Publish(qos=2):
                if packet.packet_id not in self.received:
                    self.received[packet.packet_id] = None
                    self.taken.append(packet.payload)
                return [PubRec(packet.packet_id)]
            case PubRel():
                self.received.pop(packet.packet_id, None)
                return [PubComp(packet.packet_id)]
            case Disconnect():
                raise AssertionError(f"{self.name} was sent away: {packet}")
            case _:
                raise AssertionError(f"{self.name} heard {packet}")
        return []


class Store:
    """What survives: sessions and their deliveries, as bytes."""

    def __init__(self) -> None:
        self.sessions: dict[str, bytes] = {}

    def put(self, session: Session) -> None:
        self.sessions[session.client] = msgspec.msgpack.encode((session.state(), session.window.after(0)))

    def restored(self, name: str) -> Session:
        session = new_session(name)
        if name in self.sessions:
            stored = msgspec.msgpack.decode(self.sessions[name], type=tuple[SessionState, list[tuple[int, Delivery]]])
            for number, delivery in stored[1]:
                session.window.keep(number, delivery)
            session.window.take_over(stored[0].window)
            session.take_over(stored[0])
        session.window.sent_through = session.window.next_number - 1
        return session


class Durable:
    """A broker that passes everything from the publisher to the subscriber, and promises nothing it has not stored.

    A careless one acknowledges before it stores, or sends what it has not stored, to show that the test can tell.
    """

    def __init__(self, store: Store, careless: str) -> None:
        self.store = store
        self.careless = careless
        self.frames = Frames(message_in)
        self.sessions = {name: store.restored(name) for name in (*PUBLISHERS, "subscriber")}
        self.connections: dict[str, Connection] = {}
        self.promises: list[tuple[str, AnyEvent]] = []
        self.deliveries = 0

    def open(self, now_us: int) -> Connection:
        return Connection(now_us, Limits(receive_max=5), self.frames)

    def settle(self, now_us: int, connection: Connection) -> None:
        while events := connection.events():
            for event in unbatched(events):
                self._on(now_us, connection, event)

    def _on(self, now_us: int, connection: Connection, event: AnyEvent) -> None:
        session = connection.session
        match event:
            case ConnectRequested(connect):
                self._connect(now_us, connection, connect.client_id)
            case Published(message, packet_id) if session is not None:
                if message.qos == 1 or published(session, packet_id):
                    self.deliveries += 1
                    window = self.sessions["subscriber"].window
                    number = window.add(delivery_of(message, Form(message.qos), self.deliveries))
                    if self.careless == "sends" and "subscriber" in self.connections:
                        self.connections["subscriber"].deliver(now_us, number)
                self._promise(now_us, session.client, event)
            case Received(number) if session is not None:
                session.window.receive(number)
                self._promise(now_us, session.client, event)
            case Released(packet_id) if session is not None:
                session.received.pop(packet_id, None)
                self._promise(now_us, session.client, event)
            case Acknowledged(numbers) if session is not None:
                for number in numbers:
                    session.window.finish(number)
            case Disconnected():
                if session is not None and self.connections.get(session.client) is connection:
                    session.window.sent_through = connection.sent_through
                    del self.connections[session.client]
            case _:
                raise AssertionError(event)

    def _connect(self, now_us: int, connection: Connection, name: str) -> None:
        """As a broker that stores the arrival: whatever was said before is stored then."""
        self.commit(now_us)
        window = self.sessions[name].window
        connection.accept(now_us, self.sessions[name], True, window.next_number - 1)
        self.connections[name] = connection

    def _promise(self, now_us: int, client: str, event: AnyEvent) -> None:
        if self.careless == "acknowledges":
            self._keep(now_us, client, event)
        else:
            self.promises.append((client, event))

    def commit(self, now_us: int) -> None:
        for session in self.sessions.values():
            self.store.put(session)
        promises, self.promises = self.promises, []
        for client, event in promises:
            self._keep(now_us, client, event)
        receiver = self.connections.get("subscriber")
        if receiver is not None:
            receiver.deliver(now_us, self.sessions["subscriber"].window.next_number - 1)

    def _keep(self, now_us: int, client: str, event: AnyEvent) -> None:
        connection = self.connections.get(client)
        if connection is None:
            return
        match event:
            case Published(_, packet_id):
                connection.acknowledge(now_us, packet_id)
            case Received(number):
                connection.release(now_us, number)
            case Released(packet_id):
                connection.complete(now_us, packet_id)


class Trial:
    """One run from one seed."""

    def __init__(self, seed: int, qos: int, version: int, careless: str = "") -> None:
        self.rng = Random(seed)
        self.careless = careless
        self.publishers = [
            Client(
                name, version, [Publish(name, b"%s %d" % (name.encode(), number), qos) for number in range(MESSAGES)]
            )
            for name in PUBLISHERS
        ]
        self.subscriber = Client("subscriber", version, [])
        self.clients = [*self.publishers, self.subscriber]
        self.store = Store()
        self.broker = Durable(self.store, careless)
        self.broker.commit(0)
        self.lines: dict[str, Connection] = {}
        self.to_server: dict[str, bytes] = {}
        self.to_client: dict[str, bytes] = {}
        self.now_us = 0

    def run(self) -> dict[str, list[int]]:
        """The numbers that arrived from each publisher, in the order of their arrival."""
        for _ in range(400):
            self._step(faults=True)
        for _ in range(2_000):
            self._step(faults=False)
            if not self._unfinished():
                break
        assert not self._unfinished(), "the faults have stopped and it does not end"
        arrived: dict[str, list[int]] = {name: [] for name in PUBLISHERS}
        for payload in self.subscriber.taken:
            name, number = payload.decode().split()
            arrived[name].append(int(number))
        return arrived

    def _unfinished(self) -> bool:
        window = self.broker.sessions["subscriber"].window
        publishing = any(publisher.outbox or publisher.in_flight for publisher in self.publishers)
        return publishing or len(window) > 0

    def _step(self, faults: bool) -> None:
        self.now_us += 1_000
        chance = self.rng.random() if faults else 1.0
        if chance < 0.03:
            self._cut(self.rng.choice(self.clients))
        elif chance < 0.04:
            self._crash()
        elif chance < (0.1 if self.careless == "sends" else 0.4) or not faults:
            # The rarer, the more a careless broker has sent when it crashes.
            self.broker.commit(self.now_us)
        client = self.rng.choice(self.clients)
        if client.name not in self.lines:
            self.lines[client.name] = self.broker.open(self.now_us)
            self.to_server[client.name] = b"".join(encode(each, client.version) for each in client.connect())
            self.to_client[client.name] = b""
        self._carry(client)

    def _carry(self, client: Client) -> None:
        """Some bytes each way, rarely whole packets."""
        name, line = client.name, self.lines[client.name]
        data = self.to_server[name]
        count = self.rng.randint(0, len(data))
        line.receive(self.now_us, data[:count])
        self.to_server[name] = data[count:]
        self.broker.settle(self.now_us, line)
        data = self.to_client[name] + line.outgoing()
        count = self.rng.randint(0, len(data))
        said = client.hear(data[:count])
        self.to_client[name] = data[count:]
        self.to_server[name] += b"".join(encode(each, client.version) for each in said)

    def _cut(self, client: Client) -> None:
        line = self.lines.pop(client.name, None)
        if line is not None:
            line.lost(self.now_us)
            self.broker.settle(self.now_us, line)

    def _crash(self) -> None:
        self.lines.clear()
        self.broker = Durable(self.store, self.careless)


EVERYTHING = {name: list(range(MESSAGES)) for name in PUBLISHERS}


@pytest.mark.parametrize("version", [V5, V311])
@seeds(40, quick=4)
def test_qos_2_arrives_exactly_once_and_in_order(seed: int, version: int) -> None:
    assert Trial(seed, 2, version).run() == EVERYTHING, f"seed {seed}"


@seeds(25, quick=4)
def test_qos_1_arrives_at_least_once_and_in_order_of_the_first_time(seed: int) -> None:
    arrived = Trial(seed, 1, V5).run()
    assert {name: list(dict.fromkeys(numbers)) for name, numbers in arrived.items()} == EVERYTHING, f"seed {seed}"


def test_qos_1_in_the_same_trials_does_arrive_twice() -> None:
    assert any(Trial(seed, 1, V5).run() != EVERYTHING for seed in range(5))


@pytest.mark.parametrize("carelessness", ["acknowledges", "sends"])
def test_a_broker_that_does_not_wait_for_its_store_is_found_out(carelessness: str) -> None:
    def ends_well(seed: int) -> bool:
        try:
            return Trial(seed, 2, V5, carelessness).run() == EVERYTHING
        except AssertionError:
            return False

    assert not all(ends_well(seed) for seed in range(60))
