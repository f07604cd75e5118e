"""L5: a page can ask about one client, one event and its way, and what a filter would accept."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiomqtt
import pytest
from paho.mqtt.subscribeoptions import SubscribeOptions

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Circle
from roamcast.model.scope import Scope
from roamcast.model.values import Point
from roamcast.server.running import RunningBroker
from tests.server.studio.stage import (
    ask,
    broker_at,
    clients,
    get,
    next_payload,
    page_of,
    publish,
    report,
    run,
    studio_of,
    subscribe,
    two_brokers,
    until,
)

pytestmark = pytest.mark.timeout(60)
Client = aiomqtt.Client


def event_id(broker: RunningBroker, subject: str) -> str:
    return next(way.event.id for way in studio_of(broker).watcher.ways.newest() if way.event.subject == subject)


async def missed(broker: RunningBroker, subject: str) -> dict[str, tuple[str, str]]:
    """By client, what failed and why."""
    status, told = await ask(broker, "events", event_id(broker, subject))
    assert status == 200
    return {each["to"]: (each["failed"], each["why"]) for each in told["not_delivered"]}


# Why somebody did not get it: each of the five conditions, by name.


async def by_filter(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t", filter="severity > 3")
    await publish(writer, "t", {"severity": 1})


async def by_a_part(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t", filter="severity > 3 AND near(position, 100) AND me.budget > 2")
    await publish(writer, "t", {"severity": 5})


async def by_unknown(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t", filter="severity > 3")
    await publish(writer, "t", {"level": 1})


async def by_lifetime(writer: Client, reader: Client) -> None:
    await publish(writer, "t")
    await subscribe(reader, "t")


async def by_interest(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t", interest='{"circle": [900, 900, 10]}')
    await publish(writer, "t")


async def by_relevance(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t")
    await publish(writer, "t", relevance='{"circle": [900, 900, 10]}')


async def by_both(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t", interest='{"circle_m": 10}')
    await publish(writer, "t", relevance='{"circle_m": 10}')


async def by_publishers(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t", publishers="type = 'police'")
    await publish(writer, "t")


async def by_audience(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t")
    await publish(writer, "t", audience='{"circle_m": 200}')


async def by_absent_host(writer: Client, reader: Client) -> None:
    await subscribe(reader, "t")
    await report(writer, position=None)
    await publish(writer, "t", audience='{"circle_m": 200}')


@pytest.mark.parametrize(
    ("happens", "failed", "said"),
    [
        (by_filter, "filter", "severity > 3 is false: severity is 1"),
        (by_a_part, "filter", "near(position, 100) is false: position is 812 m from car-4"),
        (by_unknown, "filter", "severity > 3 is unknown: severity is missing"),
        (by_lifetime, "expired", "the subscription began"),
        (
            by_interest,
            "interest",
            "no host that is known here is where the subscription is interested: hosts within 10",
        ),
        (by_relevance, "relevance", "no host that is known here is where the event is relevant: hosts within 10 m"),
        (by_both, "interest", "1 hosts are where the event is relevant, 1 where the subscription is interested"),
        (by_publishers, "publishers", "car-7 is none of the publishers that are asked for: type = 'police' is false"),
        (by_audience, "audience", "it is for hosts within 200 m of car-7, and car-4 is 812 m away"),
        (by_absent_host, "audience", "nobody knows where car-7 is"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_l5_why_somebody_did_not_get_an_event_names_the_condition_that_failed(
    tmp_path: Path, happens: Callable[[Client, Client], Awaitable[None]], failed: str, said: str
) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car-7", "car-4") as (writer, reader):
            await report(writer, 0.0, 0.0, attributes={"type": "car"})
            await report(reader, 812.0, 0.0)
            await happens(writer, reader)
            assert (await missed(broker, "t"))["car-4"][0] == failed
            assert said in (await missed(broker, "t"))["car-4"][1]

    run(work)


def test_l5_who_has_moved_since_is_judged_by_where_it_was_then(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w", "r") as (writer, reader):
            await report(writer, 0.0, 0.0)
            await report(reader, 500.0, 0.0)
            await subscribe(reader, "t")
            await publish(writer, "t", audience='{"circle_m": 200}')
            await report(reader, 10.0, 0.0)
            failed, why = (await missed(broker, "t"))["r"]
            assert (failed, "r is 500 m away" in why) == ("audience", True)

    run(work)


def test_l5_where_the_past_is_not_known_any_more_the_answer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamcast.server.studio.past.CHANGES_MAX", 2)

    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w", "r") as (writer, reader):
            await report(writer, 0.0, 0.0)
            await report(reader, 500.0, 0.0)
            await subscribe(reader, "t")
            await publish(writer, "t", audience='{"circle_m": 200}')
            for metres in (400.0, 300.0, 250.0):
                await report(reader, metres, 0.0)
            failed, why = (await missed(broker, "t"))["r"]
            assert failed == "audience"
            assert "r is 250 m away (as things are now" in why

    run(work)


async def by_no_local(broker: RunningBroker, writer: Client, _: Client) -> None:
    await writer.subscribe("t", options=SubscribeOptions(qos=1, noLocal=True))
    await publish(writer, "t")


async def by_group(broker: RunningBroker, writer: Client, reader: Client) -> None:
    await subscribe(writer, "$share/g/t")
    await subscribe(reader, "$share/g/t")
    await publish(writer, "t")


@pytest.mark.parametrize(
    ("happens", "said"),
    [(by_no_local, "asked for nothing of its own"), (by_group, "another member of the group 'g' got it")],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_l5_what_matches_and_was_withheld_is_told_as_such(
    tmp_path: Path, happens: Callable[[RunningBroker, Client, Client], Awaitable[None]], said: str
) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w", "r") as (writer, reader):
            await happens(broker, writer, reader)
            ((failed, why),) = (await missed(broker, "t")).values()
            assert (failed, said in why) == ("withheld", True)

    run(work)


@pytest.mark.parametrize(("qos", "said"), [(0, "was not connected"), (1, "it waits for r")])
def test_l5_of_who_is_away_it_is_told_whether_the_event_waits(tmp_path: Path, qos: int, said: str) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w") as (writer,):
            async with clients(broker, "r") as (reader,):
                await subscribe(reader, "t", qos=1)
            await until(lambda: not broker.server.core.border.sessions["r"].connected)
            await publish(writer, "t", qos=qos)
            await until(lambda: len(studio_of(broker).watcher.ways) == 1)
            failed, why = (await missed(broker, "t"))["r"]
            assert (failed, said in why) == ("withheld", True)
            _, told = await ask(broker, "clients", "r")
            assert (told["connected"], told["waiting"]) == (False, qos)

    run(work)


# The way of an event.


def test_l5_each_broker_tells_its_part_of_the_way_and_the_parts_fit(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            two_brokers(tmp_path) as (one, other),
            clients(one, "car-7") as (writer,),
            clients(other, "car-9") as (reader,),
        ):
            await subscribe(reader, "traffic/#")
            await until(lambda: bool(one.server.core.broker.neighbours.router.table.of("b2")))
            for qos in (0, 1):
                subject = f"traffic/{qos}"
                await publish(writer, subject, {"severity": 4}, qos=qos)
                await next_payload(reader)
                name = event_id(one, subject)
                _, here = await ask(one, "events", name)
                _, there = await ask(other, "events", name)
                assert here["came_from"] == {"client": "car-7"}
                assert [each["broker"] for each in here["passed_to"]] == ["b2"]
                assert here["delivered"] == here["not_delivered"] == []
                assert there["came_from"] == {"broker": "b1"}
                assert [each["to"] for each in there["delivered"]] == ["car-9"]
                assert (there["from"], there["payload"]) == ("car-7", {"severity": 4})
                assert here["published_us"] == there["published_us"]

    run(work)


def test_l5_an_event_that_waited_for_a_roaming_client_is_told_of_where_it_got_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with two_brokers(tmp_path) as (one, other), clients(one, "w") as (writer,):
            async with clients(one, "r", clean=False) as (reader,):
                await subscribe(reader, "t")
            await until(lambda: not one.server.core.border.sessions["r"].connected)
            await publish(writer, "t", {"n": 1})
            async with clients(other, "r", clean=False) as (reader,):
                assert json.loads(await next_payload(reader)) == {"n": 1}
                _, there = await ask(other, "events", event_id(one, "t"))
                assert there["came_from"] == {"broker": "b1"}
                assert [each["to"] for each in there["delivered"]] == ["r"]

    run(work)


def test_l5_a_retained_message_given_later_is_told_of(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w") as (writer,):
            await writer.publish("t", b"{}", qos=1, retain=True)
        async with broker_at(tmp_path) as broker, clients(broker, "r") as (reader,):
            await subscribe(reader, "t")
            await next_payload(reader)
            _, told = await ask(broker, "events", event_id(broker, "t"))
            assert told["came_from"] == {"client": "w"}
            assert [each["to"] for each in told["delivered"]] == ["r"]

    run(work)


def test_l5_scopes_and_expiry_of_an_event_are_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w") as (writer,):
            await publish(writer, "t", expiry_s=60, audience='{"circle_m": 200, "filter": "type = \'car\'"}')
            _, told = await ask(broker, "events", event_id(broker, "t"))
            # It lives from when the broker had read it, and is published when it is worked on.
            assert 59_000_000 < told["expiry_us"] - told["published_us"] <= 60_000_000
            assert told["relevance"] is None
            assert told["audience"]["filter"] == "type = 'car'"
            assert told["audience"]["region"]["anchored"] == "w"

    run(work)


def test_l5_no_more_are_explained_than_two_hundred_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamcast.server.studio.explaining.EXPLAINED_MAX", 2)

    async def work() -> None:
        names = ["a", "b", "c", "d", "e"]
        async with broker_at(tmp_path) as broker, clients(broker, "w", *names) as (writer, *readers):
            for reader in readers:
                await subscribe(reader, "t", filter="n = 2")
            await publish(writer, "t", {"n": 1})
            _, told = await ask(broker, "events", event_id(broker, "t"))
            assert (len(told["not_delivered"]), told["left_out"]) == (2, 3)

    run(work)


# One client.


def test_l5_a_client_is_told_of_with_what_it_wants_and_got(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "fleet/car 9") as (car,):
            await report(car, 3.0, 4.0, attributes={"type": "car", "home": [1.0, 2.0]})
            await subscribe(car, "a/#", filter="near(position, 50) AND severity > 2", expiry="600")
            await subscribe(car, "b", interest="type = 'bus'")
            await publish(car, "b")
            await publish(car, "b", relevance="type = 'bus'")
            await subscribe(car, "c")
            await publish(car, "c")
            status, told = await ask(broker, "clients", "fleet/car 9")
            assert status == 200
            assert (told["id"], told["home"], told["at"]) == ("fleet/car 9", "b1", [3.0, 4.0])
            assert told["attributes"] == {"type": "car", "home": [1.0, 2.0]}
            first, second, third = told["subscriptions"]
            assert (first["topic"], first["near_m"]) == ("a/#", 50.0)
            assert "severity > 2" in first["filter"]
            assert first["expiry_us"] > 0
            assert (second["interest"], second["filter"], second["expiry_us"]) == ("type = 'bus'", None, None)
            assert (third["near_m"], third["interest"]) == (None, None)
            assert [each["subject"] for each in told["last_events"]] == ["c"]

    run(work)


@pytest.mark.parametrize(
    ("levels", "said"), [(("clients", "nobody"), "no client 'nobody' is at b1"), (("events", "b1.0.9"), "no event")]
)
def test_l5_what_is_not_here_is_not_found(tmp_path: Path, levels: tuple[str, ...], said: str) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            status, told = await ask(broker, *levels)
            assert (status, said in told["problem"]) == (404, True)

    run(work)


# A filter.


async def tried(broker: RunningBroker, filter_: str, **given: str) -> tuple[int, dict[str, Any]]:
    query = "&".join(f"{name}={quote(value)}" for name, value in {"filter": filter_, **given}.items())
    return await ask(broker, "try", query=f"?{query}")


def test_l5_a_filter_can_be_tried_on_clients_and_events(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car-1", "bus-1", "blank") as (car, bus, _):
            await report(car, 1.0, 1.0, attributes={"type": "car", "severity": 9})
            await report(bus, 2.0, 2.0, attributes={"type": "bus", "severity": 1})
            await publish(car, "a/x", {"severity": 5})
            await publish(car, "b/x", {"severity": 5})
            await publish(car, "a/x", {"severity": 2})
            await publish(car, "a/y", {"text": "?"})
            status, told = await tried(broker, "severity > 3")
            assert status == 200
            assert told["clients"] == [{"id": "car-1", "at": [1.0, 1.0]}]
            assert [each["subject"] for each in told["events"]] == ["a/x", "b/x"]
            assert told["unknown"] == 2
            _, told = await tried(broker, "severity > 3", subject="a/#")
            assert [each["subject"] for each in told["events"]] == ["a/x"]

    run(work)


def test_l5_a_filter_can_be_tried_for_a_reader_where_it_was_at_each_event(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car-1", "bus-1") as (car, bus):
            await report(car, 0.0, 0.0, attributes={"budget": 5})
            await report(bus, 500.0, 0.0, attributes={"budget": 1})
            await publish(bus, "a", {"position": [10, 0]})
            await report(car, 480.0, 0.0)
            await publish(bus, "b", {"position": [490, 0]})
            _, told = await tried(broker, "near(position, 50)", me="car-1")
            assert [each["id"] for each in told["clients"]] == ["car-1", "bus-1"]
            assert [each["subject"] for each in told["events"]] == ["a", "b"]
            _, told = await tried(broker, "budget < me.budget", me="car-1")
            assert [each["id"] for each in told["clients"]] == ["bus-1"]

    run(work)


def test_l5_a_reader_of_another_broker_is_what_the_page_says(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car-1", "bus-1") as (car, bus):
            await report(car, 0.0, 0.0)
            await report(bus, 500.0, 0.0)
            said = json.dumps({"position": [490, 0], "kind": "x"})
            for filter_ in ("near(position, 50)", "near(position, 50) AND me.kind = 'x'"):
                _, told = await tried(broker, filter_, me="elsewhere", me_as=said)
                assert [each["id"] for each in told["clients"]] == ["bus-1"]
            _, told = await tried(broker, "near(position, 50)", me="elsewhere")
            assert (told["clients"], told["unknown"]) == ([], 2)

    run(work)


async def positions(broker: RunningBroker, at_us: object) -> tuple[int, dict[str, Any]]:
    return await ask(broker, "positions", query=f"?at_us={at_us}")


def test_l5_positions_and_regions_are_as_of_an_event(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car-1", "bus-1", "shy") as (car, bus, shy):
            await report(car, 1.0, 2.0, attributes={"type": "car"})
            await report(shy, 5.0, 5.0, attributes={"position_hidden": True})
            await publish(car, "t", audience='{"circle_m": 100}')
            await report(car, 300.0, 2.0)
            await report(bus, 9.0, 9.0)
            _, told = await ask(broker, "events", event_id(broker, "t"))
            (region,) = told["regions"]
            assert region["shape"] == {"circle": {"centre": [1.0, 2.0], "radius_m": 100.0}}
            _, then = await positions(broker, told["published_us"])
            assert then["clients"] == [
                {"id": "car-1", "at": [1.0, 2.0], "heading_deg": None, "type": "car", "here": True}
            ]
            _, now = await positions(broker, told["published_us"] + 3_600_000_000)
            assert {each["id"]: each["at"] for each in now["clients"]} == {"car-1": [300.0, 2.0], "bus-1": [9.0, 9.0]}

    run(work)


def test_l5_a_moment_that_is_not_known_any_more_has_no_positions(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            assert (await positions(broker, 0))[0] == 404
            assert (await positions(broker, "noon"))[0] == 400

    run(work)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?filter=severity%20%3D%3D%203", "filter: column 10: "),
        ("?filter=", "filter is missing"),
        ("", "filter is missing"),
        ("?filter=%7B%22op%22%3A1%7D", "filter: "),
        ("?filter=TRUE&subject=a%2F%23%2Fb", "subject: "),
        ("?filter=%FF%00", "filter: "),
    ],
)
def test_l5_a_filter_that_cannot_be_tried_is_refused_with_the_place_of_the_mistake(
    tmp_path: Path, query: str, said: str
) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker:
            status, told = await ask(broker, "try", query=query)
            assert status == 400
            assert told["problem"].startswith(said)

    run(work)


# The map, and who may ask.


def test_l5_a_map_is_served_when_the_settings_name_one(tmp_path: Path) -> None:
    streets = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"kind": "road"},
                "geometry": {"type": "LineString", "coordinates": [[0, 0], [10, 20]]},
            },
            {"type": "Feature", "geometry": {"type": "Point", "coordinates": [5, 5]}},
            {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[1, 1], [2, 1], [2, 2], [1, 1]]]}},
        ],
    }
    (tmp_path / "streets.json").write_text(json.dumps(streets))

    async def work() -> None:
        studio = {"map": str(tmp_path / "streets.json"), "attribution": "© somebody"}
        async with broker_at(tmp_path, studio=studio) as broker, page_of(broker) as page:
            assert page.hello["map"] == {
                "geojson": "/studio/map.json",
                "tiles": None,
                "attribution": "© somebody",
                "centre": [5.0, 10.0],
                "zoom": None,
            }
            _, told = await ask(broker, "map.json")
            assert told == streets

    run(work)


def test_l5_with_origins_only_their_pages_may_ask(tmp_path: Path) -> None:
    async def work() -> None:
        good = "http://good.example:8081"
        async with broker_at(tmp_path, http={"port": 0, "origins": [good]}) as broker:
            _, headers, _ = await get(broker, "/studio/clients/x", f"Origin: {good}")
            assert headers["access-control-allow-origin"] == good
            status, headers, _ = await get(broker, "/studio/clients/x", "Origin: http://bad.example")
            assert status == 403
            assert "access-control-allow-origin" not in headers
            async with page_of(broker, origin=good):
                pass
            with pytest.raises(Exception, match="403"):
                async with page_of(broker, origin="http://bad.example"):
                    pass

    run(work)


def test_l5_what_comes_from_another_broker_is_explained_by_where_clients_were_when_it_was_published(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with two_brokers(tmp_path) as (broker, _), clients(broker, "r") as (reader,):
            await report(reader, 500.0, 0.0)
            await subscribe(reader, "t")
            core, publisher = broker.server.core, Context("w", Point(0.0, 0.0))
            published_us = broker.server.now_us()
            await report(reader, 10.0, 0.0)
            audience = Scope(Circle(Point(0.0, 0.0), 200.0))
            late = Event("b2~1.1", "t", publisher, published_us, published_us, audience=audience)
            assert core.border.audience.of(late, broker.server.now_us()) == []
            studio_of(broker).watcher.heard(broker.server.now_us(), "b2", late)
            failed, why = (await missed(broker, "t"))["r"]
            assert (failed, "r is 500 m away" in why) == ("audience", True)

    run(work)
