"""A broker and its clients without a network: clients write packets and read packets, at a time of the test's."""

from roamcast.mqtt import Connection, Decoder, Limits, SessionLimits, encode
from roamcast.mqtt.packets import V5, AnyPacket, ConnAck, Connect, Disconnect, Packet
from tests.mqtt.memory_broker import MemoryBroker

SECOND_US = 1_000_000


class Stage:
    def __init__(self, limits: Limits | None = None, session_limits: SessionLimits | None = None) -> None:
        self.now_us = 1_000 * SECOND_US
        self.broker = MemoryBroker(limits, session_limits)

    def wait(self, seconds: float) -> None:
        self.now_us += round(seconds * SECOND_US)
        self.broker.tick(self.now_us)

    def peer(self, version: int = V5) -> "Peer":
        return Peer(self, version)

    def client(self, connect: Connect | str) -> "Peer":
        """Connected, and its CONNACK read."""
        packet = Connect(connect) if isinstance(connect, str) else connect
        peer = self.peer(packet.version)
        peer.say(packet)
        answer, *peer.unheard = peer.hear()
        assert isinstance(answer, ConnAck), answer
        peer.connack = answer
        return peer

    def commit(self) -> None:
        self.broker.commit(self.now_us)
        for connection in list(self.broker.connections):
            self.broker.settle(self.now_us, connection)


class Peer:
    """A client that says exactly what it is told to."""

    def __init__(self, stage: Stage, version: int) -> None:
        self.stage = stage
        self.version = version
        self.connection: Connection = stage.broker.open(stage.now_us)
        self.connack = ConnAck()
        self.unheard: list[AnyPacket] = []
        self._decoder = Decoder(version)

    def say(self, *packets: AnyPacket) -> None:
        self.say_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def say_bytes(self, data: bytes) -> None:
        self.connection.receive(self.stage.now_us, data)
        self.stage.broker.settle(self.stage.now_us, self.connection)

    def hear(self) -> list[AnyPacket]:
        self._decoder.feed(self.connection.outgoing())
        heard, self.unheard = self.unheard, []
        while (packet := self._decoder.next_packet()) is not None:
            heard.append(packet)
        return heard

    def ask(self, *packets: AnyPacket) -> Packet:
        """Says something and hears exactly one thing."""
        self.say(*packets)
        heard = self.hear()
        assert len(heard) == 1, heard
        return heard[0]

    def vanish(self) -> None:
        self.connection.lost(self.stage.now_us)
        self.stage.broker.settle(self.stage.now_us, self.connection)

    def leave(self, packet: Disconnect | None = None) -> None:
        self.say(packet or Disconnect())

    @property
    def cut_off(self) -> bool:
        return self.connection.closed
