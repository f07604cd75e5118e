"""L4: a client tells its broker where it is by a source of locations, and when that is not known any more."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from roamcast import Client, Point
from roamcast.client import BrokerGround, PublicationRefused
from roamcast.client.following import Following
from roamcast.model.context import Context
from roamcast.model.space import Plane
from roamcast.model.values import Velocity
from roamcast.movement import Cleaner, Fix, Limits, source
from roamcast.movement.dead_reckoning import DeadReckoning
from roamcast.movement.waiting import Lookout
from roamcast.mqtt.reasons import Reason
from tests.client.brokers import Town
from tests.client.test_client import take
from tests.client.test_with_brokers import in_town

pytestmark = pytest.mark.timeout(90)
SECOND_US = 1_000_000
SHORT = Limits(gap_us=50_000)


class Told:
    """Gives each fix when it is told to, and ends when it is told that."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Fix | Exception | None] = asyncio.Queue()
        self.ended = False

    def say(self, *fixes: Fix | Exception | None) -> None:
        for fix in fixes:
            self.waiting.put_nowait(fix)

    async def fixes(self) -> AsyncIterator[Fix]:
        try:
            while (fix := await self.waiting.get()) is not None:
                if isinstance(fix, Exception):
                    raise fix
                yield fix
        finally:
            self.ended = True


def fix(second: float, x: float, y: float = 0.0, **more: float) -> Fix:
    return Fix(round(second * SECOND_US), (x, y), **more)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


def known(made: Town, client: str) -> Context:
    """What the broker knows of a client."""
    return made.brokers["a"].server.core.border.context_of(client)


def test_l4_a_client_moves_by_its_source_from_the_beginning(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        told, brokers = Told(), [made.address("a")]
        told.say(fix(0, 100, speed_mps=2.0, heading_deg=90.0))
        async with Client("car", brokers, location=told, space=Plane()) as car, Client("sensor", brokers) as sensor:
            following = car.following
            assert following is not None
            await until(lambda: following.reports == 1)
            assert known(made, "car").position == Point(100, 0)
            velocity = known(made, "car").velocity
            assert velocity is not None
            assert velocity.east == pytest.approx(2.0)
            near = await car.subscribe("ice", "near(position, 50)")
            told.say(fix(1, 150, speed_mps=0.0))
            await until(lambda: following.reports == 2)
            await sensor.publish("ice", {"position": Point(50, 0), "n": 1})
            await sensor.publish("ice", {"position": Point(190, 0), "n": 2})
            assert [event.attributes["n"] for event in await take(near, 1)] == [2]
        assert told.ended

    in_town(tmp_path, "a", work)


def test_l4_the_broker_is_told_when_the_position_is_lost_and_when_it_is_back(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        told = Told()
        async with Client("car", [made.address("a")], space=Plane()) as car:
            following = await car.follow(told, SHORT)
            told.say(fix(0, 1))
            await until(lambda: following.reports == 2)
            assert known(made, "car").position is None
            told.say(fix(1, 2))
            await until(lambda: following.reports >= 3)
            told.say(None)
            await following.ended()
            assert known(made, "car").position is None
            await car.move(Point(5, 5))
            assert known(made, "car").position == Point(5, 5)

    in_town(tmp_path, "a", work)


def test_l4_a_client_may_follow_another_source(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        one, other = Told(), Told()
        async with Client("car", [made.address("a")], location=one, space=Plane()) as car:
            first = car.following
            assert first is not None
            one.say(fix(0, 1))
            await until(lambda: first.reports == 1)
            second = await car.follow(other)
            assert one.ended
            other.say(fix(0, 7))
            await until(lambda: second.reports == 1)
            assert car.following is second
            assert known(made, "car").position == Point(7, 0)

    in_town(tmp_path, "a", work)


def test_l4_a_broker_that_lost_the_session_is_told_again_that_the_position_is_lost(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        async with Client("car", [made.address("a")]) as car:
            await car.move(Point(1, 1), velocity=Velocity(1, 0), attributes={"kind": "car"})
            await car.lose_position()
            report = car._report.whole()
            assert report is not None
            assert report.payload == b'{"position":null,"attributes":{"kind":"car"}}'
            assert known(made, "car").position is None

    in_town(tmp_path, "a", work)


def test_l4_rule_18_a_velocity_without_a_position_moves_nobody_at_a_broker_that_lost_the_session(
    tmp_path: Path,
) -> None:
    async def work(made: Town) -> None:
        async with Client("car", [made.address("a")], space=Plane()) as car:
            await car.move(Point(1, 1))
            await car.move(velocity=Velocity(1, 0), destination=Point(9, 1), attributes={"kind": "car"})
            here = known(made, "car")
            assert (here.position, here.velocity, here.destination) == (Point(1, 1), None, None)
            report = car._report.whole(10.0, Plane())
            assert report is not None
            assert report.payload == b'{"position":[1.0,1.0],"attributes":{"kind":"car"}}'

    in_town(tmp_path, "a", work)


def test_l4_an_application_for_a_port_stands_where_the_source_says(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        async with Client("car", [made.address("a")]) as car:
            ground = BrokerGround(car)
            following = ground.follow(source("fixed:30,40"))
            await until(lambda: following.reports == 1)
            assert ground.context().position == known(made, "car").position == Point(30, 40)
            await following.stop()
            await ground.lose_position()
            assert ground.context().position is None

    in_town(tmp_path, "a", work)


class Moves:
    """Whom a source moves in these tests: it can be slow, and refuse."""

    def __init__(self) -> None:
        self.told: list[float | None] = []
        self.free = asyncio.Event()
        self.free.set()
        self.refuses = False

    async def move(self, position: Point, *, velocity: Velocity | None) -> None:
        await self.free.wait()
        if self.refuses:
            words = f"({position.x}, {position.y}) is not in this space"
            raise PublicationRefused("report", Reason.PAYLOAD_FORMAT_INVALID, words)
        self.told.append(position.x)

    async def lose_position(self) -> None:
        self.told.append(None)


def follow(story: Callable[[Told, Moves, Following], Awaitable[None]], limits: Limits | None = None) -> None:
    async def run() -> None:
        told, moves = Told(), Moves()
        following = Following(moves, told, Cleaner(Plane(), limits), DeadReckoning(Plane()))
        async with asyncio.timeout(20):
            await story(told, moves, following)
        await following.stop()

    asyncio.run(run())


def test_l4_a_client_can_say_why_its_broker_does_not_know_where_it_is() -> None:
    async def story(told: Told, moves: Moves, following: Following) -> None:
        assert following.missing() == "waiting for a position: the location source has sent no position yet"
        moves.refuses = True
        told.say(fix(0, 1))
        await until(lambda: following.refused == 1)
        assert "which does not take it: " in (following.missing() or "")
        assert "not in this space" in (following.missing() or "")
        moves.refuses = False
        told.say(fix(1, 20))
        await until(lambda: following.reports == 1)
        assert following.missing() is None
        told.say(ValueError("the receiver burns"))
        await following.ended()
        assert following.missing() == "no position: the source of locations failed: the receiver burns"

    follow(story)


def test_l4_that_a_broker_takes_no_position_is_said_once_wherever_the_client_goes() -> None:
    async def story(told: Told, moves: Moves, following: Following) -> None:
        said: list[str] = []
        lookout = Lookout(following.missing, said.append)
        moves.refuses = True

        async def refused(times: int) -> None:
            await until(lambda: following.refused == times)

        for second in range(3):
            told.say(fix(second, 20 * second))
            await refused(second + 1)
            lookout.look()
        assert len(said) == 1
        moves.refuses = False
        told.say(fix(3, 60))
        await until(lambda: following.reports == 1)
        lookout.look()
        assert said[1:] == ["the position is known now"]

    follow(story)


def test_l4_a_broker_that_was_told_of_no_position_but_its_loss_knows_none() -> None:
    async def story(told: Told, moves: Moves, following: Following) -> None:
        moves.refuses = True
        told.say(fix(0, 1))
        await until(lambda: moves.told == [None])
        told.say(fix(1, 20))
        await until(lambda: following.refused == 2)
        assert following.missing() is not None

    follow(story, SHORT)


def test_l4_of_a_source_that_has_ended_a_client_says_so() -> None:
    async def story(told: Told, _: Moves, following: Following) -> None:
        told.say(fix(0, 1), None)
        await following.ended()
        assert following.missing() == "no position any more: the source of locations has ended"

    follow(story)


def test_l4_while_a_report_is_on_its_way_only_the_newest_fix_is_kept() -> None:
    async def story(told: Told, moves: Moves, following: Following) -> None:
        moves.free.clear()
        told.say(fix(0, 0))
        await until(told.waiting.empty)
        told.say(*(fix(second, second) for second in range(1, 9)))
        await until(told.waiting.empty)
        moves.free.set()
        await until(lambda: following.reports == 2)
        assert moves.told == [0, 8]

    follow(story)


def test_l4_who_stands_still_tells_it_once() -> None:
    async def story(told: Told, moves: Moves, following: Following) -> None:
        for second in range(5):
            told.say(fix(second, 3, speed_mps=0.0))
            await until(told.waiting.empty)
        told.say(fix(5, 5, speed_mps=0.0))
        await until(lambda: following.reports == 2)
        assert moves.told == [3, 5]

    follow(story)


def test_l4_who_goes_on_as_it_said_is_not_told_again_and_who_turns_is() -> None:
    async def story(told: Told, moves: Moves, following: Following) -> None:
        for second in range(5):
            told.say(fix(second, second * 2.0, speed_mps=2.0, heading_deg=90.0))
            await until(told.waiting.empty)
        told.say(fix(5, 10.0, speed_mps=2.0, heading_deg=0.0))
        await until(lambda: following.reports == 2)
        assert moves.told == [0, 10]

    follow(story)


def test_l4_a_refused_report_is_counted_and_the_next_one_made() -> None:
    async def story(told: Told, moves: Moves, following: Following) -> None:
        moves.refuses = True
        told.say(fix(0, 0))
        await until(lambda: following.refused == 1)
        moves.refuses = False
        told.say(fix(1, 1))
        await until(lambda: following.reports == 1)
        assert moves.told == [1]

    follow(story)


def test_l4_a_source_that_fails_leaves_no_position_and_its_problem() -> None:
    async def story(told: Told, moves: Moves, following: Following) -> None:
        told.say(fix(0, 0))
        await until(lambda: following.reports == 1)
        told.say(OSError("unplugged"))
        await following.ended()
        assert moves.told == [0, None]
        assert str(following.problem) == "unplugged"

    follow(story)
