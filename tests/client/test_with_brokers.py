"""L2, L3: `roamcast.Client` and applications for a `Port` at our own brokers."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from roamcast import Circle, ContentType, Event, EventType, Point, Port, Scope
from roamcast.client import BrokerGround, Client, PublicationRefused, SubscriptionRefused
from roamcast.model.region import Anchored, rectangle
from roamcast.model.values import BadValue, Velocity
from roamcast.mqtt.reasons import Reason
from tests.client.brokers import Town, town
from tests.client.test_client import take
from tests.docs.pages import blocks, text_of

pytestmark = pytest.mark.timeout(90)
PATIENCE_S = 40.0


def in_town(
    folder: Path, names: str, work: Callable[[Town], Awaitable[None]], space: Literal["plane", "earth"] = "plane"
) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S), town(folder, *names, space=space) as made:
            await work(made)

    asyncio.run(bounded())


def test_l2_a_filter_over_content_and_place_is_applied_by_the_broker(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        brokers = [made.address("a")]
        async with Client("car", brokers) as car, Client("sensor", brokers) as sensor:
            await car.move(Point(100, 0))
            near = await car.subscribe("ice", "near(position, 50) AND depth_mm > 2")
            for x, depth_mm in ((100, 1), (120, 5), (500, 9), (60, 3)):
                await sensor.publish("ice", {"position": Point(x, 0), "depth_mm": depth_mm})
            await sensor.publish("ice", {"position": Point(101, 0), "depth_mm": 7})
            assert [event.attributes["depth_mm"] for event in await take(near, 3)] == [5, 3, 7]

    in_town(tmp_path, "a", work)


def test_l2_two_subscriptions_to_one_subject_hold_side_by_side(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        async with Client("c", [made.address("a")]) as one:
            cold, warm = await one.subscribe("t", "celsius < 0"), await one.subscribe("t", "celsius > 20")
            for celsius in (-5, 10, 25, -1):
                await one.publish("t", {"celsius": celsius})
            assert [event.attributes["celsius"] for event in await take(cold, 2)] == [-5, -1]
            assert [event.attributes["celsius"] for event in await take(warm, 1)] == [25]

    in_town(tmp_path, "a", work)


def test_l2_a_filter_that_the_broker_refuses_is_an_exception_with_its_words(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        async with Client("c", [made.address("a")]) as one:
            with pytest.raises(SubscriptionRefused, match="filter") as refused:
                await one.subscribe("t", "speed >> 3")
            assert refused.value.reason is Reason.IMPLEMENTATION_SPECIFIC_ERROR
            with pytest.raises(SubscriptionRefused, match="interest"):
                await one.subscribe("t", interest='{"circle": [1]}')
            with pytest.raises(PublicationRefused, match="audience"):
                await one.publish("t", {}, audience="((")
            with pytest.raises(PublicationRefused, match="position"):
                await one.publish("$roam/me", b'{"position": [1]}')
            await one.subscribe("t", "speed > 3")

    in_town(tmp_path, "a", work)


def test_l2_an_audience_around_the_publisher_moves_with_it(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        brokers = [made.address("a")]
        async with Client("bus", brokers) as bus, Client("rider", brokers) as rider:
            await rider.move(Point(100, 0))
            stops = await rider.subscribe("stop")
            around = Scope(Anchored(Circle(Point(0, 0), 30), "bus"))
            for x in (0, 90, 200, 110):
                await bus.move(Point(x, 0))
                await bus.publish("stop", {"x": x}, audience=around)
            assert [event.attributes["x"] for event in await take(stops, 2)] == [90, 110]

    in_town(tmp_path, "a", work)


@pytest.mark.parametrize("qos", [1, 2])
def test_l3_a_client_that_goes_from_broker_to_broker_gets_everything_once_and_in_order(
    tmp_path: Path, qos: int
) -> None:
    async def work(made: Town) -> None:
        addresses = [made.address(name) for name in "abc"]
        async with Client("walker", addresses) as walker, Client("mast", addresses[:1]) as mast:
            await walker.subscribe("news", "number >= 0", qos=qos)
            got: list[Any] = []

            async def read() -> None:
                async for event in walker.events():
                    got.append(event.attributes["number"])
                    if len(got) == 120:
                        return

            reading = asyncio.create_task(read())
            for number in range(120):
                await mast.publish("news", {"number": number}, qos=qos)
                if number % 30 == 20:
                    await walker.roam(addresses[number // 30 % 3])
            await reading
            assert got == list(range(120))
            assert walker.sessions_lost == 0

    in_town(tmp_path, "abc", work)


def test_l3_a_broker_that_stops_sends_its_clients_on_and_what_it_had_is_there_when_it_is_back(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        addresses = [made.address(name) for name in "ab"]
        async with Client("walker", addresses) as walker, Client("mast", addresses[1:]) as mast:
            await walker.subscribe("news", qos=2)
            got: list[Any] = []

            async def read() -> None:
                async for event in walker.events():
                    got.append(event.attributes["number"])
                    if len(got) == 60:
                        return

            reading = asyncio.create_task(read())
            for number in range(60):
                await mast.publish("news", {"number": number}, qos=2)
                if number == 20:
                    await made.stop("a")
                if number == 40:
                    await made.start("a")
            await reading
            assert got == list(range(60))

    in_town(tmp_path, "ab", work)


WARNING = EventType("ambulance/warning", {"speed": ContentType.DOUBLE})


class Ambulance:
    def start(self, port: Port) -> None:
        def warn() -> None:
            assert port.me.velocity is not None
            port.raise_("ambulance/warning", {"speed": port.me.velocity.speed})

        port.announce(WARNING, Circle(Point(0, 0), 250))
        port.every(0.05, warn)


class Car:
    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.enough = asyncio.Event()

    def start(self, port: Port) -> None:
        self.port = port
        self.subscription = port.subscribe("ambulance/warning", self.yield_way, "speed > 5")

    def yield_way(self, event: Event) -> None:
        self.heard.append(event)
        if len(self.heard) == 3:
            self.port.unsubscribe(self.subscription)
            self.port.set(yielding=True)
            self.enough.set()


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_l2_applications_written_for_a_port_run_on_brokers(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        async with (
            Client("ambulance", [made.address("a")]) as first,
            Client("car", [made.address("b")]) as second,
            Client("far away", [made.address("b")]) as third,
        ):
            grounds = [BrokerGround(each) for each in (first, second, third)]
            await grounds[0].move(Point(0, 0), velocity=Velocity(12, 0))
            await grounds[1].move(Point(100, 0))
            await grounds[2].move(Point(9_000, 0))
            near, far = Car(), Car()
            running = [asyncio.create_task(grounds[1].run(near)), asyncio.create_task(grounds[2].run(far))]
            await asyncio.sleep(0)
            await asyncio.gather(grounds[1].settled(), grounds[2].settled())
            running.append(asyncio.create_task(grounds[0].run(Ambulance())))
            await near.enough.wait()
            assert [event.attributes["speed"] for event in near.heard[:3]] == [12.0] * 3
            assert near.heard[0].publisher.host == "ambulance"
            assert near.heard[0].publisher.position is not None
            assert far.heard == []
            await grounds[1].settled()
            assert second.subscriptions() == []
            assert near.port.me.attributes == {"yielding": True}
            for task in running:
                await stopped(task)

    in_town(tmp_path, "ab", work)


def test_c3_an_application_on_brokers_withdraws_what_it_raised_with_a_lifetime(tmp_path: Path) -> None:
    class Parking:
        def start(self, port: Port) -> None:
            port.announce(EventType("parking", {"street": ContentType.STRING}))
            taken = port.raise_("parking", {"street": "Gone"}, lifetime_s=600)
            port.raise_("parking", {"street": "Oak"}, lifetime_s=600)
            port.withdraw(taken.id)

    async def work(made: Town) -> None:
        async with Client("p", [made.address("a")]) as owner, Client("driver", [made.address("b")]) as driver:
            ground = BrokerGround(owner)
            await ground.move(Point(0, 0))
            running = asyncio.create_task(ground.run(Parking()))
            await asyncio.sleep(0)
            await ground.settled()
            free = await driver.subscribe("parking")
            assert [event.attributes["street"] for event in await take(free, 1)] == ["Oak"]
            kept = await owner.publish("parking", {"street": "Ash"}, expiry_s=600, persist=True)
            await owner.withdraw("parking", kept)
            await stopped(running)

    in_town(tmp_path, "ab", work)


def test_l2_what_brokers_cannot_carry_is_said_at_the_call(tmp_path: Path) -> None:
    class Boxed:
        def start(self, port: Port) -> None:
            port.announce(WARNING, rectangle(10, 20))
            port.raise_("ambulance/warning", {"speed": 1.0})

    async def work(made: Town) -> None:
        async with Client("c", [made.address("a")]) as one:
            ground = BrokerGround(one)
            await ground.move(Point(0, 0))
            with pytest.raises(BadValue, match="circles"):
                await ground.run(Boxed())

    in_town(tmp_path, "a", work)


def test_l2_a_failing_handler_and_a_refused_subscription_end_the_application_with_their_problem(
    tmp_path: Path,
) -> None:
    class Failing:
        def start(self, port: Port) -> None:
            def fail() -> None:
                raise ZeroDivisionError

            port.after(0, fail)

    class Refused:
        def start(self, port: Port) -> None:
            port.subscribe("a", lambda event: None, modulator="no such thing " * 9_000)

    async def work(made: Town) -> None:
        async with Client("c", [made.address("a")]) as one:
            with pytest.raises(ZeroDivisionError):
                await BrokerGround(one).run(Failing())
            with pytest.raises(SubscriptionRefused):
                await BrokerGround(one).run(Refused())

    in_town(tmp_path, "a", work)


def test_l2_the_programs_of_the_client_page_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = text_of("docs/reference/CLIENT.md")
    programs = [program.replace("asyncio.run(main())", "") for program in blocks(page, "python")]
    assert len(programs) == 2

    async def work(made: Town) -> None:
        for program in programs:
            names: dict[str, Any] = {}
            exec(program.replace("127.0.0.1:1883", f"127.0.0.1:{made.ports['a']}"), names)
            await names["main"]()

    in_town(tmp_path, "a", work, "earth")  # as a broker is that nobody has told otherwise
    said = capsys.readouterr().out
    assert "road/ice 3 mm" in said
    assert "bob hears ann" in said
