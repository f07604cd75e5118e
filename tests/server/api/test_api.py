"""L6: what the HTTP API does."""

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiomqtt
import msgspec
import pytest

from roamcast.client import Client
from roamcast.mqtt import encode
from roamcast.mqtt.packets import NEVER_S, V311, Connect
from roamcast.server.api.openapi import document
from roamcast.server.running import RunningBroker
from tests.server.api.asking import ask, guarded, stream
from tests.server.studio.stage import (
    broker_at,
    clients,
    next_payload,
    page_of,
    port_of,
    report,
    run,
    subscribe,
    until,
)

pytestmark = pytest.mark.timeout(60)


# Publishing.


@pytest.mark.parametrize("payload", ['{"severity": 4}', "[1, 2]", '"text"', "null", "7"])
def test_any_json_is_published_as_it_is(tmp_path: Path, payload: str) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "r") as (reader,):
            await subscribe(reader, "alerts/#")
            answer = await ask(broker, "POST", "/api/publish/alerts/ice", payload)
            assert (answer.status, answer.json) == (200, {"topic": "alerts/ice", "qos": 1})
            assert await next_payload(reader) == payload.encode()

    run(work)


def test_filters_scopes_and_places_hold_for_what_is_published(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "near", "far") as (near, far):
            await report(near, 10.0, 0.0)
            await report(far, 900.0, 0.0)
            for reader in (near, far):
                await subscribe(reader, "t", filter="n > 1")
            audience = '{"circle_m": 50}'
            for number in (1, 2):
                await ask(broker, "POST", "/api/publish/t", json.dumps({"n": number}), at="0,0", audience=audience)
            await ask(broker, "POST", "/api/publish/t", '{"n": 3}')
            assert json.loads(await next_payload(near)) == {"n": 2}
            assert json.loads(await next_payload(far)) == {"n": 3}

    run(work)


def test_a_retained_message_stays_and_is_emptied(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            await ask(broker, "POST", "/api/publish/kept", "1", retain="true")
            assert (await ask(broker, "GET", "/api/status")).json["retained_messages"] == 1
            async with stream(broker, topic="kept") as events:
                assert await events.next_event() == {"topic": "kept", "payload": 1, "qos": 1, "retained": True}
            await ask(broker, "POST", "/api/publish/kept", "", retain="true")
            assert (await ask(broker, "GET", "/api/status")).json["retained_messages"] == 0

    run(work)


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        ("/api/publish/a/+", {}, 400, "wildcard"),
        ("/api/publish/$SYS/x", {}, 400, "begin with $"),
        ("/api/publish/", {}, 400, "empty"),
        ("/api/publish/t", {"qos": 3}, 400, "qos"),
        ("/api/publish/t", {"colour": "red"}, 400, "colour"),
        ("/api/publish/t", {"at": "here"}, 400, "give x,y"),
        ("/api/publish/t", {"audience": "{"}, 400, "audience"),
        ("/api/publish/t", {"persist": "true"}, 400, "persist"),
        ("/api/publish/t", {"expiry_s": -1}, 400, "out of range"),
        ("/api/publish/t", {"relevance": "\0"}, 400, "U+0000"),
        ("/api/publish/$roam/me", {}, 400, "at=X,Y"),
    ],
)
def test_a_publication_that_cannot_be_is_refused_with_the_reason(
    tmp_path: Path, path: str, query: dict[str, Any], status: int, said: str
) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            answer = await ask(broker, "POST", path, "1", **query)
            assert answer.status == status
            assert said in answer.json["problem"]

    run(work)


async def next_message(client: aiomqtt.Client) -> tuple[bytes, Any]:
    """Payload and properties."""
    message = await anext(client.messages)
    return bytes(message.payload), message.properties


def test_a_cloudevent_is_published_as_its_binding_to_mqtt_says(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "r") as (reader,):
            await subscribe(reader, "t", filter="type = 'ice'")
            whole = json.dumps({"specversion": "1.0", "id": "1", "source": "/road", "type": "ice", "data": {"n": 1}})
            kind = {"content-type": "application/cloudevents+json; charset=utf-8"}
            await ask(broker, "POST", "/api/publish/t", whole, headers=kind)
            payload, properties = await next_message(reader)
            assert (payload, properties.ContentType) == (whole.encode(), kind["content-type"])
            binary = {"content-type": "application/json", "ce-id": "2", "ce-type": "%C3%A4"}
            await ask(broker, "POST", "/api/publish/t", '{"type": "ice"}', headers=binary)
            _, properties = await next_message(reader)
            assert sorted(properties.UserProperty) == [("id", "2"), ("type", "ä")]
            batch = {"content-type": "application/cloudevents-batch+json"}
            assert (await ask(broker, "POST", "/api/publish/t", "[]", headers=batch)).status == 415

    run(work)


def test_a_publication_that_cannot_be_sent_holds_back_no_other(tmp_path: Path) -> None:
    """All of one user share a client, which has so many publications under way at most."""

    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            await ask(broker, "POST", "/api/publish/t", "1")
            assert broker.web is not None
            (client,) = broker.web.api.speaking._clients.values()
            for _ in range(3):
                await ask(broker, "POST", "/api/publish/t", "1", expiry_s=2**40)
            assert client.result()._session.unfinished == 0
            assert not client.result().over

    run(work)


# Subscribing.


def test_events_come_with_a_filter_and_a_place(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w") as (writer,):
            wanted = {"topic": "a/#", "filter": "n > 1 AND near(position, 50)", "at": "100,100"}
            async with stream(broker, **wanted) as events:
                for number, place in ((1, 100.0), (2, 900.0), (3, 110.0)):
                    body = {"n": number, "position": [place, 100.0]}
                    await writer.publish("a/b", json.dumps(body), qos=1)
                assert (await events.next_event())["payload"]["n"] == 3

    run(work)


def test_what_is_no_json_comes_as_text_or_base64(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, stream(broker, topic="#") as events:
            for body in (b"hello", b"\xff"):
                await ask(broker, "POST", "/api/publish/t", body)
            assert (await events.next_event())["text"] == "hello"
            assert (await events.next_event())["base64"] == "/w=="

    run(work)


def test_a_stream_that_is_closed_leaves_no_session(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            async with stream(broker, topic="#"):
                assert len(broker.server.core.border.sessions) == 1
            await until(lambda: not broker.server.core.border.sessions)

    run(work)


def test_a_slow_reader_holds_back_its_own_stream_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, stream(broker, topic="slow") as slow:
            async with stream(broker, topic="quick") as quick, clients(broker, "w") as (writer,):
                for number in range(2_000):
                    await writer.publish("slow", json.dumps({"n": number, "pad": "x" * 1_000}), qos=0)
                await writer.publish("quick", b"1", qos=1)
                assert (await quick.next_event())["payload"] == 1
            numbers = [(await slow.next_event())["payload"]["n"] for _ in range(100)]
            assert numbers == sorted(numbers)

    run(work)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({}, "topic"),
        ({"topic": "a/#/b"}, "last"),
        ({"topic": "t", "filter": "n >"}, "filter"),
        ({"topic": "t", "interest": "{"}, "interest"),
        ({"topic": "$roam/me"}, ""),
        ({"topic": "t", "at": "here"}, "give x,y"),
        ({"topic": "\0"}, "U+0000"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused_with_the_reason(
    tmp_path: Path, query: dict[str, Any], said: str
) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            answer = await ask(broker, "GET", "/api/events", **query)
            assert answer.status == 400
            assert said in answer.json["problem"]
            await until(lambda: not broker.server.core.border.sessions)

    run(work)


# Looking.


def test_positions_are_geojson_with_a_filter_and_a_box(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car", "bus", "away") as (car, bus, _):
            await report(car, 1.0, 2.0, attributes={"type": "car"})
            await report(bus, 30.0, 40.0, attributes={"type": "bus", "line": 7})
            answer = await ask(broker, "GET", "/api/positions")
            assert answer.headers["content-type"] == "application/geo+json"
            assert answer.json["type"] == "FeatureCollection"
            found = {each["id"]: each for each in answer.json["features"]}
            assert found["bus"] == {
                "type": "Feature",
                "id": "bus",
                "geometry": {"type": "Point", "coordinates": [30.0, 40.0]},
                "properties": {"type": "bus", "line": 7, "client": "bus", "connected": True},
            }
            assert set(found) == {"car", "bus"}
            boxed: list[tuple[dict[str, Any], str]] = [
                ({"filter": "line = 7"}, "bus"),
                ({"bbox": "0,0,10,10"}, "car"),
            ]
            for query, wanted in boxed:
                some = (await ask(broker, "GET", "/api/positions", **query)).json["features"]
                assert [each["id"] for each in some] == [wanted]
            wrong: list[dict[str, Any]] = [{"filter": "line ="}, {"bbox": "1,2,3"}, {"limit": "x"}]
            for query in wrong:
                assert (await ask(broker, "GET", "/api/positions", **query)).status == 400

    run(work)


def test_a_client_that_hides_or_is_coarse_is_shown_so_everywhere(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "shy", "vague", "seen") as (shy, vague, seen):
            async with page_of(broker) as page:
                await report(shy, 1.0, 1.0, attributes={"position_hidden": True})
                await report(vague, 120.0, 40.0, velocity=[3.0, 0.0], attributes={"position_grid_m": 100})
                await report(seen, 7.0, 7.0)
                await page.until(lambda it: "seen" in it.entities and "vague" in it.entities)
                assert "shy" not in page.entities
                assert page.entities["vague"]["at"] == [150.0, 50.0]
            found = (await ask(broker, "GET", "/api/positions")).json["features"]
            places = {each["id"]: each["geometry"]["coordinates"] for each in found}
            assert places == {"vague": [150.0, 50.0], "seen": [7.0, 7.0]}
            assert (await ask(broker, "GET", "/studio/clients/shy")).json["at"] is None
            here = "S_INTERSECTS(position, BBOX(0, 0, 130, 45))"
            for path in ("/api/clients", "/studio/try"):
                answer = await ask(broker, "GET", path, filter=here)
                assert [each["id"] for each in answer.json["clients"]] == ["seen"]

    run(work)


def test_positions_come_as_a_stream(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car") as (car,):
            await report(car, 1.0, 2.0)
            async with stream(broker, topic="$roam/position/+", filter="client = 'car'") as events:
                assert (await events.next_event())["retained"]
                await report(car, 3.0, 4.0)
                assert (await events.next_event())["payload"]["position"] == [3.0, 4.0]

    run(work)


def test_a_client_with_a_slash_in_its_name_is_found(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "fleet/car 9") as (car,):
            await report(car, 3.0, 4.0)
            answer = await ask(broker, "GET", "/api/clients/fleet/car 9")
            assert answer.json == {"id": "fleet/car 9", "connected": True, "position": [3.0, 4.0], "attributes": {}}

    run(work)


def test_sessions_and_status_tell_what_waits(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w") as (writer,):
            async with clients(broker, "r") as (reader,):
                await subscribe(reader, "t")
            await until(lambda: not broker.server.core.border.sessions["r"].connected)
            await writer.publish("t", b"1", qos=1)
            told = (await ask(broker, "GET", "/api/sessions")).json
            (away,) = [each for each in told["sessions"] if each["client"] == "r"]
            assert (away["connected"], away["waiting_messages"], away["subscriptions"]) == (False, 1, 1)
            status = (await ask(broker, "GET", "/api/status")).json
            assert (status["broker"], status["state"], status["sessions"]) == ("b1", "serving", 2)
            assert (status["connected"], status["waiting_messages"]) == (1, 1)

    run(work)


# Fences.

YARD = {
    "type": "Feature",
    "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [50, 0], [50, 50], [0, 50], [0, 0]]]},
    "properties": {"hysteresis_m": 0},
}


def test_fences_are_put_listed_and_deleted(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "van") as (van,):
            assert (await ask(broker, "PUT", "/api/fences/city/yard", json.dumps(YARD))).status == 200
            assert (await ask(broker, "GET", "/api/fences/city/yard")).json == YARD
            listed = (await ask(broker, "GET", "/api/fences")).json
            assert listed == {"fences": [{"name": "city/yard", "definition": YARD}]}
            async with stream(broker, topic="$roam/fence/#") as events:
                await report(van, -100.0, 25.0)
                await report(van, 25.0, 25.0)
                assert (await events.next_event())["topic"] == "$roam/fence/city/yard/enter"
            assert (await ask(broker, "DELETE", "/api/fences/city/yard")).status == 200
            assert (await ask(broker, "GET", "/api/fences")).json == {"fences": []}
            assert (await ask(broker, "DELETE", "/api/fences/city/yard")).status == 404
            for body, said in (("{}", "type"), ("", "GeoJSON")):
                wrong = await ask(broker, "PUT", "/api/fences/x", body)
                assert (wrong.status, said in wrong.json["problem"]) == (400, True), wrong.json

    run(work)


# Operating.


async def disconnected(client: aiomqtt.Client) -> None:
    with pytest.raises(aiomqtt.MqttError):
        await anext(client.messages)


def test_who_is_kicked_keeps_its_session(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            with suppress(aiomqtt.MqttError):
                async with clients(broker, "r") as (reader,):
                    assert (await ask(broker, "POST", "/api/kick/r", '{"why": "enough"}')).status == 200
                    await disconnected(reader)
            assert not broker.server.core.border.sessions["r"].connected
            assert (await ask(broker, "POST", "/api/kick/r")).status == 404

    run(work)


@pytest.mark.parametrize("expiry_s", [600, NEVER_S])
@pytest.mark.parametrize("connected", [True, False])
def test_a_session_that_is_ended_is_gone(tmp_path: Path, connected: bool, expiry_s: int) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            if connected:
                with suppress(aiomqtt.MqttError):
                    async with clients(broker, "r", expiry_s=expiry_s) as (reader,):
                        assert (await ask(broker, "DELETE", "/api/sessions/r")).status == 200
                        await disconnected(reader)
            else:
                async with clients(broker, "r", expiry_s=expiry_s):
                    pass
                await until(lambda: not broker.server.core.border.sessions["r"].connected)
                assert (await ask(broker, "DELETE", "/api/sessions/r")).status == 200
            assert "r" not in broker.server.core.border.sessions
            assert (await ask(broker, "DELETE", "/api/sessions/r")).status == 404

    run(work)


@pytest.mark.parametrize("to", ["\\u0000", "x" * 70_000])
def test_an_address_that_no_client_can_be_told_drains_nothing(tmp_path: Path, to: str) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            answer = await ask(broker, "POST", "/api/drain", f'{{"to": "{to}"}}')
            assert answer.status == 400
            assert "to: a text" in answer.json["problem"]
            assert (await ask(broker, "GET", "/api/status")).json["state"] == "serving"

    run(work)


def test_a_drained_broker_takes_clients_again_when_that_is_undone(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            with suppress(aiomqtt.MqttError):
                async with clients(broker, "r") as (reader,):
                    answer = await ask(broker, "POST", "/api/drain", '{"to": "north.example:1883"}')
                    assert answer.json == {"told": 1, "to": "north.example:1883", "sessions": 1}
                    await disconnected(reader)
            assert (await ask(broker, "GET", "/api/status")).json["state"] == "draining"
            with pytest.raises(aiomqtt.MqttError):
                async with clients(broker, "r"):
                    pass
            assert (await ask(broker, "DELETE", "/api/drain")).status == 200
            async with clients(broker, "r"):
                pass

    run(work)


def test_who_comes_to_a_drained_broker_is_sent_to_the_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, broker_at(tmp_path, "b2") as other:
            here, there = (f"127.0.0.1:{port_of(each, 'mqtt tcp')}" for each in (broker, other))
            await ask(broker, "POST", "/api/drain", f'{{"to": "{there}"}}')
            async with Client("late", [f"mqtt://{here}"]) as late:
                assert late.broker == f"mqtt://{there}"

    run(work)


@pytest.mark.parametrize("to", ["", "north.example:1883"])
def test_an_older_client_is_hung_up_on_while_a_broker_drains(tmp_path: Path, to: str) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            await ask(broker, "POST", "/api/drain", f'{{"to": "{to}"}}')
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker, "mqtt tcp"))
            with suppress(ConnectionError):
                writer.write(encode(Connect("old", version=V311), V311))
                assert await reader.read() == b""
            writer.close()

    run(work)


# The document.


def test_the_document_describes_every_route_and_no_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            told = (await ask(broker, "GET", "/openapi.json")).json
            assert told == json.loads(msgspec.json.encode(document(operations_of(broker))))
            for path, methods in told["paths"].items():
                for method in methods:
                    # Whatever it answers, it is no 404 of the router, nor 405.
                    answer = await ask(broker, method.upper(), path.replace("{", "").replace("}", ""), "")
                    assert answer.status != 405
                    assert "problem" in answer.json if answer.status == 404 else True
                assert (await ask(broker, "PATCH", path)).status == 405

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work()

    run(bounded)


def test_the_page_of_the_api_has_every_operation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/reference/HTTP.md").read_text(encoding="utf-8")

    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            for operation in operations_of(broker):
                path = re.sub(r"\{(\w+):path\}", lambda found: found[1].upper(), operation.path)
                assert f"`{operation.method} {path}" in page or f", `{path}`" in page

    run(work)


def operations_of(broker: RunningBroker) -> list[Any]:
    assert broker.web is not None
    return broker.web.api.operations


def test_the_document_names_parameters_bodies_and_answers(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker:
            told = (await ask(broker, "GET", "/openapi.json")).json
            kick = told["paths"]["/api/kick/{client}"]["post"]
            assert [(each["name"], each["in"]) for each in kick["parameters"]] == [("client", "path")]
            schema = kick["requestBody"]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Kick"}
            assert told["components"]["schemas"]["Kick"]["properties"]["why"]["type"] == "string"
            events = told["paths"]["/api/events"]["get"]
            required = {each["name"]: each["required"] for each in events["parameters"]}
            assert (required["topic"], required["filter"]) == (True, False)
            assert list(events["responses"]["200"]["content"]) == ["text/event-stream"]

    run(work)
