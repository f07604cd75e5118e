"""Typed append-only records of what happened: all that the pipeline ever reads. `docs/JOURNAL.md` is normative.

- `records.py`: the records as values; `schema.py`: the tables, and how a record becomes a row; `plain.py`: the
  model's values in Arrow's types; `columns.py`: columns to Arrow and back
- `writer.py`: `Journal`, an observer; `live.py`: the same for a live host, with a thread that writes; `layout.py`:
  file names
- `reader.py`: `read_records` and `read_entries`

Reader and writer need Arrow, which takes longer to load than a short simulation, so they are loaded on first use.
"""

from typing import TYPE_CHECKING

from roamcast.journal.records import (
    Announced,
    BadJournal,
    ContextChange,
    Delivered,
    Move,
    Noted,
    Published,
    Record,
    Run,
    Subscribed,
    Transmitted,
    Unannounced,
    Unsubscribed,
)
from roamcast.on_demand import on_demand

if TYPE_CHECKING:
    from roamcast.journal.reader import Entry, journal_hash, read_entries, read_records, read_run
    from roamcast.journal.schema import SCHEMA_VERSION
    from roamcast.journal.writer import Journal

__all__ = [
    "SCHEMA_VERSION",
    "Announced",
    "BadJournal",
    "ContextChange",
    "Delivered",
    "Entry",
    "Journal",
    "Move",
    "Noted",
    "Published",
    "Record",
    "Run",
    "Subscribed",
    "Transmitted",
    "Unannounced",
    "Unsubscribed",
    "journal_hash",
    "read_entries",
    "read_records",
    "read_run",
]

__getattr__ = on_demand(
    "roamcast.journal",
    {
        "reader": ("Entry", "journal_hash", "read_entries", "read_records", "read_run"),
        "schema": ("SCHEMA_VERSION",),
        "writer": ("Journal",),
    },
)
