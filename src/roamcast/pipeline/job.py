"""Tables and jobs: what the pipeline is made of.

A table has a name and a typed schema. A job is a lazy function from named tables to one named table: it builds a
DataFrame and never runs it, so nothing is computed twice and nothing is hidden. `runner.py` executes jobs, `store.py`
knows where tables lie, `registry.py` lists all jobs there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from roamcast.model.places import MovementGraph
from roamcast.model.space import Space


class BadPipeline(Exception):
    """Something the pipeline cannot work with; the message names the file or table, and the field."""


@dataclass(frozen=True)
class Table:
    name: str
    schema: Any
    """Of Arrow, which workers can read without a session."""
    about: str
    by_bucket: bool = False
    """Whether its rows lie in one directory for each bucket of time; `bucket` is then its last column."""

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    @property
    def struct(self) -> StructType:
        """The schema in Spark's types. What may be null is not part of it: Parquet's readers do not keep it."""
        return from_arrow_schema(pa.schema([field.with_nullable(True) for field in self.schema]))


@dataclass(frozen=True)
class Settings:
    """What is known of a journal before any job runs, and how finely to cut it."""

    space: Space
    neighbour_range_m: float
    graph: MovementGraph | None
    first_us: int
    """Of the first bucket: at or before the first record, and a multiple of the period."""
    until_us: int
    """The last moment that is looked at."""
    bucket_us: int
    """A multiple of the period."""
    period_us: int
    cut: tuple[str, ...] = ()
    """The first writers whose run did not say that it ended: what they recorded last may be missing."""
    events_per_task: int = 20_000
    """Of one bucket; a bucket with more events is worked on by several tasks."""
    compiled: bool = True
    """Whether swift events go to the compiled kernel; the results are the same."""
    join: str = "index"
    """How the oracle finds pairs: `index` ships the events and subscriptions, `merge` joins them by sorting."""
    filters: tuple[str, ...] = ()
    """The commonest filters of subscriptions, which `merge` asks early."""
    join_cell_m: float = 500.0
    """Of `merge`: the side of its smallest cells."""
    slots_per_bucket: int = 1
    cell_rows_max: int = 50_000
    """Of a cell in a slot; a cell with more tracks is joined in parts."""
    pairs_per_task: int = 4_000_000


class Inputs(Protocol):
    """What a job is given."""

    settings: Settings

    def __getitem__(self, table: Table) -> DataFrame: ...

    def place(self, table: Table) -> str:
        """Where the table lies, for functions that read their own part of it."""
        ...

    def beside(self, table: Table) -> str:
        """Where workers put files that belong to the table; those of rows become part of it when it is written."""
        ...


@dataclass(frozen=True)
class Job:
    name: str
    reads: tuple[Table, ...]
    writes: Table
    run: Callable[[Inputs], DataFrame]


def as_declared(frame: DataFrame, table: Table) -> DataFrame:
    """The frame with the table's columns in their order; refused if one is missing or of another type."""
    found = {field.name: field.dataType for field in frame.schema.fields}
    for field in table.struct.fields:
        if field.name not in found:
            raise BadPipeline(f"table '{table.name}': column '{field.name}' is missing")
        is_, must_be = found[field.name].simpleString(), field.dataType.simpleString()
        if is_ != must_be:
            raise BadPipeline(f"table '{table.name}', column '{field.name}': is {is_}, and must be {must_be}")
    return frame.select(*table.columns)
