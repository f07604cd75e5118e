"""What if: what an ideal system delivers with other wishes, against what it delivers with those of the journal.

before = prepare(journal, "out/town")
after = prepare(changed(journal, Wishes(...), before.settings.space), "out/town/what-if", moved=before)
pairs = what_if(expected(before), expected(after), journal).cache()
differences(pairs).show()
"""

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.spark.journal import Journal
from roamcast.spark.tables import WHAT_IF

KEY = ["event_id", "subscription_id"]
LINES_MAX = 1_000


class Difference(msgspec.Struct, frozen=True):
    """How many deliveries one client or subject has, or all, with the wishes as they were and as changed."""

    value: str
    before: int
    after: int
    gained: int
    lost: int


class WhatIf(msgspec.Struct, frozen=True):
    """The lines that differ most come first, and at most a thousand of a kind."""

    journal: str
    total: Difference
    subjects: tuple[Difference, ...]
    clients: tuple[Difference, ...]


def what_if(before: DataFrame, after: DataFrame, journal: Journal) -> DataFrame:
    """Every pair delivered before or after: its subject, whether it is gained, lost or kept, and when."""
    subjects = journal.publications.groupBy("event_id").agg(F.min_by("subject", "at_us").alias("subject"))
    one, other = (
        frame.select(*KEY, F.col("subscriber").alias(f"{name}_by"), F.col("at_us").alias(f"{name}_us"))
        for name, frame in (("before", before), ("after", after))
    )
    change = F.when(F.col("before_us").isNull(), "gained").when(F.col("after_us").isNull(), "lost").otherwise("kept")
    pairs = one.join(other, KEY, "full").withColumns(
        {"change": change, "subscriber": F.coalesce("after_by", "before_by")}
    )
    return pairs.join(subjects, "event_id", "left").select(*WHAT_IF.columns)


def differences(pairs: DataFrame) -> DataFrame:
    """Counts over all, by subject and by client: before, after, gained, lost."""

    def dimension(name: str, value: Column) -> Column:
        return F.struct(F.lit(name).alias("dimension"), value.alias("value"))

    of = F.array(
        dimension("all", F.lit("all")),
        dimension("subject", F.col("subject")),
        dimension("client", F.col("subscriber")),
    )
    counted = {
        "before": F.col("change") != "gained",
        "after": F.col("change") != "lost",
        "gained": F.col("change") == "gained",
        "lost": F.col("change") == "lost",
    }
    keyed = pairs.withColumn("of", F.explode(of)).groupBy("of.dimension", "of.value")
    return keyed.agg(*(F.count_if(condition).alias(name) for name, condition in counted.items()))


def read_what_if(pairs: DataFrame, place: str) -> WhatIf:
    """One job. Of very many clients only those that differ most come here; the table has all."""
    moved = F.col("gained") + F.col("lost")
    ranked = differences(pairs).orderBy(F.desc(moved), F.desc("after"), "value")
    lines: dict[str, list[Difference]] = {"all": [], "subject": [], "client": []}
    kinds = [ranked.where(F.col("dimension") == kind).limit(LINES_MAX) for kind in lines]
    for row in kinds[0].unionByName(kinds[1]).unionByName(kinds[2]).collect():
        values = row.asDict()
        lines[values.pop("dimension")].append(Difference(**values))
    total = lines["all"][0] if lines["all"] else Difference("all", 0, 0, 0, 0)
    return WhatIf(place, total, tuple(lines["subject"]), tuple(lines["client"]))
