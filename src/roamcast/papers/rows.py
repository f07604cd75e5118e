"""What the runs of an experiment came to, in files: JSON, which the report reads, and Parquet for everybody else.

In Parquet a run is a row with a column for each of its parameters and figures, so that pandas, Spark or DuckDB can
ask it at once. A figure that has the name of a parameter, or of what every row has, is called `measured_NAME` there.
"""

from pathlib import Path
from typing import Any

import msgspec

from roamcast.papers.experiment import Row


def keep(rows: list[Row], file: Path) -> None:
    """Both, beside each other: `file` is that of JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file.write_bytes(msgspec.json.encode(rows))
    flat = [flattened(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    columns = {name: column([row.get(name) for row in flat]) for name in names}
    pq.write_table(pa.table(columns), file.with_suffix(".parquet"))


def kept(file: Path) -> list[Row]:
    """Raises `msgspec.MsgspecError` and `OSError`."""
    return msgspec.json.decode(file.read_bytes(), type=list[Row])


def flattened(row: Row) -> dict[str, Any]:
    about = {"experiment": row.experiment, "run": row.run, "seed": row.seed, **row.parameters}
    about |= {"cpu_s": row.cpu_s, "error": row.error}
    return about | {f"measured_{name}" if name in about else name: value for name, value in row.figures.items()}


def column(values: list[Any]) -> list[Any]:
    """A column has one type: what differs from setting to setting is told as text, lists too."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and float in kinds:
        return [None if value is None else float(value) for value in values]
    if len(kinds) <= 1 and not kinds & {list, dict, tuple}:
        return values
    return [None if value is None else msgspec.json.encode(value).decode() for value in values]
