"""Typed append-only records of what happened: all that the pipeline ever reads. `docs/JOURNAL.md` is normative."""

from roamcast.journal.reader import Entry, journal_hash, read_entries, read_records, read_run
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
from roamcast.journal.schema import SCHEMA_VERSION
from roamcast.journal.writer import Journal, NullJournal, Recorder

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
    "NullJournal",
    "Published",
    "Record",
    "Recorder",
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
