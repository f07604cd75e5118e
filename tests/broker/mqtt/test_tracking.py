"""L4: OwnTracks through a real broker on Earth, as its settings say."""

import asyncio
import json
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from roamcast.client import Client
from roamcast.model.context import Context
from roamcast.model.space import Earth
from roamcast.model.values import Point
from roamcast.movement.owntracks import fix_of
from roamcast.mqtt.messages import Message
from roamcast.server.running import RunningBroker
from roamcast.server.settings import settings_from
from roamcast.server.tracking import BadLocation, Trackers, TrackingParams
from tests.effort import examples

NOW_US = 1_700_000_000_000_000


def test_l4_a_phone_with_owntracks_is_where_it_says_and_what_was_not_used_is_in_the_metrics(tmp_path: Path) -> None:
    async def story() -> tuple[list[Point | None], str]:
        given = {
            "name": "a",
            "data": str(tmp_path),
            "listeners": [{"port": 0}],
            "owntracks": {},
            "log_level": "error",
        }
        broker = RunningBroker(settings_from(given))
        await broker.start()
        found: list[Point | None] = []
        try:
            async with Client("phone", [f"mqtt://127.0.0.1:{broker.addresses[0].port}"]) as phone:
                for age_s, longitude in ((0, 24.94), (7_200, 3.0), (-1, 24.941)):
                    said = {"_type": "location", "lat": 60.17, "lon": longitude, "tst": int(time.time() - age_s)}
                    await phone.publish("owntracks/ann/phone", json.dumps(said).encode())
                    found.append(broker.server.core.border.context_of("phone").position)
        finally:
            await broker.stop()
        return found, broker.metrics.render().decode()

    found, metrics = asyncio.run(asyncio.wait_for(story(), 40))
    assert found == [Point(24.94, 60.17), Point(24.94, 60.17), Point(24.941, 60.17)]
    assert 'roamcast_locations_unused_total{cause="old"} 1.0' in metrics


json_numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
said = st.fixed_dictionaries(
    {"_type": st.sampled_from(["location", "lwt"]), "lat": json_numbers, "lon": json_numbers},
    optional={name: json_numbers | st.none() for name in ("tst", "acc", "vel", "cog")},
)


@given(st.lists(said.map(lambda each: json.dumps(each).encode()) | st.binary(max_size=20), max_size=6))
@examples(150)
def test_l4_whatever_a_phone_says_its_position_is_on_earth_or_unchanged(payloads: list[bytes]) -> None:
    trackers, before = Trackers(Earth(), TrackingParams()), Context("phone")
    for payload in payloads:
        try:
            context = trackers.context(Message("owntracks/u/d", payload), before, NOW_US)
        except BadLocation:
            continue
        if context is not None:
            assert context.position is not None
            Earth().check(context.position)
            before = context


def test_l4_what_a_phone_does_not_know_is_missing() -> None:
    fix = fix_of('{"_type": "location", "lat": 1, "lon": 2, "vel": -1, "cog": -1, "acc": -1}', NOW_US)
    assert (fix.at_us, fix.speed_mps, fix.heading_deg, fix.accuracy_m) == (NOW_US, None, None, None)


def test_l4_how_accurate_a_location_is_becomes_an_attribute() -> None:
    trackers, before = Trackers(Earth(), TrackingParams()), Context("phone", attributes={"kind": "phone"})
    message = Message("owntracks/u/d", b'{"_type": "location", "lat": 1, "lon": 2, "acc": 65}')
    context = trackers.context(message, before, NOW_US)
    assert context is not None
    assert context.attributes == {"kind": "phone", "accuracy_m": 65.0}
