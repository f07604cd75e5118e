"""The oracle when events and subscriptions are too many to ship: a sort-merge join on slots of time and cells of a
grid.

Everything up to the candidates is Spark's own expressions. Regions of audiences and stretches of ways lie in the
cells that their boxes touch; the two sides are joined on slot, level and cell, then with the subscriptions of the
host. Subjects, lifetimes and the commonest filters are asked on the way, so that few pairs are left. A worker then
reads the candidates of a bucket, with the events and subscriptions that occur in them, and asks all conditions
(`looks.py`).

A cell with very many stretches of ways is divided: each stretch is in one part of it, each region in all.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.plain import filter_of
from roamcast.model.filter.tree import Filter
from roamcast.model.space import Plane
from roamcast.pipeline.dealing import TASKS_MAX
from roamcast.pipeline.job import Inputs, Job, Settings
from roamcast.pipeline.oracle import columns as boxes
from roamcast.pipeline.oracle.attributes import one_array
from roamcast.pipeline.oracle.bucket import Bucket, World, reads_of
from roamcast.pipeline.oracle.columns import LAST_LEVEL
from roamcast.pipeline.oracle.finished import Finished, batch_of, pair_rows
from roamcast.pipeline.oracle.index import once_for_all
from roamcast.pipeline.oracle.looks import Looks, Matches
from roamcast.pipeline.oracle.reading import read_bucket
from roamcast.pipeline.oracle.task import earliest
from roamcast.pipeline.predicate import Cell, Namespaces, predicate
from roamcast.pipeline.prepare import bucket_of
from roamcast.pipeline.tables import (
    CANDIDATES,
    EVENT_PARTS,
    EVENTS,
    EXPECTED,
    LIFE_PARTS,
    LIVES,
    MATCHED,
    STATES,
    TRACKS,
)

CELL = ("slot", "level", "column", "line")
EVENT_KEY, LIFE_KEY = ("event_id", "event_begin_us"), ("subscription_id", "life_begin_us")
METRES_PER_DEGREE = 111_320.0
WORKED_ON = (TRACKS, STATES, EVENT_PARTS, LIFE_PARTS, CANDIDATES)


def candidates(inputs: Inputs) -> DataFrame:
    """Pairs that may match in a bucket: of events with an audience in a region by place, of the others by subject."""
    settings = inputs.settings
    events, lives = keyed_events(inputs[EVENTS], settings), keyed_lives(inputs[LIVES], settings)
    near = near_hosts(events.where("shape IS NOT NULL"), inputs[TRACKS].where("x IS NOT NULL"), settings)
    aimed = near.join(lives.withColumnRenamed("subscriber", "host").hint("merge"), "host").where(fits())
    open_ = in_buckets(events.where("shape IS NULL"), "event_begin_us", "event_end_us", settings)
    lasting = in_buckets(lives, "life_begin_us", "life_end_us", settings)
    # A pattern without wildcards is looked up by subject, any other is compared with the events of its bucket.
    exact = open_.join(
        lasting.where("NOT wild").withColumn("subject", F.col("pattern")).hint("merge"), ["bucket", "subject"]
    )
    wild = open_.join(lasting.where("wild").hint("merge"), "bucket").where(fits())
    together = (F.col("event_begin_us") <= F.col("life_end_us")) & (F.col("life_begin_us") <= F.col("event_end_us"))
    wanted = together & ~F.array_contains("refused", F.col("filter_number"))
    names = [*EVENT_KEY, *LIFE_KEY, "bucket"]
    found = [pairs.where(wanted).select(*names) for pairs in (aimed, exact, wild)]
    return found[0].unionByName(found[1]).unionByName(found[2]).distinct().repartition("bucket")


def keyed_events(events: DataFrame, settings: Settings) -> DataFrame:
    return events.select(
        "event_id",
        F.col("begin_us").alias("event_begin_us"),
        F.col("end_us").alias("event_end_us"),
        "subject",
        F.col("audience.region").alias("region"),
        F.col("audience.region.shape").alias("shape"),
        refused(settings).alias("refused"),
    )


def keyed_lives(lives: DataFrame, settings: Settings) -> DataFrame:
    number = F.lit(-1)
    for index, text in enumerate(settings.filters):
        number = F.when(F.col("filter") == F.lit(text), index).otherwise(number)
    return lives.select(
        "subscription_id",
        F.col("begin_us").alias("life_begin_us"),
        F.col("end_us").alias("life_end_us"),
        "subscriber",
        F.col("subject").alias("pattern"),
        F.col("subject").rlike("[+#]").alias("wild"),
        number.alias("filter_number"),
    )


def refused(settings: Settings) -> Column:
    """The numbers of the filters that do not accept the event, whoever reads it."""
    numbers = [
        F.when(~F.coalesce(predicate(filter_, read_by(filter_), settings.space, settings.graph), F.lit(False)), index)
        for index, filter_ in enumerate(map(filter_of, settings.filters))
        if once_for_all(filter_)
    ]
    return F.array_compact(F.array(*numbers)) if numbers else F.array().cast("array<int>")


def read_by(filter_: Filter) -> Namespaces:
    """What a filter reads that asks nothing of its reader: the event, and its publisher as it was."""
    publisher = F.col("publisher")
    own = {
        "host": Cell(text=publisher.getField("host")),
        "position": Cell(x=publisher.getField("x"), y=publisher.getField("y")),
    }
    named = {
        name: own.get(name) or Cell.of(F.try_element_at(publisher.getField("attributes"), F.lit(name)))
        for name in reads_of(filter_).publishers
    }
    return Namespaces(attributes=F.col("attributes"), publisher=named)


def fits() -> Column:
    """`subject_matches`, of the columns `pattern` and `subject`."""
    pattern, subject = F.col("pattern"), F.col("subject")
    wanted, given = F.split(pattern, "/"), F.split(subject, "/")
    rest = F.array_position(wanted, "#")
    levels = F.when(rest > 0, F.slice(wanted, 1, (rest - 1).cast("int"))).otherwise(wanted)
    enough = (F.size(given) == F.size(levels)) | ((rest > 0) & (F.size(given) > F.size(levels)))
    pairs = F.zip_with(levels, F.slice(given, 1, F.size(levels)), lambda a, b: (a == "+") | (a == b))
    hidden = subject.startswith("$") & F.array_contains(F.array(F.lit("+"), F.lit("#")), F.element_at(wanted, 1))
    return (pattern == subject) | (~hidden & enough & F.forall(pairs, lambda each: each))


def in_buckets(rows: DataFrame, first: str, last: str, settings: Settings) -> DataFrame:
    spread = F.sequence(bucket_of(F.col(first), settings), bucket_of(F.col(last), settings))
    return rows.withColumn("bucket", F.explode(spread))


def near_hosts(events: DataFrame, tracks: DataFrame, settings: Settings) -> DataFrame:
    """Events and hosts whose boxes overlap within a slot of time, in each bucket."""
    size = settings.join_cell_m if isinstance(settings.space, Plane) else settings.join_cell_m / METRES_PER_DEGREE
    regions = regions_of(events, tracks, settings).withColumn("own", boxes.own_level(size))
    ways = in_slots(tracks, "from_us", F.col("until_us") - 1, settings)
    ways = boxes.with_stretch(ways, settings.space, *clipped(), F.lit(0.0))
    ways = ways.select("host", "bucket", "slot", *boxes.BOX)
    there = regions.groupBy("bucket").agg(F.collect_set("own").alias("asked"))
    ways = ways.withColumn("own", boxes.own_level(size)).join(F.broadcast(there), "bucket")
    wanted = F.filter(upwards(), lambda each: (each == F.col("own")) | F.array_contains("asked", each))
    left = boxes.in_cells(regions, upwards(), size)
    right = boxes.in_cells(ways, wanted, size)
    hot = hot_cells(right, settings)
    parts = F.coalesce("parts", F.lit(1))
    left = left.join(F.broadcast(hot), list(CELL), "left").withColumn(
        "part", F.explode(F.sequence(F.lit(0), parts - 1))
    )
    right = right.join(F.broadcast(hot), list(CELL), "left").withColumn("part", F.pmod(F.hash("host"), parts))
    keys = [F.col(f"r.{name}") == F.col(f"w.{name}") for name in (*CELL, "part")]
    # Two that meet in several cells are a pair in the first, on the coarser level of the two.
    once = [
        F.col("r.level") == F.greatest("r.own", "w.own"),
        F.col("r.column") == F.greatest("r.left", "w.left"),
        F.col("r.line") == F.greatest("r.low", "w.low"),
        boxes.overlap("r", "w"),
    ]
    met = left.alias("r").hint("merge").join(right.alias("w"), [*keys, *once])
    return met.select(
        "r.event_id", "r.event_begin_us", "r.event_end_us", "r.subject", "r.refused", "w.host", "r.bucket"
    )


def upwards() -> Column:
    return F.sequence(F.col("own"), F.lit(LAST_LEVEL))


def regions_of(events: DataFrame, tracks: DataFrame, settings: Settings) -> DataFrame:
    """Where audiences are in each slot: still, or around where their hosts go."""
    aimed = in_buckets(events, "event_begin_us", "event_end_us", settings)
    names = ["event_id", "event_begin_us", "event_end_us", "subject", "refused", "bucket", "slot"]
    lasting = in_slots(aimed.where("region.anchor IS NULL"), "event_begin_us", F.col("event_end_us"), settings)
    still = boxes.with_still(lasting, settings.space, F.col("region"))
    anchored = aimed.where("region.anchor IS NOT NULL").withColumn("host", F.col("region.anchor"))
    moving = anchored.join(tracks.hint("merge"), ["bucket", "host"])
    moving = moving.where("event_begin_us < until_us AND event_end_us >= from_us")
    moving = in_slots(moving, "from_us", F.col("until_us") - 1, settings)
    moving = moving.where("event_begin_us < slot_us_end AND event_end_us >= slot_us")
    moving = boxes.with_stretch(moving, settings.space, *clipped(), boxes.reach_m(F.col("region")))
    return still.select(*names, *boxes.BOX).unionByName(moving.select(*names, *boxes.BOX))


def in_slots(rows: DataFrame, first: str, last: Column, settings: Settings) -> DataFrame:
    """Each row of a bucket in each slot of the bucket that it touches, with when the slot begins and ends."""
    width_us = -(-settings.bucket_us // settings.slots_per_bucket)
    start = F.lit(settings.first_us) + F.col("bucket") * settings.bucket_us
    bounds = [
        F.floor((F.greatest(F.least(each, start + (settings.bucket_us - 1)), start) - start) / width_us).cast(
            "bigint"
        )
        for each in (F.col(first), last)
    ]
    spread = rows.withColumn("nth", F.explode(F.sequence(*bounds)))
    return (
        spread.withColumn("slot_us", start + F.col("nth") * width_us)
        .withColumn("slot_us_end", F.col("slot_us") + width_us)
        .withColumn("slot", F.col("bucket") * settings.slots_per_bucket + F.col("nth"))
    )


def clipped() -> tuple[Column, Column]:
    """From when until when a track is in the slot."""
    return F.greatest("from_us", "slot_us"), F.least("until_us", "slot_us_end")


def hot_cells(ways: DataFrame, settings: Settings) -> DataFrame:
    """Cells with very many stretches of ways, and into how many parts to divide each."""
    counted = ways.groupBy(*CELL).agg(F.count("*").alias("rows")).where(F.col("rows") > settings.cell_rows_max)
    return counted.select(*CELL, F.ceil(F.col("rows") / settings.cell_rows_max).cast("int").alias("parts"))


def event_parts(inputs: Inputs) -> DataFrame:
    """The events that candidates name, in their buckets."""
    return named_by(inputs, EVENTS, EVENT_KEY).select(*EVENT_PARTS.columns)


def life_parts(inputs: Inputs) -> DataFrame:
    return named_by(inputs, LIVES, LIFE_KEY).select(*LIFE_PARTS.columns)


def named_by(inputs: Inputs, table: Any, key: tuple[str, str]) -> DataFrame:
    rows = in_buckets(inputs[table], "begin_us", "end_us", inputs.settings).withColumn(key[1], F.col("begin_us"))
    names = inputs[CANDIDATES].select("bucket", *key).distinct()
    return rows.join(names.hint("merge"), ["bucket", *key], "left_semi").repartition("bucket")


def expected(inputs: Inputs) -> DataFrame:
    settings = inputs.settings
    shares = F.ceil(F.count("*") / settings.pairs_per_task).cast("bigint")
    tasks = inputs[CANDIDATES].groupBy("bucket").agg(shares.alias("shares"))
    tasks = tasks.withColumn("share", F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("shares") - 1)))
    buckets = -(-(settings.until_us + 1 - settings.first_us) // settings.bucket_us)
    places = {table.name: inputs.place(table) for table in WORKED_ON}
    judge = PairJudge(settings, places, inputs.beside(EXPECTED))
    spread = tasks.repartition(max(1, min(TASKS_MAX, buckets)), "bucket", "share")
    return earliest(spread.select("bucket", "share", "shares").mapInArrow(judge, MATCHED.struct))


class PairJudge:
    """Asks all conditions of the candidates of a bucket, or of a share of them."""

    def __init__(self, settings: Settings, places: dict[str, str], out: str) -> None:
        self.settings, self.places, self.out = settings, places, out

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch.to_pylist():
                yield from self.judged(task["bucket"], task["share"], task["shares"])

    def judged(self, number: int, share: int, shares: int) -> Iterator[Any]:
        settings = self.settings
        start_us = settings.first_us + number * settings.bucket_us
        world = World(settings.space, settings.neighbour_range_m, settings.graph, settings.period_us)
        *parts, pairs = (read_bucket(self.places[table.name], table, number) for table in WORKED_ON)
        bucket = Bucket(world, start_us, start_us + settings.bucket_us, *parts)
        events, lives = parts[2:]
        mine = np.array_split(np.arange(len(pairs)), shares)[share]
        event, life = rows_of(pairs.take(pa.array(mine)), events, lives)
        again = [one_array(table["again"]).to_numpy(zero_copy_only=False) for table in (events, lives)]
        with Finished(self.out, f"{number:07d}-{share:05d}.parquet") as file:
            for found in Looks(bucket).settled(event, life):
                final = only_here(bucket, found) & ~again[0][found.event] & ~again[1][found.life]
                for some in (final, ~final):
                    rows = pair_rows(events, lives, found.event[some], found.life[some], found.at_us[some])
                    if some is final:
                        file.write(rows)
                    elif len(rows):
                        yield batch_of(rows)


def only_here(bucket: Bucket, found: Matches) -> Any:
    """Which pairs can match in no other bucket."""
    events, lives = bucket.events, bucket.lives
    begin_us = np.maximum(events.begin_us[found.event], lives.begin_us[found.life])
    end_us = np.minimum(events.end_us[found.event], lives.end_us[found.life])
    return (begin_us >= bucket.start_us) & (end_us < bucket.end_us)


def rows_of(pairs: Any, events: Any, lives: Any) -> tuple[Any, Any]:
    """The rows of the events and subscriptions that candidates name; a name that is there twice means both."""
    for table, key, row in ((events, EVENT_KEY, "event"), (lives, LIFE_KEY, "life")):
        names = pa.table([table[key[0]], table["begin_us"], pa.array(np.arange(len(table)))], names=[*key, row])
        pairs = pairs.join(names, list(key), join_type="inner")
    ordered = pairs.sort_by([("event", "ascending"), ("life", "ascending")])
    return ordered["event"].to_numpy(), ordered["life"].to_numpy()


JOBS = (
    Job("candidates", (TRACKS, EVENTS, LIVES), CANDIDATES, candidates),
    Job("event_parts", (EVENTS, CANDIDATES), EVENT_PARTS, event_parts),
    Job("life_parts", (LIVES, CANDIDATES), LIFE_PARTS, life_parts),
    Job("expected", WORKED_ON, EXPECTED, expected),
)
