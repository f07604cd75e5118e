"""L4: the receiver through gpsd's JSON: every report, every way to fail, and what other versions say."""

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.movement import source
from roamcast.movement.fix import BadSource, Fix
from roamcast.movement.gpsd import LINE_BYTES_MAX, PAUSE_MAX_US, Gpsd, Heard
from roamcast.movement.gpsd_reports import BadLine, TimePositionVelocity, Version, fix_of, read_line
from tests.effort import examples
from tests.movement.clocks import START_US, TestClock

VERSION = {"class": "VERSION", "release": "3.25", "proto_major": 3, "proto_minor": 15}
TPV = {
    "class": "TPV",
    "device": "/dev/pts/1",
    "mode": 3,
    "time": "2023-11-14T22:13:21.500Z",
    "lat": 60.17,
    "lon": 24.94,
}
"""A second and a half after the test's clock begins."""


def line(*said: dict[str, object] | bytes) -> bytes:
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\r\n" for each in said)


class Daemons:
    """Answers the first connection with the first of these, and so on; the last one stays open."""

    def __init__(self, *sayings: bytes) -> None:
        self.sayings = list(sayings)
        self.asked: list[bytes] = []
        self.stay = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readline())
        writer.write(self.sayings.pop(0))
        if not self.sayings:
            await self.stay.wait()
        writer.close()


def heard(count: int, *sayings: bytes, make: Callable[[int], Gpsd] | None = None) -> tuple[list[Fix], Gpsd, Daemons]:
    """The first fixes from daemons that say these things, one connection after the other."""

    async def listen() -> tuple[list[Fix], Gpsd, Daemons]:
        daemons = Daemons(*sayings)
        server = await asyncio.start_server(daemons.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        gpsd = Gpsd("127.0.0.1", port, clock=TestClock()) if make is None else make(port)
        found: list[Fix] = []
        async with asyncio.timeout(20), aclosing(gpsd.fixes()) as fixes:
            async for fix in fixes:
                found.append(fix)
                if len(found) == count:
                    break
        daemons.stay.set()
        server.close()
        await server.wait_closed()
        return found, gpsd, daemons

    return asyncio.run(listen())


def test_l4_a_report_becomes_a_fix_with_all_that_it_says() -> None:
    said = {**TPV, "speed": 11.2, "track": 63.4, "eph": 17.1, "altMSL": 12.0, "newly": {"invented": [1]}}
    (fix,), gpsd, daemons = heard(1, line(VERSION, {"class": "DEVICES", "devices": []}, said))
    assert fix == Fix(START_US + 1_500_000, (24.94, 60.17), 11.2, 63.4, 17.1)
    assert daemons.asked == [b'?WATCH={"enable":true,"json":true};\n']
    assert gpsd.release == "3.25"


def test_l4_older_daemons_tell_the_accuracy_by_axis() -> None:
    (fix,), _, _ = heard(1, line(VERSION, {**TPV, "epx": 3.0, "epy": 4.0}))
    assert fix.accuracy_m == 5.0


def test_l4_without_a_fix_there_is_no_position() -> None:
    nothing = [{"class": "TPV", "mode": 1}, {**TPV, "mode": 0}, {"class": "TPV", "mode": 3, "eph": 1.0}]
    fixes, gpsd, _ = heard(1, line(VERSION, *nothing, {**TPV, "mode": 2}))
    assert len(fixes) == 1
    assert (gpsd.counts[Heard.NO_FIX], gpsd.counts[Heard.FIX]) == (3, 1)


@pytest.mark.parametrize("time", ["2001-01-01T00:00:00Z", "soon", "", 1e300])
def test_l4_a_receiver_whose_clock_is_elsewhere_is_taken_at_the_time_of_arrival(time: object) -> None:
    report = read_line(line({**TPV, "time": time}))
    assert isinstance(report, TimePositionVelocity)
    fix = fix_of(report, START_US, 10_000_000)
    assert fix is not None
    assert fix.at_us == START_US


def test_l4_a_receivers_time_can_be_taken_as_it_is() -> None:
    report = read_line(line({**TPV, "time": "2001-01-01T00:00:00Z"}))
    assert isinstance(report, TimePositionVelocity)
    fix = fix_of(report, START_US, None)
    assert fix is not None
    assert fix.at_us == 978_307_200_000_000


def test_l4_only_the_device_that_was_asked_for_counts() -> None:
    said = line(VERSION, {**TPV, "lat": 1.0}, {**TPV, "device": "/dev/gps"})
    (fix,), gpsd, _ = heard(1, said, make=lambda port: Gpsd("127.0.0.1", port, "/dev/gps", TestClock()))
    assert fix.position == (24.94, 60.17)
    assert gpsd.counts[Heard.OTHER_DEVICE] == 1


def test_l4_a_daemon_that_ends_is_called_again() -> None:
    good = line(VERSION, TPV)
    fixes, gpsd, daemons = heard(3, good, good, good)
    assert len(fixes) == len(daemons.asked) == 3
    assert (gpsd.counts[Heard.CONNECTED], gpsd.counts[Heard.ENDED]) == (3, 2)


def test_l4_what_is_no_gpsd_is_counted_and_called_again_later() -> None:
    nonsense = (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xfe\n[1]\n{}\nnull\n", b"x" * (LINE_BYTES_MAX + 10))
    fixes, gpsd, _ = heard(1, *nonsense, line(VERSION, TPV))
    assert len(fixes) == 1
    assert gpsd.counts[Heard.MALFORMED] == 2 + 4 + 1


def test_l4_a_daemon_of_another_protocol_is_not_listened_to() -> None:
    fixes, gpsd, _ = heard(1, line({**VERSION, "proto_major": 4}, {**TPV, "lat": 1.0}), line(VERSION, TPV))
    assert fixes[0].position == (24.94, 60.17)
    assert gpsd.counts[Heard.WRONG_VERSION] == 1


def test_l4_a_daemon_that_is_silent_for_long_is_left_and_called_again() -> None:
    class Mute(Daemons):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            first = not self.asked
            self.asked.append(await reader.readline())
            if not first:
                writer.write(line(VERSION, TPV))
            await self.stay.wait()
            writer.close()

    async def listen() -> Gpsd:
        daemons = Mute()
        server = await asyncio.start_server(daemons.serve, "127.0.0.1", 0)
        gpsd = Gpsd("127.0.0.1", server.sockets[0].getsockname()[1], clock=TestClock(), silence_s=0.2)
        async with asyncio.timeout(20), aclosing(gpsd.fixes()) as fixes:
            await anext(fixes)
        daemons.stay.set()
        server.close()
        await server.wait_closed()
        return gpsd

    assert asyncio.run(listen()).counts[Heard.SILENT] == 1


def test_l4_pauses_grow_to_a_bound_while_nobody_answers() -> None:
    class Enough(Exception):
        pass

    class Pauses(TestClock):
        def __init__(self) -> None:
            super().__init__()
            self.pauses_us: list[int] = []

        async def until(self, at_us: int) -> None:
            self.pauses_us.append(at_us - self.now)
            if len(self.pauses_us) == 12:
                raise Enough
            await super().until(at_us)

    async def call() -> tuple[Gpsd, list[int]]:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        clock = Pauses()
        gpsd = Gpsd("127.0.0.1", port, clock=clock)
        with pytest.raises(Enough):
            await anext(gpsd.fixes())
        return gpsd, clock.pauses_us

    gpsd, pauses_us = asyncio.run(call())
    assert gpsd.counts[Heard.UNREACHABLE] == 12
    assert pauses_us[0] <= 200_000
    assert PAUSE_MAX_US / 2 <= pauses_us[-1] <= PAUSE_MAX_US
    assert pauses_us[6] > 8 * pauses_us[1]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("gpsd:", ("localhost", 2947, None)),
        ("gpsd:pi", ("pi", 2947, None)),
        ("gpsd:pi:2948?device=/dev/ttyUSB0", ("pi", 2948, "/dev/ttyUSB0")),
        ("gpsd:[::1]:2948", ("::1", 2948, None)),
        ("gpsd:[::1]", ("::1", 2947, None)),
    ],
)
def test_l4_gpsd_is_named_by_its_address(text: str, address: tuple[str, int, str | None]) -> None:
    made = source(text)
    assert isinstance(made, Gpsd)
    assert (made.host, made.port, made.device) == address


@pytest.mark.parametrize("text", ["gpsd:pi:x", "gpsd:pi:0", "gpsd:pi:70000", "gpsd:::1", "gpsd:[::1]x", "gpsd:a?b=1"])
def test_l4_an_address_that_is_none_is_told(text: str) -> None:
    with pytest.raises(BadSource, match=r"give HOST or HOST:PORT|there is no option 'b'"):
        source(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(
    ["mode", "device", "time", "lat", "lon", "speed", "track", "eph", "epx", "epy", "proto_major"]
)
said_by_strangers = st.binary(max_size=60) | st.builds(
    lambda kind, rest: json.dumps({"class": kind, **rest}).encode(),
    st.sampled_from(["TPV", "VERSION", "SKY", 3, None]),
    st.dictionaries(names, json_values, max_size=8),
)


@given(said_by_strangers)
@examples(300)
def test_l4_whatever_a_line_is_it_is_understood_or_refused(said: bytes) -> None:
    try:
        found = read_line(said)
    except BadLine:
        return
    if isinstance(found, TimePositionVelocity):
        fix = fix_of(found, START_US, None)
        assert fix is None or isinstance(fix.at_us, int)
    elif isinstance(found, Version):
        assert isinstance(found.proto_major, int)
