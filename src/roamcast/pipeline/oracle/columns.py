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


BOX = BoxColumns._fields


def point(x: Column, y: Column) -> BoxColumns:
    return BoxColumns(x, y, x, y)


def with_stretch(rows: DataFrame, space: Space, from_us: Column, until_us: Column, by_m: Column) -> DataFrame:
    """With the box around where a track leads between two times, and all within `by_m` of it; `from_us` of the track
    is its column of that name."""
    east, north = (F.coalesce(F.col(name), F.lit(0.0)) for name in ("velocity_east", "velocity_north"))
    first_s, last_s = ((each - F.col("from_us")) / 1e6 for each in (from_us, until_us))
    x, y = F.col("x"), F.col("y")
    if not isinstance(space, Plane):
        return with_box(rows, space, point(x, y), F.sqrt(east * east + north * north) * last_s + by_m)
    xs, ys = [x + east * each for each in (first_s, last_s)], [y + north * each for each in (first_s, last_s)]
    way = BoxColumns(F.least(*xs), F.least(*ys), F.greatest(*xs), F.greatest(*ys))
    return with_box(rows, space, way, by_m)


def with_still(rows: DataFrame, space: Space, region: Column) -> DataFrame:
    """With the box around a region that is not anchored."""
    round_ = region.getField("shape") == "circle"
    corners = region.getField("corners")
    xs, ys = F.transform(corners, lambda each: each.x), F.transform(corners, lambda each: each.y)
    west, east = F.array_min(xs), F.array_max(xs)
    if not isinstance(space, Plane):
        first, last = F.try_element_at(xs, F.lit(1)), F.try_element_at(xs, F.lit(2))
        turned = (region.getField("shape") == "box") & (first > last)
        beyond = turned | (west < -180.0) | (east > 180.0)
        west, east = F.when(beyond, -180.0).otherwise(west), F.when(beyond, 180.0).otherwise(east)
    middle = point(region.getField("x"), region.getField("y"))
    box = BoxColumns(west, F.array_min(ys), east, F.array_max(ys))
    sides = BoxColumns(*(F.when(round_, a).otherwise(b) for a, b in zip(middle, box, strict=True)))
    return with_box(rows, space, sides, F.when(round_, region.getField("radius_m")).otherwise(0.0))


def reach_m(region: Column) -> Column:
    """How far an anchored shape extends from its reference point."""
    reference_x, reference_y = (F.coalesce(region.getField(f"reference_{axis}"), F.lit(0.0)) for axis in "xy")

    def away(x: Column, y: Column) -> Column:
        return F.sqrt((x - reference_x) * (x - reference_x) + (y - reference_y) * (y - reference_y))

    circle = away(region.getField("x"), region.getField("y")) + region.getField("radius_m")
    corners = F.array_max(F.transform(region.getField("corners"), lambda each: away(each.x, each.y)))
    return F.when(region.getField("shape") == "circle", circle).otherwise(corners)


def with_box(rows: DataFrame, space: Space, inner: BoxColumns, by_m: Column) -> DataFrame:
    """With the columns of `inner` grown by so much, as `boxes.grown` does it.

    Every step is a column of its own, and no side is null. Otherwise Spark has each expression again wherever the
    next one names it and in filters against nulls, and planning takes four times as long.
    """
    reach = F.col("reach")
    stepped = rows.withColumns({**inner._asdict(), "reach": by_m * MARGIN + 1e-6})
    west, south, east, north = (F.col(name) for name in BOX)
    if isinstance(space, Plane):
        far = F.greatest(*(F.abs(side) for side in (west, south, east, north)))
        stepped = stepped.withColumn("reach", reach + far * 1e-12)
        sides = (west - reach, south - reach, east + reach, north + reach)
        return stepped.withColumns(known(BoxColumns(*sides)))
    margin, poleward = F.col("margin"), F.col("poleward")
    high = reach / DEGREE_NORTH_MIN_M
    stepped = stepped.withColumns({"south": south - high, "north": north + high})
    stepped = stepped.withColumn("poleward", F.least(F.greatest(F.abs(south), F.abs(north)), F.lit(90.0)))
    sine, cosine = F.sin(F.radians(poleward)), F.cos(F.radians(poleward))
    degree_m = F.radians(F.lit(EQUATOR_RADIUS_M) / F.sqrt(1 - ECCENTRICITY_SQUARED * sine * sine) * cosine)
    stepped = stepped.withColumn("margin", reach / F.greatest(degree_m, F.lit(1e-9)))
    stepped = stepped.withColumns({"west": west - margin, "east": east + margin})
    stepped = stepped.withColumn("around", (west < -180.0) | (east > 180.0) | (poleward > 89.0))
    west, east = F.when(F.col("around"), -180.0).otherwise(west), F.when(F.col("around"), 180.0).otherwise(east)
    return stepped.withColumns(known(BoxColumns(west, south, east, north)))


def known(box: BoxColumns) -> dict[str, Column]:
    """A side that is not known is as far out as can be."""
    ends = (-FAR, -FAR, FAR, FAR)
    return {name: F.coalesce(side, F.lit(end)) for name, side, end in zip(BOX, box, ends, strict=True)}


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
