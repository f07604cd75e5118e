"""Positions for other tools: GeoParquet, with a column of H3 cells to group by.

`positions` is lazy and stays in Spark. `write_geoparquet` has workers write files themselves, since a reader of
GeoParquet looks for a note in the footer that Spark cannot write.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from roamcast.model.space import Earth, Space
from roamcast.spark.files import Finished, file_system
from roamcast.spark.journal import Journal
from roamcast.spark.published import Tables
from roamcast.spark.tables import POSITIONS, BadPipeline, columns, struct_of

H3_RESOLUTION = 9
"""Cells about 350 m wide."""
POINT = np.dtype([("order", "u1"), ("kind", "<u4"), ("x", "<f8"), ("y", "<f8")])
"""A point as WKB has it: little-endian, kind 1."""
WRITTEN = columns(rows=pa.int64())


def positions(journal: Journal, space: Space, resolution: int = H3_RESOLUTION) -> DataFrame:
    """host, at_us, x, y, geometry (WKB) and h3, the cell of each position; null in a plane, where there are none."""
    if not 0 <= resolution <= 15:
        raise BadPipeline(f"--h3 is {resolution}; give 0 to 15")
    known = journal.moves.where("up AND x IS NOT NULL AND y IS NOT NULL").select("host", "at_us", "x", "y")
    earth = isinstance(space, Earth)

    def located(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield with_places(batch, resolution if earth else None)

    return known.mapInArrow(located, POSITIONS.struct)


def with_places(batch: Any, resolution: int | None) -> Any:
    points = np.ones(len(batch), POINT)
    points["x"], points["y"] = x, y = [batch[name].to_numpy() for name in ("x", "y")]
    geometry = pa.array([point.tobytes() for point in points], pa.binary())
    cells: Any = pa.nulls(len(batch), pa.string())
    if resolution is not None:
        import h3  # of the extra `roamcast[spark]`

        cells = pa.array([h3.latlng_to_cell(*at, resolution) for at in zip(y, x, strict=True)], pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, geometry, cells], schema=POSITIONS.schema)


def write_geoparquet(tables: Tables, frame: DataFrame, space: Space) -> tuple[int, str]:
    """Publishes the table `positions`; answers how many there are, and where."""
    part = tables.draft(POSITIONS.name)
    place = f"{tables.place(POSITIONS.name)}/{part}"
    files, within = file_system(place)
    files.create_dir(within, recursive=True)
    note = {"geo": msgspec.json.encode(geo_note(space))}

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        rows = 0
        with Finished(place, f"{context.partitionId():05d}.parquet", note) as file:
            for batch in batches:
                file.write(pa.Table.from_batches([batch]))
                rows += len(batch)
        yield pa.RecordBatch.from_arrays([pa.array([rows], pa.int64())], schema=WRITTEN)

    rows = frame.mapInArrow(write, struct_of(WRITTEN)).groupBy().sum("rows").collect()[0][0]
    tables.publish(POSITIONS.name, (part,))
    return rows or 0, place


def geo_note(space: Space) -> dict[str, Any]:
    """GeoParquet 1.1's note; longitude and latitude are what it means unless told otherwise."""
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": ["Point"]}
    if not isinstance(space, Earth):
        column["crs"] = None
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
