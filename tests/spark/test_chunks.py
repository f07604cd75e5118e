"""P2: the tracks that workers write chunk by chunk are those that Spark makes of the same moves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from roamcast.journal import Move, Record, Run
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.spark.chunks import bins_of
from roamcast.spark.prepare import prepare
from roamcast.spark.settings import Settings
from roamcast.spark.tables import TRACKS
from tests.spark.chain import many_worlds, surveyed, write_journal
from tests.spark.worlds import SECOND_US

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_p2_tracks_written_in_chunks_are_those_of_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    many_worlds(tmp_path, Plane(), range(50, 54))
    journal, settings = surveyed(spark, tmp_path)
    span_us = 3 * SECOND_US + 100_000
    borders = tuple(range(settings.first_us, settings.until_us + 1 + span_us, span_us))
    cut = replace(settings, borders=borders, until_us=settings.until_us - 2 * SECOND_US)
    assert journal.pieces
    another = replace(journal, moves=journal.moves.where("true"))
    assert not another.pieces
    made = [prepare(each, str(tmp_path / name), cut) for each, name in ((journal, "chunks"), (another, "frame"))]
    in_chunks, by_spark = (sorted(tuple(row) for row in each.read(TRACKS).collect()) for each in made)
    assert in_chunks == by_spark
    assert len(in_chunks) > 2 * len(borders)


def test_p2_hosts_that_recorded_one_position_have_one_stretch(spark: SparkSession, tmp_path: Path) -> None:
    """No stretch ends within the chunk, so workers write nothing."""
    records: list[Record] = [Move(host, SECOND_US, Point(1.0, 2.0)) for host in ("a", "b")]
    write_journal(tmp_path, records, Run("still", 0, Plane(), 1), closed_us=9 * SECOND_US)
    journal, settings = surveyed(spark, tmp_path)
    found = prepare(journal, str(tmp_path), settings).read(TRACKS).orderBy("host").collect()
    assert [(row["host"], row["from_us"], row["until_us"]) for row in found] == [
        (host, SECOND_US, 9 * SECOND_US + 1) for host in ("a", "b")
    ]


def test_p2_a_stretch_lies_in_the_smallest_bin_that_holds_it() -> None:
    settings = Settings(Plane(), 200.0, None, (0, 10, 20, 30, 40, 50), 49, 10)
    first, last = np.array([0, 9, 0, 20, 25, 0, 41]), np.array([9, 10, 19, 39, 45, 49, 49])
    assert bins_of(first, last, settings).tolist() == [8, 4, 4, 5, 1, 1, 12]
