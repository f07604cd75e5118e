"""A node on sockets: the live `Runtime` of `node/host.py`.

Inputs come from links, timers and the application, one at a time, on one event loop; what the node answers is
performed at once. Time is that of the machine, in microseconds since 1970, and never goes back. `NodeThread` gives a
node a thread and a loop of its own.
"""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from roamcast.clock import SteadyClock
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.multicast.disk import Disk, MemoryDisk
from roamcast.node.boundary import (
    Broadcast,
    CancelTimer,
    Connect,
    Deliver,
    Disconnect,
    Does,
    Input,
    JoinGroup,
    LeaveGroup,
    LinkDown,
    LinkUp,
    Message,
    Node,
    Note,
    Received,
    Send,
    SetTimer,
    Start,
    Store,
    TimerFired,
)
from roamcast.node.codec import BadMessage, Codec
from roamcast.node.host import Host
from roamcast.node.observer import Observer
from roamcast.server.links.links import Links

KIND = 0
"""Of the frames that carry nodes' messages; a link has only one kind."""


class Air(Protocol):
    """Where broadcasts go: a multicast network, or nothing."""

    def broadcast(self, data: bytes, said: Broadcast) -> int:
        """Answers how many bytes go on the air; 0 if none do."""
        ...

    def join(self, group: int) -> None: ...
    def leave(self, group: int) -> None: ...


class Network(Protocol):
    """What brings a message from any host to any other that it has a path to (O1): links are its affair then, and a
    node is told of none that comes up, only of who could not be reached."""

    def hops(self, peer: str) -> int | None:
        """How many hops away a peer is now; None if that is not known."""
        ...


class LiveHost:
    def __init__(
        self,
        name: str,
        node: Node,
        codec: Codec,
        deliver: Callable[[Event, str], None] | None = None,
        observers: tuple[Observer, ...] = (),
        disk: Disk | None = None,
        air: Air | None = None,
        network: Network | None = None,
        noted: Callable[[str, str], None] | None = None,
    ) -> None:
        """On a running loop. `deliver` is the application's; `noted` is told of the node's notes."""
        self.name = name
        self.codec = codec
        self.deliver = deliver
        self.disk = disk or MemoryDisk()
        self.air = air
        self.network = network
        self.noted = noted
        self.links = Links(name, self)
        self.addresses: dict[str, tuple[str, int]] = {}
        """Where peers can be reached that a node may want to connect to."""
        self.loop = asyncio.get_running_loop()
        self.host = Host(name, node, self, observers)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.now_us = SteadyClock().now_us
        self._waiting: list[Input] = []
        self._giving = False

    def start(self, context: Context) -> None:
        stored = self.disk.read()
        self.give(Start(context, bool(stored), stored))

    def give(self, given: Input) -> None:
        """One after the other: what an effect brings about waits until all effects of its cause are performed."""
        if self._giving or self._waiting:
            self._waiting.append(given)
            if self._giving:
                return
            given = self._waiting.pop(0)
        self._giving = True
        try:
            self.host.give(self.now_us(), given)
            while self._waiting:
                self.host.give(self.now_us(), self._waiting.pop(0))
        finally:
            self._giving = False

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await self.links.close()

    # From the links.

    def up(self, peer: str) -> None:
        if self.network is None:
            self.give(LinkUp(peer))

    def down(self, peer: str) -> None:
        self.give(LinkDown(peer))

    def frame(self, peer: str, kind: int, data: bytes) -> None:
        try:
            message = self.codec.decode(data)
        except BadMessage as problem:
            self.remark("bad_message", f"{peer}: {problem}")
            return
        self.give(Received(message, peer, hops=None if self.network is None else self.network.hops(peer)))

    def remark(self, what: str, detail: str) -> None:
        for observer in self.host.observers:
            observer.noted(self.now_us(), self.name, what, detail)

    # Effects.

    def perform(self, host: Host, effect: Does) -> None:
        # What events consist of, by type: `match` asks about one type after the other.
        if type(effect) is Broadcast:
            if self.air is not None:
                self._broadcast(self.air, effect)
            return
        if type(effect) is Deliver:
            if self.deliver is not None:
                self.loop.call_soon(self.deliver, effect.event, effect.subscription_id)
            return
        self._perform(effect)

    def _perform(self, effect: Does) -> None:
        match effect:
            case Send(to, message):
                self._send(to, message)
            case SetTimer(name, at_us):
                self._cancel(name)
                delay_s = max(0.0, (at_us - self.now_us()) / 1e6)
                self._timers[name] = self.loop.call_later(delay_s, partial(self._fire, name))
            case CancelTimer(name):
                self._cancel(name)
            case Store(key, value):
                self.disk.write(key, value)
            case Connect(peer):
                self._connect(peer)
            case Disconnect(peer):
                self.links.cut(peer)
            case JoinGroup(group):
                if self.air is not None:
                    self.air.join(group)
            case LeaveGroup(group):
                if self.air is not None:
                    self.air.leave(group)
            case Note(what, detail):
                if self.noted is not None:
                    self.noted(what, detail)
            case Broadcast() | Deliver():
                return

    def _send(self, to: str, message: Message) -> None:
        try:
            data = self.codec.encode(message)
        except BadMessage as problem:
            self.remark("unsendable", f"{to}: {problem}")
            return
        if not self.links.send(to, KIND, data) and self.network is not None:
            self._reach(to)

    def _reach(self, peer: str) -> None:
        """What was to be sent is lost, as its sender is told; what comes after it may arrive."""
        address = self.addresses.get(peer)
        if address is not None and not self.links.dials(peer):
            self.links.dial(peer, *address)
        self.give(LinkDown(peer))

    def _connect(self, peer: str) -> None:
        address = self.addresses.get(peer)
        if address is None or peer == self.name:
            self.give(LinkDown(peer))
        elif not self.links.dials(peer):
            self.links.dial(peer, *address)

    def _broadcast(self, air: Air, said: Broadcast) -> None:
        message = said.message
        try:
            data = self.codec.encode(message)
        except BadMessage as problem:
            self.remark("unsendable", str(problem))
            return
        size_bytes = air.broadcast(data, said)
        if size_bytes:
            for observer in self.host.observers:
                observer.transmitted(self.now_us(), self.name, message.kind, size_bytes, None, message.event_id)

    def _fire(self, name: str) -> None:
        self._timers.pop(name, None)
        self.give(TimerFired(name))

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


class NodeThread:
    """A loop in a thread of its own, for one node."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"node {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
