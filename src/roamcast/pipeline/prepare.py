"""From the journal's records to what held when: tracks, states, events and the lives of subscriptions, by bucket.

Records say what changed; the oracle asks what was so. Each job here turns one into the other with a window over what
one host (or one subscription) recorded, in the order of time, incarnation and sequence. Of several records with the
same time the last one holds. Tracks and states then go into each bucket of time that they touch, so that a bucket
holds where everybody is at its moments, and buckets can be judged apart from each other.

Time is that of the record, not the stamp of the host's clock: an event lives from when it was recorded for as long
as its stamps are apart, as `sim/ideal.py` has it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.pipeline.job import Inputs, Job, Settings, Table
from roamcast.pipeline.tables import (
    CONTEXTS,
    EVENTS,
    LIVES,
    MOVES,
    PUBLICATIONS,
    STATES,
    SUBSCRIPTIONS,
    TRACKS,
    UNSUBSCRIPTIONS,
)

ORDER = ("at_us", "incarnation", "sequence")
LIFETIME_US_MAX = 2**53
"""What lasts longer lasts for ever; without a bound the arithmetic of times could overflow."""


def tracks(inputs: Inputs) -> DataFrame:
    following = Window.partitionBy("host").orderBy(*ORDER)
    moves = inputs[MOVES].withColumn("until_us", F.lead("at_us").over(following))
    return in_buckets(stretches(moves.where("up"), inputs.settings), inputs.settings, TRACKS)


def states(inputs: Inputs) -> DataFrame:
    following = Window.partitionBy("host").orderBy(*ORDER)
    changes = inputs[CONTEXTS].withColumn("until_us", F.lead("at_us").over(following))
    return in_buckets(stretches(changes, inputs.settings), inputs.settings, STATES)


def stretches(rows: DataFrame, settings: Settings) -> DataFrame:
    end = F.lit(settings.until_us + 1).cast("bigint")
    return (
        rows.withColumnRenamed("at_us", "from_us")
        .withColumn("until_us", F.least(F.coalesce("until_us", end), end))
        .where("from_us < until_us")
    )


def events(inputs: Inputs) -> DataFrame:
    same_id = Window.partitionBy("event_id")
    published = (
        inputs[PUBLICATIONS]
        .withColumn("begin_us", F.col("at_us"))
        .withColumn("end_us", F.col("at_us") + lifetime("published_us", "expires_us"))
        .withColumn("again", F.count("*").over(same_id) > 1)
    )
    return lasting(published, inputs.settings).select(*EVENTS.columns)


def lives(inputs: Inputs) -> DataFrame:
    issued = inputs[SUBSCRIPTIONS]
    ended = inputs[UNSUBSCRIPTIONS].select("subscription_id", *ORDER)
    gone = inputs[MOVES].where("NOT up").select(F.col("host").alias("subscriber"), *ORDER)
    # Whatever comes next under the same id ends a subscription: that it is ended, or issued anew.
    of_id = Window.partitionBy("subscription_id").orderBy(*ORDER)
    same_id = Window.partitionBy("subscription_id")
    by_id = (
        issued.unionByName(ended, allowMissingColumns=True)
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
    lived = by_host.withColumn("begin_us", F.col("at_us")).withColumn("end_us", ends)
    return lasting(lived, inputs.settings).select(*LIVES.columns)


def lifetime(first: str, last: str) -> Column:
    """How long something lasts by its own stamps."""
    forever = F.lit(LIFETIME_US_MAX).cast("bigint")
    return F.least(F.coalesce(F.try_subtract(F.col(last), F.col(first)), forever), forever)


def lasting(rows: DataFrame, settings: Settings) -> DataFrame:
    until = F.lit(settings.until_us).cast("bigint")
    return rows.withColumn("end_us", F.least("end_us", until)).where("begin_us <= end_us")


def in_buckets(rows: DataFrame, settings: Settings, table: Table) -> DataFrame:
    """Every row in each bucket that it touches, each bucket in one partition."""
    first, last = bucket_of(F.col("from_us"), settings), bucket_of(F.col("until_us") - 1, settings)
    spread = F.sequence(first, last)
    return rows.withColumn("bucket", F.explode(spread)).select(*table.columns).repartition("bucket")


def bucket_of(time_us: Column, settings: Settings) -> Column:
    elapsed = time_us - F.lit(settings.first_us).cast("bigint")
    return F.greatest(F.floor(elapsed / F.lit(settings.bucket_us)).cast("bigint"), F.lit(0).cast("bigint"))


JOBS = (
    Job("tracks", (MOVES,), TRACKS, tracks),
    Job("states", (CONTEXTS,), STATES, states),
    Job("events", (PUBLICATIONS,), EVENTS, events),
    Job("lives", (SUBSCRIPTIONS, UNSUBSCRIPTIONS, MOVES), LIVES, lives),
)
