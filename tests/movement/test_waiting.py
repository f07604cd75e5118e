"""L4: whoever has no position is told why and what to do, each reason once, and when there is one."""

import asyncio
from contextlib import aclosing
from typing import cast

import pytest

from roamcast.model.space import Earth
from roamcast.movement import Cleaner, source
from roamcast.movement.clean import Reason
from roamcast.movement.fix import Fix
from roamcast.movement.gpsd import Gpsd, Heard
from roamcast.movement.waiting import Lookout, why_no_position
from tests.movement.clocks import TestClock
from tests.movement.test_gpsd import TPV, VERSION, Daemons, line
from tests.ports import free_port


async def listen(gpsd: Gpsd, cleaner: Cleaner, heard: Heard) -> None:
    """Until the daemon has been heard so."""

    async def take() -> None:
        async with aclosing(gpsd.fixes()) as fixes:
            async for fix in fixes:
                cleaner.add(fix)

    taking = asyncio.get_running_loop().create_task(take())
    async with asyncio.timeout(20):
        while gpsd.last is not heard:
            await asyncio.sleep(0)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)


@pytest.mark.parametrize(
    ("asked", "saying", "heard", "said"),
    [
        ("", line(VERSION, {**TPV, "mode": 1}), Heard.NO_FIX, "has no fix; its receiver must see the sky"),
        ("", line(VERSION, {**TPV, "eph": 900.0}), Heard.FIX, "vaguer than 200 m"),
        ("", line(VERSION, TPV), Heard.FIX, "has sent no fix for 10 s; is its receiver still connected?"),
        ("?device=/dev/ttyUSB0", line(VERSION, TPV), Heard.OTHER_DEVICE, "tells of others than /dev/ttyUSB0"),
        ("", b"SSH-2.0-dropbear\r\n", Heard.MALFORMED, "is not gpsd with protocol 3; is it the right port?"),
        ("", line({**VERSION, "proto_major": 4}), Heard.WRONG_VERSION, "is not gpsd with protocol 3"),
    ],
    ids=["no-fix", "vague", "silent-now", "other-device", "another-service", "another-version"],
)
def test_l4_why_there_is_no_position_is_said_with_where_it_was_asked_for(
    asked: str, saying: bytes, heard: Heard, said: str
) -> None:
    async def work() -> str:
        daemons = Daemons(saying, saying)
        server = await asyncio.start_server(daemons.serve, "127.0.0.1", 0)
        port, cleaner = server.sockets[0].getsockname()[1], Cleaner(Earth())
        gpsd = cast(Gpsd, source(f"gpsd:127.0.0.1:{port}{asked}", clock=TestClock()))
        await listen(gpsd, cleaner, heard)
        daemons.stay.set()
        server.close()
        why = why_no_position(gpsd, cleaner)
        assert f"127.0.0.1:{port}" in why or cleaner.verdict is Reason.VAGUE
        return why

    assert said in asyncio.run(work())


def test_l4_a_gpsd_that_is_not_there_is_named_with_its_address() -> None:
    async def work() -> None:
        port = free_port()
        gpsd, cleaner = cast(Gpsd, source(f"gpsd:[::1]:{port}", clock=TestClock())), Cleaner(Earth())
        assert why_no_position(gpsd, cleaner) == f"gpsd at [::1]:{port} has not answered yet"
        await listen(gpsd, cleaner, Heard.UNREACHABLE)
        assert f"gpsd at [::1]:{port} cannot be reached; start it there" in why_no_position(gpsd, cleaner)

    asyncio.run(work())


def test_l4_a_source_whose_last_fix_is_too_old_is_said_to_be_silent() -> None:
    """As a trace with fixes that lie far apart."""
    cleaner = Cleaner(Earth())
    assert cleaner.add(Fix(0, (24.94, 60.17))) is not None
    assert (
        why_no_position(source("fixed:24.94,60.17"), cleaner) == "the location source has sent no position for 10 s"
    )


def test_l4_each_reason_is_said_once_however_often_it_comes_again() -> None:
    said: list[str] = []
    whys: list[str | None] = [None, "away", "away", "no fix", "away", None, None, "no fix", None, "vague", None]
    lookout = Lookout(iter(whys).__next__, said.append)
    for _ in whys:
        lookout.look()
    known = "the position is known now"
    assert said == ["away", "no fix", known, "vague", known]
