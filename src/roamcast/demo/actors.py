"""The demo's clients: each is a `roamcast.Client` with a session of its own, and all are on one event loop.

Who moves goes along its journey, reports where it is about once a second, and roams to the broker of the quarter that
it is in. What each wants and says is what the papers are about:

    ambulance/way      to cars within 300 m of the ambulance, wherever it is: a proximity that moves (STEAM)
    light/N            from a traffic light to cars that are near it and have it ahead of them
    parking/N          free places near the reader that it can afford
    bus/N              where a bus is, to pedestrians near it
    traffic/accident   relevant in the street where it is, for an audience of drivers around it (context)
    market/offer       from the market, which has no broker, through its gateway
    $roam/fence/N/…    from brokers: who enters or leaves a fence (`fences.py`)
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import AsyncExitStack

from roamcast.client import Client, NotConnected
from roamcast.demo.fleet import Fleet
from roamcast.demo.people import People, Quarter, Standing
from roamcast.demo.streets import Journey, metres_between
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.values import Point, Value

REPORT_S = 1.0
STAY_M = 25.0
"""Another broker must be so much nearer before somebody roams to it: nobody roams to and fro along a border."""
WAY_M, LIGHT_M, PARKING_M, BUS_M, ACCIDENT_M, BLOCKED_M = 300, 150, 300, 200, 500, 40
RING, RING_M, RINGED = "ring", 150, "type IN ('car', 'bus')"
"""A fence that moves with the ambulance, and whom it concerns."""
SLOW, SLOW_S = 0.25, 2.0
"""How much of its speed a car keeps that makes way or sees a red light, and for how long."""
ACCIDENT_SAID_S, ACCIDENT_TIMES = 2.0, 4
SESSION_S = 600
CONNECT_S = 30.0


class Stage:
    """What all actors share."""

    def __init__(self, people: People, fleet: Fleet) -> None:
        self.people = people
        self.fleet = fleet
        self.closing = asyncio.Event()
        self.said: Counter[str] = Counter()
        """Events by the first word of their subject."""
        self.heard: Counter[str] = Counter()
        self.handovers = 0
        self.problems: Counter[str] = Counter()

    async def pause(self, seconds: float) -> bool:
        """Whether the demo goes on after it."""
        try:
            await asyncio.wait_for(self.closing.wait(), seconds)
        except TimeoutError:
            return True
        return False


class Actor(ABC):
    """One client. `begin` connects and subscribes, `live` is what it does until the demo closes."""

    def __init__(self, stage: Stage, name: str, place: Point) -> None:
        self.stage = stage
        self.name = name
        self.place = place
        self.generator = stage.people.generator(f"{name} acts")
        self.quarter: Quarter = stage.people.quarter_of(place)
        brokers = stage.fleet.brokers
        first = brokers[self.quarter.name].mqtt
        others = [each.mqtt for each in brokers.values() if each.mqtt != first]
        self.client = Client(name, [first, *others], session_expiry_s=SESSION_S, connect_s=CONNECT_S)

    def attributes(self) -> dict[str, Value]:
        return {"type": self.name.rpartition("-")[0]}

    async def begin(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self.client)
        await self.client.move(self.place, attributes=self.attributes())
        await self.subscribe()

    async def subscribe(self) -> None:
        return

    @abstractmethod
    async def live(self) -> None: ...

    async def listen(self) -> None:
        async for event in self.client.events():
            self.stage.heard[kind_of(event.subject)] += 1
            self.hear(event.subject, event.attributes)

    def hear(self, subject: str, attributes: dict[str, Value]) -> None:
        return

    async def say(
        self,
        subject: str,
        content: dict[str, Value],
        *,
        relevance: Scope | None = None,
        audience: Scope | None = None,
    ) -> None:
        await self.client.publish(subject, content, relevance=relevance, audience=audience)
        self.stage.said[subject.partition("/")[0]] += 1


class Mover(Actor):
    def __init__(self, stage: Stage, name: str, journey: Journey) -> None:
        super().__init__(stage, name, journey.position)
        self.journey = journey
        self.slow_until_s = 0.0
        self.hurry = 1.0

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        going_on = await self.stage.pause(self.generator.uniform(0, REPORT_S))
        before_s = loop.time()
        while going_on:
            now_s = loop.time()
            self.journey.go((now_s - before_s) * (SLOW if now_s < self.slow_until_s else self.hurry))
            before_s, self.place = now_s, self.journey.position
            await self.client.move(self.place, attributes=self.attributes())
            await self._roam()
            await self.act()
            going_on = await self.stage.pause(REPORT_S)

    async def act(self) -> None:
        return

    async def _roam(self) -> None:
        nearest = self.stage.people.quarter_of(self.place)
        gained_m = metres_between(self.place, self.quarter.place) - metres_between(self.place, nearest.place)
        if nearest == self.quarter or gained_m < STAY_M:
            return
        try:
            await self.client.roam(self.stage.fleet.brokers[nearest.name].mqtt)
        except NotConnected as problem:
            self.stage.problems[str(problem)] += 1
            return
        self.quarter = nearest
        self.stage.handovers += 1

    def slow_down(self) -> None:
        self.slow_until_s = asyncio.get_running_loop().time() + SLOW_S


class Driver(Mover):
    """Somebody who must know what is on the road."""

    async def subscribe(self) -> None:
        await self.client.subscribe("ambulance/way")
        await self.client.subscribe("traffic/accident")

    def hear(self, subject: str, attributes: dict[str, Value]) -> None:
        if subject == "ambulance/way" or attributes.get("state") == "red":
            self.slow_down()


class Car(Driver):
    def __init__(self, stage: Stage, name: str, journey: Journey) -> None:
        super().__init__(stage, name, journey)
        self.budget = round(self.generator.uniform(2, 6), 1)
        self._lights = {each.corner: each.name for each in stage.people.lights}
        self._accident = 0
        """How often it is still to tell of its accident."""
        self._told_s = 0.0

    def attributes(self) -> dict[str, Value]:
        ahead = next((self._lights[each] for each in self.journey.ahead if each in self._lights), "none")
        return {**super().attributes(), "budget": self.budget, "ahead": ahead}

    async def subscribe(self) -> None:
        await super().subscribe()
        await self.client.subscribe("light/+", f"light = me.ahead AND near(position, {LIGHT_M})")
        await self.client.subscribe("parking/+", f"free > 0 AND price <= me.budget AND near(position, {PARKING_M})")

    def have_accident(self) -> None:
        self._accident = ACCIDENT_TIMES

    async def act(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if not self._accident or now_s - self._told_s < ACCIDENT_SAID_S:
            return
        self._accident -= 1
        self._told_s = now_s
        self.slow_down()
        around = Scope(Circle(self.place, ACCIDENT_M), parse_text("type IN ('car', 'bus', 'ambulance')"))
        content: dict[str, Value] = {"position": self.place, "street": self.journey.stretch.street, "severity": 3}
        await self.say("traffic/accident", content, relevance=Scope(Circle(self.place, BLOCKED_M)), audience=around)


class Bus(Driver):
    async def act(self) -> None:
        street = self.journey.stretch.street
        await self.say(f"bus/{self.name}", {"position": self.place, "line": self.name, "street": street})


class Ambulance(Mover):
    def __init__(self, stage: Stage, name: str, journey: Journey) -> None:
        super().__init__(stage, name, journey)
        self.hurry = 1.5

    async def subscribe(self) -> None:
        await self.client.subscribe("traffic/accident")

    async def begin(self, stack: AsyncExitStack) -> None:
        await super().begin(stack)
        ring = Anchored(Circle(Point(0, 0), RING_M), self.name)
        await self.client.fences.put(RING, ring, on=("enter", "leave", "cross"), hosts=RINGED, hysteresis_m=0.0)
        await self.client.fences(RING)

    async def act(self) -> None:
        around = Scope(Anchored(Circle(Point(0, 0), WAY_M), self.name))
        await self.say("ambulance/way", {"street": self.journey.stretch.street, "siren": True}, audience=around)


class Walker(Mover):
    def __init__(self, stage: Stage, name: str, journey: Journey) -> None:
        super().__init__(stage, name, journey)
        self.budget = round(self.generator.uniform(3, 9), 1)
        self._order: Value | None = None

    def attributes(self) -> dict[str, Value]:
        return {**super().attributes(), "budget": self.budget}

    async def subscribe(self) -> None:
        await self.client.subscribe("bus/+", f"near(position, {BUS_M})")
        await self.client.subscribe("market/offer", "price <= me.budget")

    def hear(self, subject: str, attributes: dict[str, Value]) -> None:
        if subject == "market/offer" and self.generator.random() < 0.2:
            self._order = attributes.get("stall")

    async def act(self) -> None:
        if isinstance(self._order, str):
            await self.say("market/order", {"stall": self._order})
            self._order = None


class Fixture(Actor):
    """Something that stands where it is and tells of itself now and then."""

    every_s = 2.0

    def __init__(self, stage: Stage, standing: Standing) -> None:
        super().__init__(stage, standing.name, standing.place)

    async def live(self) -> None:
        going_on = await self.stage.pause(self.generator.uniform(0, self.every_s))
        while going_on:
            await self.tell()
            going_on = await self.stage.pause(self.every_s)

    @abstractmethod
    async def tell(self) -> None: ...


class Light(Fixture):
    every_s = 2.0

    def __init__(self, stage: Stage, standing: Standing) -> None:
        super().__init__(stage, standing)
        self._phase = self.generator.randrange(4)

    async def tell(self) -> None:
        self._phase += 1
        state = "red" if self._phase % 4 < 2 else "green"
        await self.say(f"light/{self.name}", {"light": self.name, "state": state, "position": self.place})


class Parking(Fixture):
    every_s = 3.0

    def __init__(self, stage: Stage, standing: Standing) -> None:
        super().__init__(stage, standing)
        self._price = round(self.generator.uniform(1, 5), 1)
        self._free = self.generator.randrange(1, 6)

    async def tell(self) -> None:
        self._free = max(0, self._free + self.generator.choice((-1, 0, 1)))
        await self.say(f"parking/{self.name}", {"free": self._free, "price": self._price, "position": self.place})


def kind_of(subject: str) -> str:
    """The first word; of a transition, which brokers publish, `fence`."""
    return subject.removeprefix("$roam/").partition("/")[0]


class Herald:
    """Somebody at a broker through whom one learns that what was said before has come everywhere.

    What a broker tells another goes in order, so when every herald hears every other, all brokers know of the
    subscriptions that were made before, and all events that were published before are where they are wanted. Its
    own subscription is a shared one, which the journal leaves out.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.client = Client(f"herald-{name}", [address], connect_s=CONNECT_S)
        self.heard: dict[str, None] = {}

    async def begin(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self.client)
        await self.client.subscribe(f"$share/{self.name}/herald/#")

    async def listen(self) -> None:
        async for event in self.client.events():
            self.heard[event.subject] = None


async def all_told(heralds: list[Herald], word: str, seconds: float) -> bool:
    """Whether everybody heard everybody in time."""
    subjects = [f"herald/{word}/{each.name}" for each in heralds]
    try:
        async with asyncio.timeout(seconds):
            while not all(subject in each.heard for each in heralds for subject in subjects):
                for each, subject in zip(heralds, subjects, strict=True):
                    await each.client.publish(subject)
                await asyncio.sleep(0.1)
    except TimeoutError:
        return False
    return True
