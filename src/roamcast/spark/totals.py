"""Totals of verdicts: every verdict counts once in all, in its subject, its place, its time, and its delay.

Workers count by latency with few digits (`counts_of`) and add their counts up (`merged`); of the sum `summed` makes
the lines of the audit, with percentiles. These are few rows, however many verdicts there are.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from roamcast.journal.schema import DOUBLE, INTEGER, TEXT
from roamcast.model.filter.mask import Flags
from roamcast.spark.audit import UNKNOWN
from roamcast.spark.oracle.attributes import one_array
from roamcast.spark.oracle.boxes import Rows
from roamcast.spark.settings import Settings
from roamcast.spark.tables import TOTALS, columns, struct_of

CELLS_PER_SIDE = 16
TIME_SLICES = 48
DELAY_STEPS = 8
DIGITS = {"all": 3, "subject": 3, "place": 2, "time": 2, "delay": 2}
"""The dimensions, and of a latency the digits that their percentiles tell: with three they are at most one in a
hundred too small."""
COUNTS = ("expected", "delivered", "missed", "unwanted", "duplicates")
SHARES = (50, 90, 99)
COUNTED = columns(
    dimension=TEXT,
    value=TEXT,
    key=INTEGER,
    about_us=INTEGER,
    **dict.fromkeys(COUNTS, INTEGER),
    timed=INTEGER,
    latency_max_us=INTEGER,
)
"""A row for each value of each dimension and each latency of few digits. `key`: of a place the number of its cell, of
a time or a delay where it begins."""
VALUE = ("dimension", "value", "key")


def totals(verdicts: DataFrame, settings: Settings) -> DataFrame:
    """The table `totals`, lazily."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from counts_of(pa.Table.from_batches([batch]), settings).to_batches()

    def add_up(batches: Iterator[Any]) -> Iterator[Any]:
        yield from summed(pa.Table.from_batches(batches, COUNTED), settings).to_batches()

    counted = verdicts.mapInArrow(count, struct_of(COUNTED))
    return counted.repartition(1).mapInArrow(add_up, TOTALS.struct)


def counts_of(verdicts: Any, settings: Settings) -> Any:
    """Of some verdicts."""
    late_us, times = one_array(verdicts["latency_us"]), one_array(verdicts["times"]).to_numpy()
    wanted = one_array(verdicts["expected"]).to_numpy(zero_copy_only=False)
    about = {digits: about_us(late_us, digits) for digits in set(DIGITS.values())}
    found = [
        counted(name, key, about[DIGITS[name]], late_us, wanted, times)
        for name, key in keys_of(verdicts, settings).items()
    ]
    return pa.concat_tables(found)


def counted(dimension: str, key: Any, about_us: Any, late_us: Any, wanted: Flags, times: Rows) -> Any:
    """The rows of one dimension."""
    if dimension == "delay":
        there = pc.is_valid(key)
        key, about_us, late_us = key.filter(there), about_us.filter(there), late_us.filter(there)
        there = there.to_numpy(zero_copy_only=False)
        wanted, times = wanted[there], times[there]
    (of_key, keys), (of_about, abouts) = numbered(key), numbered(about_us)
    both, pairs = numbered(pa.array(of_key * len(abouts) + of_about))
    arrived, count = times > 0, len(pairs)
    kinds = np.bincount(both * 4 + 2 * wanted + arrived, minlength=4 * count).reshape(count, 4)
    again = np.bincount(both, np.maximum(times - 1, 0), count).astype(np.int64)
    number, about = np.divmod(pairs.to_numpy(), max(1, len(abouts)))
    key, about_us = keys.take(pa.array(number)), abouts.take(pa.array(about))
    most = pa.table({"both": both, "us": late_us}).group_by("both").aggregate([("us", "max")]).sort_by("both")
    plain = pa.types.is_integer(key.type)
    named = cell_names(key) if dimension == "place" else key.cast(TEXT)
    found = {
        "dimension": pa.repeat(dimension, count),
        "value": pc.fill_null(named, UNKNOWN),
        "key": key if plain else pa.nulls(count, INTEGER),
        "about_us": about_us,
        "expected": kinds[:, 2] + kinds[:, 3],
        "delivered": kinds[:, 1] + kinds[:, 3],
        "missed": kinds[:, 2],
        "unwanted": kinds[:, 0] + kinds[:, 1],
        "duplicates": again,
        "timed": np.where(pc.is_valid(about_us).to_numpy(zero_copy_only=False), kinds.sum(1), 0),
        "latency_max_us": one_array(most["us_max"]),
    }
    return pa.table(found).cast(COUNTED)


def numbered(column: Any) -> tuple[Rows, Any]:
    """The number of each row's value, and the values; nothing is a value, too."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode(null_encoding="encode")
    if coded.indices.null_count:
        coded = coded.cast(coded.type.value_type).dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary


def merged(counted: Any) -> Any:
    """Counts of the same value and latency added up."""
    sums = (*COUNTS, "timed")
    keys = (*VALUE, "about_us")
    found = counted.group_by(list(keys), use_threads=False).aggregate(
        [*((name, "sum") for name in sums), ("latency_max_us", "max")]
    )
    columns = [*keys, *(f"{name}_sum" for name in sums), "latency_max_us_max"]
    return found.select(columns).rename_columns([*keys, *sums, "latency_max_us"]).select(COUNTED.names)


def summed(counted: Any, settings: Settings) -> Any:
    """The table `totals`, of all counts."""
    by_latency = merged(counted).sort_by([(name, "ascending") for name in (*VALUE, "about_us")])
    names = (*COUNTS, "timed", "latency_max_us")
    found = by_latency.group_by(list(VALUE), use_threads=False).aggregate(
        [(name, "max" if name == "latency_max_us" else "sum") for name in names]
    )
    dimension, key = one_array(found["dimension"]), one_array(found["key"])
    place = pc.equal(dimension, "place")
    (west, width), (south, height) = sides(settings)
    cell, timed = pc.if_else(place, key, None), pc.is_in(dimension, pa.array(["time", "delay"]))
    row = pc.divide(cell, CELLS_PER_SIDE)
    column = pc.subtract(cell, pc.multiply(row, CELLS_PER_SIDE))
    lines = {
        "dimension": dimension,
        "value": found["value"],
        "x": pc.add(pc.multiply(pc.add(column.cast(DOUBLE), 0.5), width), west),
        "y": pc.add(pc.multiply(pc.add(row.cast(DOUBLE), 0.5), height), south),
        "at_us": pc.if_else(timed, key, None),
        **{name: found[f"{name}_sum"] for name in COUNTS},
        **percentiles(by_latency, one_array(found["timed_sum"]).to_numpy()),
        "latency_max_us": found["latency_max_us_max"],
    }
    return pa.table(lines).cast(TOTALS.schema)


def percentiles(by_latency: Any, timed: Rows) -> dict[str, Any]:
    """Of each value, whose rows lie beside each other in the order of their latency; `timed`: how many each has."""
    counts = one_array(by_latency["timed"]).to_numpy()
    about_us = by_latency.filter(pa.array(counts > 0))["about_us"].to_numpy()
    ends, first = np.cumsum(counts[counts > 0]), np.cumsum(timed) - timed
    there = timed > 0
    found = {}
    for share in SHARES:
        rank = (timed[there] - 1) * (share / 100)
        low, high = (
            about_us[np.searchsorted(ends, first[there] + each.astype(np.int64), "right")]
            for each in (np.floor(rank), np.ceil(rank))
        )
        between = np.zeros(len(timed), np.int64)
        between[there] = np.floor(low + (high - low) * (rank - np.floor(rank)))
        found[f"latency_p{share}_us"] = pa.array(between, mask=~there)
    return found


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
    every = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(verdicts), np.int32)), ["all"])
    return {
        "all": every,
        "subject": one_array(verdicts["subject"]),
        "place": pc.add(pc.multiply(row, CELLS_PER_SIDE), column),
        "time": pc.add(pc.multiply(slice_, slice_us), settings.first_us),
        "delay": pc.if_else(pc.less(late_us, 1), 0, pc.floor(pc.power(10.0, step)).cast(INTEGER)),
    }


def power_of(late_us: Any) -> Any:
    return pc.log10(pc.max_element_wise(late_us, 1, skip_nulls=False).cast(DOUBLE))


def about_us(late_us: Any, digits: int) -> Any:
    """With so few digits."""
    power = pc.max_element_wise(pc.subtract(pc.floor(power_of(late_us)), digits - 1.0), 0.0, skip_nulls=False)
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
