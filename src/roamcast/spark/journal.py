"""A journal as DataFrames: straight from its segments (`read_journal`), or as ingest took them in (`ingested`)."""

from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from roamcast.spark.files import address
from roamcast.spark.ingest import check_journal
from roamcast.spark.ledger import Ledger, check_files, journal_table
from roamcast.spark.published import Tables
from roamcast.spark.source import register
from roamcast.spark.tables import JOURNAL, MOVES, BadPipeline

KEY = ["host", "incarnation", "sequence"]


@dataclass(frozen=True)
class Piece:
    """Rows of a table as ingest wrote them: where they lie, and from when to when they reach."""

    place: str
    file: str
    first_row: int
    rows: int
    first_us: int
    last_us: int


@dataclass(frozen=True)
class Journal:
    """The tables of a journal (docs/JOURNAL.md), each record once. Any frames with these columns will do."""

    moves: DataFrame
    contexts: DataFrame
    subscriptions: DataFrame
    unsubscriptions: DataFrame
    publications: DataFrame
    deliveries: DataFrame
    notes: DataFrame
    runs: DataFrame
    place: str = ""
    """For messages."""
    taken_in: tuple[DataFrame, tuple[Piece, ...]] | None = None
    """The moves of ingest and where they lie."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Where `moves` lie, if they are those of ingest and not another frame."""
        return self.taken_in[1] if self.taken_in is not None and self.taken_in[0] is self.moves else ()


NAMES = tuple(field.name for field in fields(Journal) if field.name not in ("place", "taken_in"))


def read_journal(spark: SparkSession, directory: str) -> Journal:
    """The journal in a directory, lazily. Copies of records are dropped; a damaged file is an error when it is read.
    Whoever reads a large journal often has it ingested, and takes `ingested`."""
    place = address(directory)
    check_journal(place)
    register(spark)
    reader = spark.read.format("roamcast")
    tables: dict[str, Any] = {name: reader.option("table", name).load(place).dropDuplicates(KEY) for name in NAMES}
    return Journal(**tables, place=place)


def ingested(spark: SparkSession, directory: str) -> Journal:
    """The journal as `ingest` has it: checked once, each record once, in few files."""
    tables = Tables(spark, directory)
    ledger = Ledger.of(tables)
    if ledger.version is None:
        raise BadPipeline(
            f"{tables.journal}: not ingested yet; run `roamcast pipeline ingest {tables.journal}` first"
        )
    for name in NAMES:
        check_files(tables, ledger, JOURNAL[name])
    found = {name: journal_table(tables, ledger, JOURNAL[name]) for name in NAMES}
    place = tables.place(MOVES.name)
    rows = ledger.of_table(MOVES.name).select(["file", "first_row", "rows", "first_us", "last_us"]).to_pylist()
    pieces = tuple(Piece(place, **row) for row in rows)
    return Journal(**found, place=tables.journal, taken_in=(found["moves"], pieces))
