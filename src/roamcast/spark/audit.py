"""The audit (P2): what an ideal system delivers against what was delivered, over all and by subject, place and time.

| word | means |
|---|---|
| expected | pairs of an event and a subscription that an ideal system delivers |
| delivered | pairs that were delivered, each counted once |
| missed | expected and never delivered |
| unwanted | delivered and not expected |
| duplicates | deliveries beyond the first of their pair |
| latency | from when an ideal system delivers to when it was delivered, of every delivery: how late it was |

These are the words and the counts of `roamcast sim`, but for the latency: there an event that waits for somebody to
come counts from its publication. A place is a cell of a grid over where events were published, a
time a slice of the journal; an event counts where and when it was published.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.spark.journal import Journal
from roamcast.spark.settings import Settings
from roamcast.spark.tables import TOTALS

CELLS_PER_SIDE = 16
TIME_SLICES = 48
DELAY_STEPS = 8
PERCENTILE_ACCURACY = 10_000
"""Of the rank: percentiles are off by at most one in so many."""
PAIR = ("event_id", "subscription_id")
UNKNOWN = "unknown"


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
    delivered = (
        journal.deliveries.where(F.col("at_us") <= F.lit(settings.until_us))
        .groupBy(*PAIR)
        .agg(
            F.min("subscriber").alias("receiver"),
            F.count("*").alias("times"),
            F.min("at_us").alias("delivered_us"),
            F.sort_array(F.collect_list("at_us")).alias("all_us"),
        )
    )
    wanted = expected.withColumnRenamed("at_us", "expected_us")
    pairs = wanted.join(delivered, list(PAIR), "full_outer").join(published.hint("merge"), "event_id", "left")
    ideal = F.coalesce("expected_us", "published_us")
    # What matches between two looks may be delivered before the oracle looks again.
    latencies = F.transform("all_us", lambda at_us: F.greatest(at_us - ideal, F.lit(0)))
    return pairs.select(
        *PAIR,
        F.coalesce("subscriber", "receiver").alias("subscriber"),
        "subject",
        F.col("expected_us").isNotNull().alias("expected"),
        F.coalesce("times", F.lit(0).cast("bigint")).alias("times"),
        "published_us",
        "expected_us",
        "delivered_us",
        F.when(ideal.isNotNull(), latencies).alias("latencies_us"),
        "x",
        "y",
    )


def totals(verdicts: DataFrame, settings: Settings) -> DataFrame:
    """Every verdict counts once in each dimension: in all, in its subject, its place, its time, and its delay."""
    # A row for each delivery; the pair itself counts in the first of its rows.
    keyed = in_dimensions(verdicts, settings).select("*", F.posexplode_outer("latencies_us").alias("nth", "latency"))
    pair, arrived = F.coalesce("nth", F.lit(0)) == 0, F.col("times") > 0
    percentiles = F.percentile_approx("latency", [0.5, 0.9, 0.99], PERCENTILE_ACCURACY)
    counts = keyed.groupBy("dimension", "value").agg(
        F.first("cell_x").alias("x"),
        F.first("cell_y").alias("y"),
        F.first("at_us").alias("at_us"),
        F.count(F.when(pair & F.col("expected"), 1)).alias("expected"),
        F.count(F.when(pair & arrived, 1)).alias("delivered"),
        F.count(F.when(pair & F.col("expected") & ~arrived, 1)).alias("missed"),
        F.count(F.when(pair & ~F.col("expected"), 1)).alias("unwanted"),
        F.coalesce(F.sum(F.when(pair & arrived, F.col("times") - 1)), F.lit(0)).cast("bigint").alias("duplicates"),
        percentiles.alias("percentiles"),
        F.max("latency").alias("latency_max_us"),
    )
    shares = (F.col("percentiles")[number].alias(f"latency_p{share}_us") for number, share in enumerate((50, 90, 99)))
    return counts.select("*", *shares).select(*TOTALS.columns)


def in_dimensions(found: DataFrame, settings: Settings) -> DataFrame:
    slice_us = max(1, -(-(settings.until_us - settings.first_us + 1) // TIME_SLICES))
    number = F.floor((F.col("published_us") - F.lit(settings.first_us)) / F.lit(slice_us))
    start = (F.lit(settings.first_us) + number * F.lit(slice_us)).cast("bigint")
    nowhere, never = F.lit(None).cast("double"), F.lit(None).cast("bigint")
    extent = settings.extent
    column, x = cell("x", extent.west or 0.0, extent.east or 0.0)
    row, y = cell("y", extent.south or 0.0, extent.north or 0.0)
    place = F.concat_ws("/", column.cast("string"), row.cast("string"))

    def dimension(name: str, value: Column, x: Column, y: Column, at_us: Column) -> Column:
        parts = zip(
            (F.lit(name), value, x, y, at_us), ("dimension", "value", "cell_x", "cell_y", "at_us"), strict=True
        )
        return F.struct(*(part.alias(alias) for part, alias in parts))

    # First deliveries by how late they are, eight steps to a power of ten.
    late = F.element_at("latencies_us", 1)
    step = F.floor(F.log10(late) * DELAY_STEPS) / DELAY_STEPS
    delay = F.when(late < 1, 0).when(late >= 1, F.floor(F.pow(F.lit(10.0), step))).cast("bigint")
    keys = F.array(
        dimension("all", F.lit("all"), nowhere, nowhere, never),
        dimension("subject", F.coalesce("subject", F.lit(UNKNOWN)), nowhere, nowhere, never),
        dimension("time", F.coalesce(start.cast("string"), F.lit(UNKNOWN)), nowhere, nowhere, start),
        dimension("delay", delay.cast("string"), nowhere, nowhere, delay),
        dimension("place", F.when(F.col("x").isNull(), UNKNOWN).otherwise(place), x, y, never),
    )
    spread = found.withColumn("key", F.explode(keys)).where("key.value IS NOT NULL")
    return spread.select("key.*", "expected", "times", "latencies_us")


def cell(name: str, low: float, high: float) -> tuple[Column, Column]:
    """The number of the cell along one side of the grid, and the middle of the cell."""
    size = max((high - low) / CELLS_PER_SIDE, 1e-9)
    number = F.least(F.floor((F.col(name) - low) / size), F.lit(CELLS_PER_SIDE - 1).cast("bigint"))
    return number, F.lit(low) + (number + 0.5) * size


def examples(verdicts: DataFrame, most: int) -> DataFrame:
    """A few pairs of each kind that went wrong; the table `verdicts` has them all."""
    missed, unwanted = F.col("expected") & (F.col("times") == 0), ~F.col("expected")
    kind = F.when(missed, "missed").when(unwanted, "unwanted").when(F.col("times") > 1, "duplicate")
    wrong = verdicts.withColumn("kind", kind).where("kind IS NOT NULL")
    picked = [
        wrong.where(F.col("kind") == name).orderBy(*PAIR).limit(most) for name in ("missed", "unwanted", "duplicate")
    ]
    return picked[0].unionByName(picked[1]).unionByName(picked[2])
