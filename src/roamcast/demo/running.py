"""The demo from its first port to its last event: brokers, clients, a summary while it runs, the audit at its end.

    brokers start -> clients connect and subscribe -> all brokers know of all subscriptions -> the town lives
    -> nobody moves or says anything more -> what is on its way arrives -> clients leave, brokers stop -> audit

Nothing is published before everything that was subscribed to is known everywhere, and nothing is stopped before
everything has arrived: what is missed in between is missed by a broker.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import webbrowser
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct

from roamcast.demo.actors import (
    Actor,
    Ambulance,
    Bus,
    Car,
    Herald,
    Light,
    Parking,
    Stage,
    Walker,
    all_told,
)
from roamcast.demo.fences import FENCES, Watcher
from roamcast.demo.fleet import DemoFailed, Fleet
from roamcast.demo.market import Market
from roamcast.demo.people import People
from roamcast.demo.streets import load_town
from roamcast.demo.summary import Figures, Screen

SPREAD_S = 30.0
DRAIN_S = 20.0
ACCIDENT_FIRST_S, ACCIDENT_EVERY_S = 1.0, 15.0
TOGETHER = 16
"""So many clients connect at a time."""
LOOK_S = 1.0
SESSION_CONNECTED = 'roamcast_sessions{state="connected"}'
QUEUE_BYTES = "roamcast_queue_bytes"


class Wishes(Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    seconds: float | None = None
    clients: int = 60
    seed: int = 1
    port: int | None = None
    data: Path | None = None
    browser: bool = True
    quiet: bool = False


class Demo:
    def __init__(self, wishes: Wishes, folder: Path) -> None:
        self.wishes = wishes
        self.people = People(wishes.clients, wishes.seed)
        town = load_town()
        self.fleet = Fleet(self.people, folder, wishes.port, town.map_json(), town.attribution)
        self.stage = Stage(self.people, self.fleet)
        self.market = Market(self.stage)
        self.heralds = [Herald(each.name, each.mqtt) for each in self.fleet.brokers.values()]
        self.cars = [Car(self.stage, name, journey) for name, journey in self.people.cars.items()]
        self.watchers = [Watcher(self.stage, each) for each in FENCES]
        self.ambulance = Ambulance(self.stage, "ambulance-1", self.people.ambulance)
        self.actors: list[Actor] = [
            *self.watchers,
            *self.cars,
            *(Bus(self.stage, name, journey) for name, journey in self.people.buses.items()),
            *(Walker(self.stage, name, journey) for name, journey in self.people.walkers.items()),
            self.ambulance,
            *(Light(self.stage, each) for each in self.people.lights),
            *(Parking(self.stage, each) for each in self.people.parkings),
        ]
        self.no_market: str | None = None
        self.drained = False
        self._clients: dict[str, int] = {}
        self._waiting_bytes = 0

    async def run(self, screen: Screen) -> None:
        """Until its time is over or somebody stops it. Raises `DemoFailed`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stage.closing.set)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.fleet.stop)
            screen.say("starting four brokers ...")
            await self.fleet.start()
            screen.say(f"map: {self.fleet.address}   ({load_town().attribution})")
            await self._gather(stack, screen)
            if self.wishes.browser:
                open_browser(self.fleet.address, screen.say)
            await self._live(screen)

    async def _gather(self, stack: AsyncExitStack, screen: Screen) -> None:
        """Everybody connects and subscribes, and all brokers know of it."""
        screen.say(f"{len(self.actors)} clients connect ...")
        room = asyncio.Semaphore(TOGETHER)

        async def begin(actor: Actor) -> None:
            async with room:
                await actor.begin(stack)

        # Fences are there before anybody is who passes them.
        first = (*self.watchers, self.ambulance)
        await asyncio.gather(*(begin(each) for each in first))
        await asyncio.gather(*(begin(each) for each in self.actors if each not in first))
        self.no_market = await self.market.begin(stack)
        if self.no_market is not None:
            screen.say(self.no_market)
        for herald in self.heralds:
            await herald.begin(stack)
        listening = [
            *(asyncio.ensure_future(each.listen()) for each in self.actors),
            *(asyncio.ensure_future(each.listen()) for each in self.heralds),
        ]
        stack.push_async_callback(cancelled, listening)
        if not await all_told(self.heralds, "begin", SPREAD_S):
            raise DemoFailed(
                f"the brokers did not hear of each other within {SPREAD_S:g} s; is the machine very busy?"
            )

    async def _live(self, screen: Screen) -> None:
        stage = self.stage
        if self.wishes.seconds is not None:
            asyncio.get_running_loop().call_later(self.wishes.seconds, stage.closing.set)
        works: list[Coroutine[Any, Any, None]] = [each.live() for each in self.actors]
        if self.no_market is None:
            works.append(self.market.live())
        works += [self._accidents(), self._look(screen)]
        await asyncio.gather(*works)
        screen.say("nobody says anything more; what is on its way arrives ...")
        self.drained = await self._drain()
        await self._measure()
        screen.show(self.figures())

    async def _accidents(self) -> None:
        generator = self.people.generator("accidents")
        going_on = await self.stage.pause(ACCIDENT_FIRST_S)
        while going_on:
            generator.choice(self.cars).have_accident()
            going_on = await self.stage.pause(ACCIDENT_EVERY_S)

    async def _look(self, screen: Screen) -> None:
        going_on = True
        while going_on:
            await self._measure()
            screen.show(self.figures())
            going_on = await self.stage.pause(LOOK_S)

    async def _drain(self) -> bool:
        """Whether all that was published came where it is wanted."""
        if self.market.gateway is not None:
            await until(lambda: self.market.gateway is None or self.market.gateway.idle, DRAIN_S)
        if not await all_told(self.heralds, "end", DRAIN_S):
            return False
        deadline_s = asyncio.get_running_loop().time() + DRAIN_S
        while asyncio.get_running_loop().time() < deadline_s:
            await self._measure()
            if not self._waiting_bytes:
                return True
            await asyncio.sleep(0.2)
        return False

    async def _measure(self) -> None:
        brokers = self.fleet.brokers
        found = await asyncio.gather(*(each.metrics() for each in brokers.values()))
        for name, counts in zip(brokers, found, strict=True):
            self._clients[name] = int(counts.get(SESSION_CONNECTED, 0))
        self._waiting_bytes = int(sum(each.get(QUEUE_BYTES, 0) for each in found))

    def figures(self) -> Figures:
        stage = self.stage
        return Figures(
            clients=dict(self._clients),
            said=dict(stage.said + Counter(market=self.market.offers)),
            heard=dict(stage.heard + Counter(market=self.market.orders)),
            handovers=stage.handovers,
            waiting_bytes=self._waiting_bytes,
        )


async def cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(holds: Callable[[], bool], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.05)
    except TimeoutError:
        return


def open_browser(address: str, say: Callable[[str], None]) -> None:
    """Where there is a screen."""
    seen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not seen:
        say("no display here: open the address in a browser yourself")
    elif not webbrowser.open(address):
        say("no browser was found: open the address yourself")


def folder_of(data: Path | None) -> Path:
    """A new directory; raises `DemoFailed` if what was asked for is not new."""
    if data is None:
        return Path(tempfile.mkdtemp(prefix="roamcast-demo-"))
    try:
        data.mkdir(parents=True, exist_ok=True)
        if any(data.iterdir()):
            raise DemoFailed(f"{data} is not empty: give a new directory, or remove what is in it")
    except OSError as problem:
        raise DemoFailed(f"{data} cannot be the demo's directory: {problem.strerror}") from problem
    return data.resolve()


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
