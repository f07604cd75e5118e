"""Totals of verdicts: every verdict counts once in all, in its subject, its place, its time, and its delay.

Workers count by latency with few digits, and Spark adds up: these are few rows, and percentiles are theirs.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.schema import DOUBLE, INTEGER, TEXT
from roamcast.spark.audit import UNKNOWN
from roamcast.spark.oracle.attributes import one_array
from roamcast.spark.settings import Settings
from roamcast.spark.tables import TOTALS, columns, struct_of

CELLS_PER_SIDE = 16
TIME_SLICES = 48
DELAY_STEPS = 8
DIGITS = 3
"""Of a latency that percentiles tell: they are at most one in a hundred too small."""
COUNTS = ("expected", "delivered", "missed", "unwanted", "duplicates")
DIMENSIONS = ("all", "subject", "place", "time", "delay")
COUNTED = columns(
    dimension=TEXT,
    value=TEXT,
    place=INTEGER,
    at_us=INTEGER,
    about_us=INTEGER,
    **dict.fromkeys(COUNTS, INTEGER),
    timed=INTEGER,
    latency_max_us=INTEGER,
)
"""A row for each value of each dimension and each latency of few digits."""


def totals(verdicts: DataFrame, settings: Settings) -> DataFrame:
    """The table `totals`, lazily."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from counts_of(pa.Table.from_batches([batch]), settings).to_batches()

    return summed(verdicts.mapInArrow(count, struct_of(COUNTED)), settings)


def summed(counted: DataFrame, settings: Settings) -> DataFrame:
    found = counted.groupBy("dimension", "value").agg(
        *(F.first(name).alias(name) for name in ("place", "at_us")),
        *(F.sum(name).alias(name) for name in COUNTS),
        F.percentile("about_us", [0.5, 0.9, 0.99], F.col("timed")).alias("percentiles"),
        F.max("latency_max_us").alias("latency_max_us"),
    )
    shares = {
        f"latency_p{share}_us": F.floor(F.col("percentiles")[number]) for number, share in enumerate((50, 90, 99))
    }
    (west, width), (south, height) = sides(settings)
    middle = {
        "x": F.lit(west) + (F.col("place") % CELLS_PER_SIDE + 0.5) * width,
        "y": F.lit(south) + (F.floor(F.col("place") / CELLS_PER_SIDE) + 0.5) * height,
    }
    return found.withColumns({**shares, **middle}).select(*TOTALS.columns)


def counts_of(verdicts: Any, settings: Settings) -> Any:
    """Of some verdicts, a table of Arrow."""
    late_us, times, wanted = (one_array(verdicts[name]) for name in ("latency_us", "times", "expected"))
    arrived = pc.greater(times, 0)
    counts = {
        "expected": wanted,
        "delivered": arrived,
        "missed": pc.and_(wanted, pc.invert(arrived)),
        "unwanted": pc.invert(wanted),
        "duplicates": pc.max_element_wise(pc.subtract(times, 1), 0),
        "timed": pc.is_valid(late_us),
    }
    counts = {name: column.cast(INTEGER) for name, column in counts.items()}
    keys = keys_of(verdicts, settings)
    rows = pa.table({**keys, **counts, "about_us": about_us(late_us), "latency_max_us": late_us})
    aggregates = [*((name, "sum") for name in counts), ("latency_max_us", "max")]
    names = {**{f"{name}_sum": name for name in counts}, "latency_max_us_max": "latency_max_us"}
    found = []
    for dimension in DIMENSIONS:
        some = rows if dimension != "delay" else rows.filter(pc.is_valid(rows["delay"]))
        sums = some.group_by(["about_us", dimension], use_threads=False).aggregate(aggregates).rename_columns(names)
        key, nothing = one_array(sums[dimension]), pa.nulls(len(sums), INTEGER)
        named = {
            "dimension": pa.repeat(dimension, len(sums)),
            "value": pc.fill_null(cell_names(key) if dimension == "place" else key.cast(TEXT), UNKNOWN),
            "place": key if dimension == "place" else nothing,
            "at_us": key if dimension in ("time", "delay") else nothing,
        }
        rest = {name: sums[name] for name in COUNTED.names if name not in named}
        found.append(pa.table({**named, **rest}).cast(COUNTED))
    return pa.concat_tables(found)


def keys_of(verdicts: Any, settings: Settings) -> dict[str, Any]:
    """What verdicts count in: the number of a cell, the beginnings of a slice and of a step of delays."""
    slice_us = max(1, -(-(settings.until_us - settings.first_us + 1) // TIME_SLICES))
    after_us = pc.subtract(one_array(verdicts["published_us"]), settings.first_us).cast(DOUBLE)
    slice_ = pc.floor(pc.divide(after_us, float(slice_us))).cast(INTEGER)
    column, row = (
        pc.min_element_wise(
            pc.floor(pc.divide(pc.subtract(one_array(verdicts[name]), low), size)).cast(INTEGER),
            CELLS_PER_SIDE - 1,
            skip_nulls=False,
        )
        for name, (low, size) in zip(("x", "y"), sides(settings), strict=True)
    )
    late_us = one_array(verdicts["latency_us"])
    # First deliveries by how late they are, eight steps to a power of ten.
    step = pc.divide(pc.floor(pc.multiply(power_of(late_us), float(DELAY_STEPS))), float(DELAY_STEPS))
    return {
        "all": pa.repeat("all", len(verdicts)),
        "subject": one_array(verdicts["subject"]).cast(TEXT),
        "place": pc.add(pc.multiply(row, CELLS_PER_SIDE), column),
        "time": pc.add(pc.multiply(slice_, slice_us), settings.first_us),
        "delay": pc.if_else(pc.less(late_us, 1), 0, pc.floor(pc.power(10.0, step)).cast(INTEGER)),
    }


def power_of(late_us: Any) -> Any:
    return pc.log10(pc.max_element_wise(late_us, 1, skip_nulls=False).cast(DOUBLE))


def about_us(late_us: Any) -> Any:
    """With few digits."""
    power = pc.max_element_wise(pc.subtract(pc.floor(power_of(late_us)), DIGITS - 1.0), 0.0, skip_nulls=False)
    unit = pc.power(10.0, power)
    return pc.multiply(pc.floor(pc.divide(late_us.cast(DOUBLE), unit)), unit).cast(INTEGER)


def cell_names(cells: Any) -> Any:
    """Column and row."""
    row = pc.divide(cells, CELLS_PER_SIDE)
    column = pc.subtract(cells, pc.multiply(row, CELLS_PER_SIDE))
    return pc.binary_join_element_wise(column.cast(TEXT), row.cast(TEXT), "/")


def sides(settings: Settings) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where the grid of cells begins and how wide a cell is, from west to east and from south to north."""
    extent = settings.extent
    pairs = ((extent.west or 0.0, extent.east or 0.0), (extent.south or 0.0, extent.north or 0.0))
    (west, width), (south, height) = ((low, max((high - low) / CELLS_PER_SIDE, 1e-9)) for low, high in pairs)
    return (west, width), (south, height)
