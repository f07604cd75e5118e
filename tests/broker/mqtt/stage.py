"""Brokers, links and MQTT clients in one thread, on machines of the test's (`machines.py`): everything real but the
sockets.

Time passes from event to event, and a seed is a whole run. A broker that is killed loses what is not stored, with all
connections and links, and starts again from its log.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from msgspec.structs import replace

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import AnyGiven, Restarted, decode_batch
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.overlay.mqtt.core import OverlayCore, granted
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.params import BrokerParams
from roamcast.model.places import MovementGraph
from roamcast.mqtt import Decoder, encode
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.packets import (
    V5,
    AnyPacket,
    ConnAck,
    Connect,
    Disconnect,
    Pairs,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Will,
    Wish,
)
from roamcast.mqtt.reasons import Reason
from roamcast.node.observer import Observer
from roamcast.server.connection import ClientSocket
from roamcast.server.http.metrics import Metrics
from roamcast.server.monitor import Monitor
from roamcast.server.neighbours import LinkDesk
from roamcast.server.server import BrokerServer
from roamcast.server.tracking import Trackers, TrackingParams
from roamcast.server.write_ahead import Due
from tests.broker.mqtt.machines import Clockwork, Disk, Head, SlowSnapshotter, Wire


class Remarks(Monitor):
    def __init__(self, name: str) -> None:
        super().__init__(name, Metrics(), "error")
        self.said: list[tuple[str, str]] = []

    def given(self, given: AnyGiven) -> None:
        """Links come and go all the time here: that is not for the log."""

    def remark(self, what: str, detail: str) -> None:
        assert what != "internal_error", detail
        self.said.append((what, detail))


class SimBroker:
    """A broker process: it can be killed and started again on its disk."""

    def __init__(self, stage: "Stage", name: str) -> None:
        self.stage = stage
        self.name = name
        self.disk = Disk()
        self.monitor = Remarks(name)
        self.observer: Observer | None = None
        self.starts = 0
        self.alive = False
        self.links: dict[str, int] = {}
        """By neighbour, which link this is: frames of earlier ones are lost."""
        self.unread: dict[str, list[Callable[[], None]]] = {}
        """By neighbour whose link is not read from, what has come."""
        self.behind_us = 0
        """How far its clock is behind."""
        self.start()

    def start(self) -> None:
        self.starts += 1
        self.alive = True
        stage = self.stage
        limits, store = Limits(), Head(stage, self.disk) if stage.overlay is None else None
        if stage.overlay is not None:
            core: Core = OverlayCore(self.name, stage.loop.now_us, stage.overlay, stage.core_params)
            limits = granted(limits)
        elif self.disk.snapshot is not None:
            core = Core.restored(self.disk.snapshot)
        else:
            core = Core(self.name, 1, stage.broker_params, stage.core_params, None, stage.graph)
        core.border.read_aside = self.disk.segments.__getitem__
        for batch in self.disk.batches:
            for entry in decode_batch(batch):
                core.handle(entry.now_us, entry.given)
        self.head = store or Head(stage, self.disk)
        self.server = BrokerServer(
            core,
            self.monitor,
            limits,
            store=store,
            clock_us=lambda: stage.loop.now_us - self.behind_us,
            loop=stage.loop,
            snapshotter=SlowSnapshotter(stage, self.head, core),
            due=stage.due,
            stopwatch_s=lambda: 0.0,
            cpu_s=lambda: 0.0,
            trackers=Trackers(core.space, stage.tracking) if stage.tracking is not None else None,
        )
        self.desk = LinkDesk(self.server, self)
        if self.observer is not None:
            core.border.observation.observers.add(self.observer)
        self.server.give(Restarted())

    def observe(self, observer: Observer) -> None:
        """From now on, and in its next lives."""
        self.observer = observer
        self.server.core.border.observation.observers.add(observer)

    def kill(self) -> None:
        self.alive = False
        self.head.dead = True
        # What is still on its way to it is heard by nobody, and must not be passed on over links of its next life.
        self.desk.links = None
        for socket in list(self.server.sockets):
            wire = socket.transport
            if isinstance(wire, Wire):
                wire.open = False
                wire.closing = True
                self.stage.loop.after(self.stage.rng.randint(100, 5_000), wire.ended)
        self.server.closing = True
        for peer in list(self.links):
            self.stage.unlink(self.name, peer)

    # Links, as the server sees them.

    def send(self, peer: str, kind: int, data: bytes) -> None:
        self.stage.carry(self.name, peer, kind, data)

    def cut(self, peer: str) -> None:
        self.stage.unlink(self.name, peer)

    def wait(self, peer: str, waits: bool) -> None:
        if waits:
            self.unread[peer] = []
        else:
            for arrive in self.unread.pop(peer, ()):
                self.stage.loop.after(0, arrive)


class Stage:
    def __init__(
        self,
        seed: int,
        edges: tuple[tuple[str, str], ...],
        broker_params: BrokerParams | None = None,
        core_params: CoreParams | None = None,
        graph: MovementGraph | None = None,
        tracking: TrackingParams | None = None,
        due: Due | None = None,
        overlay: OverlayParams | None = None,
    ) -> None:
        """`due` says when brokers take snapshots by themselves."""
        self.rng = Random(seed)
        self.tracking = tracking
        self.due = due
        self.overlay = overlay
        self.loop = Clockwork()
        self.broker_params = broker_params or BrokerParams()
        self.core_params = core_params or CoreParams()
        self.graph = graph
        self.edges = edges
        self.brokers = {name: SimBroker(self, name) for name in dict.fromkeys(sum(edges, ())) or ("a",)}
        self.up: dict[frozenset[str], int] = {}
        self._links = 0
        self._last_us: dict[tuple[str, str], int] = {}
        for one, other in edges:
            self.link(one, other)

    def run(self, seconds: float) -> None:
        self.loop.run(self.loop.now_us + round(seconds * 1e6))

    # Links between brokers.

    def link(self, one: str, other: str) -> None:
        a, b = self.brokers[one], self.brokers[other]
        if frozenset((one, other)) in self.up or not (a.alive and b.alive):
            return
        # As links do: that the last one is down is told before there is another.
        self._down(a, other)
        self._down(b, one)
        self._links += 1
        self.up[frozenset((one, other))] = self._links
        a.links[other] = b.links[one] = self._links
        a.desk.up(other)
        b.desk.up(one)

    def unlink(self, one: str, other: str) -> None:
        if self.up.pop(frozenset((one, other)), None) is None:
            return
        for name, peer in ((one, other), (other, one)):
            broker = self.brokers[name]
            broker.links.pop(peer, None)
            broker.unread.pop(peer, None)
            if broker.alive:
                self.loop.after(0, partial(self._down, broker, peer))

    def _down(self, broker: SimBroker, peer: str) -> None:
        if broker.alive and peer not in broker.links and peer in broker.desk.up_since:
            broker.desk.down(peer)

    def carry(self, sender: str, to: str, kind: int, data: bytes) -> None:
        number = self.up.get(frozenset((sender, to)))
        if number is None:
            return
        last_us = max(self._last_us.get((sender, to), 0) + 1, self.loop.now_us + self.rng.randint(200, 20_000))
        self._last_us[sender, to] = last_us
        self.loop.after(last_us - self.loop.now_us, lambda: self._arrive(number, sender, to, kind, data))

    def _arrive(self, number: int, sender: str, to: str, kind: int, data: bytes) -> None:
        broker = self.brokers[to]
        if broker.alive and broker.links.get(sender) == number:
            if sender in broker.unread:
                broker.unread[sender].append(lambda: self._arrive(number, sender, to, kind, data))
            else:
                broker.desk.frame(sender, kind, data)

    def heal(self) -> None:
        for broker in self.brokers.values():
            if not broker.alive:
                broker.start()
        for one, other in self.edges:
            self.link(one, other)


class SimClient:
    """An MQTT client that keeps the rules: it sends again what was not acknowledged, and takes QoS 2 once."""

    def __init__(self, stage: Stage, name: str, expiry_s: int = 100_000, version: int = V5) -> None:
        self.stage = stage
        self.name = name
        self.version = version
        self.expiry_s = expiry_s
        self.connect_properties: Pairs = ()
        self.keep_alive_s = 0
        self.packet_bytes_max: int | None = None
        self.outbox: deque[Publish] = deque()
        self.in_flight: dict[int, Publish | PubRel] = {}
        self.taken: list[bytes] = []
        self.heard: list[AnyPacket] = []
        """Every packet, in order."""
        self.copies: list[bytes] = []
        """What was delivered again with QoS 1."""
        self.received: dict[int, None] = {}
        self.wanted: dict[str, int] = {}
        """Its subscriptions, by filter."""
        self.asked: dict[int, Subscribe] = {}
        self.ready = False
        self.connacks: list[ConnAck] = []
        self.broker: str | None = None
        self._next_id = 0
        self._up: Wire | None = None
        self._connection = 0
        self._decoder = Decoder(version)

    @property
    def settled(self) -> bool:
        return self.ready and not (self.outbox or self.in_flight or self.asked)

    def connect(self, broker: str, clean: bool = False, will: Will | None = None) -> None:
        """Leaves wherever it is without a word: the old broker may or may not notice."""
        self.drop(noticed=self.stage.rng.random() < 0.5)
        target = self.stage.brokers[broker]
        if not target.alive:
            return
        self._connection += 1
        connection = self._connection
        self.broker, self.ready = broker, False
        self._decoder = Decoder(self.version)
        socket = ClientSocket(target.server)
        down = Wire(self.stage, lambda data: self._hear(connection, data), lambda: self._ended(connection, socket))
        self._up = Wire(self.stage, socket.data_received, lambda: self._gone(socket))
        socket.connection_made(down)  # type: ignore[arg-type]
        if clean:
            self.in_flight.clear()
            self.received.clear()
        packet = Connect(
            self.name,
            self.version,
            clean,
            self.keep_alive_s,
            session_expiry_s=self.expiry_s,
            receive_max=5,
            will=will,
        )
        packet = replace(packet, packet_bytes_max=self.packet_bytes_max)
        self._say(replace(packet, user_properties=self.connect_properties))

    def drop(self, noticed: bool = True) -> None:
        wire, self._up, self.ready = self._up, None, False
        self._connection += 1
        if wire is not None and noticed:
            wire.close()
        elif wire is not None:
            wire.open = False

    def _gone(self, socket: ClientSocket) -> None:
        if socket.transport is not None:
            socket.connection_lost(None)

    def _ended(self, connection: int, socket: ClientSocket) -> None:
        self._gone(socket)
        if connection == self._connection:
            self._up, self.ready = None, False

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool = False,
        expiry_s: int | None = None,
        **properties: str,
    ) -> None:
        packet = Publish(topic, payload, qos, retain, message_expiry_s=expiry_s)
        self.outbox.append(replace(packet, user_properties=tuple(properties.items())))
        self._go_on()

    def subscribe(self, pattern: str, qos: int, subscription_id: int | None = None, **properties: str) -> None:
        packet = Subscribe(
            self._free_id(), (Wish(pattern, qos),), subscription_id, user_properties=tuple(properties.items())
        )
        self.asked[packet.packet_id] = packet
        self._say(packet)

    def _say(self, *packets: AnyPacket) -> None:
        if self._up is not None and packets:
            self._up.write(b"".join(encode(packet, self.version) for packet in packets))

    def _go_on(self) -> None:
        while self.ready and self.outbox and len(self.in_flight) < 5:
            packet = replace(self.outbox.popleft(), packet_id=self._free_id())
            if packet.qos:
                self.in_flight[packet.packet_id] = packet
            self._say(packet)

    def _free_id(self) -> int:
        self._next_id = self._next_id % 50 + 1
        while self._next_id in self.in_flight or self._next_id in self.asked:
            self._next_id = self._next_id % 50 + 1
        return self._next_id

    def _hear(self, connection: int, data: bytes) -> None:
        if connection != self._connection:
            return
        self._decoder.feed(data)
        while (packet := self._decoder.next_packet()) is not None:
            self.heard.append(packet)
            self._say(*self._on(packet))
        self._go_on()

    def _on(self, packet: AnyPacket) -> list[AnyPacket]:
        match packet:
            case ConnAck():
                self.connacks.append(packet)
                if packet.reason is not Reason.SUCCESS:
                    return []
                self.ready = True
                again = [
                    replace(each, dup=True) if isinstance(each, Publish) else each for each in self.in_flight.values()
                ]
                return [*again, *self.asked.values()]
            case SubAck():
                self.asked.pop(packet.packet_id, None)
            case UnsubAck() | PingResp():
                pass
            case PubAck() | PubComp():
                self.in_flight.pop(packet.packet_id, None)
            case PubRec():
                self.in_flight.pop(packet.packet_id, None)
                self.in_flight[packet.packet_id] = PubRel(packet.packet_id)
                return [PubRel(packet.packet_id)]
            case Publish(qos=0):
                self.taken.append(packet.payload)
            case Publish(qos=1):
                (self.copies if packet.payload in self.taken else self.taken).append(packet.payload)
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
                self.drop()
            case _:
                raise AssertionError(f"{self.name} heard {packet}")
        return []
