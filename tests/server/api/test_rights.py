"""L6, L7: over HTTP, users and rules are those of MQTT."""

import json
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
import websockets
from msgspec.structs import replace

from roamcast.server.security import Rule
from tests.server.api.asking import ask, guarded, signed, stream
from tests.server.studio.stage import broker_at, page_of, port_of, report, run, studio_of, subscribe, until

pytestmark = pytest.mark.timeout(60)


def van(broker: Any, name: str) -> aiomqtt.Client:
    return aiomqtt.Client(
        "127.0.0.1",
        port_of(broker, "mqtt tcp"),
        username=name,
        password=name,
        identifier=name,
        protocol=aiomqtt.ProtocolVersion.V5,
    )


@pytest.mark.parametrize("path", ["/api/status", "/api/clients", "/api/positions", "/api/events?topic=x", "/studio/"])
def test_without_a_password_nothing_is_answered(tmp_path: Path, path: str) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker:
            for headers in ({}, {"authorization": "Basic b3BzOndyb25n"}, {"authorization": "Bearer x"}):
                name, _, query = path.partition("?")
                found = dict(each.split("=") for each in query.split("&") if each)
                answer = await ask(broker, "GET", name, headers=headers, **found)
                assert answer.status == 401
                assert answer.headers["www-authenticate"].startswith("Basic")

    run(work)


def test_what_a_user_may_not_publish_or_subscribe_to_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker, stream(broker, "van-2", topic="vans/#") as events:
            assert (await ask(broker, "POST", "/api/publish/vans/van-2/x", "1", "van-1")).status == 403
            assert (await ask(broker, "GET", "/api/events", user="van-1", topic="#")).status == 403
            assert (await ask(broker, "POST", "/api/publish/vans/van-1/x", "2", "van-1")).status == 200
            assert await events.next_event() == {"topic": "vans/van-1/x", "payload": 2, "qos": 1}

    run(work)


def test_a_position_is_shown_to_its_user_and_to_whom_the_rules_let_see_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker, van(broker, "van-1") as one, van(broker, "van-2") as two:
            await report(one, 1.0, 2.0)
            await report(two, 3.0, 4.0)
            seen = {}
            for user in ("ops", "map", "van-2"):
                found = (await ask(broker, "GET", "/api/positions", user=user)).json["features"]
                seen[user] = {each["id"] for each in found}
                listed = (await ask(broker, "GET", "/api/clients", user=user)).json["clients"]
                assert {each["id"] for each in listed} == seen[user]
            assert seen == {"ops": {"van-1", "van-2"}, "map": {"van-1"}, "van-2": {"van-2"}}
            assert (await ask(broker, "GET", "/api/clients/van-2", user="map")).status == 404

    run(work)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/status"),
        ("GET", "/api/sessions"),
        ("POST", "/api/kick/van-2"),
        ("DELETE", "/api/sessions/van-2"),
        ("POST", "/api/drain"),
        ("DELETE", "/api/drain"),
        ("POST", "/api/reload"),
    ],
)
def test_only_operators_look_into_a_broker_and_change_it(tmp_path: Path, method: str, path: str) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker:
            answer = await ask(broker, method, path, user="van-1")
            assert answer.status == 403
            assert "$roam/admin/" in answer.json["problem"]
            assert (await ask(broker, method, path, user="ops")).status != 403

    run(work)


def test_fences_are_for_whom_the_rules_let_define_and_see_them(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker:
            assert (await ask(broker, "PUT", "/api/fences/x", "{}", "van-1")).status == 403
            assert (await ask(broker, "GET", "/api/fences", user="van-1")).json == {"fences": []}

    run(work)


def test_the_studio_shows_a_user_what_the_rules_let_him_see(tmp_path: Path) -> None:

    async def work() -> None:
        async with guarded(tmp_path) as broker, van(broker, "van-1") as one, van(broker, "van-2") as two:
            async with (
                page_of(broker, additional_headers=signed("van-1")) as own,
                page_of(broker, additional_headers=signed("map")) as seer,
            ):
                await report(one, 1.0, 2.0)
                await report(two, 3.0, 4.0)
                await two.subscribe("vans/#", qos=1)
                await one.publish("vans/van-1/x", b"{}", qos=1)
                await two.publish("vans/van-2/last", b"{}", qos=1)
                await until(lambda: len(studio_of(broker).watcher.deliveries.after(0, 9)) == 2)
                await own.until(lambda page: len(page.events) == 2 and "van-1" in page.entities)
                assert list(own.entities) == ["van-1"]
                assert own.deliveries == []
                moment_us = broker.server.now_us()
                while (await seer.read())["at_us"] < moment_us:
                    pass
                assert (list(seer.entities), seer.events, seer.deliveries) == (["van-1"], [], [])
            event = studio_of(broker).watcher.ways.after(0, 9)[0].event.id
            found = await ask(broker, "GET", f"/studio/events/{event}", user="van-1")
            assert (found.json["subject"], found.json["delivered"]) == ("vans/van-1/x", [])
            assert (await ask(broker, "GET", f"/studio/events/{event}", user="map")).status == 404
            assert (await ask(broker, "GET", "/studio/clients/van-2", user="van-1")).status == 404
            tried = await ask(broker, "GET", "/studio/try", user="map", filter="TRUE")
            assert ([each["id"] for each in tried.json["clients"]], tried.json["events"]) == (["van-1"], [])
            with pytest.raises(websockets.InvalidStatus):
                await page_of(broker).__aenter__()

    run(work)


def test_a_page_shows_no_region_or_handover_of_who_is_hidden_from_its_user(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            guarded(tmp_path) as broker,
            van(broker, "van-1") as one,
            van(broker, "van-2") as two,
            page_of(broker, additional_headers=signed("map")) as seer,
            page_of(broker, additional_headers=signed("ops")) as everybody,
        ):
            for each in (two, one):
                await report(each, 1.0, 2.0)
                await subscribe(each, "vans/#", filter="near(position, 50)")
            await everybody.until(lambda page: len(page.regions) == 2)
            moment_us = broker.server.now_us()
            while (await seer.read())["at_us"] < moment_us:
                pass
            assert {each["of"] for each in seer.regions.values()} == {"van-1"}
            for name in ("van-2", "van-1"):
                # As the border says when another broker has claimed a session.
                studio_of(broker).watcher.gone(broker.server.now_us(), name, "south")
            await everybody.until(lambda page: len(page.handovers) == 2)
            await seer.until(lambda page: bool(page.handovers))
            assert [each["client"] for each in seer.handovers] == ["van-1"]

    run(work)


def test_a_fence_that_moves_with_a_client_is_shown_to_whom_its_place_may_be(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            guarded(tmp_path) as broker,
            van(broker, "van-1") as one,
            van(broker, "van-2") as two,
            page_of(broker, additional_headers=signed("map")) as seer,
            page_of(broker, additional_headers=signed("ops")) as everybody,
        ):
            for each in (two, one):
                await report(each, 1.0, 2.0)
            for name in ("van-2", "van-1"):
                fence = {"type": "Feature", "geometry": None, "properties": {"anchor": name, "radius_m": 50}}
                answer = await ask(broker, "PUT", f"/api/fences/{name}", json.dumps(fence), "ops")
                assert answer.status == 200, answer.json
            await everybody.until(lambda page: len(page.regions) == 2)
            await seer.until(lambda page: "fence/van-1" in page.regions)
            assert list(seer.regions) == ["fence/van-1"]
            await ask(broker, "DELETE", "/api/sessions/van-1", user="ops")
            await everybody.until(lambda page: list(page.regions) == ["fence/van-2"])

    run(work)


def test_a_page_that_is_open_obeys_rules_that_change(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker, van(broker, "van-1") as one:
            await report(one, 1.0, 2.0)
            async with page_of(broker, additional_headers=signed("ops")) as page:
                await page.until(lambda it: "van-1" in it.entities)
                vans, ops = Rule(("van-*",), publish=("#",)), Rule(("ops",), subscribe=("$roam/position/van-2",))
                security = replace(broker.settings.security, rules=(vans, ops))
                broker.reload(replace(broker.settings, security=security))
                page.hello = {}
                await page.until(lambda it: bool(it.hello))
                await page.read()
                assert page.entities == {}

    run(work)


def test_a_page_of_a_user_who_is_no_longer_let_in_is_closed(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker, page_of(broker, additional_headers=signed("map")) as page:
            await page.read()
            passwords = tmp_path / "passwords"
            kept = [line for line in passwords.read_text().splitlines(True) if not line.startswith("map:")]
            passwords.write_text("".join(kept))
            page.hello = {}
            broker.reload(broker.settings)
            with pytest.raises(websockets.ConnectionClosed):
                # It would begin anew.
                await page.until(lambda it: bool(it.hello))

    run(work)


def test_an_open_broker_answers_who_calls_it_by_its_own_name(tmp_path: Path) -> None:
    """Or a page could have its own name lead the browser here."""

    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            assert (await ask(broker, "GET", "/api/clients", headers={"host": "evil.example"})).status == 421
            assert (await ask(broker, "GET", "/api/clients", headers={"host": "localhost:1"})).status == 200
        async with broker_at(tmp_path, studio={"enabled": True}) as broker:
            answer = await ask(broker, "GET", "/studio/try", headers={"host": "evil.example"}, filter="TRUE")
            assert answer.status == 421
        async with broker_at(tmp_path, security={"anonymous": True}) as broker:
            assert (await ask(broker, "GET", "/api/clients", headers={"host": "broker.example"})).status == 200

    run(work)
