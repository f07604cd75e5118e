"""Everything that makes sense of a stranger's bytes, in this process: millions of inputs in minutes.

A target takes spoilt bytes and answers how many inputs these were. What it may raise for bad bytes it catches itself;
any other exception is a failure.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Protocol

from roamcast.adhoc.context.node import ContextNode
from roamcast.adhoc.context.params import ContextParams
from roamcast.broker.frames import messages_in
from roamcast.model.context import Context
from roamcast.model.space import Plane
from roamcast.model.values import Point, Velocity
from roamcast.mqtt import Decoder
from roamcast.mqtt.packets import V5, V311, Connect
from roamcast.mqtt.reasons import BadPacket
from roamcast.multicast.drops import Dropped
from roamcast.node.boundary import CancelTimer, Message, Received, SetTimer, Start, TimerFired
from roamcast.node.codec import BadMessage
from roamcast.server.links.frames import BadFrame, FrameReader, OtherVersion, read_greeting
from tests.adhoc.lone import Lone
from tests.broker.mqtt.scene import Scene
from tests.fuzz.samples import LINK_FRAMES, PACKETS
from tests.fuzz.spoiling import spoilt
from tests.mqtt.stage import Stage
from tests.multicast.samples import CODEC, GROUP, announced, published, raised, sealed, seals, subscribed
from tests.server.test_fuzz import captured

PIECES_MAX = 6
LIFE_INPUTS = 5_000
"""After so many a broker or a node begins anew, or it would be busy with what it has heard."""
MISTAKES = ("internal_error", "unexpected_effect")


class Target(Protocol):
    name: str

    def take(self, rng: Random) -> int: ...


def in_pieces(rng: Random, data: bytes) -> Iterator[bytes]:
    while data:
        size = rng.randrange(1, len(data) + 1)
        yield data[:size]
        data = data[size:]


class Packets:
    """The decoder of MQTT, alone."""

    name = "mqtt decoder"

    def take(self, rng: Random) -> int:
        version = rng.choice((V5, V311))
        known, decoder, count = PACKETS[version], Decoder(version), rng.randrange(1, PIECES_MAX)
        said = b"".join(spoilt(rng, rng.choice(known), known) for _ in range(count))
        try:
            for piece in in_pieces(rng, said):
                decoder.feed(piece)
                while decoder.next_packet() is not None:
                    continue
        except BadPacket:
            pass
        return count


class Conversation:
    """A connection of MQTT with a session, and another client that goes on hearing what is said."""

    name = "mqtt connection"

    def __init__(self) -> None:
        self._stage, self._inputs = Stage(), 0

    def take(self, rng: Random) -> int:
        if self._inputs > LIFE_INPUTS:
            self._stage, self._inputs = Stage(), 0
        version, count = rng.choice((V5, V311)), rng.randrange(1, 4 * PIECES_MAX)
        known, peer = PACKETS[version], self._stage.peer(version)
        if rng.random() < 0.8:
            peer.say(Connect(f"fuzz {rng.randrange(20)}", version, rng.random() < 0.5))
        for _ in range(count):
            peer.say_bytes(spoilt(rng, rng.choice(known), known))
            if peer.cut_off:
                break
        self._stage.wait(0.1)
        peer.connection.outgoing()
        peer.vanish()
        self._inputs += count
        return count


class Links:
    """Frames between brokers: their reader, greetings, and the messages in them."""

    name = "link reader"

    def __init__(self) -> None:
        self._bodies = [data for _, data in captured(1)]

    def take(self, rng: Random) -> int:
        reader = FrameReader()
        try:
            for piece in in_pieces(rng, spoilt(rng, rng.choice(LINK_FRAMES), LINK_FRAMES)):
                reader.feed(piece)
                while (found := reader.next_frame()) is not None:
                    read_greeting(found[1])
        except (BadFrame, OtherVersion):
            pass
        messages_in(spoilt(rng, rng.choice(self._bodies), self._bodies), lambda why: None)
        return 2


class Neighbour:
    """A whole broker that hears spoilt frames of a neighbour, and tells of no mistake of its own."""

    name = "broker's neighbour"

    def __init__(self) -> None:
        self._frames = captured(1)
        self._bodies = [data for _, data in self._frames]
        self._begin(0)

    def _begin(self, seed: int) -> None:
        self._scene, self._inputs = Scene("ab", seed=seed), 0
        self._reader = self._scene.client("reader", "b")
        self._scene.subscribe(self._reader, "t/#", 1)
        broker = self._scene.stage.brokers["b"]
        self._desk, monitor = broker.desk, broker.server.monitor
        remark = monitor.remark

        def checked(what: str, detail: str) -> None:
            assert what not in MISTAKES, detail
            remark(what, detail)

        monitor.remark = checked  # type: ignore[method-assign]

    def take(self, rng: Random) -> int:
        if self._inputs > LIFE_INPUTS:
            self._begin(rng.randrange(1_000_000))
        count = rng.randrange(1, 4 * PIECES_MAX)
        for _ in range(count):
            kind, data = rng.choice(self._frames)
            self._desk.frame("a", kind, spoilt(rng, data, self._bodies))
        self._scene.rest(0.01)
        self._inputs += count
        return count


class Datagrams:
    """Sealed datagrams of ad hoc nodes, spoilt before they were sealed or after."""

    name = "ad hoc datagrams"

    def __init__(self) -> None:
        self._sender, self._receiver, self._inputs = seals("ann"), seals("bob"), 0
        messages = (raised("ann"), announced("ann"), subscribed("ann"), published("ann"))
        self._bodies = [CODEC.encode(each) for each in messages]
        self._datagrams = [sealed(self._sender, each) for each in messages]
        self._messages = messages

    def take(self, rng: Random) -> int:
        self._inputs += 1
        if rng.random() < 0.3:
            body = spoilt(rng, rng.choice(self._bodies), self._bodies)
            try:
                datagram = self._sender.seal(body, GROUP)
            except Dropped:
                return 1
        else:
            datagram = spoilt(rng, rng.choice(self._datagrams), self._datagrams)
        with suppress(Dropped):
            self._receiver.open(self._inputs * 1_000, datagram, self._receiver.header(datagram))
        return 1


class Nodes:
    """Messages that could be read, at nodes of both ad hoc protocols; their timers fire as they are due."""

    name = "ad hoc nodes"

    def __init__(self) -> None:
        self._bodies = [CODEC.encode(each) for each in (raised(), announced(), subscribed(), published())]
        self._begin()

    def _begin(self) -> None:
        self._inputs, self._now_us = 0, 0
        self._lone = Lone()
        self._lone.subscribe("s", "ice")
        self._node = ContextNode("me", Random(1), ContextParams(), space=Plane())
        self._timers: dict[str, int] = {}
        self._give(Start(Context("me", Point(0.0, 0.0), 0, Velocity(0.0, 0.0))))

    def _give(self, given: Start | Received | TimerFired) -> None:
        for effect in self._node.handle(self._now_us, given):
            match effect:
                case SetTimer(name, at_us):
                    self._timers[name] = at_us
                case CancelTimer(name):
                    self._timers.pop(name, None)
                case _:
                    pass

    def take(self, rng: Random) -> int:
        if self._inputs > LIFE_INPUTS:
            self._begin()
        self._inputs += 1
        message = self._message(rng)
        if message is None:
            return 1
        self._now_us += rng.randrange(200_000)
        if rng.random() < 0.5:
            self._lone.run(self._now_us / 1e6)
            self._lone.hear(message, rng.randrange(3))
            return 1
        for name in [name for name, at_us in self._timers.items() if at_us <= self._now_us]:
            del self._timers[name]
            self._give(TimerFired(name))
        self._give(Received(message, "ann"))
        return 1

    def _message(self, rng: Random) -> Message | None:
        try:
            return CODEC.decode(spoilt(rng, rng.choice(self._bodies), self._bodies))
        except BadMessage:
            return None


TARGETS: tuple[Callable[[], Target], ...] = (Packets, Conversation, Links, Neighbour, Datagrams, Nodes)
