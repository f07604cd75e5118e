"""Stream (P5): the oracle on a journal that grows, one stretch of time after the other.

    ingest ──▶ how far have all writers come? ──▶ prepare and judge up to there ──▶ streamed
                                                  records that still matter ──▶ carried to the next step

A step is the batch oracle (`prepare.py`, `oracle/`) on the records that are new and those that were *carried*: the
last move and attributes of every host, events and subscriptions that still hold, pairs that have matched. It judges
from where the last one stopped up to the *horizon*: what every writer has passed. Deliveries, carried records and the
horizon are published together, so a step that is killed has not happened, and no pair is there twice.

A writer has passed the time of its last segment but one, since the files of a segment appear one after the other; one
that has closed its run has passed everything. Nobody waits for a writer that was silent for `late_us` while others
wrote, nor for one whose clock is so far behind most others.
"""

from collections.abc import Iterator
from statistics import median_low
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.plain import space_of
from roamcast.journal.schema import TEXT
from roamcast.spark.files import file_system
from roamcast.spark.ingest import ingest
from roamcast.spark.journal import Journal
from roamcast.spark.ledger import Ledger, read_rows
from roamcast.spark.oracle.expected import expected
from roamcast.spark.prepare import ORDER, WITHDRAWALS, Prepared, lasted, lay_out, lived
from roamcast.spark.published import Tables
from roamcast.spark.settings import PERIOD_US, Cut, Settings, Survey, graph_of, told_by
from roamcast.spark.tables import (
    CONTEXTS,
    DELIVERIES,
    JOURNAL,
    MOVES,
    NOTES,
    PUBLICATIONS,
    RUNS,
    STREAMED,
    SUBSCRIPTIONS,
    UNSUBSCRIPTIONS,
    BadPipeline,
    Table,
    as_declared,
    columns,
)

BUCKET_US = 1_000_000
LATE_US = 10_000_000
PARTS_MAX = 32
KINDS = (MOVES, CONTEXTS, PUBLICATIONS, SUBSCRIPTIONS, UNSUBSCRIPTIONS, NOTES)
MATCHED = Table("matched", columns(event_id=TEXT, subscription_id=TEXT), "pairs whose event still lasts")
WORKSHOP = "streaming"
"""Where the prepared tables of a step lie while it runs."""
FOUND, CARRIED = "found", "carried"


class Judged(Struct, frozen=True):
    """How far a stream has come."""

    pairs: int = 0
    until_us: int | None = None
    """Everything before has been judged."""
    batch: int = 0
    """The last batch of ingest that it has taken."""
    late: int = 0
    """Segments that came when their time had been judged."""
    world: dict[str, Any] | None = None


def stream(
    tables: Tables, *, period_us: int = PERIOD_US, bucket_us: int = BUCKET_US, late_us: int = LATE_US
) -> Judged:
    """Takes in what is new, judges as far as all writers have come, and says how far that is."""
    if bucket_us < 1 or late_us < 0:
        raise BadPipeline(f"buckets of {bucket_us} µs, {late_us} µs late: give 1 and 0 or more")
    ingest(tables.spark, tables.journal)
    version = tables.current(STREAMED.name)
    before = Judged() if version is None else Judged(**version.about)
    ledger = Ledger.of(tables, ranges=True)
    horizon = horizon_us(ledger.taken, late_us)
    survey = Survey.of_ledger(ledger)
    if horizon is None or survey is None:
        return before
    start_us = survey.first_us // period_us * period_us if before.until_us is None else before.until_us
    if not all_closed(ledger.taken):
        horizon = horizon // bucket_us * bucket_us
    if horizon <= start_us:
        return before
    return Step(tables, ledger, before).run(start_us, horizon, period_us, survey)


def writers_of(taken: Any) -> list[dict[str, Any]]:
    """By writer and opening: its last segment, whether it has ended, and whether it opened anew after that."""
    of = ["writer", "incarnation"]
    found: list[dict[str, Any]] = (
        taken.group_by(of)
        .aggregate([("segment", "max"), ("arrived_us", "max"), ("ended_us", "max"), ("last_us", "max")])
        .to_pylist()
    )
    newest = {
        row["writer"]: max(each["incarnation"] for each in found if each["writer"] == row["writer"]) for row in found
    }
    for row in found:
        row["over"] = row["ended_us_max"] is not None or row["incarnation"] < newest[row["writer"]]
    return found


def all_closed(taken: Any) -> bool:
    return all(row["over"] for row in writers_of(taken))


def horizon_us(taken: Any, late_us: int) -> int | None:
    """The time before which nothing is missing any more; None where nobody has come anywhere."""
    writers = writers_of(taken)
    if not writers:
        return None
    last_us = max(
        time_us for row in writers for time_us in (row["last_us_max"], row["ended_us_max"]) if time_us is not None
    )
    newest_us = max(row["arrived_us_max"] for row in writers)
    open_ = [row for row in writers if not row["over"] and row["arrived_us_max"] >= newest_us - late_us]
    if not open_:
        return int(last_us) + 1
    passed = [passed_us(taken, row) for row in open_]
    known = [time_us for time_us in passed if time_us is not None]
    if len(known) < len(passed):
        return None
    return max(min(known), median_low(known) - late_us)


def passed_us(taken: Any, writer: dict[str, Any]) -> int | None:
    """The last time in the segments of a writer before its last one."""
    own = pc.and_(pc.equal(taken["writer"], writer["writer"]), pc.equal(taken["incarnation"], writer["incarnation"]))
    whole = taken.filter(pc.and_(own, pc.less(taken["segment"], writer["segment_max"])))
    found: int | None = pc.max(whole["last_us"]).as_py()
    return found


class Step:
    def __init__(self, tables: Tables, ledger: Ledger, before: Judged) -> None:
        self.tables, self.before = tables, before
        self.version = tables.current(STREAMED.name)
        self.part = tables.draft(STREAMED.name)
        self.place = f"{tables.place(STREAMED.name)}/{self.part}"
        self.batch = ledger.next_batch() - 1
        self.new = ledger.after(before.batch)

    def run(self, start_us: int, horizon: int, period_us: int, survey: Survey) -> Judged:
        journal = self.journal()
        world = self.before.world or self.world(journal)
        settings = settings_between(start_us, horizon, period_us, survey, world)
        workshop = f"{self.tables.place(WORKSHOP)}/{self.part}"
        try:
            prepared = lay_out(journal, workshop, settings)
            self.find(prepared)
            self.carry(journal, horizon)
        finally:
            files, within = file_system(workshop)
            files.delete_dir_contents(within, missing_dir_ok=True)
        return self.publish(horizon, world)

    def journal(self) -> Journal:
        """What was carried, and what is new."""
        frames: dict[str, Any] = {table.name: self.records(table) for table in (*KINDS, RUNS)}
        nothing = self.tables.spark.createDataFrame([], DELIVERIES.struct)
        return Journal(**frames, deliveries=nothing, place=self.tables.journal)

    def records(self, table: Table) -> DataFrame:
        fresh = since(self.tables, table, self.new)
        if self.version is None or table not in KINDS:
            return fresh
        return self.carried(table).unionByName(fresh)

    def carried(self, table: Table) -> DataFrame:
        assert self.version is not None
        place = f"{self.tables.place(STREAMED.name)}/{self.version.beside[0]}/{table.name}"
        return self.tables.spark.read.schema(table.struct).parquet(place).select(*table.columns)

    def world(self, journal: Journal) -> dict[str, Any]:
        return told_by(journal).world

    def find(self, prepared: Prepared) -> None:
        found = expected(prepared)
        if self.version is not None:
            found = found.join(self.carried(MATCHED), MATCHED.columns, "left_anti")
        write(found, STREAMED, f"{self.place}/{FOUND}")

    def carry(self, journal: Journal, horizon: int) -> None:
        """What can matter after the horizon, as records of the journal."""
        place = f"{self.place}/{CARRIED}"
        later = F.col("at_us") >= horizon
        lives = lived(journal).where(F.col("end_us") >= horizon).drop("begin_us", "end_us")
        going_on = lasted(journal).where(F.col("end_us") >= horizon).select(*PUBLICATIONS.columns)
        write(holding(journal.moves, later), MOVES, f"{place}/{MOVES.name}")
        write(holding(journal.contexts, later), CONTEXTS, f"{place}/{CONTEXTS.name}")
        write(going_on, PUBLICATIONS, f"{place}/{PUBLICATIONS.name}")
        write(lives, SUBSCRIPTIONS, f"{place}/{SUBSCRIPTIONS.name}")
        write(journal.notes.where(later & F.expr(WITHDRAWALS)), NOTES, f"{place}/{NOTES.name}")
        write(journal.unsubscriptions.where(later), UNSUBSCRIPTIONS, f"{place}/{UNSUBSCRIPTIONS.name}")
        pairs = self.tables.parquet(STREAMED, [f"{self.place}/{FOUND}"]).select(*MATCHED.columns)
        if self.version is not None:
            pairs = pairs.unionByName(self.carried(MATCHED))
        write(pairs.join(going_on.select("event_id"), "event_id", "left_semi"), MATCHED, f"{place}/{MATCHED.name}")

    def publish(self, horizon: int, world: dict[str, Any]) -> Judged:
        before = self.before
        found = self.tables.parquet(STREAMED, [f"{self.place}/{FOUND}"]).count()
        came_late = 0
        if before.until_us is not None:
            came_late = pc.sum(pc.less(self.new["first_us"], before.until_us)).as_py() or 0
        judged = Judged(before.pairs + found, horizon, self.batch, before.late + came_late, world)
        parts = () if self.version is None else self.version.parts
        if len(parts) >= PARTS_MAX:
            whole = f"{self.place}/whole"
            write(self.tables.read(STREAMED), STREAMED, whole)
            parts = (f"{self.part}/whole",)
        after = 0 if self.version is None else self.version.number
        about = {name: getattr(judged, name) for name in Judged.__struct_fields__}
        kept = (*parts, f"{self.part}/{FOUND}")
        self.tables.publish(STREAMED.name, kept, about, after, (f"{self.part}/{CARRIED}",))
        return judged


def settings_between(start_us: int, horizon: int, period_us: int, survey: Survey, world: dict[str, Any]) -> Settings:
    work = survey.work
    here = work.filter(pc.and_(pc.less(work["first_us"], horizon), pc.greater_equal(work["last_us"], start_us)))
    cut = Cut.of(Survey(survey.hosts, survey.first_us, survey.last_us, here), start_us, horizon - 1, period_us)
    # A pair is looked at once in a moment: the last bucket ends where the next step begins.
    borders = (*(border for border in cut.borders if border < horizon), horizon)
    graph, space = graph_of(world["movement_graph"]), space_of(world["space"])
    return Settings(space, world["neighbour_range_m"], graph, borders, horizon - 1, period_us, sides=cut.sides)


def holding(records: DataFrame, later: Column) -> DataFrame:
    """The last record of each host before a time, and all from then on."""
    latest = Window.partitionBy("host", later).orderBy(*(F.desc(name) for name in ORDER))
    return records.withColumn("nth", F.row_number().over(latest)).where(later | (F.col("nth") == 1))


def write(frame: DataFrame, table: Table, place: str) -> None:
    as_declared(frame, table).write.parquet(place)


def since(tables: Tables, table: Table, segments: Any) -> DataFrame:
    """The rows of a table in these segments of the ledger."""
    new = segments.filter(pc.equal(segments["table"], table.name)).select(["file", "first_row", "rows"]).to_pylist()
    read = ReadNew(tables.place(table.name), table.name, new)
    return tables.spark.range(0, 1, 1, 1).mapInArrow(read, table.struct)


class ReadNew:
    """Reads the rows of new segments on a worker."""

    def __init__(self, place: str, table: str, parts: list[dict[str, Any]]) -> None:
        self.place, self.table, self.parts = place, table, parts

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        schema = pa.schema([field.with_nullable(True) for field in JOURNAL[self.table].schema])
        for batch in batches:
            for part in self.parts if batch.num_rows else ():
                yield from (
                    read_rows(self.place, part["file"], part["first_row"], part["rows"]).cast(schema).to_batches()
                )
