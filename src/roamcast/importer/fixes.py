"""Batches of fixes, which readers yield and the rest of the importer processes."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from roamcast.model.space import Earth, Plane

FIXES = pa.schema(
    [
        ("host", pa.string()),
        ("at_us", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("speed_mps", pa.float64()),
        ("heading_deg", pa.float64()),
        ("accuracy_m", pa.float64()),
    ]
)
"""A batch of a reader. Anything may be null or not a number; `host` may be dictionary-encoded. Columns that follow
are attributes of the host by their names."""

FIX = np.dtype(
    [
        ("host", "i4"),
        ("attributes", "i4"),
        ("at_us", "i8"),
        ("x", "f8"),
        ("y", "f8"),
        ("east_mps", "f8"),
        ("north_mps", "f8"),
    ]
)
"""A fix that was checked: the host and its attributes are numbers, a velocity that is not known is not a number."""

FixRows: TypeAlias = npt.NDArray[np.void]
"""Rows of `FIX`."""

TimeUnit: TypeAlias = Literal["auto", "s", "ms", "us", "ns"]
SpeedUnit: TypeAlias = Literal["mps", "kmh", "knots", "mph"]
MPS_PER_UNIT: dict[SpeedUnit, float] = {"mps": 1.0, "kmh": 1 / 3.6, "knots": 1852 / 3600, "mph": 0.44704}


class BadImport(ValueError):
    """Data that cannot be imported as asked; the message says what to do."""


class Times(Struct, frozen=True):
    """How times are to be read."""

    unit: TimeUnit = "auto"
    """Of numbers; `auto` tells by their size."""
    format: str = ""
    """As strptime has it, for text that is not ISO 8601."""
    timezone: str = ""
    """Of times that do not say theirs."""
    start_us: int = 0
    """Added to every time: when a simulation began, whose times count from 0."""


class Columns(Struct, frozen=True):
    """Which column is what; empty: by the usual names."""

    host: str = ""
    time: str = ""
    lon: str = ""
    lat: str = ""
    x: str = ""
    y: str = ""
    speed: str = ""
    heading: str = ""
    accuracy: str = ""
    geometry: str = ""


class Reading(Struct, frozen=True):
    """How files are to be read."""

    columns: Columns = Columns()
    times: Times = Times()
    host_name: str = ""
    """The host of files that do not name theirs: `{stem}`, `{parent}` and `{grandparent}` are parts of the path."""
    names: tuple[str, ...] = ()
    """The columns of a CSV file without a header."""
    skip_lines: int = 0
    attributes: dict[str, str] = {}
    """Attributes of hosts by name, and the columns they are in."""
    speed_unit: SpeedUnit = "mps"
    geographic: bool = False
    """Whether a format that does not tell (SUMO's) holds degrees."""
    many: bool = False
    """Whether there are several files, so that what a file calls `track-1` is not the name of a host."""


class Found(Struct, frozen=True):
    """What a reader found in a file: its space is known before the first batch is read."""

    space: Plane | Earth
    batches: Iterator[Any]
    """Of the schema `FIXES`."""


def host_of(path: Path, template: str) -> str:
    whole = path.absolute()
    parts = {"stem": whole.stem, "parent": whole.parent.name, "grandparent": whole.parent.parent.name}
    try:
        return template.format(**parts)
    except (KeyError, IndexError, ValueError):
        raise BadImport(
            f"--host-name '{template}': only {{stem}}, {{parent}} and {{grandparent}} can stand in braces"
        ) from None


def constant_host(host: str, rows: int) -> Any:
    """A column of one host."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([host]))


def batch_of_rows(rows: Iterable[tuple[Any, ...]]) -> Any:
    """A batch from rows in the order of `FIXES`, for formats that have no columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(FIXES)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, FIXES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FIXES)


def batches_of_rows(rows: Iterable[tuple[Any, ...]], size: int = 100_000) -> Iterator[Any]:
    waiting: list[tuple[Any, ...]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == size:
            yield batch_of_rows(waiting)
            waiting = []
    if waiting:
        yield batch_of_rows(waiting)
