"""Boxes and cells as Spark columns: `boxes.py`, for frames.

A box is four columns. Cells have levels, each with larger cells than the one before, and a last one that is a single
cell: a row lies on the first level on which it touches few cells, so nothing lies in very many.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.model.space import DEGREE_NORTH_MIN_M, ECCENTRICITY_SQUARED, EQUATOR_RADIUS_M, Plane, Space
from roamcast.pipeline.oracle.boxes import MARGIN

SIZES = (1.0, 32.0, 1024.0)
LAST_LEVEL = len(SIZES)
SPAN_MAX = 3.0
FAR = 1e15
"""Beyond that all is one place: a cell's number must be a number."""


class BoxColumns(NamedTuple):
    west: Column
    south: Column
    east: Column
    north: Column

    def named(self) -> list[Column]:
        return [column.alias(name) for name, column in self._asdict().items()]


BOX = BoxColumns._fields


def point(x: Column, y: Column) -> BoxColumns:
    return BoxColumns(x, y, x, y)


def stretch(space: Space, from_us: Column, until_us: Column) -> BoxColumns:
    """Where a track leads between two times; `from_us` of the track is its column of that name."""
    east, north = (F.coalesce(F.col(name), F.lit(0.0)) for name in ("velocity_east", "velocity_north"))
    first_s, last_s = ((each - F.col("from_us")) / 1e6 for each in (from_us, until_us))
    x, y = F.col("x"), F.col("y")
    if not isinstance(space, Plane):
        return grown(point(x, y), F.sqrt(east * east + north * north) * last_s, space)
    xs, ys = [x + east * each for each in (first_s, last_s)], [y + north * each for each in (first_s, last_s)]
    return grown(BoxColumns(F.least(*xs), F.least(*ys), F.greatest(*xs), F.greatest(*ys)), F.lit(0.0), space)


def still(space: Space, region: Column) -> BoxColumns:
    """Around a region that is not anchored."""
    x, y = region.getField("x"), region.getField("y")
    circle = grown(point(x, y), region.getField("radius_m"), space)
    corners = region.getField("corners")
    xs, ys = F.transform(corners, lambda each: each.x), F.transform(corners, lambda each: each.y)
    west, east = F.array_min(xs), F.array_max(xs)
    if not isinstance(space, Plane):
        first, last = F.try_element_at(xs, F.lit(1)), F.try_element_at(xs, F.lit(2))
        turned = (region.getField("shape") == "box") & (first > last)
        beyond = turned | (west < -180.0) | (east > 180.0)
        west, east = F.when(beyond, -180.0).otherwise(west), F.when(beyond, 180.0).otherwise(east)
    box = BoxColumns(west, F.array_min(ys), east, F.array_max(ys))
    round_ = region.getField("shape") == "circle"
    return BoxColumns(*(F.when(round_, a).otherwise(b) for a, b in zip(circle, box, strict=True)))


def reach_m(region: Column) -> Column:
    """How far an anchored shape extends from its reference point."""
    reference_x, reference_y = (F.coalesce(region.getField(f"reference_{axis}"), F.lit(0.0)) for axis in "xy")

    def away(x: Column, y: Column) -> Column:
        return F.sqrt((x - reference_x) * (x - reference_x) + (y - reference_y) * (y - reference_y))

    circle = away(region.getField("x"), region.getField("y")) + region.getField("radius_m")
    corners = F.array_max(F.transform(region.getField("corners"), lambda each: away(each.x, each.y)))
    return F.when(region.getField("shape") == "circle", circle).otherwise(corners)


def grown(box: BoxColumns, by_m: Column, space: Space) -> BoxColumns:
    """`boxes.grown`."""
    reach = by_m * MARGIN + 1e-6
    if isinstance(space, Plane):
        reach = reach + F.greatest(*(F.abs(side) for side in box)) * 1e-12
        return BoxColumns(box.west - reach, box.south - reach, box.east + reach, box.north + reach)
    south, north = box.south - reach / DEGREE_NORTH_MIN_M, box.north + reach / DEGREE_NORTH_MIN_M
    poleward = F.least(F.greatest(F.abs(south), F.abs(north)), F.lit(90.0))
    sine, cosine = F.sin(F.radians(poleward)), F.cos(F.radians(poleward))
    degree_m = F.radians(F.lit(EQUATOR_RADIUS_M) / F.sqrt(1 - ECCENTRICITY_SQUARED * sine * sine) * cosine)
    margin = reach / F.greatest(degree_m, F.lit(1e-9))
    west, east = box.west - margin, box.east + margin
    around = (west < -180.0) | (east > 180.0) | (poleward > 89.0)
    return BoxColumns(F.when(around, -180.0).otherwise(west), south, F.when(around, 180.0).otherwise(east), north)


def overlap(a: str, b: str) -> Column:
    return (
        (F.col(f"{a}.west") <= F.col(f"{b}.east"))
        & (F.col(f"{b}.west") <= F.col(f"{a}.east"))
        & (F.col(f"{a}.south") <= F.col(f"{b}.north"))
        & (F.col(f"{b}.south") <= F.col(f"{a}.north"))
    )


def own_level(cell: float) -> Column:
    """The first level on which a row touches few cells."""
    across = F.greatest(F.col("east") - F.col("west"), F.col("north") - F.col("south"))
    level = F.lit(LAST_LEVEL)
    for number in reversed(range(LAST_LEVEL)):
        level = F.when(across <= SPAN_MAX * cell * SIZES[number], number).otherwise(level)
    return level


def cell_of(coordinate: Column, level: Column, cell: float) -> Column:
    bounded = F.greatest(F.least(coordinate, F.lit(FAR)), F.lit(-FAR))
    number = F.lit(0).cast("bigint")
    for each, size in enumerate(SIZES):
        number = F.when(level == each, F.floor(bounded / (cell * size)).cast("bigint")).otherwise(number)
    return number


def in_cells(rows: DataFrame, levels: Column, cell: float) -> DataFrame:
    """Every row in each cell that it touches on these levels, with the first of them on each."""
    level = F.col("level")
    first = rows.withColumn("level", F.explode(levels)).select(
        "*",
        cell_of(F.col("west"), level, cell).alias("left"),
        cell_of(F.col("south"), level, cell).alias("low"),
        cell_of(F.col("east"), level, cell).alias("right"),
        cell_of(F.col("north"), level, cell).alias("high"),
    )
    columns = first.withColumn("column", F.explode(F.sequence("left", "right")))
    return columns.withColumn("line", F.explode(F.sequence("low", "high"))).drop("right", "high")
