"""The market by the harbour: an area without a broker, of ad hoc nodes that find each other by multicast on loopback.

Two stalls announce what they offer within the market (STEAM). A third node is the gateway: offers reach whoever wants
them at the brokers, and orders of passers-by come from there to the stalls.
"""

import asyncio
import secrets
from contextlib import AsyncExitStack

from roamcast.client import Client
from roamcast.demo.actors import CONNECT_S, Stage
from roamcast.demo.fleet import free_ports
from roamcast.gateway.running import Gateway, GatewaySettings
from roamcast.model.context import Context
from roamcast.model.event import ContentType, Event, EventType
from roamcast.model.region import Circle
from roamcast.model.values import Point
from roamcast.multicast.interfaces import BadInterface
from roamcast.multicast.keys import KEY_BYTES, Identity
from roamcast.multicast.multicast import CannotMulticast
from roamcast.multicast.running import NodeSettings, RunningNode
from roamcast.papers.assemble import kit_of

STALLS = 2
OFFER_S = 2.0
SETTLE_S = 2.0
"""So long others need to join the group of an announcement."""
MARKET_M = 150.0
REACH_M = 1_000.0
OFFER = EventType("market/offer", {"price": ContentType.DOUBLE, "stall": ContentType.STRING})
ORDER = EventType("market/order", {"stall": ContentType.STRING})
BESIDE = 0.0004
"""Degrees from one stall to the next: some twenty metres."""


class Market:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.offers = 0
        self.orders = 0
        self.gateway: Gateway | None = None
        self._generator = stage.people.generator("market")
        self._port = free_ports(1)[0]
        self._key = secrets.token_bytes(KEY_BYTES)
        self._stalls: list[RunningNode] = []

    async def begin(self, stack: AsyncExitStack) -> str | None:
        """Returns when events can cross, or with the reason why there is no market."""
        place = self.stage.people.market
        try:
            for number in range(1, STALLS + 1):
                stall = self._node(f"stall-{number}", Point(place.x - BESIDE * number, place.y))
                stack.push_async_callback(stall.stop)
                self._open(stall)
                self._stalls.append(stall)
            door = self._node("market-gateway", place)
        except (CannotMulticast, BadInterface, OSError) as problem:
            return f"no market: its nodes need multicast on the loopback interface ({problem})"
        stack.push_async_callback(door.stop)
        address = self.stage.fleet.brokers[self.stage.people.quarter_of(place).name].mqtt
        client = await stack.enter_async_context(Client("market-gateway", [address], connect_s=CONNECT_S))
        ready = asyncio.Event()
        settings = GatewaySettings(subjects=(OFFER.subject, ORDER.subject), types=(ORDER,), within_m=MARKET_M)
        self.gateway = Gateway(door, client, settings, self._remark, ready.set)
        task = asyncio.get_running_loop().create_task(self.gateway.run())
        stack.push_async_callback(ended, task)
        await asyncio.wait_for(ready.wait(), CONNECT_S)
        return None

    def _node(self, name: str, place: Point) -> RunningNode:
        settings = NodeSettings(
            name=name,
            identity=Identity.fresh(),
            group_key=self._key,
            port=self._port,
            interfaces=("lo",),
            range_m=REACH_M,
        )
        kit = kit_of({"kind": "proximity", "preset": "pedestrian", "radio_range_m": REACH_M})
        node = RunningNode(settings, kit, Context(name, place), say=self._remark)
        node.start()
        return node

    def _open(self, stall: RunningNode) -> None:
        stall.port.announce(OFFER, Circle(Point(0.0, 0.0), MARKET_M), stationary=True)
        stall.port.subscribe(ORDER.subject, self._ordered)

    def _ordered(self, event: Event) -> None:
        self.orders += 1

    def _remark(self, text: str) -> None:
        self.stage.problems[text] += 1

    async def live(self) -> None:
        going_on = await self.stage.pause(SETTLE_S)
        while going_on:
            for stall in self._stalls:
                price = round(self._generator.uniform(1, 10), 1)
                stall.port.raise_(OFFER.subject, {"price": price, "stall": stall.settings.name})
                self.offers += 1
            going_on = await self.stage.pause(OFFER_S)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
