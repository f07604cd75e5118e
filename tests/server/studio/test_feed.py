"""L5: what happens at a broker is told to every open page, as it happens."""

import asyncio
import json
from pathlib import Path

import pytest
import websockets

from roamcast.broker.mqtt.core import Core
from roamcast.server.running import RunningBroker
from roamcast.server.studio import studio as studio_module
from tests.server.studio.stage import (
    broker_at,
    clients,
    next_payload,
    page_of,
    port_of,
    publish,
    report,
    run,
    studio_of,
    subscribe,
    two_brokers,
    until,
)

pytestmark = pytest.mark.timeout(60)
YARD = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [0, 0]}, "properties": {"radius_m": 50}}


NO_MAP = {"geojson": None, "tiles": None, "attribution": None, "centre": None, "zoom": None}


def test_l5_a_page_is_told_first_who_the_broker_is_and_where_it_is_reached(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path, studio={"place": [3.0, 4.0]}) as broker, page_of(broker) as page:
            hello = page.hello
            assert (hello["kind"], hello["version"], hello["broker"], hello["space"]) == ("hello", 1, "b1", "plane")
            assert hello["brokers"] == [
                {
                    "name": "b1",
                    "http": f"http://127.0.0.1:{port_of(broker, 'http')}",
                    "mqtt": f"ws://127.0.0.1:{port_of(broker, 'mqtt ws')}/mqtt",
                    "place": [3.0, 4.0],
                }
            ]
            assert hello["map"] == {
                "geojson": None,
                "tiles": None,
                "attribution": None,
                "centre": [3.0, 4.0],
                "zoom": None,
            }

    run(work)


def test_l5_a_page_is_told_how_types_look_and_which_zones_there_are(tmp_path: Path) -> None:
    circle = {"kind": "circle", "centre": [1.0, 2.0], "radius_m": 30.0}
    studio = {
        "types": {"crane": {"icon": "KR", "colour": "#123456"}, "boat": {"colour": "#654321"}},
        "zones": [{"name": "Harbour", "area": circle}],
    }

    async def work() -> None:
        async with broker_at(tmp_path, studio=studio) as broker, page_of(broker) as page:
            assert page.hello["types"] == {
                "crane": {"icon": "KR", "colour": "#123456"},
                "boat": {"icon": None, "colour": "#654321"},
            }
            shape = {"circle": {"centre": [1.0, 2.0], "radius_m": 30.0}}
            assert page.hello["zones"] == [{"name": "Harbour", "shape": shape, "colour": None}]

    run(work)


def test_l5_others_are_told_of_by_the_names_that_they_give_themselves(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path, "b2", studio={"place": [5.0, 5.0]}) as other:
            place = f"http://127.0.0.1:{port_of(other, 'http')}"
            # One that nobody answers at is not told of.
            given = {"others": [place, "http://127.0.0.1:9"]}
            async with broker_at(tmp_path, studio=given) as broker, page_of(broker) as page:
                await page.until(lambda it: len(it.hello["brokers"]) == 2)
                assert page.hello["brokers"][1] == {
                    "name": "b2",
                    "http": place,
                    "mqtt": f"ws://127.0.0.1:{port_of(other, 'mqtt ws')}/mqtt",
                    "place": [5.0, 5.0],
                }

    run(work)


def test_l5_the_first_tick_has_every_client_that_is_somewhere(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car-7", "bus", "nowhere") as (car, bus, _):
            await report(car, 10.0, 20.0, velocity=[3.0, 0.0], attributes={"type": "car"})
            await report(bus, 1.0, 2.0)
            async with page_of(broker) as page:
                await page.read()
                assert list(page.entities) == ["car-7", "bus"]
                assert page.entities["bus"] == {
                    "id": "bus",
                    "at": [1.0, 2.0],
                    "heading_deg": None,
                    "type": None,
                    "here": True,
                }
                moving = page.entities["car-7"]
                assert (moving["heading_deg"], moving["type"]) == (90.0, "car")
                assert moving["at"][0] > 10.0
                assert page.load["clients"] == 3

    run(work)


def test_l5_who_moves_and_who_goes_is_in_the_next_frames(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, page_of(broker) as page:
            async with clients(broker, "car") as (car,):
                await report(car, 1.0, 1.0)
                await page.until(lambda it: "car" in it.entities)
                await report(car, 5.0, 5.0)
                await page.until(lambda it: it.entities["car"]["at"] == [5.0, 5.0])
            await page.until(lambda it: not it.entities["car"]["here"])
            async with clients(broker, "car"):
                await page.until(lambda it: "car" in it.gone)

    run(work)


def test_l5_an_event_and_its_deliveries_are_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "car-7", "car-9") as (writer, reader):
            await report(writer, 10.0, 20.0)
            await subscribe(reader, "traffic/#")
            async with page_of(broker) as page:
                await publish(writer, "traffic/accident", {"severity": 4})
                await page.until(lambda it: bool(it.events and it.deliveries))
                (event,) = page.events
                assert (event["subject"], event["from"], event["at"]) == ("traffic/accident", "car-7", [10.0, 20.0])
                assert event["payload"] == {"severity": 4}
                assert [(each["event"], each["to"]) for each in page.deliveries] == [(event["id"], "car-9")]
                assert page.left_out == {"events": 0, "deliveries": 0}

    run(work)


@pytest.mark.parametrize("qos", [0, 1])
def test_l5_plain_messages_are_told_of(tmp_path: Path, qos: int) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w", "r", expiry_s=0) as (writer, reader):
            await subscribe(reader, "t", qos=qos)
            async with page_of(broker) as page:
                for number in range(3):
                    await publish(writer, "t", b"plain %d" % number, qos=qos)
                    assert await next_payload(reader) == b"plain %d" % number
                await page.until(lambda it: len(it.deliveries) == 3)
                assert [(each["from"], each["payload"]) for each in page.events] == [("w", None)] * 3
                assert [(each["event"], each["to"]) for each in page.deliveries] == [
                    (each["id"], "r") for each in page.events
                ]
                assert page.left_out == {"events": 0, "deliveries": 0}

    run(work)


def test_l5_events_from_before_a_page_opened_are_in_its_first_tick(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w") as (writer,):
            await publish(writer, "early")
            async with page_of(broker) as page:
                await page.read()
                assert [each["subject"] for each in page.events] == ["early"]

    run(work)


def test_l5_regions_of_events_and_subscriptions_are_drawn_and_anchored_ones_move(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "ambulance", "car") as (ambulance, car):
            await report(ambulance, 100.0, 0.0)
            await report(car, 7.0, 7.0)
            await subscribe(car, "a/#", filter="near(position, 50)")
            await subscribe(car, "b", interest='{"box": [0, 0, 9, 9]}')
            async with page_of(broker) as page:
                await publish(ambulance, "siren", expiry_s=60, audience='{"circle_m": 200}')
                await page.until(lambda it: len(it.regions) == 3)
                name = f"{page.event('siren')}/audience"
                region = page.regions[name]
                assert (region["of"], region["what"]) == (page.event("siren"), "audience")
                assert (region["anchored"], region["shape"]["circle"]["radius_m"]) == ("ambulance", 200.0)
                assert region["shape"]["circle"]["centre"] == [100.0, 0.0]
                near = page.regions["car/a/#/near"]
                assert (near["of"], near["what"], near["anchored"]) == ("car", "near", "car")
                assert near["shape"] == {"circle": {"centre": [7.0, 7.0], "radius_m": 50.0}}
                assert page.regions["car/b/interest"]["shape"] == {"box": [[0.0, 0.0], [9.0, 9.0]]}
                await report(ambulance, 300.0, 0.0)
                await page.until(lambda it: it.regions[name]["shape"]["circle"]["centre"] == [300.0, 0.0])
                await car.unsubscribe("b")
                await page.until(lambda it: "car/b/interest" not in it.regions)

    run(work)


def test_l5_fences_are_drawn_and_who_passes_one_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "boss", "van") as (boss, van):
            await boss.publish("$roam/fences/yard", json.dumps(YARD), qos=1, retain=True)
            async with page_of(broker) as page:
                await page.until(lambda it: "fence/yard" in it.regions)
                yard = page.regions["fence/yard"]
                assert (yard["of"], yard["what"], yard["anchored"]) == ("$roam/fences/yard", "fence", None)
                assert yard["shape"] == {"circle": {"centre": [0.0, 0.0], "radius_m": 50.0}}
                await report(van, 200.0, 0.0)
                await report(van, 10.0, 0.0)
                await page.until(lambda it: bool(it.events))
                told = page.events[0]
                assert (told["subject"], told["from"]) == ("$roam/fence/yard/enter", "van")
                assert told["payload"]["position"] == [50.0, 0.0]

                await boss.publish("$roam/fences/gate", json.dumps(YARD), qos=1, retain=True)
                await page.until(lambda it: "fence/gate" in it.regions)
                await boss.publish("$roam/fences/yard", b"", qos=1, retain=True)
                await page.until(lambda it: "fence/yard" not in it.regions)

    run(work)


def test_l5_a_client_that_roams_is_told_of_by_the_broker_that_it_left(tmp_path: Path) -> None:
    async def work() -> None:
        async with two_brokers(tmp_path) as (one, other), page_of(one) as page, page_of(other) as page_there:
            async with clients(one, "car-9", clean=False) as (car,):
                await report(car, 1.0, 1.0)
                await page.until(lambda it: "car-9" in it.entities)
            async with clients(other, "car-9", clean=False):
                await page.until(lambda it: bool(it.handovers))
                (handover,) = page.handovers
                assert (handover["client"], handover["from"], handover["to"]) == ("car-9", "b1", "b2")
                assert "car-9" not in page.entities
                await page_there.until(lambda it: "car-9" in it.entities)
                assert page_there.load["links"] == [{"to": "b1", "up": True}]

    run(work)


def test_l5_a_page_that_pauses_is_told_nothing_until_it_resumes(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, page_of(broker) as page, clients(broker, "w") as (writer,):
            (paused,) = studio_of(broker).feed.pages
            await page.socket.send(json.dumps({"kind": "pause"}))
            await until(lambda: paused.paused)
            before = paused.frames
            async with page_of(broker) as another:
                await publish(writer, "meanwhile")
                await another.until(lambda it: bool(it.events))
            assert paused.frames == before
            await page.socket.send(json.dumps({"kind": "resume"}))
            await page.until(lambda it: bool(it.events))

    run(work)


def test_l5_nonsense_from_a_page_changes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, page_of(broker) as page, clients(broker, "w") as (writer,):
            for nonsense in ("", "{", "[]", '{"kind": 3}', '{"kind": "stop"}'):
                await page.socket.send(nonsense)
            await publish(writer, "after")
            await page.until(lambda it: bool(it.events))

    run(work)


def test_l5_a_page_that_says_too_much_is_closed(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, page_of(broker) as page:
            await page.socket.send("x" * 5_000)
            with pytest.raises(websockets.ConnectionClosedError) as closed:
                await page.until(lambda _: False)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
            await until(lambda: not studio_of(broker).feed.pages)

    run(work)


@pytest.mark.slow
def test_l5_a_slow_page_gets_fewer_and_newer_frames_and_no_queue_grows(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w", "r") as (writer, reader):
            await subscribe(reader, "t", qos=0)
            # A page that reads nothing: the system takes what its buffers hold, and then no more.
            async with page_of(broker, max_queue=1) as page:
                (slow,) = studio_of(broker).feed.pages
                while slow.reads:
                    await publish(writer, "t", {"text": "x" * 3_000}, qos=0)
                    await next_payload(reader)
                frames = slow.frames
                for number in range(1_200):
                    await publish(writer, "t", {"number": number}, qos=0)
                    await next_payload(reader)
                # More events than are kept at all have been since, and nothing was made for the page.
                assert slow.frames == frames
                assert len(studio_of(broker).watcher.ways) <= 1_000
                await page.until(lambda it: bool(it.events) and it.events[-1]["payload"] == {"number": 1_199})
                assert page.left_out["events"] >= 1_100
                assert page.left_out["deliveries"] > 0

    run(work)


def test_l5_a_page_that_has_missed_too_many_names_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamcast.server.studio.page.NAMES_MAX", 3)

    async def work() -> None:
        async with broker_at(tmp_path) as broker, page_of(broker) as page, clients(broker, "stays") as (stays,):
            await report(stays, 1.0, 1.0)
            await page.until(lambda it: "stays" in it.entities)
            (slow,) = studio_of(broker).feed.pages
            for number in range(5):
                slow.left(f"car-{number}")
            page.hello = {}
            await page.until(lambda it: bool(it.hello) and "stays" in it.entities)

    run(work)


def test_l5_more_pages_than_there_may_be_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roamcast.server.studio.feed.PAGES_MAX", 1)

    async def work() -> None:
        async with broker_at(tmp_path) as broker, page_of(broker) as page:
            with pytest.raises(websockets.ConnectionClosedOK):
                async with page_of(broker):
                    pass
            await page.read()

    run(work)


def test_l5_an_event_that_crosses_a_link_is_published_at_one_broker(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            two_brokers(tmp_path) as (here, there),
            page_of(here) as page,
            page_of(there) as page_there,
            clients(here, "w") as (writer,),
            clients(there, "r") as (reader,),
        ):
            await subscribe(reader, "t")
            await publish(writer, "t")
            await next_payload(reader)
            await page.until(lambda it: it.load.get("published_per_s", 0) > 0)
            await page_there.until(lambda it: it.load.get("events_per_s", 0) > 0)
            assert page_there.load["published_per_s"] == 0
            median, p99 = page_there.load["latency_ms"]
            assert 0 < median <= p99

    run(work)


def test_l5_the_rates_are_those_of_the_last_seconds(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w", "r") as (writer, reader):
            await subscribe(reader, "t")
            async with page_of(broker) as page:
                while not (page.load and page.load["events_per_s"] > 0 and page.load["deliveries_per_s"] > 0):
                    await publish(writer, "t")
                    await page.read()
                assert page.load["subscriptions"] == 1

    run(work)


def test_l5_who_does_not_look_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio_module, "STAYS_S", 0.05)

    async def work() -> None:
        async with broker_at(tmp_path, studio={"enabled": False}) as broker:
            assert broker.web is not None
            assert broker.web.studio is None
            assert not broker.server.core.border.observation.on
        async with broker_at(tmp_path) as broker, clients(broker, "w") as (writer,):
            observation, studio = broker.server.core.border.observation, studio_of(broker)
            async with page_of(broker) as page:
                await asyncio.sleep(0.2)
                assert studio.watcher.attendant is studio.feed
                assert observation.observers.all == (studio.watcher,)
                await publish(writer, "seen")
                await page.until(lambda it: bool(it.events))
            await until(lambda: not observation.on)
            assert studio.watcher.attendant is None
            assert not studio.feed.drawn
            await publish(writer, "unseen")
            async with page_of(broker) as page:
                await page.read()
                assert (list(page.entities), page.events) == ([], [])
                assert observation.on

    run(work)


def test_l5_a_mistake_in_a_frame_closes_the_pages_and_costs_the_broker_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(broker: RunningBroker, breaks: bool) -> None:
        async with page_of(broker) as page:
            if breaks:
                monkeypatch.setattr(studio_of(broker).feed, "_load", lambda: 1 / 0)
            while True:
                await page.read()

    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w", "r") as (writer, reader):
            await subscribe(reader, "t")
            for breaks in (True, False):
                with pytest.raises(websockets.ConnectionClosed):
                    await look(broker, breaks)
            await publish(writer, "t", "still here")
            assert str((await anext(reader.messages)).topic) == "t"
            assert not broker.server.core.border.observation.on
            assert b'roamcast_mistakes_total{part="observer"} 1.0' in broker.metrics.render()

    run(work)


def test_l5_a_broker_with_a_studio_is_stored_without_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker_at(tmp_path) as broker, clients(broker, "w") as (writer,):
            await publish(writer, "before")
            core = Core.restored(broker.server.core.snapshot())
            assert not core.border.observation.on

    run(work)
