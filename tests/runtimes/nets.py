"""One network of nodes, simulated or on real sockets: the same stories are told on both.

Both have hosts by name, links that are made and taken away, inputs of applications, and what subscriptions got. Time
passes by itself on sockets, and is made to pass in the simulator, until something holds or it has taken too long.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.values import Point
from roamcast.movement.legs import Track, resting_forever
from roamcast.multicast.host import LiveHost, NodeThread
from roamcast.node.boundary import Input, Node
from roamcast.node.codec import Codec
from roamcast.node.observer import Observer
from roamcast.sim.hosts import Resident
from roamcast.sim.links import LinkParams
from roamcast.sim.world import World

PATIENCE_S = 20.0


class Net(Protocol):
    got: dict[str, list[str]]

    def now_us(self) -> int: ...
    def link(self, one: str, other: str) -> None: ...
    def unlink(self, one: str, other: str) -> None: ...
    def give(self, host: str, given: Input) -> None: ...
    def until(self, holds: Callable[[], bool]) -> bool: ...
    def ask(self, host: str, question: Callable[[Any], object]) -> Any:
        """Something of the node itself."""
        ...

    def close(self) -> None: ...


class Deliveries(Observer):
    def __init__(self) -> None:
        self.got: dict[str, list[str]] = {}

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.got.setdefault(subscription_id, []).append(event.id)


class SimNet:
    def __init__(self, nodes: dict[str, Callable[[], Node]], codec: Codec) -> None:
        deliveries = Deliveries()
        self.got = deliveries.got
        names = list(nodes)
        pairs = [(one, other) for index, one in enumerate(names) for other in names[index + 1 :]]
        self.world = World(
            [
                Resident(name, Track([resting_forever(0, Point(0, 0))]), lambda seat: nodes[seat.host]())
                for name in names
            ],
            codec,
            1,
            links=[LinkParams(one, other, delay_ms=2.0) for one, other in pairs],
            observers=(deliveries,),
            round_trip=True,
        )
        for pair in pairs:
            self.world.links.between[pair].cuts = 1

    def now_us(self) -> int:
        return self.world.kernel.now_us

    def link(self, one: str, other: str) -> None:
        self.world.links.heal(one, other)

    def unlink(self, one: str, other: str) -> None:
        self.world.links.cut(one, other)

    def give(self, host: str, given: Input) -> None:
        self.world.give(host, given)

    def until(self, holds: Callable[[], bool]) -> bool:
        for _ in range(round(PATIENCE_S / 0.05)):
            if holds():
                return True
            for _ in self.world.run(self.world.kernel.now_us + 50_000):
                pass
        return holds()

    def ask(self, host: str, question: Callable[[Any], object]) -> Any:
        return question(self.world.by_name[host].host.node)

    def close(self) -> None:
        return


class LiveNet:
    """Each node has a thread, a loop and a listening socket of its own."""

    def __init__(self, nodes: dict[str, Callable[[], Node]], codec: Codec) -> None:
        deliveries = Deliveries()
        self.got = deliveries.got
        self.threads = {name: NodeThread(name) for name in nodes}
        self.hosts: dict[str, LiveHost] = {}
        self.ports: dict[str, int] = {}
        for name, make_node in nodes.items():
            self._run(name, self._start(name, make_node(), codec, deliveries))

    async def _start(self, name: str, node: Node, codec: Codec, deliveries: Deliveries) -> None:
        host = self.hosts[name] = LiveHost(name, node, codec, observers=(deliveries,))
        self.ports[name] = await host.links.listen("127.0.0.1", 0)
        host.start(Context(name, Point(0.0, 0.0)))

    def _run(self, name: str, work: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self.threads[name].loop)
        return future.result(PATIENCE_S)

    def _call(self, name: str, action: Callable[[], Any]) -> Any:
        async def work() -> Any:
            return action()

        return self._run(name, work())

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def link(self, one: str, other: str) -> None:
        self._call(one, lambda: self.hosts[one].links.dial(other, "127.0.0.1", self.ports[other]))

    def unlink(self, one: str, other: str) -> None:
        self._call(one, lambda: self.hosts[one].links.hang_up(other))

    def give(self, host: str, given: Input) -> None:
        self._call(host, lambda: self.hosts[host].give(given))

    def until(self, holds: Callable[[], bool]) -> bool:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if holds():
                return True
            time.sleep(0.005)
        return holds()

    def ask(self, host: str, question: Callable[[Any], object]) -> Any:
        return self._call(host, lambda: question(self.hosts[host].host.node))

    def close(self) -> None:
        for name, host in self.hosts.items():
            self._run(name, host.close())
        for thread in self.threads.values():
            thread.stop()
