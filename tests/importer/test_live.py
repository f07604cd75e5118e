"""P1, L2: what a broker's clients publish goes into a journal while it is published."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roamcast.cli._import_live import Listening, Notebook, import_live
from roamcast.cli._pubsub import Person
from roamcast.client import Client
from roamcast.importer.fixes import Columns, Reading
from roamcast.importer.rules import InGaps, Rules
from roamcast.journal import Move, Noted, read_records, read_run
from roamcast.journal.records import RUN_ENDED
from roamcast.model.values import Point
from roamcast.server.running import RunningBroker
from roamcast.server.settings import settings_from
from tests.importer.given import NOON_US

NOON_S = NOON_US // 1_000_000


def noted(
    *said: tuple[str, object], reading: Reading | None = None, rules: Rules | None = None
) -> tuple[Notebook, list[Move]]:
    moves: list[Move] = []
    notebook = Notebook(moves.append, rules or Rules(), reading or Reading())
    for topic, payload in said:
        notebook.take(topic, json.dumps(payload).encode(), NOON_US)
    return notebook, moves


def test_owntracks_says_who_it_is_by_its_topic() -> None:
    said = {"_type": "location", "lat": 60.1, "lon": 24.9, "tst": NOON_S - 3, "vel": 36, "cog": 90}
    _, (move,) = noted(("owntracks/ann/phone", said))
    assert (move.host, move.at_us, move.position) == ("ann/phone", NOON_US - 3_000_000, Point(24.9, 60.1))
    assert move.velocity is not None
    assert round(move.velocity.east, 6) == 10


def test_any_object_with_longitude_and_latitude_will_do() -> None:
    said = {"id": "bus-7", "lon": 24.9, "lat": 60.1, "time": "2024-05-01T12:00:00Z"}
    _, (move,) = noted(("fleet/x", said))
    assert (move.host, move.at_us, move.position) == ("bus-7", NOON_US, Point(24.9, 60.1))


def test_columns_and_hosts_are_named_by_options() -> None:
    reading = Reading(columns=Columns(lon="e", lat="n", time="ms"), host_name="{1}")
    _, (move,) = noted(("fleet/bus-7/position", {"e": 24.9, "n": 60.1, "ms": NOON_S * 1_000}), reading=reading)
    assert (move.host, move.at_us) == ("bus-7", NOON_US)


def test_a_message_without_a_time_was_sent_when_it_came() -> None:
    _, (move,) = noted(("fleet/7", {"lon": 1, "lat": 2}))
    assert (move.host, move.at_us) == ("fleet/7", NOON_US)


def test_what_cannot_be_read_or_believed_is_counted() -> None:
    there = {"id": "a", "lon": 1, "lat": 2, "time": NOON_S}
    broken: list[object] = [7, {"id": "a"}, {**there, "time": "noon"}, {**there, "lat": "2"}]
    notebook, moves = noted(*(("t", each) for each in (*broken, there, {**there, "time": NOON_S + 1, "lon": 9})))
    assert (notebook.heard.unreadable, notebook.heard.refused, len(moves)) == (4, 1, 1)


@pytest.mark.parametrize(("in_gaps", "up"), [(InGaps.NEAR, False), (InGaps.UNKNOWN, True), (InGaps.REST, None)])
def test_a_host_that_falls_silent_is_not_where_it_was(in_gaps: InGaps, up: bool | None) -> None:
    notebook, moves = noted(("t", {"id": "a", "lon": 1, "lat": 2, "time": NOON_S}), rules=Rules(in_gaps=in_gaps))
    notebook.look(NOON_US + 60_000_000)
    notebook.look(NOON_US + 60_000_001)
    notebook.look(NOON_US + 90_000_000)
    silent = [] if up is None else [Move("a", NOON_US + 60_000_000, None, up=up)]
    assert moves[1:] == silent


def test_velocity_comes_from_the_fix_before_or_not_at_all() -> None:
    said = [("t", {"id": "a", "lon": 1, "lat": lat, "time": NOON_S + at}) for at, lat in ((0, 2.0), (10, 2.001))]
    _, (_, second) = noted(*said)
    assert second.velocity is not None
    assert 11 < second.velocity.north < 11.1
    _, (_, second) = noted(*said, rules=Rules(velocity="told"))
    assert second.velocity is None


@contextmanager
def broker(directory: Path) -> Iterator[str]:
    """The address of a broker that runs in a thread of its own, since an import runs a loop of its own."""
    ready: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        settings = {"name": "a", "data": str(directory), "listeners": [{"port": 0}], "log_level": "error"}
        running = RunningBroker(settings_from(settings))
        await running.start()
        ready.put_nowait(running.addresses[0].port)
        await stop.wait()
        await running.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(ready.get(), loop).result(40)
        yield f"mqtt://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(40)


def test_a_subscription_at_a_broker_becomes_a_journal(tmp_path: Path) -> None:
    now_s = int(time.time())

    async def publish(address: str) -> None:
        async with Client("phone", [address]) as phone:
            for number in range(3):
                said = {"_type": "location", "lat": 60.1, "lon": 24.9 + number * 1e-5, "tst": now_s + number}
                await phone.publish("owntracks/ann/phone", json.dumps(said).encode(), retain=False)
                await phone.publish("owntracks/ann/phone", b"{", retain=False)

    with broker(tmp_path / "broker") as address:
        publisher = threading.Timer(2.0, lambda: asyncio.run(publish(address)))
        publisher.start()
        notebook = import_live(
            Person((address,)),
            Listening("owntracks/+/+", count=6, seconds=60),
            tmp_path / "journal",
            rules=Rules(),
            reading=Reading(),
        )
        publisher.join()
    moves = list(read_records(tmp_path / "journal", Move))
    assert (notebook.heard.messages, notebook.heard.unreadable) == (6, 3)
    assert [(each.host, each.at_us) for each in moves] == [("ann/phone", (now_s + n) * 10**6) for n in range(3)]
    assert read_run(tmp_path / "journal").seed is None
    assert [each.what for each in read_records(tmp_path / "journal", Noted)] == [RUN_ENDED]
