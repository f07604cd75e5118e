"""`client.fences`: defines, lists and deletes fences at the brokers.

    await client.fences.put("depot", Circle(Point(24.94, 60.17), 200), on=["leave"])
    async for event in await client.fences("depot"):
        print(event.attributes["host"], event.attributes["transition"])

What a fence is, and what is told of it: docs/PROTOCOL.md, section 18.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from roamcast.model.fence import Fence
from roamcast.model.fence_text import rule_of, written
from roamcast.model.filter import Filter
from roamcast.model.region import Region

if TYPE_CHECKING:
    from roamcast.client.client import Client, ClientSubscription

DEFINITIONS, TRANSITIONS = "$roam/fences/", "$roam/fence/"


def feature(name: str, region: Region, said: Mapping[str, Any]) -> dict[str, Any]:
    """A fence as GeoJSON; raises `BadValue`, `BadFence` or `BadFilter`. What is None is not said."""
    return written(Fence(name, region, rule_of({key: value for key, value in said.items() if value is not None})))


class Fences:
    def __init__(self, client: "Client") -> None:
        self._client = client

    async def __call__(
        self,
        name: str = "",
        transition: str = "+",
        filter: str | Filter | None = None,  # noqa: A002 - the word of the model and of the wire
        *,
        qos: int = 1,
    ) -> "ClientSubscription":
        """What happens at a fence, or at all of them: `enter`, `leave`, `cross`, `dwell`, or any."""
        topic = f"{TRANSITIONS}{name}/{transition}" if name else f"{TRANSITIONS}#"
        return await self._client.subscribe(topic, filter, qos=qos)

    async def put(
        self,
        name: str,
        region: Region,
        *,
        on: Sequence[str] | None = None,
        dwell_s: float | None = None,
        hysteresis_m: float | None = None,
        outside_s: float | None = None,
        certainty: str | None = None,
        hosts: str | None = None,
    ) -> None:
        """Defines a fence at all brokers. Raises `BadValue` for one that makes no sense, and `PublicationRefused`
        with the broker's words."""
        said = {
            "on": None if on is None else list(on),
            "dwell_s": dwell_s,
            "hysteresis_m": hysteresis_m,
            "outside_s": outside_s,
            "certainty": certainty,
            "hosts": hosts,
        }
        await self.put_geojson(name, feature(name, region, said))

    async def put_geojson(self, name: str, given: Mapping[str, Any] | str | bytes) -> None:
        """A Feature, or a FeatureCollection of which each Feature is a fence `name/id`."""
        text = given if isinstance(given, str | bytes) else msgspec.json.encode(given)
        payload = text.encode() if isinstance(text, str) else text
        await self._client.publish(DEFINITIONS + name, payload, retain=True)

    async def delete(self, name: str) -> None:
        await self._client.publish(DEFINITIONS + name, b"", retain=True)

    async def all(self) -> dict[str, dict[str, Any]]:
        """By name, the GeoJSON of all that are defined."""
        listed = await self._client.subscribe(f"{DEFINITIONS}#", qos=0)
        events = aiter(listed)
        await self._client.catch_up()
        await listed.unsubscribe()
        found: dict[str, dict[str, Any]] = {}
        async for event in events:
            if event.payload:
                found[event.subject.removeprefix(DEFINITIONS)] = msgspec.json.decode(event.payload)
        return dict(sorted(found.items()))
