"""L8: a broker whose log is in PostgreSQL is killed or paused, and another process takes its place."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from roamcast.server.storage.settings import LEASE_S_MAX
from tests.processes.checking import complaints
from tests.processes.fleet import BrokerProcess
from tests.processes.pairs import KEEP_ALIVE_S, LEASE_S, NAME, OwnReader, Pair, pair
from tests.processes.publisher import OwnPublisher
from tests.processes.vendors import until
from tests.server.storage.clusters import Cluster, cluster, folder_of_clusters, needs_postgres, url_of

pytestmark = [pytest.mark.timeout(170), pytest.mark.process, needs_postgres]
SEED = int(os.environ.get("ROAMCAST_SEED", "7"))


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture
def database(server: Cluster) -> Iterator[Cluster]:
    """Empty: clients of the same names had sessions in the test before."""
    yield server
    server.sql("DROP SCHEMA IF EXISTS roamcast CASCADE")


class Load:
    """Publishers at QoS 1 and 2 and a reader, which know both addresses."""

    def __init__(self, brokers: Pair, generator: Random) -> None:
        self.generator = generator
        self.reader = OwnReader("reader", *brokers.addresses)
        self.publishers = [
            OwnPublisher(f"p{qos}", *brokers.addresses, qos=qos, keep_alive_s=KEEP_ALIVE_S) for qos in (1, 2)
        ]

    async def start(self) -> None:
        await self.reader.start()
        for each in self.publishers:
            await each.start()

    async def say(self, least: int = 40) -> None:
        for _ in range(self.generator.randrange(least, 3 * least)):
            for each in self.publishers:
                each.say()
            await asyncio.sleep(self.generator.choice((0.0, 0.005)))

    async def check(self) -> None:
        """Everything was acknowledged, and what was has come, in order, at QoS 2 once."""
        said = {each.name: each.said for each in self.publishers}
        await until(lambda: all(each.settled for each in self.publishers), f"ROAMCAST_SEED={SEED}: acknowledgements")
        total = sum(map(len, said.values()))
        await until(lambda: len(set(self.reader.heard)) >= total, f"ROAMCAST_SEED={SEED}: arrivals")
        assert complaints("reader", said, self.reader.heard, once=["p2"]) == [], f"ROAMCAST_SEED={SEED}"
        assert self.reader.sessions_lost == 0

    async def stop(self) -> None:
        await self.reader.stop()
        for each in self.publishers:
            await each.stop()


def test_l8_a_standby_takes_the_place_of_a_killed_broker(tmp_path: Path, database: Cluster) -> None:
    async def work() -> None:
        async with pair(tmp_path, database.url) as brokers:
            load = Load(brokers, Random(SEED))
            await load.start()
            await load.say()
            first, second = brokers.brokers
            await first.kill()
            await second.until_says("is ready")
            await load.check()
            await load.stop()

    asyncio.run(asyncio.wait_for(work(), 160))


def test_l12_a_standby_that_is_told_to_read_its_settings_goes_on_waiting_with_them(
    tmp_path: Path, database: Cluster
) -> None:
    async def work() -> None:
        async with pair(tmp_path, database.url) as brokers:
            first, second = brokers.brokers
            usable = second.settings["listeners"]
            second.settings["listeners"] = [{"kind": "tls", "port": 0, "certificate": "none.pem", "key": "none.key"}]
            second.write_settings()
            os.kill(second.pid, signal.SIGHUP)
            await second.until_says("were not read again")
            second.settings |= {"listeners": usable, "log_level": "info"}
            second.write_settings()
            os.kill(second.pid, signal.SIGHUP)
            await second.until_says("were read again")
            assert second.alive
            await first.stop()
            await second.until_says("is ready")
            reader = OwnReader("reader", brokers.addresses[1])
            await reader.start()
            await reader.stop()

    asyncio.run(asyncio.wait_for(work(), 160))


@pytest.mark.slow
def test_l8_a_broker_that_was_paused_ends_and_has_changed_nothing(tmp_path: Path, database: Cluster) -> None:
    async def work() -> None:
        async with pair(tmp_path, database.url) as brokers:
            load = Load(brokers, Random(SEED))
            await load.start()
            await load.say()
            first, second = brokers.brokers
            first.pause()
            try:
                await second.until_says("is ready")
                await load.say()
            finally:
                first.resume()
            assert await first.ended() == 3
            assert "'north' has lost its lease" in first.said
            assert "Traceback" not in first.said
            await load.check()
            await load.stop()

    asyncio.run(asyncio.wait_for(work(), 160))


@pytest.mark.slow
def test_l8_a_broker_that_stops_in_order_gives_its_place_away(tmp_path: Path, database: Cluster) -> None:
    async def work() -> None:
        async with pair(tmp_path, database.url) as brokers:
            load = Load(brokers, Random(SEED))
            await load.start()
            await load.say()
            first, second = brokers.brokers
            await first.stop()
            await second.until_says("is ready")
            await load.check()
            await load.stop()

    asyncio.run(asyncio.wait_for(work(), 160))


@pytest.mark.slow
def test_l8_a_second_broker_that_does_not_wait_is_refused(tmp_path: Path, database: Cluster) -> None:
    async def work() -> None:
        # It looks for less long than the one that serves may stand still.
        async with pair(tmp_path, database.url, lease_s=LEASE_S_MAX) as brokers:
            third = BrokerProcess("third", tmp_path)
            third.settings |= {"name": NAME, "data": database.url, "storage": {"lease_s": LEASE_S}}
            await third.launch()
            assert await third.ended() == 2
            assert f"'{NAME}' is served by" in third.said
            assert any(str(each.pid) in third.said for each in brokers.brokers)

    asyncio.run(asyncio.wait_for(work(), 160))


@pytest.mark.slow
def test_l8_nothing_acknowledged_is_lost_with_the_primary_database(tmp_path: Path) -> None:
    with folder_of_clusters() as folder:
        primary, replica = Cluster(folder / "one", "one"), Cluster(folder / "two", "two")
        try:
            primary.make()
            primary.start()
            replica.copy(primary)
            replica.start()
            primary.wait_for("two")
            primary.until_synchronous("two")
            asyncio.run(asyncio.wait_for(losing(primary, replica, tmp_path), 160))
        finally:
            primary.stop()
            replica.stop()


async def losing(primary: Cluster, replica: Cluster, folder: Path) -> None:
    async with pair(folder, url_of(primary, replica)) as brokers:
        load = Load(brokers, Random(SEED))
        await load.start()
        await load.say()
        primary.stop()
        replica.promote()
        # Whichever of the two it is: the first may have found the new one before its lease was over.
        await load.say()
        await load.check()
        await load.stop()
