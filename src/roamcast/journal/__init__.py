"""Typed append-only records of what happened: all that the pipeline ever reads. `docs/JOURNAL.md` is normative.

- `records.py`: the records as values; `schema.py`: the tables, and how a record becomes a row; `plain.py`: the
  model's values in Arrow's types; `columns.py`: columns to Arrow and back
- `writer.py`: `Journal`, an observer; `live.py`: the same for a live host, with a thread that writes; `layout.py`:
  file names
- `reader.py`: `read_records` and `read_entries`

Reader and writer need Arrow, which takes longer to load than a short simulation, so they are loaded on first use.
"""

from importlib import import_module
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

if TYPE_CHECKING:
    from roamcast.journal.reader import Entry, journal_hash, read_entries, read_records, read_run
    from roamcast.journal.schema import SCHEMA_VERSION
    from roamcast.journal.writer import Journal

ON_DEMAND = {
    "reader": ("Entry", "journal_hash", "read_entries", "read_records", "read_run"),
    "schema": ("SCHEMA_VERSION",),
    "writer": ("Journal",),
}

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


def __getattr__(name: str) -> object:
    for module, names in ON_DEMAND.items():
        if name in names:
            return getattr(import_module(f"roamcast.journal.{module}"), name)
    raise AttributeError(f"module 'roamcast.journal' has no attribute '{name}'")
