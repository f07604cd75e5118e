"""L3, L8: a neighbour that stands still for longer than searches wait gets all that was acknowledged (P-32)."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.processes.checking import complaints
from tests.processes.fleet import fleet
from tests.processes.publisher import PahoPublisher
from tests.processes.vendors import PahoReader, until

pytestmark = [pytest.mark.timeout(170), pytest.mark.process, pytest.mark.slow]
LARGE = " " + "x" * 40_000


def has_said(publisher: PahoPublisher, count: int) -> bool:
    """It says nothing before it is connected again."""
    if len(publisher.said) < count:
        publisher.say()
    return len(publisher.said) == count


def test_a_paused_neighbour_gets_everything_also_from_a_broker_that_was_killed_meanwhile(tmp_path: Path) -> None:
    async def work() -> None:
        protocol = {"search_patience_s": 0.5, "replay_wait_s_max": 75.0}
        async with fleet(tmp_path, "a b", [("a", "b")], protocol=protocol) as brokers:
            a, b = brokers["a"], brokers["b"]
            reader = PahoReader("reader", b.mqtt_port, "t/#", 1)
            await reader.start()
            await reader.stop()
            publisher = PahoPublisher("p", a.mqtt_port)
            await publisher.start()
            b.pause()
            # More than may be under way, or in memory.
            for _ in range(300):
                publisher.say(LARGE)
                await until(lambda: publisher.settled, "what waits for b is not acknowledged")
            await a.until_says("neighbour lost")
            await a.kill()
            await a.start()
            for count in range(301, 321):
                await until(partial(has_said, publisher, count), "a does not come back")
                await until(lambda: publisher.settled, "it is not acknowledged while b is away")
            b.resume()
            await reader.start()
            await until(lambda: len(set(reader.got)) >= len(publisher.said), "something was lost")
            assert publisher.refused == []
            got = [each.removesuffix(LARGE) for each in reader.got]
            assert complaints("reader", {"p": publisher.said}, got, once=[]) == []
            assert "neighbour gone" not in a.output.read_text(encoding="utf-8")
            await reader.stop()
            await publisher.stop()

    asyncio.run(asyncio.wait_for(work(), 160))
