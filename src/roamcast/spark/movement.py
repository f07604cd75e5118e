"""Movement (P3): from where hosts were to how things move, for brokers that look ahead (R4, R5, R7, M10).

    moves, contexts → visits → held_out                    who was where when; whom to test on
                      visits → stays, steps, trips         how long, where to next, where to in the end
                      all of them → scores                 what that is worth on hosts not learned from

Places are cells of a grid, found from positions, or the names that hosts give in their attribute `place`. A *step*
leads from a visit to the next one of the same host. It is not counted where the host was gone in between, and among
cells only where the two touch: whoever turns up further away was not seen to go there. A *trip* leads from a place
where a host rested to the next one. Who was not seen for `OFF_US` rested before and after: recorders are switched off
where trips end, and a host that was gone only for a moment was on its way. Where a host tells positions without
velocities, it is taken to go straight from one to the next, if they are not more than `GAP_US` apart.

Residence times are those of whole visits, from coming to going. A visit that was under way when the journal began or
ended says only that the stay was longer; it counts where there is nothing better.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add, or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import WindowSpec

from roamcast.spark.journal import Journal
from roamcast.spark.movement_cells import PIECES, STANDING_MPS, Cut
from roamcast.spark.movement_scores import Examine
from roamcast.spark.movement_tables import (
    HELD_OUT,
    SCORES,
    STAYS,
    STEPS,
    TRIPS,
    VISITS,
    MovementSettings,
)
from roamcast.spark.prepare import ORDER, stretches
from roamcast.spark.published import Tables

GAP_US = 60_000_000
OFF_US = 600_000_000
PERCENTILE_ACCURACY = 10_000


def visits(journal: Journal, settings: MovementSettings) -> DataFrame:
    """Who was at which place when, and stood there for how long."""
    pieces = pieces_in_cells(journal, settings) if settings.cell_m > 0 else pieces_in_places(journal, settings)
    return on_ways(merged(pieces))


def pieces_in_cells(journal: Journal, settings: MovementSettings) -> DataFrame:
    """Who was in which cell when, each straight stretch for itself."""
    of_host = Window.partitionBy("host").orderBy(*ORDER)
    following = F.lead(F.struct("at_us", "x", "y")).over(of_host)
    moves = (
        journal.moves.withColumn("following", following)
        .withColumn("until_us", F.col("following.at_us"))
        .withColumn("life", lives(of_host))
    )
    guided = F.col("velocity_east").isNull() & (F.col("until_us") - F.col("at_us") <= GAP_US)
    there = moves.where("up AND x IS NOT NULL").select(
        "host",
        "at_us",
        "until_us",
        "life",
        "x",
        "y",
        "velocity_east",
        "velocity_north",
        F.when(guided, F.col("following.x")).alias("next_x"),
        F.when(guided, F.col("following.y")).alias("next_y"),
    )
    cut = Cut(settings.space, settings.cell_m, settings.origin)
    found = stretches(there, settings).mapInArrow(cut, from_arrow_schema(PIECES))
    return found.withColumn("place", F.concat_ws(",", F.col("column").cast("string"), F.col("row").cast("string")))


def pieces_in_places(journal: Journal, settings: MovementSettings) -> DataFrame:
    """Who called which place its own when, cut at every record of its moves and attributes."""
    told = F.struct("up", F.hypot("velocity_east", "velocity_north").alias("speed_mps"))
    moves = journal.moves.select("host", *ORDER, told.alias("move"))
    named = F.struct(F.expr("attributes['place'].text").alias("name"))
    contexts = journal.contexts.select("host", *ORDER, named.alias("called"))
    of_host = Window.partitionBy("host").orderBy(*ORDER)
    so_far = of_host.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    held = (
        moves.unionByName(contexts, allowMissingColumns=True)
        .withColumn("until_us", F.lead("at_us").over(of_host))
        .withColumn("life", F.count(F.when(~F.col("move.up"), 1)).over(so_far))
        .withColumn("move", F.last("move", ignorenulls=True).over(so_far))
        .withColumn("called", F.last("called", ignorenulls=True).over(so_far))
        .where("move.up AND called.name <> ''")
    )
    nothing = F.lit(None).cast("bigint")
    return stretches(held, settings).select(
        "host",
        "life",
        "from_us",
        "until_us",
        nothing.alias("column"),
        nothing.alias("row"),
        F.coalesce(F.col("move.speed_mps") <= STANDING_MPS, F.lit(False)).alias("stands"),
        F.col("called.name").alias("place"),
    )


def lives(of_host: WindowSpec) -> Column:
    """How often the host was gone before: records of different numbers do not belong together."""
    so_far = of_host.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.count(F.when(~F.col("up"), 1)).over(so_far)


def merged(pieces: DataFrame) -> DataFrame:
    """Pieces at the same place that follow each other without a gap are one visit."""
    of_host = Window.partitionBy("host").orderBy("from_us")

    def before(name: str) -> Column:
        return F.lag(name).over(of_host)

    goes_on = (
        (before("place") == F.col("place"))
        & (before("until_us") == F.col("from_us"))
        & (before("life") == F.col("life"))
    )
    begins = F.when(F.coalesce(goes_on, F.lit(False)), 0).otherwise(1)
    numbered = pieces.withColumn("begins", begins).withColumn("visit", F.sum("begins").over(of_host))
    stood_us = F.when(F.col("stands"), F.col("until_us") - F.col("from_us")).otherwise(0)
    return numbered.groupBy("host", "visit").agg(
        *(F.first(name).alias(name) for name in ("place", "life", "column", "row")),
        F.min("from_us").alias("from_us"),
        F.max("until_us").alias("until_us"),
        F.sum(stood_us).alias("rest_us"),
    )


def on_ways(found: DataFrame) -> DataFrame:
    """Visits in their order, a new way wherever nobody saw how the host came there."""
    of_host = Window.partitionBy("host").orderBy("visit")

    def before(name: str) -> Column:
        return F.lag(name).over(of_host)

    # Places that are not cells have no columns to compare.
    far = [F.coalesce(F.abs(F.col(name) - before(name)) > 1, F.lit(False)) for name in ("column", "row")]
    breaks = reduce(or_, [before("place").isNull(), before("place") == F.col("place"), *far])
    breaks = breaks | (before("life") != F.col("life"))
    way = F.sum(F.when(breaks, 1).otherwise(0)).over(of_host) - 1
    on_way = Window.partitionBy("host", "way").orderBy("visit")
    came_us, went_us = F.lag("until_us").over(on_way), F.lead("from_us").over(on_way)
    whole = (came_us == F.col("from_us")) & (went_us == F.col("until_us"))
    unseen_us = (F.col("from_us") - before("until_us"), F.lead("from_us").over(of_host) - F.col("until_us"))
    off_us = reduce(add, [F.when(each >= OFF_US, each).otherwise(0) for each in unseen_us])
    return (
        found.withColumn("way", way)
        .withColumn("rest_us", F.col("rest_us") + off_us)
        .withColumn("step", (F.row_number().over(on_way) - 1).cast("bigint"))
        .withColumn("whole", F.coalesce(whole, F.lit(False)))
        .withColumn("alone", came_us.isNull() & went_us.isNull())
        .select(*VISITS.columns)
    )


def held_out(visited: DataFrame, settings: MovementSettings) -> DataFrame:
    """A share of the hosts that were seen to move, by a hash of their names; at least one, and one remains."""
    if settings.hold_out <= 0:
        return visited.select("host").limit(0)
    hosts = visited.where("step > 0").select("host").distinct()
    # One row for each host: few enough for one task.
    drawn = Window.partitionBy(F.lit(0)).orderBy(F.xxhash64(F.lit(settings.seed), F.col("host")), "host")
    wanted = F.greatest(F.lit(1), F.round(F.col("hosts") * settings.hold_out))
    return (
        hosts.withColumn("number", F.row_number().over(drawn))
        .withColumn("hosts", F.count("*").over(Window.partitionBy(F.lit(0))))
        .where(F.col("number") <= F.least(wanted, F.col("hosts") - 1))
        .select("host")
    )


def learned_from(visited: DataFrame, unseen: DataFrame) -> DataFrame:
    """Without those who only stand, as brokers do: a cell that nobody else was in is one that nothing is known of."""
    return visited.where("NOT alone").join(unseen, "host", "left_anti")


def stays(learned: DataFrame) -> DataFrame:
    took_us = F.col("until_us") - F.col("from_us")
    whole_us = F.when(F.col("whole"), took_us)
    shares = F.array(*(F.lit(share) for share in (0.1, 0.5, 0.9)))

    def quantiles(of: Column) -> Column:
        return F.percentile_approx(of, shares, PERCENTILE_ACCURACY)

    found = learned.groupBy("place").agg(
        F.count("*").alias("visits"),
        F.count(whole_us).alias("whole"),
        F.coalesce(F.avg(whole_us), F.avg(took_us)).alias("residence_us"),
        F.coalesce(quantiles(whole_us), quantiles(took_us)).alias("quantiles"),
    )
    names = ("residence_p10_us", "residence_p50_us", "residence_p90_us")
    return found.select("*", *(F.col("quantiles")[number].alias(name) for number, name in enumerate(names)))


def steps(learned: DataFrame) -> DataFrame:
    return ranked(learned, "next")


def trips(learned: DataFrame, settings: MovementSettings) -> DataFrame:
    return ranked(learned.where(F.col("rest_us") >= settings.rest_us), "end")


def ranked(visited: DataFrame, name: str) -> DataFrame:
    """How often each place follows another on a way, the most frequent first, of two as frequent by name."""
    on_way = Window.partitionBy("host", "way").orderBy("step")
    pairs = visited.select("place", F.lead("place").over(on_way).alias(name)).where(F.col(name).isNotNull())
    by_frequency = Window.partitionBy("place").orderBy(F.desc("times"), name)
    counted = pairs.groupBy("place", name).agg(F.count("*").alias("times"))
    return counted.withColumn("rank", F.row_number().over(by_frequency).cast("bigint"))


def scores(tables: Tables, settings: MovementSettings) -> DataFrame:
    """Held-out hosts are examined one way after the other, by the model as brokers have it in memory."""
    examine = Examine({table.name: tables.paths(table.name)[0] for table in (STAYS, STEPS, TRIPS)}, settings.rest_us)
    unseen = tables.read(VISITS).join(tables.read(HELD_OUT), "host", "left_semi")
    in_order = unseen.repartition("host").sortWithinPartitions("host", "way", "step")
    found = in_order.mapInArrow(examine, SCORES.struct)
    counts = (F.sum(name).alias(name) for name in ("asked", "hits", "named"))
    return found.groupBy("what", "ahead", "reach").agg(*counts)


@dataclass(frozen=True)
class Movement:
    """What is learned of how hosts move, as lazy frames; `movement_tables.py` tells their columns."""

    visits: DataFrame
    held_out: DataFrame
    stays: DataFrame
    steps: DataFrame
    trips: DataFrame


def movement(journal: Journal, settings: MovementSettings) -> Movement:
    """Which place follows which, how long one stays, where trips end, learned from hosts that are not held out."""
    return learned(visits(journal, settings), None, settings)


def learned(visited: DataFrame, unseen: DataFrame | None, settings: MovementSettings) -> Movement:
    apart = held_out(visited, settings) if unseen is None else unseen
    seen = learned_from(visited, apart)
    return Movement(visited, apart, stays(seen), steps(seen), trips(seen, settings))


def write_movement(tables: Tables, journal: Journal, settings: MovementSettings) -> None:
    """Publishes the tables of movement, each computed from those before it as they were published."""
    tables.write(VISITS, visits(journal, settings))
    visited = tables.read(VISITS)
    tables.write(HELD_OUT, held_out(visited, settings))
    found = learned(visited, tables.read(HELD_OUT), settings)
    for table, frame in ((STAYS, found.stays), (STEPS, found.steps), (TRIPS, found.trips)):
        tables.write(table, frame)
    tables.write(SCORES, scores(tables, settings))
