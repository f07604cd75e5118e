"""L6: `roamcast pub` and `roamcast sub` at a real broker, as a person types them."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.movement.test_gpsd import TPV, VERSION, Daemons, line
from tests.ports import free_port
from tests.processes.fleet import COMMAND, environment, fleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150), pytest.mark.process]


async def roamcast(*words: str, told: str = "") -> tuple[int, str, str]:
    process = await started(*words)
    out, errors = await asyncio.wait_for(process.communicate(told.encode()), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


async def started(*words: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *COMMAND, *words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()
    )


def test_l6_a_subscription_with_filter_and_place_gets_what_is_bad_and_near(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a", ()) as brokers:
            broker = ("--broker", f"mqtt://127.0.0.1:{brokers['a'].mqtt_port}")
            wanted = ("--filter", "severity > 3", "--near", "500", "--at", "0,0")
            reader = await started("sub", "alerts/#", *broker, *wanted, "--count", "1", "--seconds", "60", "--json")
            assert reader.stderr is not None
            assert b"subscribed" in await asyncio.wait_for(reader.stderr.readline(), 60)
            for severity, place in ((2, "100,0"), (4, "900,0"), (5, "100,0")):
                content = json.dumps({"severity": severity})
                assert (await roamcast("pub", "alerts/ice", content, *broker, "--at", place))[0] == 0
            out, _ = await asyncio.wait_for(reader.communicate(), 60)
            assert reader.returncode == 0
            event = json.loads(out)
            assert (event["subject"], event["content"]) == ("alerts/ice", {"severity": 5})

    asyncio.run(work())


def test_l6_a_named_subscription_gets_at_the_next_time_what_came_meanwhile_a_line_an_event(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a", ()) as brokers:
            broker = ("--broker", f"mqtt://127.0.0.1:{brokers['a'].mqtt_port}")
            code, out, _ = await roamcast("sub", "n", "--name", "me", *broker, "--seconds", "1", "--count", "1")
            assert (code, out) == (1, "")
            assert (await roamcast("pub", "n", "-", *broker, told="one\ntwo\n"))[0] == 0
            code, out, _ = await roamcast("sub", "n", "--name", "me", *broker, "--count", "2", "--seconds", "60")
            assert (code, out) == (0, "n one\nn two\n")

    asyncio.run(work())


def test_l4_a_reader_without_a_position_is_told_why_and_when_there_is_one(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a", ()) as brokers:
            port = free_port()
            where = ("--near", "500", "--location", f"gpsd:127.0.0.1:{port}")
            reader = await started("sub", "t", "--broker", f"mqtt://127.0.0.1:{brokers['a'].mqtt_port}", *where)
            assert reader.stderr is not None
            assert b"subscribed" in await asyncio.wait_for(reader.stderr.readline(), 60)
            said = await asyncio.wait_for(reader.stderr.readline(), 60)
            assert f"waiting for a position: gpsd at 127.0.0.1:{port} cannot be reached" in said.decode()
            daemons = Daemons(line(VERSION, TPV))
            server = await asyncio.start_server(daemons.serve, "127.0.0.1", port)
            assert b"the position is known now" in await asyncio.wait_for(reader.stderr.readline(), 60)
            reader.terminate()
            await reader.communicate()
            daemons.stay.set()
            server.close()

    asyncio.run(work())
