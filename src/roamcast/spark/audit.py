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
