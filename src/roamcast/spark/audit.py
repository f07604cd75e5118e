"""The audit (P2): what an ideal system delivers against what was delivered, over all and by subject, place and time.

| word | means |
|---|---|
| expected | pairs of an event and a subscription that an ideal system delivers |
| delivered | pairs that were delivered, each counted once |
| missed | expected and never delivered |
| unwanted | delivered and not expected |
| duplicates | deliveries beyond the first of their pair |
| latency | from when an ideal system delivers to when the pair was first delivered: how late it was |

These are the words and the counts of `roamcast sim`, but for the latency: there an event that waits for somebody to
come counts from its publication. A place is a cell of a grid over where events were published, a
time a slice of the journal; an event counts where and when it was published.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.spark.journal import Journal
from roamcast.spark.settings import Settings
from roamcast.spark.tables import TOTALS

CELLS_PER_SIDE = 16
TIME_SLICES = 48
DELAY_STEPS = 8
DIGITS = 3
"""Of a latency that percentiles tell: they are at most one in a hundred too small."""
PAIR = ("event_id", "subscription_id")
UNKNOWN = "unknown"
COUNTS = ("expected", "delivered", "missed", "unwanted", "duplicates")
DIMENSIONS = ("subject", "place", "time", "delay")


def audit(expected: DataFrame, journal: Journal, settings: Settings) -> DataFrame:
    """Every pair that was expected or delivered: how often, when, how late, and where the event was published."""
    published = (
        journal.publications.groupBy("event_id")
        .agg(
            F.min("at_us").alias("published_us"),
            F.min_by(F.struct("subject", "publisher.x", "publisher.y"), "at_us").alias("of"),
        )
        .select("event_id", "published_us", "of.*")
    )
    never = F.lit(None).cast("bigint")
    wanted = expected.select(*PAIR, "subscriber", F.col("at_us").alias("expected_us"), never.alias("delivered_us"))
    delivered = journal.deliveries.where(F.col("at_us") <= F.lit(settings.until_us)).select(
        *PAIR, "subscriber", never.alias("expected_us"), F.col("at_us").alias("delivered_us")
    )
    # All of an event comes together once: then its pairs are counted, and then they meet their publication.
    pairs = (
        wanted.union(delivered)
        .repartition("event_id")
        .groupBy(*PAIR, "subscriber")
        .agg(
            F.min("expected_us").alias("expected_us"),
            F.count("delivered_us").alias("times"),
            F.min("delivered_us").alias("delivered_us"),
        )
        .join(published.hint("shuffle_hash"), "event_id", "left")
    )
    late_us = F.col("delivered_us") - F.coalesce("expected_us", "published_us")
    return pairs.select(
        *PAIR,
        "subscriber",
        "subject",
        F.col("expected_us").isNotNull().alias("expected"),
        "times",
        "published_us",
        "expected_us",
        "delivered_us",
        # What matches between two looks may be delivered before the oracle looks again.
        F.when(late_us.isNotNull(), F.greatest(late_us, F.lit(0))).alias("latency_us"),
        "x",
        "y",
    )


def totals(verdicts: DataFrame, settings: Settings) -> DataFrame:
    """Every verdict counts once in each dimension: in all, in its subject, its place, its time, and its delay."""
    keyed = with_keys(verdicts, settings)
    arrived = F.col("times") > 0
    counted = keyed.groupingSets(
        [["about_us"], *(["about_us", name] for name in DIMENSIONS)], "about_us", *DIMENSIONS
    ).agg(
        F.concat_ws(" ", *(F.when(F.grouping(name) == 0, name) for name in DIMENSIONS)).alias("dimension"),
        F.count_if("expected").alias("expected"),
        F.count_if(arrived).alias("delivered"),
        F.count_if(F.col("expected") & ~arrived).alias("missed"),
        F.count_if(~F.col("expected")).alias("unwanted"),
        F.sum(F.greatest(F.col("times") - 1, F.lit(0))).alias("duplicates"),
        F.count("about_us").alias("timed"),
        F.max("latency_us").alias("latency_max_us"),
    )
    return summed(counted, settings)


def summed(counted: DataFrame, settings: Settings) -> DataFrame:
    """Totals of what was counted by latency with few digits: these are few rows, and percentiles are theirs."""
    named = counted.withColumns(
        {
            "dimension": F.when(F.col("dimension") == "", "all").otherwise(F.col("dimension")),
            "value": F.when(F.col("dimension") == "", "all").otherwise(
                F.coalesce("subject", *(F.col(name).cast("string") for name in DIMENSIONS[1:]), F.lit(UNKNOWN))
            ),
        }
    ).where("dimension <> 'delay' OR delay IS NOT NULL")
    found = named.groupBy("dimension", "value").agg(
        F.first("place").alias("place"),
        F.first(F.coalesce("time", "delay")).alias("at_us"),
        *(F.sum(name).alias(name) for name in COUNTS),
        F.percentile("about_us", [0.5, 0.9, 0.99], F.col("timed")).alias("percentiles"),
        F.max("latency_max_us").alias("latency_max_us"),
    )
    shares = {
        f"latency_p{share}_us": F.floor(F.col("percentiles")[number]) for number, share in enumerate((50, 90, 99))
    }
    column, row = F.col("place") % CELLS_PER_SIDE, F.floor(F.col("place") / CELLS_PER_SIDE)
    (west, width), (south, height) = sides(settings)
    place = {
        "x": F.lit(west) + (column + 0.5) * width,
        "y": F.lit(south) + (row + 0.5) * height,
        "value": F.when(F.col("place").isNotNull(), F.concat_ws("/", column, row)).otherwise(F.col("value")),
    }
    return found.withColumns({**shares, **place}).select(*TOTALS.columns)


def with_keys(verdicts: DataFrame, settings: Settings) -> DataFrame:
    """Verdicts with what they count in: the number of a cell, the beginnings of a slice and of a step of delays."""
    slice_us = slice_us_of(settings)
    first_us = F.lit(settings.first_us)
    slice_ = F.floor((F.col("published_us") - first_us) / F.lit(slice_us))
    (west, width), (south, height) = sides(settings)
    column, row = (
        # The least of nothing and a number would be the number.
        F.when(F.col(name).isNotNull(), F.least(F.floor((F.col(name) - low) / size), F.lit(CELLS_PER_SIDE - 1)))
        for name, low, size in (("x", west, width), ("y", south, height))
    )
    late, power = F.col("latency_us"), F.log10(F.greatest("latency_us", F.lit(1)))
    unit = F.pow(F.lit(10.0), F.greatest(F.floor(power) - (DIGITS - 1), F.lit(0)))
    # First deliveries by how late they are, eight steps to a power of ten.
    step = F.floor(F.pow(F.lit(10.0), F.floor(power * DELAY_STEPS) / DELAY_STEPS))
    return verdicts.select(
        "expected",
        "times",
        "latency_us",
        F.coalesce("subject", F.lit(UNKNOWN)).alias("subject"),
        (row * CELLS_PER_SIDE + column).alias("place"),
        (first_us + slice_ * F.lit(slice_us)).cast("bigint").alias("time"),
        F.when(late < 1, 0).when(late >= 1, step).cast("bigint").alias("delay"),
        (F.floor(late / unit) * unit).cast("bigint").alias("about_us"),
    )


def slice_us_of(settings: Settings) -> int:
    return max(1, -(-(settings.until_us - settings.first_us + 1) // TIME_SLICES))


def sides(settings: Settings) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where the grid of cells begins and how wide a cell is, from west to east and from south to north."""
    extent = settings.extent
    pairs = ((extent.west or 0.0, extent.east or 0.0), (extent.south or 0.0, extent.north or 0.0))
    (west, width), (south, height) = ((low, max((high - low) / CELLS_PER_SIDE, 1e-9)) for low, high in pairs)
    return (west, width), (south, height)


def examples(verdicts: DataFrame, most: int) -> DataFrame:
    """A few pairs of each kind that went wrong; the table `verdicts` has them all."""
    missed, unwanted = F.col("expected") & (F.col("times") == 0), ~F.col("expected")
    kind = F.when(missed, "missed").when(unwanted, "unwanted").when(F.col("times") > 1, "duplicate")
    wrong = verdicts.withColumn("kind", kind).where("kind IS NOT NULL")
    picked = [
        wrong.where(F.col("kind") == name).orderBy(*PAIR).limit(most) for name in ("missed", "unwanted", "duplicate")
    ]
    return picked[0].unionByName(picked[1]).unionByName(picked[2])
