"""All tables of the pipeline by name. Those of the journal keep its columns (docs/JOURNAL.md); the others are ours.

Times are microseconds. `begin_us` and `end_us` are both included; a stretch reaches from `from_us` up to, not
including, `until_us`.
"""

from typing import Any

import pyarrow as pa

from roamcast.journal.schema import ATTRIBUTES, CONTEXT, DOUBLE, FLAG, INTEGER, SCOPE, TEXT
from roamcast.journal.schema import TABLES as JOURNAL_TABLES
from roamcast.pipeline.job import Table


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
        first_us=INTEGER,
        last_us=INTEGER,
        ranges=pa.list_(RANGE),
    ),
    "the ledger of ingest: one row for each file of the journal, and what became of it",
)
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
        bucket=INTEGER,
    ),
    "where each host that is up is, stretch by stretch; in every bucket that the stretch touches",
    by_bucket=True,
)
STATES = Table(
    "states",
    columns(host=TEXT, from_us=INTEGER, until_us=INTEGER, attributes=ATTRIBUTES, bucket=INTEGER),
    "the attributes of each host, stretch by stretch",
    by_bucket=True,
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
    ),
    "publications by true time; `again`: its id was published more than once",
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
    ),
    "subscriptions from when they are issued until they expire, are ended, replaced, or their host is gone",
)
INDEX = Table(
    "index",
    columns(path=TEXT, bytes=INTEGER, events=INTEGER, subscriptions=INTEGER),
    "where the index of all events and subscriptions lies, and how large it is",
)
MATCHED = Table(
    "matched",
    columns(event_id=TEXT, subscription_id=TEXT, subscriber=TEXT, at_us=INTEGER),
    "what matches in one bucket and may in another; never stored",
)
CANDIDATES = Table(
    "candidates",
    columns(event_id=TEXT, event_begin_us=INTEGER, subscription_id=TEXT, life_begin_us=INTEGER, bucket=INTEGER),
    "pairs that may match in a bucket, where events and subscriptions are too many for an index",
    by_bucket=True,
)
EVENT_PARTS = Table(
    "event_parts",
    EVENTS.schema.append(pa.field("bucket", INTEGER)),
    "the events that candidates name, in every bucket that they touch",
    by_bucket=True,
)
LIFE_PARTS = Table(
    "life_parts",
    LIVES.schema.append(pa.field("bucket", INTEGER)),
    "the subscriptions that candidates name, in every bucket that they touch",
    by_bucket=True,
)
EXPECTED = Table(
    "expected",
    columns(event_id=TEXT, subscription_id=TEXT, subscriber=TEXT, at_us=INTEGER),
    "what an ideal system delivers, and when at the earliest: each pair once",
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
        latencies_us=pa.list_(INTEGER),
        x=DOUBLE,
        y=DOUBLE,
    ),
    "every pair that was expected or delivered: how often, when, how late, and where the event was published",
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
)
