"""The scopes of a table as columns: regions of all shapes, fixed and anchored, and the number of each filter.

Circles and boxes are numbers in arrays and cost no objects; a polygon is an object, asked once for all its questions.
What `Regions.contain` answers is what `match.inside` answers, shape by shape.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from roamcast.journal.plain import filter_of
from roamcast.model.filter.mask import Flags, Floats, Pairs, inside, offset_m, within
from roamcast.model.filter.tree import Filter
from roamcast.model.region import Polygon
from roamcast.model.space import Plane, Space
from roamcast.model.values import Point
from roamcast.spark.oracle.attributes import one_array, valid
from roamcast.spark.oracle.boxes import Boxes, Rows, grown, unbounded
from roamcast.spark.oracle.tracks import Tracks, moved, pairs_at

NO_REGION, CIRCLE, BOX, POLYGON = 0, 1, 2, 3
SHAPES = {"circle": CIRCLE, "box": BOX, "polygon": POLYGON}
NO_FILTER = -1
FIXED = -2
"""In place of the number of an anchor."""
PLANE = Plane()


class Filters:
    """The distinct filters of a bucket, by number: each is parsed once, and asked once for all its rows."""

    def __init__(self) -> None:
        self.all: list[Filter] = []
        self._number: dict[str, int] = {}

    def numbers(self, texts: Any) -> Rows:
        coded = one_array(texts).dictionary_encode()
        known = [self._number_of(text) for text in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
        numbers: Rows = np.array([*known, NO_FILTER], np.int64)[codes]
        return numbers

    def _number_of(self, text: str) -> int:
        number = self._number.get(text)
        if number is None:
            number = self._number[text] = len(self.all)
            self.all.append(filter_of(text))
        return number


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    shape: Rows
    x: Floats
    y: Floats
    x2: Floats
    """Of a box the high corner; of a circle its radius in metres is in `radius_m`."""
    y2: Floats
    radius_m: Floats
    polygon: Rows
    polygons: tuple[Polygon, ...]
    anchor: Rows
    reference_x: Floats
    reference_y: Floats
    reach_m: Floats
    """How far an anchored shape extends from its reference point."""

    @property
    def there(self) -> Flags:
        found: Flags = self.shape != NO_REGION
        return found

    def boxes(self, hosts: Boxes, space: Space) -> Boxes:
        """Around each region, wherever its anchor goes in the bucket; unbounded where there is none."""
        found = unbounded(len(self.shape))
        for shape in (CIRCLE, BOX, POLYGON):
            rows = np.flatnonzero((self.shape == shape) & (self.anchor == FIXED))
            put(found, rows, self._fixed_boxes(rows, shape, space))
        rows = np.flatnonzero(self.there & (self.anchor != FIXED))
        put(found, rows, grown(hosts.take(self.anchor[rows]), self.reach_m[rows], space))
        return found

    def _fixed_boxes(self, rows: Rows, shape: int, space: Space) -> Boxes:
        west, south, east, north = self.x[rows], self.y[rows], self.x2[rows], self.y2[rows]
        if shape == CIRCLE:
            return grown(Boxes(west, south, west, south), self.radius_m[rows], space)
        if not isinstance(space, Plane):
            beyond = (west > east) | (west < -180) | (east > 180)
            west, east = np.where(beyond, -180.0, west), np.where(beyond, 180.0, east)
        return Boxes(west, south, east, north)

    def contain(self, rows: Rows, points: Pairs, times_us: Rows, tracks: Tracks) -> Flags:
        """Whether the region of each row holds the point beside it at that time. Rows without a region hold all."""
        found = np.ones(len(rows), np.bool_)
        shapes, anchors = self.shape[rows], self.anchor[rows]
        for shape in (CIRCLE, BOX, POLYGON):
            fixed = np.flatnonzero((shapes == shape) & (anchors == FIXED))
            if len(fixed):
                found[fixed] = self._holds(shape, rows[fixed], pairs_at(points, fixed), tracks.space)
            moving = np.flatnonzero((shapes == shape) & (anchors != FIXED))
            if len(moving):
                naval = tracks.at(anchors[moving], times_us[moving]).position
                found[moving] = self._anchored(shape, rows[moving], naval, pairs_at(points, moving), tracks.space)
        held: Flags = found & (points.valid | (shapes == NO_REGION))
        return held

    def _holds(self, shape: int, rows: Rows, points: Pairs, space: Space) -> Flags:
        if shape == CIRCLE:
            centre = Pairs(self.x[rows], self.y[rows], points.valid)
            radius: Any = self.radius_m[rows]
            return within(centre, points, radius, space)
        if shape == BOX:
            west, east = self.x[rows], self.x2[rows]
            after, before = west <= points.x, points.x <= east
            level = (self.y[rows] <= points.y) & (points.y <= self.y2[rows])
            found: Flags = level & np.where(west <= east, after & before, after | before)
            return found
        held = np.zeros(len(rows), np.bool_)
        numbers = self.polygon[rows]
        for number in np.unique(numbers):
            some = np.flatnonzero(numbers == number)
            held[some] = inside(self.polygons[number], pairs_at(points, some), True, space)
        return held

    def _anchored(self, shape: int, rows: Rows, naval: Pairs, points: Pairs, space: Space) -> Flags:
        if shape == CIRCLE:
            east_m, north_m = self.x[rows] - self.reference_x[rows], self.y[rows] - self.reference_y[rows]
            x, y = moved(naval.x, naval.y, east_m, north_m, space)
            radius: Any = self.radius_m[rows]
            return naval.valid & within(Pairs(x, y, naval.valid), points, radius, space)
        east_m, north_m = offset_m(naval, points, space)
        seen = Pairs(east_m + self.reference_x[rows], north_m + self.reference_y[rows], points.valid)
        return naval.valid & self._holds(shape, rows, seen, PLANE)


@dataclass(frozen=True, slots=True, eq=False)
class Scopes:
    regions: Regions
    filter: Rows

    @property
    def open(self) -> Flags:
        found: Flags = ~self.regions.there & (self.filter == NO_FILTER)
        return found

    def same(self) -> Rows:
        """A number for each row, equal where the scopes surely are; scopes with a region count as distinct."""
        return np.where(self.regions.there, np.arange(len(self.filter)), -2 - self.filter)


def put(boxes: Boxes, rows: Rows, values: Boxes) -> None:
    boxes.west[rows], boxes.south[rows] = values.west, values.south
    boxes.east[rows], boxes.north[rows] = values.east, values.north


def doubles(cells: Any) -> Floats:
    found: Floats = cells.fill_null(0.0).to_numpy(zero_copy_only=False)
    return np.array(found, np.float64)


def scopes_of(column: Any, filters: Filters, number_of_host: Any) -> Scopes:
    """From a column of the journal's scopes; `number_of_host` gives the numbers for a column of names."""
    flat = one_array(column).flatten()
    region, texts = flat[0], flat[1]
    names = [field.name for field in region.type]
    cells = dict(zip(names, region.flatten(), strict=True))
    shape_codes = cells["shape"].dictionary_encode()
    known = [SHAPES[word] for word in shape_codes.dictionary.to_pylist()]
    shape = np.array([*known, NO_REGION])[shape_codes.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)]
    anchor = np.where(valid(cells["anchor"]), number_of_host(cells["anchor"]), FIXED)
    x, y = doubles(cells["x"]), doubles(cells["y"])
    reference_x, reference_y = doubles(cells["reference_x"]), doubles(cells["reference_y"])
    radius_m = doubles(cells["radius_m"])
    x2, y2, polygon = x.copy(), y.copy(), np.full(len(x), -1)
    reach_m = np.hypot(x - reference_x, y - reference_y) + radius_m
    polygons: dict[Polygon, int] = {}
    cornered = np.flatnonzero((shape == BOX) | (shape == POLYGON))
    for row, corners in zip(cornered, cells["corners"].take(pa.array(cornered)).to_pylist(), strict=True):
        points = tuple(Point(corner["x"], corner["y"]) for corner in corners)
        if shape[row] == POLYGON:
            polygon[row] = polygons.setdefault(Polygon(points), len(polygons))
            xs, ys = [point.x for point in points], [point.y for point in points]
            x[row], x2[row], y[row], y2[row] = min(xs), max(xs), min(ys), max(ys)
        else:
            (x[row], y[row]), (x2[row], y2[row]) = ((point.x, point.y) for point in points)
        reach_m[row] = max(np.hypot(point.x - reference_x[row], point.y - reference_y[row]) for point in points)
    outlines = tuple(polygons)
    regions = Regions(shape, x, y, x2, y2, radius_m, polygon, outlines, anchor, reference_x, reference_y, reach_m)
    return Scopes(regions, filters.numbers(texts))
