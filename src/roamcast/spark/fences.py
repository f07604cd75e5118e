"""Fences: which transitions an ideal system tells, from positions alone, and which were told.

    moves, contexts, notes ──▶ transitions ──┐
    publications below $roam/fence ──────────┴──▶ fenced       told, missing, not ideal, or told twice

A note `fence_put` has fences, and `fence_removed` their name; they are in force from one note of a name to the next.
A broker tells a transition as an event `$roam/fence/<fence>/<transition>` with the host and the time among its
attributes. Both sides fold the same fixes by `model/fence.py`; but a broker's fix has the time at which the client
was heard, and the journal's that at which it was handled, so times that are `APART_US` apart at most are the same.

A fence that moves with a host is judged by what the broker of the others knew of that host: brokers note when they
learned where it is (`anchor_at`), so that the time which the word took between them is no difference.
"""

from collections.abc import Sequence

from msgspec import Struct
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.records import ANCHOR_AT, FENCE_PUT, FENCE_REMOVED, PLACE_KEPT
from roamcast.model.fence_text import read_fences
from roamcast.model.region import Anchored
from roamcast.model.values import Point
from roamcast.spark.journal import Journal
from roamcast.spark.oracle.fences import NO_ANCHORS, Anchors, Fold, Guarded
from roamcast.spark.prepare import ORDER
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings, collected
from roamcast.spark.tables import FENCED, TRANSITIONS

PREFIX = "$roam/fence/"
APART_US = 500_000
KEY = ("fence", "transition", "host", "at_us")
WRONG = {
    "missing": "greatest(ideal - times, 0)",
    "extra": "if(ideal = 0, 1, 0)",
    "duplicates": "greatest(times - greatest(ideal, 1), 0)",
}
LINES_MAX, EXAMPLES_MAX = 50, 20


def fences_of(journal: Journal, settings: Settings) -> tuple[Guarded, ...]:
    """The fences of a journal with when they were in force; several brokers may note the same."""
    notes = journal.notes.where(F.col("what").isin(FENCE_PUT, FENCE_REMOVED))
    rows = notes.select("at_us", "what", "detail").distinct().orderBy("at_us", F.desc("what"), "detail").collect()
    end_us = settings.until_us + 1
    found: list[Guarded] = []
    current: dict[str, tuple[str, int]] = {}

    def close(name: str, until_us: int) -> None:
        text, from_us = current.pop(name)
        fences = read_fences(name, text, settings.space)
        found.extend(Guarded(each, from_us, until_us) for each in fences)

    for row in rows:
        name, _, text = row["detail"].partition("\n")
        if name in current and current[name][0] != text:
            close(name, row["at_us"])
        if text and row["at_us"] < end_us:
            current.setdefault(name, (text, row["at_us"]))
    for name in list(current):
        close(name, end_us)
    return tuple(found)


def transitions(journal: Journal, fences: Sequence[Guarded], settings: Settings) -> DataFrame:
    """What an ideal system tells of these fences: fence, transition, host, at_us, x, y, dwell_us. Lazy."""
    moving = any(isinstance(each.fence.region, Anchored) for each in fences)
    fold = Fold(fences, settings.space, settings.until_us, anchors_of(journal) if moving else NO_ANCHORS)
    return fixes(journal, settings).mapInArrow(fold, TRANSITIONS.struct)


def anchors_of(journal: Journal) -> Anchors:
    """What brokers knew of the hosts that fences move with, and when."""
    notes = journal.notes.where(F.col("what") == ANCHOR_AT).orderBy(*ORDER)
    found: dict[tuple[str, str], list[tuple[int, Point | None]]] = {}
    for row in notes.select("host", "at_us", "detail").collect():
        client, _, place = row["detail"].rpartition("\n")
        point = Point(*map(float, place.split(","))) if place else None
        found.setdefault((row["host"], client), []).append((row["at_us"], point))
    return Anchors(found)


def fixes(journal: Journal, settings: Settings) -> DataFrame:
    """The moves of each host in order, with its attributes: what it told with a move is recorded right behind it, and
    then whether it told no place. Such a move is where and when the host's last fix was."""
    writers = journal.runs.select("incarnation", F.col("host").alias("broker")).dropDuplicates(["incarnation"])
    moved = journal.moves.join(F.broadcast(writers), "incarnation", "left")
    moves = moved.select("host", *ORDER, F.lit(True).alias("moved"), "up", "x", "y", "broker")
    changes = journal.contexts.select("host", *ORDER, F.struct("attributes").alias("said"))
    notes = journal.notes.where(F.col("what") == PLACE_KEPT).select("host", *ORDER, F.lit(True).alias("kept"))
    of_host = Window.partitionBy("host").orderBy(*ORDER)
    so_far = of_host.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    first, second = (F.lead(F.struct("at_us", "said", "kept"), number).over(of_host) for number in (1, 2))
    with_it = F.when(first["at_us"] == F.col("at_us"), first["said"])
    kept = (first["at_us"] == F.col("at_us")) & first["kept"]
    kept_after_it = (second["at_us"] == F.col("at_us")) & first["said"].isNotNull() & second["kept"]
    own = F.struct("at_us", "x", "y")
    fix = F.last(F.when(F.col("up") & ~F.col("is_kept"), own), ignorenulls=True).over(so_far)
    return (
        moves.unionByName(changes, allowMissingColumns=True)
        .unionByName(notes, allowMissingColumns=True)
        .where(F.col("at_us") <= settings.until_us)
        .withColumn("attributes", F.coalesce(with_it, F.last("said", ignorenulls=True).over(so_far))["attributes"])
        .withColumn("is_kept", F.coalesce(kept, F.lit(False)) | F.coalesce(kept_after_it, F.lit(False)))
        .where("moved")
        .withColumn("fix", F.when(F.col("is_kept"), F.coalesce(fix, own)).otherwise(own))
        .sortWithinPartitions("host", *ORDER)
        .select("host", "fix.at_us", "up", "fix.x", "fix.y", "attributes", F.col("at_us").alias("row_us"), "broker")
    )


def told(journal: Journal, settings: Settings) -> DataFrame:
    """Transitions as brokers published them."""
    named = journal.publications.where(F.col("subject").startswith(PREFIX) & (F.col("at_us") <= settings.until_us))
    parts = F.split(F.col("subject"), "/")
    return named.select(
        F.array_join(F.slice(parts, F.lit(3), F.size(parts) - 3), "/").alias("fence"),
        F.element_at(parts, -1).alias("transition"),
        F.expr("attributes['host'].text").alias("host"),
        F.expr("attributes['time'].time_us").alias("at_us"),
    )


def compared(ideal: DataFrame, journal: Journal, settings: Settings) -> DataFrame:
    """Each transition that is ideal or was told: how often it should be there, and how often it is."""
    one, other = (
        ideal.select(*KEY, F.lit(1).alias("ideal"), F.lit(0).alias("times")),
        told(journal, settings).select(*KEY, F.lit(0).alias("ideal"), F.lit(1).alias("times")),
    )
    of_host = Window.partitionBy(*KEY[:3]).orderBy("at_us")
    apart = F.col("at_us") - F.lag("at_us").over(of_host) > APART_US
    numbered = one.union(other).withColumn("apart", F.coalesce(apart, F.lit(True)).cast("int"))
    same = numbered.withColumn("moment", F.sum("apart").over(of_host)).groupBy(*KEY[:3], "moment")
    sums = (F.sum(name).cast("bigint").alias(name) for name in ("ideal", "times"))
    return same.agg(F.min("at_us").alias("at_us"), *sums).select(*FENCED.columns)


class FenceLine(Struct, frozen=True):
    """How often one fence was to tell something, and did."""

    fence: str
    expected: int
    told: int
    missing: int
    extra: int
    duplicates: int


class FenceExample(Struct, frozen=True):
    """A transition that went wrong."""

    kind: str
    fence: str
    transition: str
    host: str
    at_us: int


class FenceAudit(Struct, frozen=True):
    """The fences with most that went wrong first."""

    lines: tuple[FenceLine, ...] = ()
    examples: tuple[FenceExample, ...] = ()


def audit_fences(tables: Tables, journal: Journal, settings: Settings) -> FenceAudit:
    """Publishes the tables `transitions` and `fenced`, and reads what they come to, if there are fences."""
    if not settings.fences:
        return FenceAudit()
    tables.write(TRANSITIONS, transitions(journal, fences_of(journal, settings), settings))
    tables.write(FENCED, compared(tables.read(TRANSITIONS), journal, settings))
    fenced = tables.read(FENCED).withColumns({name: F.expr(each) for name, each in WRONG.items()})
    counts = ("expected", "told", "missing", "extra", "duplicates")
    wrong = F.col("missing") + F.col("extra") + F.col("duplicates")
    lines = (
        fenced.groupBy("fence")
        .agg(F.sum("ideal").alias("expected"), F.sum("times").alias("told"), *(F.sum(n).alias(n) for n in WRONG))
        .orderBy(F.desc(wrong), F.desc("expected"), "fence")
        .limit(LINES_MAX)
    )
    kind = F.when(F.col("missing") > 0, "missing").when(F.col("extra") > 0, "extra").otherwise("told twice")
    examples = fenced.where(wrong > 0).select(kind.alias("kind"), *KEY).orderBy(*KEY).limit(EXAMPLES_MAX)
    found = collected({"line": lines.select("fence", *counts), "example": examples})
    return FenceAudit(
        tuple(FenceLine(**line) for line in found["line"]),
        tuple(FenceExample(**line) for line in found["example"]),
    )
