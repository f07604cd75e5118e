"""From the journal's records to what held when: tracks, states, events and the lives of subscriptions, by bin.

Records say what changed; the oracle asks what was so. Each function here turns one into the other with a window over
what one host (or one subscription) recorded, in the order of time, incarnation and sequence. Of several records with
the same time the last one holds.

Time is that of the record, not the stamp of the host's clock: an event lives from when it was recorded for as long
as its stamps are apart, as `sim/ideal.py` has it.
"""

import json
import math
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.records import EVENT_WITHDRAWN
from roamcast.spark.chunks import written_in_chunks
from roamcast.spark.files import is_directory
from roamcast.spark.journal import Journal
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings, settings_of
from roamcast.spark.tables import EVENTS, LIVES, PREPARED, STATES, TRACKS, BadPipeline, Table, as_declared

ORDER = ("at_us", "incarnation", "sequence")
WITHDRAWALS = f"what = '{EVENT_WITHDRAWN}'"
"""Which notes end an event before its time."""
LIFETIME_US_MAX = 2**53
"""What lasts longer lasts for ever; without a bound the arithmetic of times could overflow."""
OF_HOSTS = (TRACKS.name, STATES.name)
PARTS = (TRACKS, STATES, EVENTS, LIVES)
FILES_MAX = 128
"""Of a table that is written without bringing each bin together first."""


@dataclass(frozen=True)
class Prepared:
    """Tables that the oracle can read, and what was known when they were made."""

    spark: SparkSession
    place: str
    settings: Settings
    moved: str | None = None
    """Where tracks and states lie, if not at `place`: hosts of whom only the wishes have changed."""

    def at(self, table: Table) -> str:
        place = self.moved if self.moved is not None and table.name in OF_HOSTS else self.place
        return f"{place}/{table.name}"

    def read(self, table: Table) -> DataFrame:
        return self.spark.read.schema(table.struct).parquet(self.at(table)).select(*table.columns)


def prepare(
    journal: Journal, directory: str, settings: Settings | None = None, *, moved: Prepared | None = None
) -> Prepared:
    """Writes tracks, states, events and lives below `directory` (of a journal, or any other), whole or not at all.
    With `moved`, hosts move as there: its settings, tracks and states serve here too, and are not written again."""
    tables = Tables(journal.moves.sparkSession, directory)
    found = moved.settings if moved else settings or settings_of(journal)
    part = tables.draft(PREPARED)
    place = f"{tables.place(PREPARED)}/{part}"
    made = lay_out(journal, place, found, moved)
    tables.publish(PREPARED, (part,), {"settings": found.plain(), "moved": made.moved})
    return made


def lay_out(journal: Journal, place: str, settings: Settings, moved: Prepared | None = None) -> Prepared:
    """Writes the four tables where nobody looks yet."""
    elsewhere = None if moved is None else moved.moved or moved.place
    made = Prepared(journal.moves.sparkSession, place, settings, elsewhere)
    if moved is None:
        place = made.at(TRACKS)
        spark, pieces = made.spark, journal.pieces
        left = written_in_chunks(spark, pieces, settings, place) if pieces else journal.moves
        write(tracks(left, settings), TRACKS, place, settings)
        write(states(journal, settings), STATES, made.at(STATES), settings)
    write(events(journal, settings), EVENTS, made.at(EVENTS), settings)
    write(lives(journal, settings), LIVES, made.at(LIVES), settings)
    return made


def prepared(spark: SparkSession, directory: str) -> Prepared:
    """What `prepare` published last."""
    tables = Tables(spark, directory)
    version = tables.known(PREPARED)
    moved = version.about["moved"]
    if moved is not None and not is_directory(moved):
        raise BadPipeline(f"{moved}: tracks are missing; prepare them and what shares them again")
    settings = Settings.of_plain(version.about["settings"])
    return Prepared(spark, f"{tables.place(PREPARED)}/{version.parts[0]}", settings, moved)


def write(frame: DataFrame, table: Table, place: str, settings: Settings) -> None:
    tasks = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    if tasks * settings.leaves * 2 > FILES_MAX:
        frame = frame.repartition("bin")
    as_declared(frame, table).write.mode("append").partitionBy("bin").parquet(place)


def tracks(moves: DataFrame, settings: Settings) -> DataFrame:
    """Where each host that is up is, stretch by stretch. Chunks leave moves whose stretch is written: not `open`."""
    following = Window.partitionBy("host").orderBy(*ORDER)
    begin = "up AND open" if "open" in moves.columns else "up"
    moves = moves.withColumn("until_us", F.lead("at_us").over(following)).where(begin)
    return in_bins(stretches(moves, settings), settings, "from_us", F.col("until_us") - 1).select(*TRACKS.columns)


def states(journal: Journal, settings: Settings) -> DataFrame:
    """The attributes of each host, stretch by stretch."""
    following = Window.partitionBy("host").orderBy(*ORDER)
    changes = journal.contexts.withColumn("until_us", F.lead("at_us").over(following))
    return in_bins(stretches(changes, settings), settings, "from_us", F.col("until_us") - 1).select(*STATES.columns)


def stretches(rows: DataFrame, settings: Settings) -> DataFrame:
    end = F.lit(settings.until_us + 1).cast("bigint")
    return (
        rows.withColumnRenamed("at_us", "from_us")
        .withColumn("until_us", F.least(F.coalesce("until_us", end), end))
        .where((F.col("from_us") < F.col("until_us")) & (F.col("until_us") > settings.first_us))
    )


def events(journal: Journal, settings: Settings) -> DataFrame:
    """Publications, from when they were recorded until they expire or are withdrawn."""
    same_id = Window.partitionBy("event_id")
    found = lasted(journal).withColumn("again", F.count("*").over(same_id) > 1)
    return in_bins(lasting(found, settings), settings, "begin_us", F.col("end_us")).select(*EVENTS.columns)


def lasted(journal: Journal) -> DataFrame:
    """Publications with when they begin and end, however long that is."""
    withdrawn = (
        journal.notes.where(WITHDRAWALS)
        .groupBy("host", F.col("detail").alias("event_id"))
        .agg(F.min("at_us").alias("withdrawn_us"))
    )
    ends = F.least(F.col("at_us") + lifetime("published_us", "expires_us"), F.col("withdrawn_us") - 1)
    return (
        journal.publications.join(withdrawn, ["host", "event_id"], "left")
        .withColumn("begin_us", F.col("at_us"))
        .withColumn("end_us", ends)
    )


def lives(journal: Journal, settings: Settings) -> DataFrame:
    """Subscriptions, from when they are issued until they expire, are ended or replaced, or their host is gone."""
    found = lasting(lived(journal), settings)
    return in_bins(found, settings, "begin_us", F.col("end_us")).select(*LIVES.columns)


def lived(journal: Journal) -> DataFrame:
    """Subscriptions with when they begin and end, however long that is."""
    ended = journal.unsubscriptions.select("subscription_id", *ORDER)
    gone = journal.moves.where("NOT up").select(F.col("host").alias("subscriber"), *ORDER)
    # Whatever comes next under the same id ends a subscription: that it is ended, or issued anew.
    of_id = Window.partitionBy("subscription_id").orderBy(*ORDER)
    same_id = Window.partitionBy("subscription_id")
    by_id = (
        journal.subscriptions.unionByName(ended, allowMissingColumns=True)
        .withColumn("next_us", F.lead("at_us").over(of_id))
        .withColumn("again", F.count("subscriber").over(same_id) > 1)
        .where("subscriber IS NOT NULL")
    )
    # Backwards: a frame that grows costs a step for each row, one that shrinks is read anew for each.
    latest_first = Window.partitionBy("subscriber").orderBy(*(F.desc(name) for name in ORDER))
    later = latest_first.rowsBetween(Window.unboundedPreceding, -1)
    by_host = (
        by_id.unionByName(gone, allowMissingColumns=True)
        .withColumn("gone_us", F.min(F.when(F.col("subscription_id").isNull(), F.col("at_us"))).over(later))
        .where("subscription_id IS NOT NULL")
    )
    ends = F.least(F.col("at_us") + lifetime("issued_us", "expires_us"), F.col("next_us") - 1, F.col("gone_us") - 1)
    return by_host.withColumn("begin_us", F.col("at_us")).withColumn("end_us", ends)


def lifetime(first: str, last: str) -> Column:
    """How long something lasts by its own stamps."""
    forever = F.lit(LIFETIME_US_MAX).cast("bigint")
    return F.least(F.coalesce(F.try_subtract(F.col(last), F.col(first)), forever), forever)


def lasting(rows: DataFrame, settings: Settings) -> DataFrame:
    until = F.lit(settings.until_us).cast("bigint")
    there = rows.withColumn("end_us", F.least("end_us", until))
    return there.where((F.col("begin_us") <= F.col("end_us")) & (F.col("end_us") >= settings.first_us))


def in_bins(rows: DataFrame, settings: Settings, first: str, last: Column) -> DataFrame:
    """Each row in the smallest bin that holds all of its time: of its first and last bucket the common ancestor."""
    if settings.buckets == 1:
        return rows.withColumn("bin", F.lit(1).cast("bigint"))
    leaf, other = (bucket_of(each, settings) + settings.leaves for each in (F.col(first), last))
    return rows.withColumns({"leaf": leaf, "bin": leaf.bitwiseXOR(other)}).withColumn(
        "bin",
        F.when(F.col("bin") == 0, F.col("leaf")).otherwise(F.expr("shiftright(leaf, length(bin(bin)))")),
    )


def bucket_of(time_us: Column, settings: Settings) -> Column:
    """The bucket of a time, looked up by its tick: a constant array, whatever the number of buckets."""
    borders = settings.borders
    tick_us = _tick_us(borders)
    ticks = (borders[-1] - borders[0]) // tick_us
    numbers = [0] * ticks
    for bucket in range(1, settings.buckets):
        numbers[(borders[bucket] - borders[0]) // tick_us] += 1
    for tick in range(1, ticks):
        numbers[tick] += numbers[tick - 1]
    known = F.from_json(F.lit(json.dumps(numbers, separators=(",", ":"))), "array<bigint>")
    elapsed = F.floor((time_us - F.lit(borders[0]).cast("bigint")) / F.lit(tick_us)).cast("int")
    return F.get(known, F.least(F.greatest(elapsed, F.lit(0)), F.lit(ticks - 1)))


def _tick_us(borders: tuple[int, ...]) -> int:
    """The greatest width of which all borders are multiples, seen from the first."""
    return math.gcd(*(border - borders[0] for border in borders[1:]))
