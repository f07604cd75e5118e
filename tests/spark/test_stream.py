"""P5: the stream delivers what the oracle's definition does, step by step, each pair once."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from roamcast.journal import Delivered, Journal, Move, Published, Record, Run, Subscribed
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Earth, Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point
from roamcast.spark.published import Tables
from roamcast.spark.stream import Judged, horizon_us, stream
from roamcast.spark.tables import SEGMENTS, STREAMED, WATCHED, BadPipeline
from roamcast.spark.watch import Watched, watch
from tests.spark.chain import Expected, many_worlds, pairs_of, write_journal
from tests.spark.worlds import PERIOD_US, SECOND_US

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def steps(spark: SparkSession, whole: Path, journal: Path, parts: Iterable[set[int]]) -> tuple[Expected, list[int]]:
    """The segments with these numbers appear one set after the other, and each time the stream takes a step."""
    tables = Tables(spark, str(journal))
    counts = []
    for numbers in parts:
        appear(whole, journal, numbers)
        counts.append(stream(tables, period_us=PERIOD_US).pairs)
    return pairs_of(tables.read(STREAMED)), counts


def appear(whole: Path, journal: Path, numbers: set[int]) -> None:
    for path in sorted(whole.rglob("*.parquet")):
        if int(path.stem[-8:]) in numbers:
            place = journal / path.relative_to(whole)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
    for path in (whole / "v2").iterdir():
        (journal / "v2" / path.name).mkdir(parents=True, exist_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("space", [Plane(), Earth()], ids=["plane", "earth"])
def test_p5_c6_steps_of_the_stream_find_together_what_the_definition_does(
    spark: SparkSession, tmp_path: Path, space: Plane | Earth
) -> None:
    """To the end of a journal that was closed, with what earlier steps carried on."""
    whole = tmp_path / "whole"
    wanted = many_worlds(whole, space, range(3_000, 3_012), closed=True)
    segments = 1 + max(int(path.stem[-8:]) for path in whole.rglob("*.parquet"))
    parts = [set(range(part * segments // 3, (part + 1) * segments // 3)) for part in range(3)]
    found, counts = steps(spark, whole, tmp_path / "journal", parts)
    assert found == wanted
    assert 0 < counts[1] < counts[2] == len(wanted)


def test_p5_a_replaced_subscription_ends_and_a_closed_journal_is_judged_to_its_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    here = Context("a", Point(0.0, 0.0))
    records: list[Record] = [Move(host, 0, Point(0.0, 0.0)) for host in ("a", "b")]
    for second, subject in ((0, "x"), (4, "y"), (6, "x")):
        at_us = second * SECOND_US
        records.append(Subscribed("b", at_us, Subscription("s", "b", subject, at_us, FOREVER_US)))
    for second in range(1, 9):
        at_us = second * SECOND_US
        records.append(Published("a", at_us, Event(f"e{second}", "x", here, at_us, at_us)))
    whole = tmp_path / "whole"
    ordered = sorted(records, key=lambda each: each.at_us)
    with Journal(whole, Run("run", 0, Plane(), 1), durable=False, segment_rows_max=4) as journal:
        for record in ordered:
            journal.record(record)
        journal.end(8 * SECOND_US)
    found, _ = steps(spark, whole, tmp_path / "journal", [{0, 1, 2, 3}, {4, 5, 6, 7, 8}])
    assert sorted(event for event, _ in found) == ["e1", "e2", "e3", "e6", "e7", "e8"]


@pytest.mark.slow
def test_p5_a_step_that_was_killed_has_not_happened(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = Event("e", "x", Context("h", None, SECOND_US), SECOND_US, SECOND_US)
    records: list[Record] = [
        Move("h", 0, Point(0.0, 0.0)),
        Subscribed("h", 0, Subscription("s", "h", "x", 0, FOREVER_US)),
        Published("h", SECOND_US, event),
    ]
    with Journal(tmp_path, Run("run", 0, Plane(), 1), durable=False) as journal:
        for record in records:
            journal.record(record)
        journal.end(9 * SECOND_US)
    tables = Tables(spark, str(tmp_path))

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("roamcast.spark.stream.Step.publish", killed)
        with pytest.raises(KeyboardInterrupt):
            stream(tables)
    assert tables.current(STREAMED.name) is None
    assert stream(tables).pairs == 1
    assert [tuple(row) for row in tables.read(STREAMED).collect()] == [("e", "s", "h", SECOND_US)]
    again = stream(tables)
    assert (again.pairs, again.until_us) == (1, 9 * SECOND_US + 1)


@pytest.mark.slow
def test_p10_rounds_of_a_live_audit_count_together_what_one_audit_does(spark: SparkSession, tmp_path: Path) -> None:
    """With a delivery in a later round than its pair, and pairs that are closed and carried no more."""
    records: list[Record] = [Move(host, 0, Point(0.0, 0.0)) for host in ("a", "b")]
    records.append(Subscribed("b", 0, Subscription("s", "b", "x", 0, FOREVER_US)))
    deliveries = [(second, f"e{second}", "s") for second in range(1, 12)]
    for second, event, subscription in (*deliveries, (5, "e4", "s"), (2, "e1", "nobody's")):
        records.append(Delivered("b", second * SECOND_US + 90_000, event, subscription, "b"))
    for second in range(1, 13):
        at_us = second * SECOND_US
        records.append(Published("a", at_us, Event(f"e{second}", "x", Context("a", Point(0.0, 0.0)), at_us, at_us)))
    whole, journal = tmp_path / "whole", tmp_path / "journal"
    with Journal(whole, Run("run", 0, Plane(), 1), durable=False, segment_rows_max=3) as written:
        for record in sorted(records, key=lambda each: each.at_us):
            written.record(record)
        written.end(12 * SECOND_US)
    tables, found = Tables(spark, str(journal)), Watched()
    for numbers in ({0, 1, 2}, {3, 4, 5}, set(range(6, 20))):
        appear(whole, journal, numbers)
        found = watch(
            tables, period_us=PERIOD_US, bucket_us=SECOND_US, late_us=SECOND_US, grace_us=-1, kept_us=SECOND_US
        )
    assert found == Watched(expected=12, delivered=12, missed=1, unwanted=1, duplicates=1)
    assert 0 < tables.read(WATCHED).count() < 13


def ledger(*rows: tuple[str, int, int, int, int, int | None]) -> pa.Table:
    names = ("writer", "incarnation", "segment", "last_us", "arrived_us", "ended_us")
    found = [{**dict(zip(names, row, strict=True)), "status": "taken", "rows": 1} for row in rows]
    return pa.Table.from_pylist(found, schema=SEGMENTS.schema)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([("a", 0, 0, 5, 0, None)], None),
        ([("a", 0, 0, 5, 0, None), ("a", 0, 1, 9, 0, None)], 5),
        ([("a", 0, 0, 5, 0, None), ("a", 0, 1, 9, 0, 12)], 13),
        ([("a", 0, 0, 5, 0, None), ("a", 0, 1, 9, 0, None), ("b", 0, 0, 7, 0, None), ("b", 0, 1, 8, 0, None)], 5),
        # b was silent while a wrote, c has opened anew, d has a clock that is far behind those of a and e.
        ([("a", 0, 0, 50, 9, None), ("a", 0, 1, 60, 90, None), ("b", 0, 0, 7, 0, None), ("b", 0, 1, 8, 0, None)], 50),
        ([("c", 0, 0, 7, 9, None), ("c", 1, 0, 50, 9, None), ("c", 1, 1, 60, 9, None)], 50),
        (
            [
                (name, 0, n, last - 9 + 9 * n, 9, None)
                for name, last in (("a", 90), ("d", 9), ("e", 95))
                for n in (0, 1)
            ],
            71,
        ),
    ],
    ids=["nothing passed", "but the last", "closed", "the slowest", "silent", "opened anew", "clock behind"],
)
def test_p5_the_horizon_is_what_all_writers_have_passed(
    rows: list[tuple[str, int, int, int, int, int | None]], wanted: int | None
) -> None:
    assert horizon_us(ledger(*rows), late_us=10) == wanted


def test_p5_amounts_that_make_no_sense_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadPipeline, match="buckets of 0"):
        stream(Tables(spark, str(tmp_path)), bucket_us=0)


def test_p5_nothing_is_judged_before_anything_is_passed(spark: SparkSession, tmp_path: Path) -> None:
    write_journal(tmp_path, [Move("h", 0, Point(0.0, 0.0))], Run("run", 0, Plane(), 1))
    assert stream(Tables(spark, str(tmp_path))) == Judged()
