"""L4: a real gpsd, to which `gpsfake` plays the log of a receiver that went along a recorded way."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from roamcast import Client
from roamcast.model.space import Earth
from roamcast.model.values import Point
from roamcast.movement import Cleaner, Fix, Reason
from roamcast.movement.gpsd import Gpsd, Heard
from roamcast.movement.recorded import Recording
from roamcast.server.running import RunningBroker
from roamcast.server.settings import settings_from
from tests.movement.clocks import START_US, TestClock, first
from tests.movement.nmea import log_of, no_fix
from tests.ports import free_port

pytestmark = [
    pytest.mark.skipif(
        shutil.which("gpsfake") is None or shutil.which("gpsd", path=f"{os.defpath}:/usr/sbin") is None,
        reason="needs gpsd and gpsfake (Debian: gpsd and gpsd-clients)",
    ),
    pytest.mark.timeout(120),
]
TRACE = Path(__file__).parents[2] / "scenarios/traces/square.gpx"
SENTENCE_S = 0.01
PATIENCE_S = 100.0


@contextlib.contextmanager
def receiver(log: Path, port: int) -> Iterator[None]:
    """gpsfake plays the log over and over to a gpsd of its own; both end with the block."""
    command = ["gpsfake", "-q", "-c", str(SENTENCE_S), "-P", str(port), str(log)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        # Its gpsd is a child in the same session and would stay otherwise.
        for way in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, way)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)


@pytest.fixture
def way() -> list[Fix]:
    """The fixes of a bus with a second between them, as a receiver makes them."""
    fixes = asyncio.run(first(Recording(TRACE, "bus", clock=TestClock()), 1_000))
    return [Fix(START_US + place * 1_000_000, fix.position) for place, fix in enumerate(fixes)]


async def some(gpsd: Gpsd, count: int) -> list[Fix]:
    found: list[Fix] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(gpsd.fixes()) as fixes:
        async for fix in fixes:
            found.append(fix)
            if len(found) == count:
                break
    return found


def test_l4_fixes_of_a_real_gpsd_are_those_of_the_log(way: list[Fix], tmp_path: Path) -> None:
    log, port, earth = tmp_path / "way.nmea", free_port(), Earth()
    log.write_text(log_of(way))
    gpsd = Gpsd("127.0.0.1", port, apart_us_max=None)
    with receiver(log, port):
        found = asyncio.run(some(gpsd, 60))
    by_time = {fix.at_us: fix for fix in way}
    timed = [fix for fix in found if fix.at_us in by_time]
    assert len(timed) >= 55
    assert max(earth.distance_m(fix.point, by_time[fix.at_us].point) for fix in timed) < 0.05
    assert len({fix.at_us for fix in timed}) > 10
    moving = [fix for fix in timed if fix.speed_mps]
    assert moving
    assert all(fix.accuracy_m is not None and 0 < fix.accuracy_m < 100 for fix in timed[5:])
    assert gpsd.release[0] == "3"


async def until_no_fix(gpsd: Gpsd) -> None:
    async with asyncio.timeout(PATIENCE_S), aclosing(gpsd.fixes()) as fixes:
        async for _ in fixes:
            if gpsd.counts[Heard.NO_FIX]:
                return


def test_l4_while_the_receiver_sees_no_sky_there_is_no_position(way: list[Fix], tmp_path: Path) -> None:
    log, port = tmp_path / "tunnel.nmea", free_port()
    tunnel = "".join(no_fix(way[-1].at_us + second * 1_000_000) for second in range(1, 8))
    log.write_text(log_of(way) + tunnel)
    gpsd = Gpsd("127.0.0.1", port)
    with receiver(log, port):
        asyncio.run(until_no_fix(gpsd))
    assert gpsd.counts[Heard.NO_FIX] > 0


def test_l4_a_gpsd_that_is_killed_and_started_again_is_found_again(way: list[Fix], tmp_path: Path) -> None:
    log, port = tmp_path / "way.nmea", free_port()
    log.write_text(log_of(way))

    async def story() -> tuple[Gpsd, Cleaner, int]:
        gpsd, cleaner, used = Gpsd("127.0.0.1", port, apart_us_max=None), Cleaner(Earth()), 0
        life = contextlib.ExitStack()
        with life:
            life.enter_context(receiver(log, port))
            async with asyncio.timeout(PATIENCE_S), aclosing(gpsd.fixes()) as fixes:
                async for fix in fixes:
                    used += cleaner.add(fix) is not None
                    if gpsd.counts[Heard.FIX] == 10:
                        await asyncio.to_thread(life.close)
                        life.enter_context(receiver(log, port))
                    if gpsd.counts[Heard.CONNECTED] > 1 and gpsd.counts[Heard.FIX] > 30:
                        return gpsd, cleaner, used
        raise AssertionError("unreachable: a source of gpsd has no end")

    gpsd, cleaner, used = asyncio.run(story())
    assert gpsd.counts[Heard.ENDED] >= 1
    assert used == cleaner.counts[Reason.TAKEN] > 5


def test_l4_a_client_of_a_broker_is_where_its_receiver_is(way: list[Fix], tmp_path: Path) -> None:
    log, port = tmp_path / "way.nmea", free_port()
    log.write_text(log_of(way))
    given = {"name": "a", "data": str(tmp_path / "a"), "listeners": [{"port": 0}], "log_level": "error"}

    async def story() -> list[Point]:
        broker = RunningBroker(settings_from(given))
        await broker.start()
        seen: dict[Point, None] = {}
        try:
            location = Gpsd("127.0.0.1", port, apart_us_max=None)
            address = f"mqtt://127.0.0.1:{broker.addresses[0].port}"
            async with Client("bus", [address], location=location, tolerance_m=0) as bus:
                while len(seen) < 8:
                    position = broker.server.core.border.context_of("bus").position
                    if position is not None:
                        seen[position] = None
                    await asyncio.sleep(0.01)
                assert bus.following is not None
                assert bus.following.refused == 0
        finally:
            await broker.stop()
        return list(seen)

    with receiver(log, port):
        seen = asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
    for position in seen:
        assert min(Earth().distance_m(position, fix.point) for fix in way) < 0.05
