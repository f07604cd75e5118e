"""What a broker's settings say of the studio (docs/reference/BROKER.md)."""

import math
import re
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from roamcast.model.region import Box, Circle, Polygon
from roamcast.model.space import Earth, Space
from roamcast.server.security.rules import AreaParams

MAP_BYTES_MAX = 64 * 1024 * 1024
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
PATH = re.compile(r"[Mm][-MmLlHhVvCcSsQqTtAaZz0-9eE.,\s]{4,2000}")
LETTERS_MAX = 3
ICONS = (
    *("ambulance", "animal", "bike", "boat", "box", "bus", "camera", "car", "drone", "light", "other", "parking"),
    *("person", "phone", "plane", "robot", "sensor", "shop", "train", "truck"),
)
"""The signs that the page can draw by name (`studio/src/signs.ts`)."""


class TypeLook(Struct, frozen=True, forbid_unknown_fields=True):
    """How hosts of a type look on the map; what is empty the page chooses by the name of the type."""

    icon: str = ""
    """The name of a sign, up to three letters, or the path of an SVG on a grid of 24 × 24."""
    colour: str = ""

    def __post_init__(self) -> None:
        check_colour(self.colour)
        if self.icon in ICONS or len(self.icon) <= LETTERS_MAX or PATH.fullmatch(self.icon):
            return
        raise ValueError(
            f"icon: '{self.icon[:60]}' is none; give one of {', '.join(ICONS)}, up to {LETTERS_MAX} letters, "
            "or the path of an SVG (M…) on a grid of 24 × 24"
        )


class Zone(Struct, frozen=True, forbid_unknown_fields=True):
    """A place with a name, drawn on the map."""

    name: str
    area: AreaParams
    colour: str = ""

    def __post_init__(self) -> None:
        check_colour(self.colour)
        if not self.name.strip():
            raise ValueError("name: a zone has one")


class StudioSettings(Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool | None = None
    """None: if the HTTP port is bound to this machine alone."""
    others: tuple[str, ...] = ()
    """Where the studios of other brokers are, such as `http://192.0.2.7:8081`."""
    place: tuple[float, float] | None = None
    """Where this broker is on the map."""
    map: str = ""
    """A GeoJSON file to be drawn below everything."""
    tiles: str = ""
    """Where the browser gets map tiles, such as `https://tiles.example/{z}/{x}/{y}.png`."""
    attribution: str = ""
    """Whose map it is, as it must be shown."""
    types: dict[str, TypeLook] = {}
    zones: tuple[Zone, ...] = ()

    def __post_init__(self) -> None:
        for each in self.others:
            check_address("others", each)
        if self.place is not None and not all(math.isfinite(each) for each in self.place):
            raise ValueError(f"place: {list(self.place)} is nowhere; give two finite numbers")
        if self.tiles:
            check_tiles(self.tiles)
        if self.attribution and not self.map and not self.tiles:
            raise ValueError("attribution: there is no map that it could be about; give one, or leave it out")

    def check(self, space: Space) -> None:
        """What depends on the space; raises `ValueError`."""
        if self.tiles and not isinstance(space, Earth):
            raise ValueError('tiles: they show the Earth, and the space is "plane"; give a map instead')
        for zone in self.zones:
            try:
                match zone.area.shape():
                    case Circle(centre):
                        space.check(centre)
                    case Box(low, high):
                        space.check(low)
                        space.check(high)
                    case Polygon(corners):
                        for corner in corners:
                            space.check(corner)
            except ValueError as problem:
                raise ValueError(f"zones: '{zone.name}': {problem}") from problem


def check_colour(colour: str) -> None:
    if colour and not COLOUR.fullmatch(colour):
        raise ValueError(f"colour: '{colour[:60]}' is none; give such as #1f77b4")


def check_tiles(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or not all(k in url for k in ("{z}", "{x}", "{y}")):
        raise ValueError(
            f"tiles: '{url[:100]}' is no address of tiles; give such as https://tiles.example/{{z}}/{{x}}/{{y}}.png"
        )


def check_address(key: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or (parts.path, parts.query, parts.fragment) != ("", "", "") or parts.username is not None:
        raise ValueError(f"{key}: '{address}' is no server; give such as http://192.0.2.7:8081, without a path")


class Background(Struct, frozen=True):
    """A GeoJSON map as it is served, and the middle of it."""

    body: bytes
    centre: tuple[float, float] | None


Position: TypeAlias = Annotated[list[float], Meta(min_length=2, max_length=3)]


class PointGeometry(Struct, frozen=True, tag_field="type", tag="Point"):
    coordinates: Position

    def points(self) -> list[Position]:
        return [self.coordinates]


class LineGeometry(Struct, frozen=True, tag_field="type", tag="LineString"):
    coordinates: list[Position]

    def points(self) -> list[Position]:
        return self.coordinates


class MultiLineGeometry(Struct, frozen=True, tag_field="type", tag="MultiLineString"):
    coordinates: list[list[Position]]

    def points(self) -> list[Position]:
        return [point for line in self.coordinates for point in line]


class PolygonGeometry(Struct, frozen=True, tag_field="type", tag="Polygon"):
    coordinates: list[list[Position]]

    def points(self) -> list[Position]:
        return [point for ring in self.coordinates for point in ring]


class MultiPolygonGeometry(Struct, frozen=True, tag_field="type", tag="MultiPolygon"):
    coordinates: list[list[list[Position]]]

    def points(self) -> list[Position]:
        return [point for polygon in self.coordinates for ring in polygon for point in ring]


Geometry: TypeAlias = PointGeometry | LineGeometry | MultiLineGeometry | PolygonGeometry | MultiPolygonGeometry


class Feature(Struct, frozen=True, tag_field="type", tag="Feature"):
    geometry: Geometry


class Features(Struct, frozen=True, tag_field="type", tag="FeatureCollection"):
    features: list[Feature]


_decoder = msgspec.json.Decoder(Features)


class BadMap(ValueError):
    """A file of a map that cannot be used; the message says why."""


def load_background(path: Path) -> Background:
    """Raises `BadMap`."""
    try:
        if path.stat().st_size > MAP_BYTES_MAX:
            raise BadMap(f"{path} has more than {MAP_BYTES_MAX} bytes")
        body = path.read_bytes()
        points = [point for each in _decoder.decode(body).features for point in each.geometry.points()]
    except OSError as problem:
        raise BadMap(f"{path} cannot be read: {problem.strerror or problem}") from problem
    except (msgspec.MsgspecError, ValueError) as problem:
        raise BadMap(
            f"{path} is not a GeoJSON FeatureCollection of points, lines and polygons: {problem}"
        ) from problem
    if not points:
        return Background(body, None)
    xs, ys = [each[0] for each in points], [each[1] for each in points]
    return Background(body, ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2))
