"""How good the data of a journal are: what ingest met, gaps by host, and whose clocks are off.

The clock of a host is off by what it stamped on its events less when they were recorded. Where another machine
records, that holds the way there as well, so it is never more exact than the network is fast.
"""

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.spark.ingest import Summary, summary
from roamcast.spark.journal import Journal
from roamcast.spark.ledger import Ledger
from roamcast.spark.published import Tables

HOSTS_MAX = 20


class Clock(msgspec.Struct, frozen=True):
    """How far a host's stamps are ahead of the journal's time; behind if negative."""

    host: str
    events: int
    median_us: int
    least_us: int
    most_us: int


class Gap(msgspec.Struct, frozen=True):
    """Records of a host that must have been there, by the numbers that are missing."""

    host: str
    missing: int
    rows: int


class Quality(msgspec.Struct, frozen=True):
    ingest: Summary
    gaps: tuple[Gap, ...]
    """Of the hosts with the most missing records."""
    clocks: tuple[Clock, ...]
    """Of the hosts whose clocks are off most."""


def clocks(journal: Journal) -> DataFrame:
    """The hosts whose clocks are off most: host, events, median_us, least_us, most_us."""
    off = F.col("published_us") - F.col("at_us")
    found = journal.publications.groupBy(F.col("publisher.host").alias("host")).agg(
        F.count("*").alias("events"),
        F.percentile_approx(off, 0.5).alias("median_us"),
        F.min(off).alias("least_us"),
        F.max(off).alias("most_us"),
    )
    return found.orderBy(F.desc(F.abs("median_us")), "host").limit(HOSTS_MAX)


def quality_of(tables: Tables, journal: Journal) -> Quality:
    """One job, for clocks; the rest is in the ledger."""
    ledger = Ledger.of(tables, ranges=True)
    off = tuple(Clock(**row.asDict()) for row in clocks(journal).collect())
    return Quality(summary(ledger), gaps_of(ledger), off)


def gaps_of(ledger: Ledger) -> tuple[Gap, ...]:
    ranges = pa.Table.from_struct_array(ledger.taken["ranges"].combine_chunks().flatten())
    runs = ranges.group_by(["host", "incarnation"]).aggregate([("last", "max"), ("rows", "sum")])
    runs = runs.append_column("missing", pc.subtract(pc.add(runs["last_max"], 1), runs["rows_sum"]))
    hosts = runs.group_by("host").aggregate([("missing", "sum"), ("rows_sum", "sum")])
    gone = hosts.filter(pc.greater(hosts["missing_sum"], 0))
    worst = gone.sort_by([("missing_sum", "descending"), ("host", "ascending")]).slice(0, HOSTS_MAX)
    columns = (worst[name].to_pylist() for name in ("host", "missing_sum", "rows_sum_sum"))
    return tuple(Gap(*parts) for parts in zip(*columns, strict=True))
