"""Tracks over HTTP: where a client was, as GeoJSON, GPX or CSV."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal
from xml.sax.saxutils import escape

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.responses import Response

from roamcast.server.api.looking import GEOJSON
from roamcast.server.http.users import Who
from roamcast.server.tracks import DAY_US, TrackPoint, Tracks

POINTS_MAX = 1_000_000
MEDIA = {"geojson": GEOJSON, "gpx": "application/gpx+xml", "csv": "text/csv; charset=utf-8"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TrackQuery(Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    from_: str = ""
    """`2026-11-18T10:00:00Z`; without a zone it is UTC. By default a day before `to`."""
    to: str = ""
    """By default now."""
    format: Literal["geojson", "gpx", "csv"] = "geojson"
    limit: int = 100_000
    """The newest of more points."""


class Tracking:
    def __init__(self, tracks: Tracks | None, now_us: Callable[[], int]) -> None:
        self._tracks = tracks
        self._now_us = now_us

    async def track(self, who: Who, client: str, query: TrackQuery) -> Response:
        """Where a client was, as GeoJSON, GPX or CSV."""
        if not who.sees(client):
            raise HTTPException(404, f"no track of '{client[:200]}' is here, or it is not shown to you")
        if self._tracks is None:
            raise HTTPException(404, "this broker keeps no tracks; its settings need a table [tracks]")
        to_us = moment("to", query.to) if query.to else self._now_us()
        from_us = moment("from", query.from_) if query.from_ else to_us - DAY_US
        # Another user may have had the client id before.
        user = None if who.is_shown(client) else who.identity.user
        points = await self._tracks.of(client, from_us, to_us, max(0, min(query.limit, POINTS_MAX)), user)
        write = {"geojson": geojson, "gpx": gpx, "csv": csv}[query.format]
        written = await asyncio.to_thread(write, client, points)
        return Response(written, headers={"content-type": MEDIA[query.format]})


def moment(name: str, text: str) -> int:
    """Raises `HTTPException`."""
    try:
        found = datetime.fromisoformat(text)
        return micros(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise HTTPException(400, f"{name} is '{text[:100]}'; give a time such as 2026-11-18T10:00:00Z") from None


def micros(found: datetime) -> int:
    return (found - EPOCH) // timedelta(microseconds=1)


def told(at_us: int) -> str:
    return (EPOCH + timedelta(microseconds=at_us)).isoformat().replace("+00:00", "Z")


def geojson(client: str, points: Sequence[TrackPoint]) -> bytes:
    """A Feature with the time of each point, as GPX converters and MapLibre have it."""
    places = [[each.x, each.y] for each in points]
    geometry: dict[str, object] | None = None
    if len(places) == 1:
        geometry = {"type": "Point", "coordinates": places[0]}
    elif places:
        geometry = {"type": "LineString", "coordinates": places}
    properties = {"client": client, "coordTimes": [told(each.at_us) for each in points]}
    feature = {"type": "Feature", "id": client, "geometry": geometry, "properties": properties}
    return msgspec.json.encode(feature) + b"\n"


def gpx(client: str, points: Sequence[TrackPoint]) -> bytes:
    lines = [f'<trkpt lat="{each.y!r}" lon="{each.x!r}"><time>{told(each.at_us)}</time></trkpt>' for each in points]
    name = escape("".join(sign for sign in client if sign.isprintable()))
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<gpx version="1.1" creator="roamcast" xmlns="http://www.topografix.com/GPX/1/1">',
            f"<trk><name>{name}</name><trkseg>",
            *lines,
            "</trkseg></trk></gpx>\n",
        ]
    ).encode()


def csv(_: str, points: Sequence[TrackPoint]) -> bytes:
    return "\n".join(["time,x,y", *(f"{told(each.at_us)},{each.x!r},{each.y!r}" for each in points), ""]).encode()
