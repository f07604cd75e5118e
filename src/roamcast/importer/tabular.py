"""CSV, Parquet and GeoParquet by columns: which column is what, and batches of fixes from them.

A column is found by its option, or else by the usual names. CSV is parsed by Arrow in blocks, Parquet read by
batches, so that a file may be larger than memory. Geolife's `.plt` files are CSV files that lack a header.
"""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import shapely
from msgspec import Struct
from msgspec.structs import replace

from roamcast.importer.fixes import FIXES, MPS_PER_UNIT, BadImport, Columns, Found, Reading, constant_host, host_of
from roamcast.importer.times import TimeColumn, type_of_text
from roamcast.model.space import Earth, Plane
from roamcast.movement.trace_formats import CSV_NAMES

BLOCK_BYTES = 8 << 20
HEADER_BYTES_MAX = 1 << 20
BATCH_ROWS = 500_000
JOINER = "+"
"""`--time date+time`: two columns of text that are one time."""

USUAL: dict[str, tuple[str, ...]] = {
    "host": (*CSV_NAMES["host"], "host_id", "device_id", "user", "user_id", "taxi_id", "mmsi", "tid"),
    "time": (*CSV_NAMES["time"], *CSV_NAMES["time_us"], "at_us", "time_ms", "datetime", "basedatetime", "ts", "tst"),
    "lon": CSV_NAMES["lon"],
    "lat": CSV_NAMES["lat"],
    "x": CSV_NAMES["x"],
    "y": CSV_NAMES["y"],
    "speed": ("speed_mps",),
    "heading": ("heading_deg",),
    "accuracy": ("accuracy_m",),
    "geometry": (),
}
"""Names in any case; speeds only where the name says the unit."""

GEOLIFE = ("lat", "lon", "zero", "altitude_ft", "days", "date", "clock")
GEOLIFE_HEADER_LINES = 6
NO_HOSTS = pa.array([""])
NO_TIMES = pa.array(arrow_csv.ConvertOptions().null_values)
"""What stands in a file for a value that is not there."""
WGS84 = ("OGC:CRS84", "EPSG:4326")


class Picked(Struct, frozen=True):
    """The columns of a file; empty: it has none such."""

    chosen: Columns
    geographic: bool
    attributes: dict[str, str]

    @property
    def times(self) -> tuple[str, ...]:
        return tuple(self.chosen.time.split(JOINER)) if JOINER in self.chosen.time else (self.chosen.time,)

    @property
    def all(self) -> list[str]:
        named = [getattr(self.chosen, name) for name in Columns.__struct_fields__ if name != "time"]
        return list(dict.fromkeys([*self.times, *(name for name in named if name), *self.attributes.values()]))


class Head(Struct, frozen=True):
    """The beginning of a CSV file."""

    delimiter: str
    """Of the usual ones, that which the first line has most of."""
    names: list[str]
    first: dict[str, str]
    """Its first row."""


def read_csv(path: Path, reading: Reading, opened: Callable[[Path], Any]) -> Found:
    head = head_of(path, reading)
    picked = picked_of(path, head.names, reading)
    told = set(picked.attributes.values())
    types = {name: pa.float64() for name in picked.all if name not in told} | {picked.chosen.host: pa.string()}
    if len(picked.times) == 1:
        types[picked.chosen.time] = type_of_text(head.first.get(picked.chosen.time, ""), reading.times)
    else:
        types |= dict.fromkeys(picked.times, pa.string())
    reader = arrow_csv.open_csv(
        opened(path),
        read_options=arrow_csv.ReadOptions(
            block_size=BLOCK_BYTES, skip_rows=reading.skip_lines, column_names=list(reading.names) or None
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=head.delimiter),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=picked.all,
            column_types=types,
            # A host may well be called "null": what text means is decided column by column.
            strings_can_be_null=False,
        ),
    )
    return found(path, picked, reading, reader)


def read_geolife(path: Path, reading: Reading, opened: Callable[[Path], Any]) -> Found:
    """A file is a trip of the user whose directory is two above it, in GMT."""
    times = replace(reading.times, timezone=reading.times.timezone or "UTC")
    columns = replace(reading.columns, time=f"date{JOINER}clock")
    host_name = reading.host_name or "{grandparent}"
    known = {"names": GEOLIFE, "skip_lines": GEOLIFE_HEADER_LINES, "host_name": host_name}
    return read_csv(path, replace(reading, times=times, columns=columns, **known), opened)


def read_parquet(path: Path, reading: Reading) -> Found:
    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    geometry = geometry_of(path, file.schema_arrow, reading)
    if geometry:
        reading = replace(reading, columns=replace(reading.columns, geometry=geometry))
    picked = picked_of(path, names, reading)
    return found(path, picked, reading, file.iter_batches(BATCH_ROWS, columns=picked.all))


def head_of(path: Path, reading: Reading) -> Head:
    with pa.input_stream(str(path)) as stream:
        text = stream.read(HEADER_BYTES_MAX).decode("utf-8-sig", "replace")
    lines = text.splitlines()[reading.skip_lines :]
    if not lines or not lines[0].strip():
        raise BadImport(f"{path}: the file is empty; a CSV file begins with a header, or give --names")
    delimiter = max(",;\t|", key=lines[0].count)
    rows = csv.reader(lines[:2], delimiter=delimiter)
    names = list(reading.names) or next(rows)
    return Head(delimiter, names, dict(zip(names, next(rows, ()), strict=False)))


def picked_of(path: Path, names: list[str], reading: Reading) -> Picked:
    given = reading.columns
    found = {field: column_for(path, names, field, getattr(given, field)) for field in Columns.__struct_fields__}
    if given.x or given.y:
        found["lon"] = found["lat"] = found["geometry"] = ""
    elif found["geometry"]:
        found["lon"] = found["lat"] = found["x"] = found["y"] = ""
    elif found["lon"] and found["lat"]:
        found["x"] = found["y"] = ""
    geographic = bool(found["geometry"] or (found["lon"] and found["lat"]))
    if not geographic and not (found["x"] and found["y"]):
        raise missing(path, names, "position", "--lon and --lat in degrees, or --x and --y in metres")
    if not found["time"]:
        raise missing(path, names, "time", "--time")
    if not found["host"] and not reading.host_name:
        raise missing(path, names, "host", "--host, or the host of a whole file with --host-name '{stem}'")
    for column in reading.attributes.values():
        column_for(path, names, "attribute", column)
    return Picked(Columns(**found), geographic, reading.attributes)


def column_for(path: Path, names: list[str], field: str, given: str) -> str:
    if given:
        parts = [given] if given in names else given.split(JOINER) if field == "time" else [given]
        for part in parts:
            if part not in names:
                raise BadImport(
                    f"{path}: there is no column '{part}' for --{field}; the columns are {', '.join(names)}"
                )
        return given
    fitting = [name for name in names if name.strip().lower() in USUAL[field]]
    if len(fitting) > 1:
        raise BadImport(f"{path}: {' and '.join(fitting)} could all be the {field}; say which with --{field}")
    return fitting[0] if fitting else ""


def missing(path: Path, names: list[str], what: str, option: str) -> BadImport:
    return BadImport(
        f"{path}: no column is known as the {what}; the columns are {', '.join(names)}; name it with {option}"
    )


def found(path: Path, picked: Picked, reading: Reading, batches: Iterator[Any]) -> Found:
    times = TimeColumn(picked.times[-1], reading.times, str(path))
    host = "" if picked.chosen.host else host_of(path, reading.host_name)

    def converted() -> Iterator[Any]:
        try:
            for batch in batches:
                yield fixes_of(batch, picked, times, host, reading, path)
        except pa.ArrowInvalid as problem:
            raise BadImport(f"{path}: {problem}") from None

    return Found(Earth() if picked.geographic else Plane(), converted())


def fixes_of(batch: Any, picked: Picked, times: TimeColumn, host: str, reading: Reading, path: Path) -> Any:
    chosen, rows = picked.chosen, batch.num_rows

    def numbers(name: str) -> Any:
        return batch[name].cast(pa.float64(), safe=False) if name else pa.nulls(rows, pa.float64())

    if chosen.geometry:
        x, y = points_of(batch[chosen.geometry], path)
    else:
        x, y = numbers(chosen.lon or chosen.x), numbers(chosen.lat or chosen.y)
    told = [without(batch[name], NO_TIMES) for name in picked.times]
    when = times.to_us(told[0] if len(told) == 1 else pc.binary_join_element_wise(*told, " "))
    hosts = hosts_of(batch[chosen.host]) if chosen.host else constant_host(host, rows)
    speed = pc.multiply(numbers(chosen.speed), MPS_PER_UNIT[reading.speed_unit])
    arrays = [hosts, when, x, y, speed, numbers(chosen.heading), numbers(chosen.accuracy)]
    told_of = [without(batch[column], NO_HOSTS) for column in picked.attributes.values()]
    return pa.RecordBatch.from_arrays([*arrays, *told_of], names=[*FIXES.names, *picked.attributes])


def hosts_of(column: Any) -> Any:
    return column if pa.types.is_dictionary(column.type) else without(column.cast(pa.string()), NO_HOSTS)


def without(column: Any, words: Any) -> Any:
    """Text that is one of these words is not known."""
    if not pa.types.is_string(column.type):
        return column
    return pc.if_else(pc.is_in(column, value_set=words), pa.scalar(None, pa.string()), column)


def geometry_of(path: Path, schema: Any, reading: Reading) -> str:
    """The column with the points of a GeoParquet file, if it is one and nothing else was asked for."""
    given = reading.columns
    about = (schema.metadata or {}).get(b"geo")
    if about is None or given.lon or given.lat or given.x or given.y:
        return given.geometry
    described = msgspec.json.decode(about)
    name = str(given.geometry or described["primary_column"])
    crs = described["columns"].get(name, {}).get("crs", {"id": {"authority": "OGC", "code": "CRS84"}})
    known = f"{crs['id'].get('authority')}:{crs['id'].get('code')}" if crs and "id" in crs else "unknown"
    if known not in WGS84:
        raise BadImport(
            f"{path}: column '{name}' has the reference system {known}, not longitude and latitude (EPSG:4326); "
            "reproject it, for example with geopandas' to_crs(4326), or name columns with --x and --y"
        )
    return name


def points_of(column: Any, path: Path) -> tuple[Any, Any]:
    """Points as WKB, or as GeoArrow has them, a struct of x and y."""
    if pa.types.is_struct(column.type):
        return column.field("x"), column.field("y")
    try:
        points = shapely.from_wkb(column.to_numpy(zero_copy_only=False))
    except (shapely.errors.ShapelyError, TypeError) as problem:
        raise BadImport(f"{path}: the geometry is not readable as WKB ({problem})") from None
    kinds = shapely.get_type_id(points)
    if ((kinds != shapely.GeometryType.POINT) & (kinds != shapely.GeometryType.MISSING)).any():
        raise BadImport(f"{path}: the geometry holds other shapes than points; import a file of points, one a fix")
    return pa.array(shapely.get_x(points)), pa.array(shapely.get_y(points))
