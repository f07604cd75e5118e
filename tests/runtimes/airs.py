"""One air with nodes on it, simulated or over multicast: the same stories are told on both.

Both have hosts by name at places, inputs of applications, and what subscriptions got. A host is moved by telling its
node so; the air itself reaches everybody.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.movement.legs import Track, resting_forever
from roamcast.multicast.host import NodeThread
from roamcast.multicast.keys import Identity
from roamcast.multicast.running import NodeSettings, RunningNode
from roamcast.node.boundary import Input, Moved
from roamcast.node.kit import ProtocolKit
from roamcast.sim.hosts import Resident
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.world import World
from tests.ports import free_port
from tests.runtimes.nets import PATIENCE_S, Deliveries

RANGE_M = 10_000.0


class AirNet(Protocol):
    got: dict[str, list[str]]

    def now_us(self) -> int: ...
    def give(self, host: str, given: Input) -> None: ...
    def move(self, host: str, x: float) -> None: ...
    def until(self, holds: Callable[[], bool]) -> bool: ...
    def ask(self, host: str, question: Callable[[Any], object]) -> Any: ...
    def close(self) -> None: ...


class SimAir:
    def __init__(self, places: dict[str, float], kit: ProtocolKit) -> None:
        deliveries = Deliveries()
        self.got = deliveries.got
        self.world = World(
            [Resident(name, Track([resting_forever(0, Point(x, 0.0))]), kit.make_node) for name, x in places.items()],
            kit.codec,
            1,
            radio=UnitDiskParams(RANGE_M),
            observers=(deliveries,),
            round_trip=True,
        )
        self._pass(1_000)

    def now_us(self) -> int:
        return self.world.kernel.now_us

    def give(self, host: str, given: Input) -> None:
        self.world.give(host, given)

    def move(self, host: str, x: float) -> None:
        self.give(host, Moved(Context(host, Point(x, 0.0), self.now_us())))

    def until(self, holds: Callable[[], bool]) -> bool:
        for _ in range(round(PATIENCE_S / 0.05)):
            if holds():
                return True
            self._pass(50_000)
        return holds()

    def _pass(self, time_us: int) -> None:
        for _ in self.world.run(self.world.kernel.now_us + time_us):
            pass

    def ask(self, host: str, question: Callable[[Any], object]) -> Any:
        return question(self.world.by_name[host].host.node)

    def close(self) -> None:
        return


class LiveAir:
    """Each node has a thread, a loop and sockets of its own, on the loopback interface."""

    def __init__(self, places: dict[str, float], kit: ProtocolKit) -> None:
        self.got: dict[str, list[str]] = {}
        port = free_port()
        self.threads = {name: NodeThread(name) for name in places}
        self.nodes: dict[str, RunningNode] = {}
        for name, x in places.items():
            settings = NodeSettings(
                name=name, identity=Identity.fresh(), space=Plane(), port=port, interfaces=("lo",)
            )
            self.nodes[name] = self._call(name, partial(self._start, settings, kit, x))

    def _start(self, settings: NodeSettings, kit: ProtocolKit, x: float) -> RunningNode:
        node = RunningNode(settings, kit, Context(settings.name, Point(x, 0.0)))
        node.host.deliver = self._deliver
        node.start()
        return node

    def _deliver(self, event: Event, subscription_id: str) -> None:
        self.got.setdefault(subscription_id, []).append(event.id)

    def _call(self, name: str, action: Callable[[], Any]) -> Any:
        async def work() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(work(), self.threads[name].loop).result(PATIENCE_S)

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def give(self, host: str, given: Input) -> None:
        self._call(host, lambda: self.nodes[host].give(given))

    def move(self, host: str, x: float) -> None:
        self._call(host, lambda: self.nodes[host].move(Point(x, 0.0)))

    def until(self, holds: Callable[[], bool]) -> bool:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if holds():
                return True
            time.sleep(0.005)
        return holds()

    def ask(self, host: str, question: Callable[[Any], object]) -> Any:
        return self._call(host, lambda: question(self.nodes[host].host.host.node))

    def close(self) -> None:
        for name, node in self.nodes.items():
            asyncio.run_coroutine_threadsafe(node.stop(), self.threads[name].loop).result(PATIENCE_S)
        for thread in self.threads.values():
            thread.stop()
