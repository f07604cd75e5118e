"""A live audit (P10): while a system runs, what it should have delivered and did, as numbers for Prometheus.

    stream ──▶ newly expected ┐
    ledger ──▶ new deliveries ├──▶ open pairs ──▶ counts
    open pairs of last round ─┘

A round takes a step of the stream, and puts what is new to the *open* pairs, which the table `watched` carries from
round to round: those first expected or delivered at most `KEPT_US` before the end of what was judged. Of older ones
only the counts are kept, so a round costs what is new and open, however long the system has run.

A pair counts when the grace has passed since it was first expected or delivered: before, it may still be under way,
and is neither delivered nor missed. A delivery that comes when its pair is no longer open counts as unwanted;
`roamcast audit` judges all pairs together.
"""

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.spark.audit import PAIR
from roamcast.spark.ledger import Ledger
from roamcast.spark.published import Tables
from roamcast.spark.settings import Survey
from roamcast.spark.stream import since, stream
from roamcast.spark.tables import DELIVERIES, STREAMED, WATCHED

GRACE_US = 5_000_000
KEPT_US = 600_000_000


class Counts(Struct, frozen=True):
    """In the words of `audit.py`."""

    expected: int = 0
    delivered: int = 0
    missed: int = 0
    unwanted: int = 0
    duplicates: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class Watched(Counts, frozen=True):
    """What a live audit comes to."""

    late_segments: int = 0
    lag_s: float = 0.0
    """From the end of what was judged to the newest record."""


class Closed(Struct, frozen=True):
    """What earlier rounds have done with."""

    batch: int = 0
    """The last batch of ingest of which deliveries were taken."""
    until_us: int | None = None
    """Expected deliveries before were taken."""
    before_us: int | None = None
    """Pairs first expected or delivered before are in `counts`, and open no more."""
    counts: Counts = Counts()


NAMES = {
    "expected": "Deliveries that an ideal system makes",
    "delivered": "Pairs of an event and a subscription that were delivered",
    "missed": "Pairs that were expected and not delivered",
    "unwanted": "Pairs that were delivered and not expected",
    "duplicates": "Deliveries beyond the first of their pair",
    "late_segments": "Segments that came when their time had been judged",
    "lag_s": "Seconds from the end of what was judged to the newest record",
}


def watch(
    tables: Tables,
    *,
    period_us: int,
    bucket_us: int,
    late_us: int,
    grace_us: int = GRACE_US,
    kept_us: int = KEPT_US,
) -> Watched:
    """One round: takes in, judges and counts what is there by now."""
    judged = stream(tables, period_us=period_us, bucket_us=bucket_us, late_us=late_us)
    ledger = Ledger.of(tables, ranges=True)
    survey = Survey.of_ledger(ledger)
    if judged.until_us is None or survey is None:
        return Watched()
    version = tables.current(WATCHED.name)
    closed = Closed() if version is None else msgspec.convert(version.about, Closed)
    part = tables.draft(WATCHED.name)
    place = f"{tables.place(WATCHED.name)}/{part}"
    open_pairs(tables, ledger, closed).write.parquet(place)
    before_us = judged.until_us - max(kept_us, grace_us)
    done, due = counted(tables.parquet(WATCHED, [place]), before_us, judged.until_us - grace_us)
    about = Closed(ledger.next_batch() - 1, judged.until_us, before_us, closed.counts + done)
    tables.publish(WATCHED.name, (part,), msgspec.to_builtins(about), 0 if version is None else version.number)
    lag_s = max(0, survey.last_us + 1 - judged.until_us) / 1e6
    return Watched(**msgspec.structs.asdict(about.counts + due), late_segments=judged.late, lag_s=lag_s)


def open_pairs(tables: Tables, ledger: Ledger, closed: Closed) -> DataFrame:
    """Those of the last round that were not closed then, with what is new."""
    never = F.lit(None).cast("bigint")
    wanted = tables.read(STREAMED).select(
        *PAIR, "subscriber", F.col("at_us").alias("expected_us"), F.lit(0).alias("times"), never.alias("delivered_us")
    )
    if closed.until_us is not None:
        wanted = wanted.where(F.col("expected_us") >= closed.until_us)
    delivered = since(tables, DELIVERIES, ledger.after(closed.batch)).select(
        *PAIR, "subscriber", never.alias("expected_us"), F.lit(1).alias("times"), F.col("at_us").alias("delivered_us")
    )
    pairs = wanted.union(delivered)
    if closed.before_us is not None:
        kept = tables.read(WATCHED).where(first_us() >= closed.before_us)
        pairs = kept.union(pairs)
    return pairs.groupBy(*PAIR, "subscriber").agg(
        F.min("expected_us").alias("expected_us"),
        F.sum("times").cast("bigint").alias("times"),
        F.min("delivered_us").alias("delivered_us"),
    )


def first_us() -> Column:
    return F.least("expected_us", "delivered_us")


def counted(pairs: DataFrame, closed_us: int, due_us: int) -> tuple[Counts, Counts]:
    """Of the pairs that are open no more, and of those that are and count."""
    arrived, wanted = F.col("times") > 0, F.col("expected_us").isNotNull()
    found = (
        pairs.where(first_us() < due_us)
        .groupBy((first_us() < closed_us).alias("closed"))
        .agg(
            F.count_if(wanted).alias("expected"),
            F.count_if(arrived).alias("delivered"),
            F.count_if(wanted & ~arrived).alias("missed"),
            F.count_if(~wanted).alias("unwanted"),
            F.sum(F.greatest(F.col("times") - 1, F.lit(0))).alias("duplicates"),
        )
    )
    by = {row["closed"]: Counts(*row[1:]) for row in found.collect()}
    return by.get(True, Counts()), by.get(False, Counts())


class Page:
    """The numbers of the last round, as Prometheus reads them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.gauges = {
            name: Gauge(
                name.replace("lag_s", "lag_seconds"), about, namespace="roamcast_audit", registry=self.registry
            )
            for name, about in NAMES.items()
        }

    def show(self, found: Watched) -> None:
        for name, gauge in self.gauges.items():
            gauge.set(getattr(found, name))
