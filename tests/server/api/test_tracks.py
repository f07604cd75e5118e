"""F7: tracks of the last days."""

import asyncio
import json
import sqlite3
import threading
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from typer.testing import CliRunner

from roamcast.cli.main import app
from roamcast.model.context import Context
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.server import tracks as module
from roamcast.server.running import RunningBroker
from roamcast.server.tracks import DAY_US, FILE, Tracks, TrackSettings
from tests.server.api.asking import ask, guarded
from tests.server.studio.stage import broker_at, clients, port_of, report, run, until

pytestmark = pytest.mark.timeout(60)
GPX = "{http://www.topografix.com/GPX/1/1}"


def at(client: str, at_us: int, x: float, **attributes: Any) -> Context:
    return Context(client, Point(x, 0.0), at_us, attributes=attributes)


async def points(tracks: Tracks, client: str, from_us: int = 0, to_us: int = 10**18, most: int = 100) -> list[float]:
    return [each.x for each in await tracks.of(client, from_us, to_us, most)]


def kept(folder: Path, now_us: int = 0, **settings: Any) -> Tracks:
    return Tracks(folder, TrackSettings(**settings), Plane(), lambda: now_us)


def test_a_track_is_asked_for_by_client_and_time(tmp_path: Path) -> None:
    async def work() -> None:
        tracks = kept(tmp_path)
        for at_us in (10, 20, 30):
            tracks.add(at("van", at_us, float(at_us)))
            tracks.add(at("bus", at_us, -1.0))
        assert await points(tracks, "van") == [10.0, 20.0, 30.0]
        assert await points(tracks, "van", 15, 25) == [20.0]
        assert await points(tracks, "van", most=2) == [20.0, 30.0]
        tracks.close()

    run(work)


def test_tracks_are_there_after_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        for at_us in (1, 2):
            tracks = kept(tmp_path)
            tracks.add(at("van", at_us, float(at_us)))
            tracks.close()
        tracks = kept(tmp_path)
        assert await points(tracks, "van") == [1.0, 2.0]
        tracks.close()

    run(work)


def test_moves_are_written_together(tmp_path: Path) -> None:
    async def work() -> None:
        tracks = kept(tmp_path)
        for at_us in range(100):
            tracks.add(at("van", at_us, 0.0))
        with sqlite3.connect(tmp_path / FILE) as database:
            assert database.execute("SELECT count(*) FROM track").fetchone() == (0,)
        assert len(await points(tracks, "van")) == 100
        tracks.close()

    run(work)


@pytest.mark.parametrize(("settings", "left"), [({"days": 1.0}, [2.0, 3.0]), ({"points_max": 1}, [3.0])])
def test_tracks_are_bounded_by_age_and_by_points(tmp_path: Path, settings: dict[str, Any], left: list[float]) -> None:
    async def work() -> None:
        tracks = kept(tmp_path, now_us=3 * DAY_US, **settings)
        for day in (1, 2, 3):
            tracks.add(at("van", day * DAY_US, float(day)))
        assert await points(tracks, "van") == left
        tracks.close()

    run(work)


def test_who_hides_leaves_no_track_and_who_is_coarse_a_coarse_one(tmp_path: Path) -> None:
    async def work() -> None:
        tracks = kept(tmp_path)
        tracks.add(at("shy", 1, 5.0, position_hidden=True))
        tracks.add(at("vague", 1, 5.0, position_grid_m=100))
        assert (await points(tracks, "shy"), await points(tracks, "vague")) == ([], [50.0])
        tracks.close()

    run(work)


def test_a_broker_tells_tracks_as_geojson_gpx_and_csv(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path, tracks={}) as broker, clients(broker, "van/7") as (van,):
            path = "/api/tracks/van/7"
            assert (await ask(broker, "GET", path)).json["geometry"] is None
            await report(van, 1.0, 2.0)
            await report(van, 3.0, 4.0)
            told = await ask(broker, "GET", path)
            assert told.headers["content-type"] == "application/geo+json"
            assert told.json["geometry"] == {"type": "LineString", "coordinates": [[1.0, 2.0], [3.0, 4.0]]}
            first, last = told.json["properties"]["coordTimes"]
            assert first < last
            track = ET.fromstring((await ask(broker, "GET", path, format="gpx")).body)
            assert [(each.get("lon"), each.get("lat")) for each in track.iter(f"{GPX}trkpt")] == [
                ("1.0", "2.0"),
                ("3.0", "4.0"),
            ]
            lines = (await ask(broker, "GET", path, format="csv")).body.decode().splitlines()
            assert lines == ["time,x,y", f"{first},1.0,2.0", f"{last},3.0,4.0"]
            some = (await ask(broker, "GET", path, **{"from": last})).json
            assert some["geometry"] == {"type": "Point", "coordinates": [3.0, 4.0]}
            wrong: list[dict[str, Any]] = [{"from": "yesterday"}, {"format": "kml"}, {"to": "9999-99-99"}]
            for query in wrong:
                assert (await ask(broker, "GET", path, **query)).status == 400

    run(work)


def test_a_broker_without_tracks_says_so_and_one_with_users_shows_them_by_rule(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker:
            answer = await ask(broker, "GET", "/api/tracks/van-1", user="map")
            assert (answer.status, "[tracks]" in answer.json["problem"]) == (404, True)
            answer = await ask(broker, "GET", "/api/tracks/van-2", user="map")
            assert (answer.status, "[tracks]" in answer.json["problem"]) == (404, False)

    run(work)


def test_who_takes_a_client_id_is_not_shown_where_its_last_user_was(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path, tracks={}) as broker:
            for user, x in (("van-1", 1.0), ("van-2", 2.0)):
                async with named(broker, user, "shared") as client:
                    await report(client, x, 0.0)
                    seen = {
                        who: (await ask(broker, "GET", "/api/tracks/shared", user=who)).json["geometry"][
                            "coordinates"
                        ]
                        for who in (user, "ops")
                    }
                    assert seen[user] == [x, 0.0]
                await until(lambda: "shared" not in broker.server.core.border.sessions)
            assert seen["ops"] == [[1.0, 0.0], [2.0, 0.0]]

    run(work)


def test_moves_that_the_disk_cannot_follow_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 3)

    async def work() -> None:
        tracks, go_on = kept(tmp_path), threading.Event()
        tracks._thread.submit(go_on.wait)
        for at_us in range(9):
            tracks.add(at("van", at_us, float(at_us)))
            tracks._write_soon()
        go_on.set()
        assert await points(tracks, "van") == [0.0, 1.0, 2.0]
        await until(lambda: tracks._unwritten == 0)
        tracks.close()

    run(work)


def named(broker: RunningBroker, user: str, client: str) -> aiomqtt.Client:
    port = port_of(broker, "mqtt tcp")
    protocol = aiomqtt.ProtocolVersion.V5
    return aiomqtt.Client("127.0.0.1", port, username=user, password=user, identifier=client, protocol=protocol)


def test_the_command_prints_a_track(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path, tracks={"days": 1}) as broker, clients(broker, "van/7") as (van,):
            await report(van, 1.0, 2.0)
            words = ["track", "van/7", "--http", f"http://127.0.0.1:{port_of(broker, 'http')}"]
            printed = await asyncio.to_thread(CliRunner().invoke, app, words)
            assert json.loads(printed.stdout)["geometry"]["coordinates"] == [1.0, 2.0]
            wrong = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--format", "kml"])
            assert (wrong.exit_code, "'gpx'" in wrong.stderr) == (2, True)

    run(work)


@pytest.mark.parametrize("kind", ["geojson", "gpx", "csv"])
def test_the_command_says_that_a_track_is_empty(tmp_path: Path, kind: str) -> None:
    async def work() -> None:
        async with broker_at(tmp_path, tracks={"days": 1}) as broker, clients(broker, "van") as (van,):
            await report(van, 1.0, 2.0)
            http = f"http://127.0.0.1:{port_of(broker, 'http')}"
            for client, code in (("van", 0), ("vam", 1)):
                words = ["track", client, "--format", kind, "--http", http]
                printed = await asyncio.to_thread(CliRunner().invoke, app, words)
                assert (printed.exit_code, "no position of 'vam'" in printed.stderr) == (code, code == 1)

    run(work)
