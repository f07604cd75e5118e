"""The way of a plain message that comes alone: where the last one of its topic went, as it came.

Who sends a message now and then sends it in a segment of its own, and everything that a broker asks about it (who
gets it, in which form, may it be) was answered a moment ago for the one before. So the answers are kept: a `Lane` is
the sockets that a topic's messages of QoS 0 go to unchanged. It is laid when a message has taken the short way
(`broker/swift.py`) and all who got it take its very bytes. All lanes are forgotten at once when anything happens that
could change one of them: an input other than those in `QUIET`, a client that is let in or sent away when the disk has
stored that it may be, a socket that takes no more or is gone.

The bytes are written at once and not at the end of the tick: the event loop collects what is written in one of its
rounds by itself.

There are two more kinds, which only save asking again. Where a client says where it is, what it says goes to
`inbound.py`. Where who is near decides (`broker/nearby.py`), the message waits with the others of its tick, for all
of them are matched at once.
"""

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from roamcast.live.broker.inputs import AnyGiven, Published, Received, Released, Reported, Settled, SettledTogether
from roamcast.live.broker.swift import Group
from roamcast.mqtt.connection import State
from roamcast.mqtt.packets import V5
from roamcast.mqtt.runs import PACKET_BYTES_MIN, PLAIN_ONCE, Run, lone_run

if TYPE_CHECKING:
    from roamcast.server.connection import ClientSocket
    from roamcast.server.server import BrokerServer

LANES_MAX = 1_024
SOCKETS_MAX, PUBLISHERS_MAX = 10_000, 100_000
"""Of all lanes together."""
CLOSED = State.CLOSED
"""By itself: to ask the enumeration for each who gets a message takes longer than to compare."""
QUIET = frozenset((Published, Received, Released, Reported, Settled, SettledTogether))
"""Inputs that change neither who is connected, nor who wants which topics, nor who the neighbours are."""


class Kind(Enum):
    ALL = 0
    """Its messages go to the same sockets, all of them."""
    NEAR = 1
    REPORT = 2


ALL = Kind.ALL
"""Asked for every message: Python 3.11 takes longer to find it in its enumeration than to compare it."""


class Lane(Struct, frozen=True):
    topic: str
    version: int
    """Of its publishers."""
    sockets: "tuple[ClientSocket, ...]"
    kind: Kind = Kind.ALL
    publishers: "dict[ClientSocket, None]" = {}
    """Clients that are known to be let publish to it."""


class Lanes:
    def __init__(self, server: "BrokerServer") -> None:
        self._server = server
        self._chronicle = server.core.station.chronicle
        self._visitors = server.core.station.visitors
        self._ahead = server.ahead.waiting
        self._of: dict[bytes, Lane] = {}
        """By how the topic is written in a packet, with what follows it in MQTT 5 where there are no properties."""
        self._sockets = self._publishers = 0
        self._as_it_is: dict[int, dict[str, ClientSocket]] = {}
        """By version and name, clients that take the very bytes of a plain message of QoS 0."""

    def __len__(self) -> int:
        return len(self._of)

    def forget(self) -> None:
        if self._of:
            self._of.clear()
            self._sockets = self._publishers = 0
        if self._as_it_is:
            self._as_it_is.clear()

    def given(self, given: AnyGiven) -> None:
        if (self._of or self._as_it_is) and type(given) not in QUIET:
            self.forget()

    def lay(self, run: Run, groups: list[Group]) -> None:
        """For the messages that follow one of QoS 0, unless there is one: it may have come with others."""
        head = head_of(run)
        if head in self._of or any(group.subscription_ids for group in groups):
            return
        sockets: list[ClientSocket] = []
        for name in (name for group in groups for name in group.clients):
            socket = self._server.clients.get(name)
            if socket is not None:
                if not socket.mqtt.takes_as_it_is(run.version):
                    return
                sockets.append(socket)
        if len(self._of) >= LANES_MAX or self._sockets + len(sockets) > SOCKETS_MAX:
            self.forget()
        self._of[head] = Lane(run.topic, run.version, tuple(sockets))
        self._sockets += len(sockets)

    def lay_empty(self, run: Run, kind: Kind) -> None:
        """For those that follow one that says where its client is, or that goes to who is near."""
        head = head_of(run)
        if head in self._of:
            return
        if len(self._of) >= LANES_MAX:
            self.forget()
        self._of[head] = Lane(run.topic, run.version, (), kind)

    def hand(self, now_us: int, run: Run, names: Iterable[str], alone: bool) -> list[str]:
        """Gives plain messages of QoS 0 to those who take them as they are; who does not is left. What does not come
        alone is written together."""
        ready, left = self._as_it_is.setdefault(run.version, {}), list[str]()
        frames = run.frames
        for name in names:
            socket = ready.get(name)
            if socket is None:
                socket = self._server.clients.get(name)
                if socket is None or not socket.mqtt.takes_as_it_is(run.version):
                    left.append(name)
                    continue
                ready[name] = socket
            elif socket.mqtt.state is CLOSED:
                # It has had its last word, and that it is gone is about to be told.
                continue
            try:
                if alone:
                    socket.say(now_us, frames)
                else:
                    socket.mqtt.say(frames)
                    socket.mark()
            except Exception as problem:
                self._server.outbound.failed("say", problem, socket)
        return left

    def take(self, client: "ClientSocket", data: bytes) -> bool:
        """Whether it was one plain message, of a topic that has a lane, and has gone."""
        size = len(data)
        if size < PACKET_BYTES_MIN or data[0] != PLAIN_ONCE:
            return False
        if size < 130:
            at = 2
            if data[1] != size - 2:
                return False
        else:
            at = 3
            if data[1] < 128 or not 0 < data[2] < 128 or data[1] - 128 + (data[2] << 7) != size - 3:
                return False
        payload_at = at + 2 + (data[at] << 8 | data[at + 1]) + client.mqtt.is_v5
        if payload_at > size:
            # Without properties it is written as in MQTT 3.1.1, whose lane it must not take.
            return False
        lane = self._of.get(data[at:payload_at])
        if lane is None or not (client in lane.publishers or self._may(client, lane)):
            return False
        if lane.kind is ALL:
            return self._goes(client, lane, data, size - payload_at)
        return self._goes_in(client, lane, data, payload_at)

    def _may(self, client: "ClientSocket", lane: Lane) -> bool:
        if client.client not in self._visitors or not self._server.access.may_publish_anywhere(client, lane.topic):
            return False
        if self._publishers >= PUBLISHERS_MAX:
            self.forget()
            return False
        lane.publishers[client] = None
        self._publishers += 1
        return True

    def _heard_us(self, client: "ClientSocket", lane: Lane, payload_bytes: int) -> int:
        """When its message came, if that is the next thing to be read of it and overtakes nothing; or else 0."""
        server = self._server
        if self._ahead and (client.client, lane.topic) in self._ahead:
            return 0
        now_us = server.now_us()
        if not client.mqtt.hears_one(now_us):
            return 0
        wait_us = server.access.pace_us(client, payload_bytes, 0, now_us)
        if wait_us:
            server.inbound.pace(client, wait_us)
        return now_us

    def _goes(self, client: "ClientSocket", lane: Lane, data: bytes, payload_bytes: int) -> bool:
        server, chronicle = self._server, self._chronicle
        if chronicle.onlooker is not None or chronicle.on or server.passing:
            return False
        now_us = self._heard_us(client, lane, payload_bytes)
        if not now_us:
            return False
        for socket in lane.sockets:
            try:
                socket.say(now_us, data)
            except Exception as problem:
                server.outbound.failed("say", problem, socket)
        server.watch.passed(0, 1, payload_bytes)
        count = len(lane.sockets)
        server.watch.handed(0, payload_bytes * count, count)
        return True

    def _goes_in(self, client: "ClientSocket", lane: Lane, data: bytes, payload_at: int) -> bool:
        server, payload_bytes = self._server, len(data) - payload_at
        if lane.topic in server.core.audience.apart or not self._heard_us(client, lane, payload_bytes):
            return False
        if lane.kind is Kind.REPORT:
            server.inbound.reported(client, data[payload_at:])
            return True
        server.pass_on_run(client.name, lone_run(lane.topic, lane.version, data, payload_at))
        server.watch.passed(0, 1, payload_bytes)
        return True


def head_of(run: Run) -> bytes:
    """A topic as it is written, up to where the payload begins."""
    topic = run.topic.encode()
    return len(topic).to_bytes(2, "big") + topic + (b"\0" if run.version == V5 else b"")
