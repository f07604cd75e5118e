"""L8: a broker process that is killed, whose disk is full, whose file is damaged, whose directory is taken."""

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from tests.processes.checking import complaints
from tests.processes.fleet import BrokerProcess, fleet
from tests.processes.publisher import PahoPublisher, publisher
from tests.processes.vendors import PahoReader, until

pytestmark = [pytest.mark.timeout(170), pytest.mark.process]
SEED = int(os.environ.get("ROAMCAST_SEED", "7"))
QUOTA_EXCEEDED = 0x97


@pytest.mark.parametrize("snapshot_bytes", [64 * 1024 * 1024, pytest.param(4_000, marks=pytest.mark.slow)])
def test_l8_nothing_acknowledged_is_missing_after_sigkill_at_random_moments(
    tmp_path: Path, snapshot_bytes: int
) -> None:
    """With the smaller number, snapshots are taken all the time while clients publish."""
    generator = Random(SEED)

    async def work() -> None:
        async with fleet(tmp_path, "a", storage={"snapshot_bytes": snapshot_bytes}) as brokers:
            broker = brokers["a"]
            reader = PahoReader("reader", broker.mqtt_port, "t/#", 2)
            await reader.start()
            await reader.stop()
            publishers = [publisher(qos, broker.mqtt_port) for qos in (1, 2)]
            for each in publishers:
                await each.start()
            for _ in range(2):
                for _ in range(generator.randrange(40, 120)):
                    for each in publishers:
                        each.say()
                    await asyncio.sleep(generator.choice((0.0, 0.005)))
                await broker.kill()
                await broker.start()
            await until(lambda: all(each.settled for each in publishers), f"ROAMCAST_SEED={SEED}: acknowledgements")
            said = {each.name: each.said for each in publishers}
            assert sum(map(len, said.values())) > 100
            await reader.start()
            await until(
                lambda: len(set(reader.got)) >= sum(map(len, said.values())), f"ROAMCAST_SEED={SEED}: arrivals"
            )
            await reader.stop()
            for each in publishers:
                await each.stop()
            assert complaints("reader", said, reader.got, once=["p2"]) == [], f"ROAMCAST_SEED={SEED}"

    asyncio.run(asyncio.wait_for(work(), 160))


@pytest.mark.slow
def test_l8_a_full_disk_is_told_to_publishers_and_ends_when_clients_take_what_waits(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a", storage={"bytes_max": 400_000, "free_bytes_min": 0}) as brokers:
            broker = brokers["a"]
            reader = PahoReader("reader", broker.mqtt_port, "t/#", 1)
            await reader.start()
            await reader.stop()
            publisher = PahoPublisher("p", broker.mqtt_port)
            await publisher.start()

            def said_until_refused() -> bool:
                if publisher.settled:
                    publisher.say(" " + "x" * 2_000)
                return bool(publisher.refused)

            await until(said_until_refused, "nothing is refused")
            assert set(publisher.refused) == {QUOTA_EXCEEDED}
            taken = publisher.acknowledged
            assert taken > 50
            await reader.start()
            await until(lambda: len(set(reader.got)) >= taken, "what was acknowledged has not come")
            while not await broker.healthy():
                await asyncio.sleep(0.1)
            refused = len(publisher.refused)

            def said_until_taken() -> bool:
                if publisher.settled:
                    publisher.say()
                return publisher.acknowledged > taken

            await until(said_until_taken, "nothing is taken any more")
            assert len(publisher.refused) - refused <= 2
            await reader.stop()
            await publisher.stop()

    asyncio.run(asyncio.wait_for(work(), 120))


async def refused_start(broker: BrokerProcess) -> str:
    """What a broker says that does not start."""
    before = broker.output.stat().st_size if broker.output.exists() else 0
    await broker.launch()
    assert await broker.ended() == 2
    return broker.output.read_text()[before:]


@pytest.mark.slow
def test_l8_a_damaged_log_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a") as brokers:
            broker = brokers["a"]
            reader = PahoReader("reader", broker.mqtt_port, "t/#", 1)
            await reader.start()
            await reader.stop()
            await broker.stop()
            log = broker.data / "log.sqlite"
            damaged = bytearray(log.read_bytes())
            at = damaged.index(b"t/#")
            damaged[at : at + 3] = b"x/#"
            log.write_bytes(damaged)
            said = await refused_start(broker)
            assert str(log) in said
            assert "damaged" in said
            assert "Traceback" not in said
            assert log.read_bytes() == bytes(damaged)

    asyncio.run(asyncio.wait_for(work(), 120))


@pytest.mark.slow
def test_l8_two_brokers_cannot_work_on_one_directory(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a") as brokers:
            second = BrokerProcess("second", tmp_path)
            second.settings |= {"name": "a", "data": brokers["a"].settings["data"]}
            said = await refused_start(second)
            assert str(second.data) in said
            assert str(brokers["a"].pid) in said
            assert "Traceback" not in said
            assert await brokers["a"].healthy()

    asyncio.run(asyncio.wait_for(work(), 120))
