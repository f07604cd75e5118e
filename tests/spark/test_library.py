"""P7: functions on the caller's own session, DataFrame to DataFrame; a journal as a source of Spark."""

import json
import shutil
from pathlib import Path
from typing import Any

import h3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from roamcast.journal import Move, Run
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point
from roamcast.spark import expected, positions, prepare, read_journal, register, settings_of
from roamcast.spark.positions import write_geoparquet
from roamcast.spark.published import Tables
from roamcast.spark.settings import CROWDED, Cut, Survey
from tests.spark.chain import many_worlds, pairs_of, write_journal
from tests.spark.test_commands import simulated
from tests.spark.test_ingest import ROWS, segment, written
from tests.spark.worlds import PERIOD_US, SECOND_US

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
NOTEBOOK = Path("examples/audit.ipynb")


@pytest.mark.slow
def test_p7_a_journal_is_judged_without_commands_or_ingest(spark: SparkSession, tmp_path: Path) -> None:
    """Straight from its segments, of which one was copied; what is written lies elsewhere."""
    wanted = many_worlds(tmp_path / "journal", Plane(), range(4_000, 4_006))
    copy = min((tmp_path / "journal" / "v2" / "moves").glob("*-00000001.parquet"))
    shutil.copy(copy, copy.with_name("copy-000000-00000001.parquet"))
    journal = read_journal(spark, str(tmp_path / "journal"))
    settings = settings_of(journal, period_us=PERIOD_US)
    prepared = prepare(journal, str(tmp_path / "analysis"), settings)
    assert pairs_of(expected(prepared)) == wanted
    assert not (tmp_path / "journal" / "tables").exists()


@pytest.mark.slow
def test_p7_the_notebook_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, counted = simulated(tmp_path)
    monkeypatch.setenv("ROAMCAST_JOURNAL", str(journal))
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
    assert f"{counted['expected']} deliveries expected" in capsys.readouterr().out
    assert names["more"] >= counted["expected"]


def test_p7_a_table_of_a_journal_is_read_as_a_source(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path)
    register(spark)
    moves = spark.read.format("roamcast").option("table", "moves").load(str(tmp_path))
    assert moves.count() == 2 * ROWS
    with pytest.raises(PySparkException, match="option 'table' is 'nothing'; give one of moves"):
        spark.read.format("roamcast").option("table", "nothing").load(str(tmp_path))


@pytest.mark.slow
def test_p7_segments_that_appear_come_once_each_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    version = written(tmp_path / "journal")
    later = segment(version, "moves", 6)
    later.rename(tmp_path / later.name)
    register(spark)
    source = spark.readStream.format("roamcast").option("table", "moves").load(str(tmp_path / "journal"))
    sink = source.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    counts = []
    for appears in (None, later):
        if appears is not None:
            (tmp_path / later.name).rename(later)
        query = sink.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()
        counts.append(spark.read.parquet(str(tmp_path / "out")).count())
    assert counts == [2 * ROWS - ROWS // 3, 2 * ROWS]


def test_p7_positions_are_geoparquet_with_h3_cells(spark: SparkSession, tmp_path: Path) -> None:
    """Which any reader knows by the note in its footer."""
    at = [Point(8.54 + n / 100, 47.37) for n in range(3)]
    write_journal(tmp_path, [Move("h", n, point) for n, point in enumerate(at)], Run("run", 0, Earth(), 1))
    frame = positions(read_journal(spark, str(tmp_path)), Earth(), 7)
    assert {row.h3 for row in frame.collect()} == {h3.latlng_to_cell(point.y, point.x, 7) for point in at}
    count, place = write_geoparquet(Tables(spark, str(tmp_path)), frame, Earth())
    files = [pq.ParquetFile(path) for path in Path(place).glob("*.parquet")]
    assert all(json.loads(file.metadata.metadata[b"geo"])["primary_column"] == "geometry" for file in files)
    shapes = [shape for file in files for shape in shapely.from_wkb(file.read()["geometry"].to_pylist())]
    assert (count, sorted((shape.x, shape.y) for shape in shapes)) == (3, [(point.x, point.y) for point in at])


def test_p2_buckets_follow_the_work_and_not_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    """A busy second after a quiet hour: most borders are in the second."""
    write_journal(tmp_path, [Move("h", n * 1_000, Point(0.0, 0.0)) for n in range(20)], Run("run", 0, Plane(), 1))
    found = Survey.of_journal(read_journal(spark, str(tmp_path)))
    assert found is not None
    assert (found.hosts, found.first_us, found.last_us) == (1, 0, 19_000)
    busy_us = 3_600 * SECOND_US
    borders = cut_of([(0, busy_us, 1.0), (busy_us, busy_us + SECOND_US, 9.0)], busy_us + SECOND_US).borders
    assert borders[0] == 0
    assert borders[-1] > busy_us + SECOND_US
    assert sum(border >= busy_us - SECOND_US for border in borders) >= len(borders) - 2


def test_p2_only_a_crowded_moment_is_divided_into_cells() -> None:
    """What happens at once cannot be cut in time; what lasts is."""
    hour_us = 3_600 * SECOND_US
    assert cut_of([(0, hour_us, 900.0)], hour_us).sides == ()
    found = cut_of([(0, hour_us, 4.0), (hour_us // 2, hour_us // 2, 9.0 * CROWDED)], hour_us)
    assert max(found.sides) in (3, 4)
    assert found.sides.count(1) == len(found.sides) - 1


def cut_of(pieces: list[tuple[int, int, float]], until_us: int) -> Cut:
    first, last, worth = (list(each) for each in zip(*pieces, strict=True))
    table = pa.table({"first_us": first, "last_us": last, "buckets": worth, "load": worth})
    return Cut.of(Survey(1, 0, until_us, table), 0, until_us, 1_000)
