"""A live audit (P10): while a system runs, what it should have delivered and did, as numbers for Prometheus.

Each round is a step of the stream, and then one count over all pairs whose event was published before the grace
began: what was published a moment ago may still be under way, and is neither delivered nor missed yet.
"""

from dataclasses import replace

from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.spark.audit import audit
from roamcast.spark.journal import ingested
from roamcast.spark.ledger import Ledger
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings, Survey
from roamcast.spark.stream import Judged, settings_between, stream
from roamcast.spark.tables import STREAMED

GRACE_US = 5_000_000


class Watched(Struct, frozen=True):
    """What a live audit comes to, in the words of `audit.py`."""

    expected: int = 0
    delivered: int = 0
    missed: int = 0
    unwanted: int = 0
    duplicates: int = 0
    late_segments: int = 0
    lag_s: float = 0.0
    """From the end of what was judged to the newest record."""


NAMES = {
    "expected": "Deliveries that an ideal system makes",
    "delivered": "Pairs of an event and a subscription that were delivered",
    "missed": "Pairs that were expected and not delivered",
    "unwanted": "Pairs that were delivered and not expected",
    "duplicates": "Deliveries beyond the first of their pair",
    "late_segments": "Segments that came when their time had been judged",
    "lag_s": "Seconds from the end of what was judged to the newest record",
}


def watch(tables: Tables, *, period_us: int, bucket_us: int, late_us: int, grace_us: int = GRACE_US) -> Watched:
    """One round: takes in, judges and counts what is there by now."""
    judged = stream(tables, period_us=period_us, bucket_us=bucket_us, late_us=late_us)
    survey = Survey.of_ledger(Ledger.of(tables, ranges=True))
    if judged.until_us is None or judged.world is None or survey is None:
        return Watched()
    settings = settings_between(survey.first_us, judged.until_us, period_us, survey, judged.world)
    lag_s = max(0, survey.last_us + 1 - judged.until_us) / 1e6
    return counted(tables, judged, replace(settings, until_us=survey.last_us), judged.until_us - grace_us, lag_s)


def counted(tables: Tables, judged: Judged, settings: Settings, before_us: int, lag_s: float) -> Watched:
    verdicts = audit(tables.read(STREAMED), ingested(tables.spark, tables.journal), settings)
    arrived = F.col("times") > 0
    row = (
        verdicts.where(F.col("published_us") < before_us)
        .agg(
            F.count(F.when(F.col("expected"), 1)).alias("expected"),
            F.count(F.when(arrived, 1)).alias("delivered"),
            F.count(F.when(F.col("expected") & ~arrived, 1)).alias("missed"),
            F.count(F.when(~F.col("expected"), 1)).alias("unwanted"),
            F.coalesce(F.sum(F.when(arrived, F.col("times") - 1)), F.lit(0)).alias("duplicates"),
        )
        .first()
    )
    assert row is not None
    return Watched(**row.asDict(), late_segments=judged.late, lag_s=lag_s)


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
