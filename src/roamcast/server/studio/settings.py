"""What a broker's settings say of the studio (docs/reference/BROKER.md)."""

import math
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

MAP_BYTES_MAX = 64 * 1024 * 1024


class StudioSettings(Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool | None = None
    """None: if the HTTP port is bound to this machine alone."""
    others: tuple[str, ...] = ()
    """Where the studios of other brokers are, such as `http://192.0.2.7:8081`."""
    place: tuple[float, float] | None = None
    """Where this broker is on the map."""
    map: str = ""
    """A GeoJSON file of streets, to be drawn below everything."""
    attribution: str = ""
    """Whose map it is, as it must be shown."""

    def __post_init__(self) -> None:
        for each in self.others:
            check_address("others", each)
        if self.place is not None and not all(math.isfinite(each) for each in self.place):
            raise ValueError(f"place: {list(self.place)} is nowhere; give two finite numbers")
        if self.attribution and not self.map:
            raise ValueError("attribution: there is no map that it could be about; give one, or leave it out")


def check_address(key: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or (parts.path, parts.query, parts.fragment) != ("", "", "") or parts.username is not None:
        raise ValueError(f"{key}: '{address}' is no server; give such as http://192.0.2.7:8081, without a path")


class Streets(Struct, frozen=True):
    """A map as it is served, and the middle of it."""

    body: bytes
    centre: tuple[float, float] | None


class Line(Struct, frozen=True, tag_field="type", tag="LineString"):
    coordinates: list[Annotated[list[float], Meta(min_length=2, max_length=3)]]


class Feature(Struct, frozen=True, tag_field="type", tag="Feature"):
    geometry: Line


class Features(Struct, frozen=True, tag_field="type", tag="FeatureCollection"):
    features: list[Feature]


_decoder = msgspec.json.Decoder(Features)


class BadMap(ValueError):
    """A file of streets that cannot be used; the message says why."""


def load_streets(path: Path) -> Streets:
    """Raises `BadMap`."""
    try:
        if path.stat().st_size > MAP_BYTES_MAX:
            raise BadMap(f"{path} has more than {MAP_BYTES_MAX} bytes")
        body = path.read_bytes()
        points = [point for each in _decoder.decode(body).features for point in each.geometry.coordinates]
    except OSError as problem:
        raise BadMap(f"{path} cannot be read: {problem.strerror or problem}") from problem
    except (msgspec.MsgspecError, ValueError) as problem:
        raise BadMap(f"{path} is not a GeoJSON FeatureCollection of LineStrings: {problem}") from problem
    if not points:
        return Streets(body, None)
    xs, ys = [each[0] for each in points], [each[1] for each in points]
    return Streets(body, ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2))
