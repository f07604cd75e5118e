"""L2: fences by way of `roamcast.Client`."""

import asyncio
from pathlib import Path

import pytest

from roamcast import Circle, Point
from roamcast.client import Client, PublicationRefused
from roamcast.model.region import Anchored, rectangle
from roamcast.model.values import BadValue
from tests.client.brokers import Town
from tests.client.test_client import take
from tests.client.test_with_brokers import in_town

pytestmark = pytest.mark.timeout(90)
DEPOT = Circle(Point(0, 0), 100)


def test_l2_a_client_is_told_who_enters_and_leaves_at_another_broker(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        async with Client("office", [made.address("a")]) as office, Client("van-7", [made.address("b")]) as van:
            passed = await office.fences("depot")
            await office.fences.put("depot", DEPOT, hysteresis_m=0)
            # Both brokers have it when a retained copy can be had at the other one.
            while not await van.fences.all():
                await asyncio.sleep(0)
            for x in (-500, 0, 500):
                await van.move(Point(x, 0))
            events = await take(passed, 2)
            assert [event.attributes["transition"] for event in events] == ["enter", "leave"]
            assert [event.attributes["position"] for event in events] == [Point(-100, 0), Point(100, 0)]
            assert {event.attributes["host"] for event in events} == {"van-7"}

    in_town(tmp_path, "ab", work)


def test_l2_fences_are_listed_and_deleted(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        async with Client("office", [made.address("a")]) as office:
            await office.fences.put("depot", DEPOT, on=["leave"], dwell_s=None, hosts="kind = 'van'")
            await office.fences.put("yard", rectangle(20, 10), on=["dwell"], dwell_s=60)
            found = await office.fences.all()
            assert list(found) == ["depot", "yard"]
            assert found["depot"]["properties"] == {"on": ["leave"], "hosts": "kind = 'van'", "radius_m": 100.0}
            await office.fences.delete("depot")
            await office.fences.put("ring", Anchored(Circle(Point(0, 0), 5), "van-7"), on=["enter"])
            found = await office.fences.all()
            assert list(found) == ["ring", "yard"]
            assert found["ring"]["properties"] == {"on": ["enter"], "anchor": "van-7", "radius_m": 5.0}

    in_town(tmp_path, "a", work)


def test_l2_what_is_no_fence_is_an_exception_with_words(tmp_path: Path) -> None:
    async def work(made: Town) -> None:
        async with Client("office", [made.address("a")]) as office:
            with pytest.raises(BadValue, match="on is"):
                await office.fences.put("depot", DEPOT, on=["exit"])
            with pytest.raises(PublicationRefused, match="geometry is missing"):
                await office.fences.put_geojson("depot", {"type": "Feature", "geometry": None})
            with pytest.raises(PublicationRefused, match="anchor is the name"):
                await office.fences.put_geojson("ring", {"type": "Feature", "properties": {"anchor": 7}})

    in_town(tmp_path, "a", work)
