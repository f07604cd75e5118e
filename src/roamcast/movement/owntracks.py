"""A location as OwnTracks reports it: the JSON that phones publish and the recorder keeps."""

import msgspec
from msgspec import Struct

from roamcast.movement.fix import Fix

KMH_PER_MPS = 3.6


class BadReport(ValueError):
    """A message that is no location."""


class Location(Struct, frozen=True, tag_field="_type", tag="location"):
    """A message of `_type` location: degrees, seconds since 1970, metres, km/h, and degrees from north. Devices say
    -1 for what they do not know."""

    lat: float
    lon: float
    tst: float | None = None
    acc: float | None = None
    vel: float | None = None
    cog: float | None = None


_decoder = msgspec.json.Decoder(Location)


def fix_of(payload: bytes | str, now_us: int) -> Fix:
    """`now_us` where the report has no time of its own. Raises `BadReport`."""
    try:
        told = _decoder.decode(payload)
        at_us = now_us if told.tst is None else round(told.tst * 1e6)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError) as problem:
        raise BadReport(str(problem)) from None
    return Fix(
        at_us,
        (told.lon, told.lat),
        None if told.vel is None or told.vel < 0 else told.vel / KMH_PER_MPS,
        None if told.cog is None or told.cog < 0 else told.cog,
        None if told.acc is None or told.acc < 0 else told.acc,
    )
