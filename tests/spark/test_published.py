"""P1, P2: a table is there whole or not at all, for readers, for a second writer, and after a kill."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.schema import INTEGER
from roamcast.spark.published import Tables, Taken
from roamcast.spark.tables import BadPipeline, Table, columns

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
NUMBERS = Table("numbers", columns(number=INTEGER), "numbers")


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).select(F.col("id").alias("number"))


def test_p1_a_table_that_was_never_published_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadPipeline, match="table 'numbers' is missing"):
        Tables(spark, str(tmp_path)).read(NUMBERS)


def test_p1_readers_of_the_version_before_still_find_it(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    tables.write(NUMBERS, numbers(spark, 3))
    reading = tables.read(NUMBERS)
    tables.write(NUMBERS, numbers(spark, 5))
    assert (reading.count(), tables.read(NUMBERS).count()) == (3, 5)
    for count in (6, 7):
        tables.write(NUMBERS, numbers(spark, count))
    assert len(list(tmp_path.glob("tables/numbers/0*"))) == 2


def test_p1_a_job_that_fails_leaves_the_last_version(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    tables.write(NUMBERS, numbers(spark, 3))
    failing = numbers(spark, 100).withColumn(
        "number",
        F.when(F.col("number") < 99, F.col("number")).otherwise(F.raise_error(F.lit("killed")).cast("bigint")),
    )
    with pytest.raises(Exception, match="killed"):
        tables.write(NUMBERS, failing)
    assert tables.read(NUMBERS).count() == 3


def test_p1_two_writers_at_once_leave_one_whole_table(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda count: tables.write(NUMBERS, numbers(spark, count)), (10, 20)))
    assert tables.read(NUMBERS).count() in (10, 20)
    assert tables.known(NUMBERS.name).number == 2


def test_p1_who_relies_on_a_version_is_told_that_it_is_not_current(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    tables.write(NUMBERS, numbers(spark, 1))
    with pytest.raises(Taken, match="version 1 was published"):
        tables.publish(NUMBERS.name, ("part",), after=0)


def test_p1_a_frame_with_another_type_is_refused_by_its_column(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadPipeline, match="column 'number': is string, and must be bigint"):
        Tables(spark, str(tmp_path)).write(NUMBERS, spark.createDataFrame([("a",)], "number string"))
