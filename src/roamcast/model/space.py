"""The two spaces: a flat `Plane` in metres, and the `Earth` (WGS84) in degrees.

A space gives distance, displacement and grid cells; nothing else in the system knows which one it has. On Earth a
distance is the chord between two points of the ellipsoid, bent back to an arc: within 0.001 % of the true geodesic
far beyond 20 km, at every latitude and across the date line (the decision and its figures: docs/decisions/0002).
"""

import math
from typing import Protocol, TypeAlias

from msgspec import Struct

from roamcast.model.values import BadValue, Point

EQUATOR_RADIUS_M = 6_378_137.0
FLATTENING = 1 / 298.257223563
ECCENTRICITY_SQUARED = FLATTENING * (2 - FLATTENING)
MEAN_RADIUS_M = 6_371_008.8
DEGREE_NORTH_MIN_M = 110_570.0
"""Just under the shortest degree of latitude (110 574 m, at the equator)."""

Cell: TypeAlias = tuple[int, int]


class Space(Protocol):
    """What the rest of the system may ask of a space."""

    def __hash__(self) -> int: ...

    def distance_m(self, a: Point, b: Point) -> float: ...

    def within(self, a: Point, b: Point, radius_m: float) -> bool:
        """Whether `b` is at most `radius_m` from `a`: the boundary belongs to the circle."""
        ...

    def offset_m(self, origin: Point, to: Point) -> tuple[float, float]:
        """Metres east and north from `origin` to `to`."""
        ...

    def moved(self, origin: Point, east_m: float, north_m: float) -> Point:
        """The point so many metres east and north of `origin`."""
        ...

    def check(self, point: Point) -> None:
        """Raises `BadValue` for a point that is not in this space."""
        ...

    def cell(self, point: Point, size_m: float) -> Cell:
        """The grid cell of `point`; a cell is at least `size_m` wide and high, so what lies within `size_m` of a
        point lies in its cell or in one of `cells_around` it."""
        ...

    def cells_around(self, cell: Cell, size_m: float) -> list[Cell]:
        """The cell itself and all that touch it, in a fixed order."""
        ...


class Plane(Struct, frozen=True, tag="plane"):
    """Flat and in metres: simulations, buildings, a town on a local grid."""

    def distance_m(self, a: Point, b: Point) -> float:
        return math.sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y))

    def within(self, a: Point, b: Point, radius_m: float) -> bool:
        dx = a.x - b.x
        dy = a.y - b.y
        return dx * dx + dy * dy <= radius_m * radius_m

    def offset_m(self, origin: Point, to: Point) -> tuple[float, float]:
        return to.x - origin.x, to.y - origin.y

    def moved(self, origin: Point, east_m: float, north_m: float) -> Point:
        return Point(origin.x + east_m, origin.y + north_m)

    def check(self, point: Point) -> None:
        if not (math.isfinite(point.x) and math.isfinite(point.y)):
            raise BadValue(f"({point.x}, {point.y}) is not a position: coordinates are finite metres")

    def cell(self, point: Point, size_m: float) -> Cell:
        # A millionth wider, so that rounding never puts a point at the very edge one cell too far.
        side_m = size_m * 1.000_001
        return math.floor(point.x / side_m), math.floor(point.y / side_m)

    def cells_around(self, cell: Cell, size_m: float) -> list[Cell]:
        column, row = cell
        return [(column + i, row + j) for j in (-1, 0, 1) for i in (-1, 0, 1)]


class Earth(Struct, frozen=True, tag="earth"):
    """Longitude and latitude in degrees on the WGS84 ellipsoid."""

    def distance_m(self, a: Point, b: Point) -> float:
        ax, ay, az = cartesian_m(a)
        bx, by, bz = cartesian_m(b)
        chord = math.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by) + (az - bz) * (az - bz))
        return 2 * MEAN_RADIUS_M * math.asin(min(1.0, chord / (2 * MEAN_RADIUS_M)))

    def within(self, a: Point, b: Point, radius_m: float) -> bool:
        return self.distance_m(a, b) <= radius_m

    def offset_m(self, origin: Point, to: Point) -> tuple[float, float]:
        north_per_degree, east_per_degree = metres_per_degree((origin.y + to.y) / 2)
        return wrapped(to.x - origin.x) * east_per_degree, (to.y - origin.y) * north_per_degree

    def moved(self, origin: Point, east_m: float, north_m: float) -> Point:
        # The scale half-way keeps `moved` and `offset_m` inverse to a millimetre over kilometres.
        north_per_degree, _ = metres_per_degree(origin.y)
        north_per_degree, _ = metres_per_degree(origin.y + north_m / north_per_degree / 2)
        latitude = max(-90.0, min(90.0, origin.y + north_m / north_per_degree))
        _, east_per_degree = metres_per_degree((origin.y + latitude) / 2)
        return Point(wrapped(origin.x + east_m / max(east_per_degree, 1e-9)), latitude)

    def check(self, point: Point) -> None:
        if not (-180 <= point.x <= 180 and -90 <= point.y <= 90):
            raise BadValue(
                f"({point.x}, {point.y}) is not a position on Earth: longitude is -180 to 180, latitude -90 to 90"
            )

    def cell(self, point: Point, size_m: float) -> Cell:
        row = math.floor((point.y + 90) / row_height_degrees(size_m))
        columns = columns_in_row(row, size_m)
        return min(columns - 1, math.floor((point.x + 180) / 360 * columns)), row

    def cells_around(self, cell: Cell, size_m: float) -> list[Cell]:
        column, row = cell
        here = columns_in_row(row, size_m)
        found: dict[Cell, None] = {}
        last_row = math.floor(180 / row_height_degrees(size_m))
        for other in range(max(0, row - 1), min(last_row, row + 1) + 1):
            there = columns_in_row(other, size_m)
            # Rows nearer a pole have fewer columns: take every column that touches ours widened by one.
            west = math.floor((column - 1) * there / here)
            east = math.ceil((column + 2) * there / here)
            for index in range(west, min(east, west + there - 1) + 1):
                found[(index % there, other)] = None
        return list(found)


def cartesian_m(point: Point) -> tuple[float, float, float]:
    """The point of the ellipsoid in earth-centred metres."""
    longitude = math.radians(point.x)
    latitude = math.radians(point.y)
    sine = math.sin(latitude)
    cosine = math.cos(latitude)
    normal = EQUATOR_RADIUS_M / math.sqrt(1 - ECCENTRICITY_SQUARED * sine * sine)
    return (
        normal * cosine * math.cos(longitude),
        normal * cosine * math.sin(longitude),
        normal * (1 - ECCENTRICITY_SQUARED) * sine,
    )


def metres_per_degree(latitude: float) -> tuple[float, float]:
    """Metres per degree northwards and eastwards at a latitude."""
    sine = math.sin(math.radians(latitude))
    squared = 1 - ECCENTRICITY_SQUARED * sine * sine
    normal = EQUATOR_RADIUS_M / math.sqrt(squared)
    meridian = normal * (1 - ECCENTRICITY_SQUARED) / squared
    return math.radians(meridian), math.radians(normal * math.cos(math.radians(latitude)))


def wrapped(longitude: float) -> float:
    """A longitude, or a difference of two, brought into -180 to 180."""
    if -180 <= longitude <= 180:
        return longitude
    return (longitude + 180) % 360 - 180


def row_height_degrees(size_m: float) -> float:
    return size_m / DEGREE_NORTH_MIN_M


def columns_in_row(row: int, size_m: float) -> int:
    """So many that a column is wider than `size_m` reaches from any point of the row; one if it reaches a pole."""
    height = row_height_degrees(size_m)
    poleward = max(abs(row * height - 90), abs((row + 1) * height - 90))
    if poleward >= 90:
        return 1
    _, east_per_degree = metres_per_degree(poleward)
    # Seen from the axis, a circle spans more than its diameter laid along the parallel: the tangents count. On an
    # ellipsoid this is a little more than on the sphere.
    sine = 1.001 * size_m / math.degrees(east_per_degree)
    return 1 if sine >= 1 else math.floor(math.tau / math.asin(sine))
