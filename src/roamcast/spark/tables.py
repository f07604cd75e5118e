"""All tables by name. Those of the journal keep its columns (docs/JOURNAL.md); the others are ours.

Times are microseconds. `begin_us` and `end_us` are both included; a stretch reaches from `from_us` up to, not
including, `until_us`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roamcast.journal.schema import ATTRIBUTES, CONTEXT, DOUBLE, FLAG, INTEGER, SCOPE, TEXT
from roamcast.journal.schema import TABLES as JOURNAL_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class BadPipeline(Exception):
    """Something the pipeline cannot work with; the message names the file or table, and the field."""


UNREADABLE_FILE = "cannot read file"
"""Before the path in what a worker says of a table's file that is damaged."""


@dataclass(frozen=True)
class Table:
    name: str
    schema: Any
    """Of Arrow, which workers can read without a session."""
    about: str
    reads: tuple[str, ...] = ()
    """The tables that it is computed from."""

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    @property
    def struct(self) -> "StructType":
        """The schema in Spark's types. What may be null is not part of it: Parquet's readers do not keep it."""
        return struct_of(pa.schema([field.with_nullable(True) for field in self.schema]))


def struct_of(schema: Any) -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_schema  # Spark takes a second to import

    found: StructType = from_arrow_schema(schema)
    return found


def as_declared(frame: "DataFrame", table: Table) -> "DataFrame":
    """The frame with the table's columns in their order; refused if one is missing or of another type."""
    found = {field.name: field.dataType for field in frame.schema.fields}
    for field in table.struct.fields:
        if field.name not in found:
            raise BadPipeline(f"table '{table.name}': column '{field.name}' is missing")
        is_, must_be = found[field.name].simpleString(), field.dataType.simpleString()
        if is_ != must_be:
            raise BadPipeline(f"table '{table.name}', column '{field.name}': is {is_}, and must be {must_be}")
    return frame.select(*table.columns)


def columns(**types: Any) -> Any:
    return pa.schema(list(types.items()))


JOURNAL = {
    table.name: Table(table.name, table.schema.remove_metadata(), f"the journal's {table.name}, each record once")
    for table in JOURNAL_TABLES
}
MOVES = JOURNAL["moves"]
CONTEXTS = JOURNAL["contexts"]
SUBSCRIPTIONS = JOURNAL["subscriptions"]
UNSUBSCRIPTIONS = JOURNAL["unsubscriptions"]
PUBLICATIONS = JOURNAL["publications"]
DELIVERIES = JOURNAL["deliveries"]
TRANSMISSIONS = JOURNAL["transmissions"]
NOTES = JOURNAL["notes"]
RUNS = JOURNAL["runs"]

RANGE = pa.struct(
    [("host", TEXT), ("incarnation", INTEGER), ("first", INTEGER), ("last", INTEGER), ("rows", INTEGER)]
)
SEGMENTS = Table(
    "segments",
    columns(
        batch=INTEGER,
        path=TEXT,
        table=TEXT,
        writer=TEXT,
        incarnation=INTEGER,
        segment=INTEGER,
        status=TEXT,
        reason=TEXT,
        late=FLAG,
        rows=INTEGER,
        duplicates=INTEGER,
        implausible=INTEGER,
        first_us=INTEGER,
        last_us=INTEGER,
        arrived_us=INTEGER,
        ended_us=INTEGER,
        file=TEXT,
        first_row=INTEGER,
        ranges=pa.list_(RANGE),
    ),
    "the ledger of ingest: one row for each file of the journal, what became of it, and where its rows lie",
)
PREPARED = "prepared"
"""The four tables after this one are published together under this name."""
TRACKS = Table(
    "tracks",
    columns(
        host=TEXT,
        from_us=INTEGER,
        until_us=INTEGER,
        x=DOUBLE,
        y=DOUBLE,
        velocity_east=DOUBLE,
        velocity_north=DOUBLE,
        bin=INTEGER,
    ),
    "where each host that is up is, stretch by stretch",
    ("moves",),
)
STATES = Table(
    "states",
    columns(host=TEXT, from_us=INTEGER, until_us=INTEGER, attributes=ATTRIBUTES, bin=INTEGER),
    "the attributes of each host, stretch by stretch",
    ("contexts",),
)
EVENTS = Table(
    "events",
    columns(
        event_id=TEXT,
        subject=TEXT,
        publisher=CONTEXT,
        begin_us=INTEGER,
        end_us=INTEGER,
        attributes=ATTRIBUTES,
        relevance=SCOPE,
        audience=SCOPE,
        again=FLAG,
        bin=INTEGER,
    ),
    "publications by true time, until they expire or are withdrawn; `again`: its id was published more than once",
    ("publications", "notes"),
)
LIVES = Table(
    "lives",
    columns(
        subscription_id=TEXT,
        subscriber=TEXT,
        subject=TEXT,
        begin_us=INTEGER,
        end_us=INTEGER,
        filter=TEXT,
        interest=SCOPE,
        publishers=SCOPE,
        again=FLAG,
        bin=INTEGER,
    ),
    "subscriptions from when they are issued until they expire, are ended, replaced, or their host is gone",
    ("subscriptions", "unsubscriptions", "moves"),
)
EXPECTED = Table(
    "expected",
    columns(event_id=TEXT, subscription_id=TEXT, subscriber=TEXT, at_us=INTEGER),
    "what an ideal system delivers, and when at the earliest: each pair once",
    ("tracks", "states", "events", "lives"),
)
VERDICTS = Table(
    "verdicts",
    columns(
        event_id=TEXT,
        subscription_id=TEXT,
        subscriber=TEXT,
        subject=TEXT,
        expected=FLAG,
        times=INTEGER,
        published_us=INTEGER,
        expected_us=INTEGER,
        delivered_us=INTEGER,
        latency_us=INTEGER,
        x=DOUBLE,
        y=DOUBLE,
    ),
    "every pair that was expected or delivered: how often, when, how late, and where the event was published",
    ("expected", "deliveries", "publications"),
)
EXAMPLES = Table(
    "examples",
    columns(
        kind=TEXT,
        event_id=TEXT,
        subscription_id=TEXT,
        subscriber=TEXT,
        subject=TEXT,
        published_us=INTEGER,
        expected_us=INTEGER,
        delivered_us=INTEGER,
        x=DOUBLE,
        y=DOUBLE,
    ),
    "the first verdicts of each kind that went wrong, by the names of event and subscription",
    ("verdicts",),
)
TOTALS = Table(
    "totals",
    columns(
        dimension=TEXT,
        value=TEXT,
        x=DOUBLE,
        y=DOUBLE,
        at_us=INTEGER,
        expected=INTEGER,
        delivered=INTEGER,
        missed=INTEGER,
        unwanted=INTEGER,
        duplicates=INTEGER,
        latency_p50_us=INTEGER,
        latency_p90_us=INTEGER,
        latency_p99_us=INTEGER,
        latency_max_us=INTEGER,
    ),
    "the audit: over all, by subject, by place and by time",
    ("verdicts",),
)
POSITIONS = Table(
    "positions",
    columns(host=TEXT, at_us=INTEGER, x=DOUBLE, y=DOUBLE, geometry=pa.binary(), h3=TEXT),
    "where hosts reported to be, as GeoParquet, with the H3 cell of each position",
    ("moves",),
)
WHAT_IF = Table(
    "what_if",
    columns(
        event_id=TEXT,
        subscription_id=TEXT,
        subscriber=TEXT,
        subject=TEXT,
        change=TEXT,
        before_us=INTEGER,
        after_us=INTEGER,
    ),
    "what an ideal system delivers with the wishes as they were and as they are changed: gained, lost or kept",
    ("expected", "publications"),
)
STREAMED = Table("streamed", EXPECTED.schema, "what an ideal system delivers, as the stream finds it: each pair once")
WATCHED = Table(
    "watched",
    columns(
        event_id=TEXT,
        subscription_id=TEXT,
        subscriber=TEXT,
        expected_us=INTEGER,
        times=INTEGER,
        delivered_us=INTEGER,
    ),
    "pairs that a live audit met of late, and how often each was delivered",
    ("streamed", "deliveries"),
)
TRANSITIONS = Table(
    "transitions",
    columns(fence=TEXT, transition=TEXT, host=TEXT, at_us=INTEGER, x=DOUBLE, y=DOUBLE, dwell_us=INTEGER),
    "what an ideal system tells of fences, by where hosts were",
    ("moves", "contexts", "notes"),
)
FENCED = Table(
    "fenced",
    columns(fence=TEXT, transition=TEXT, host=TEXT, at_us=INTEGER, ideal=INTEGER, times=INTEGER),
    "transitions by how often there should be one, and how often it was told",
    ("transitions", "publications"),
)
