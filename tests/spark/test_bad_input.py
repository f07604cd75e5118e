"""P1, P2: bad input is answered with one sentence that names the file and the field, and exit code 2."""

import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from roamcast.journal.schema import TABLES, VERSION_DIRECTORY, VERSION_KEY
from roamcast.spark.session import without_java_frames
from roamcast.terminal import EXIT_BAD_INPUT
from tests.spark.test_commands import invoke
from tests.spark.test_ingest import changed, put, segment, written

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def refused(*command: str) -> str:
    code, output, complaints = invoke(*command)
    assert (code, output) == (EXIT_BAD_INPUT, "")
    assert "Traceback" not in complaints
    return complaints


def test_p1_a_directory_without_a_journal_is_named(spark: SparkSession, tmp_path: Path) -> None:
    assert f"{tmp_path}: holds no journal" in refused("audit", str(tmp_path))


def test_p1_an_address_without_a_journal_is_named(spark: SparkSession, tmp_path: Path) -> None:
    nowhere = f"file://{tmp_path}/nothing"
    assert f"{nowhere}: holds no journal; there is no directory v2 in it" in refused("pipeline", "ingest", nowhere)


def test_p1_a_journal_of_another_version_is_named_with_both_versions(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    assert f"{tmp_path}: a journal of version 1; this program reads 2" in refused("audit", str(tmp_path))


def test_p1_a_journal_without_a_table_is_told_which(spark: SparkSession, tmp_path: Path) -> None:
    version = written(tmp_path)
    shutil.rmtree(version / "moves")
    assert f"{version}/moves: table 'moves' is missing" in refused("audit", str(tmp_path))


@pytest.mark.parametrize("command", [("audit",), ("pipeline", "ingest")], ids=["audit", "ingest"])
def test_p1_a_journal_without_any_segment_is_said_to_be_empty(
    spark: SparkSession, tmp_path: Path, command: tuple[str, ...]
) -> None:
    for table in TABLES:
        (tmp_path / VERSION_DIRECTORY / table.name).mkdir(parents=True)
    assert f"{tmp_path}: the journal is empty; no segment was found in it" in refused(*command, str(tmp_path))


def test_p2_a_journal_without_a_run_cannot_be_judged(spark: SparkSession, tmp_path: Path) -> None:
    version = written(tmp_path)
    for path in (version / "runs").iterdir():
        path.unlink()
    assert f"{tmp_path}: table 'runs' has no rows" in refused("audit", str(tmp_path))


def test_p2_a_clean_table_that_somebody_removed_is_named(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path)
    assert invoke("pipeline", "ingest", str(tmp_path))[0] == 0
    shutil.rmtree(tmp_path / "tables" / "moves")
    said = refused("pipeline", "oracle", str(tmp_path))
    assert f"{tmp_path}/tables/moves: table 'moves' is missing its file" in said


def test_p2_a_clean_table_that_is_damaged_is_named_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path)
    assert invoke("pipeline", "ingest", str(tmp_path))[0] == 0
    damaged = min((tmp_path / "tables" / "moves").glob("*.parquet"))
    damaged.write_bytes(b"not Parquet")
    (damaged.parent / f".{damaged.name}.crc").unlink(missing_ok=True)
    said = refused("pipeline", "oracle", str(tmp_path))
    assert f"{damaged}: damaged; remove {tmp_path}/tables and run" in said
    assert "org.apache" not in said


def test_p6_what_spark_says_is_shown_with_our_traceback_and_without_java_s() -> None:
    worker = 'Traceback (most recent call last):\n  File "task.py", line 3, in judged\nValueError: no bucket'
    java = "\tat org.apache.spark.Task.<init>(Task.scala:147)\n\tat java.base/java.lang.Thread.run(Thread.java:840)"
    problem = PySparkException(
        f"{worker}\n{java}\n\t... 22 more\n\nJVM stacktrace:\norg.apache.spark.Failure\n{java}"
    )
    assert without_java_frames(problem) == worker


def test_p1_a_clock_that_goes_backwards_and_a_wrong_version_are_named_with_file_and_field(
    spark: SparkSession, tmp_path: Path
) -> None:
    version = written(tmp_path)
    late, strange = segment(version, "moves", 1), segment(version, "moves", 2)
    changed(late, lambda rows: put(rows, "at_us", [9_000_000, *rows["at_us"].to_pylist()[1:]]))
    changed(strange, lambda rows: rows.replace_schema_metadata({VERSION_KEY: b"99"}))
    code, _, complaints = invoke("pipeline", "ingest", str(tmp_path))
    assert code == 0
    assert f"{late}: field 'at_us' goes backwards for host 'run-" in complaints
    assert f"{strange}: of schema version 99; this program reads 2" in complaints
    assert "2 segments are quarantined" in complaints


@pytest.fixture(scope="module")
def ingested(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    journal = tmp_path_factory.mktemp("ingested")
    written(journal)
    assert invoke("pipeline", "ingest", str(journal))[0] == 0
    return journal


@pytest.mark.parametrize(
    ("command", "option", "given", "said"),
    [
        ("oracle", "--period-ms", "inf", "--period-ms is inf; give 0.001 to"),
        ("oracle", "--period-ms", "nan", "--period-ms is nan; give 0.001 to"),
        ("oracle", "--period-ms", "1e300", "--period-ms is 1e+300; give 0.001 to"),
        ("oracle", "--until-s", "nan", "--until-s is nan; give"),
        ("audit", "--until-s", "-inf", "--until-s is -inf; give"),
        ("audit", "--until-s", "1e300", "--until-s is 1e+300; give"),
        ("stream", "--bucket", "nan", "--bucket is nan; give 1e-06 to"),
        ("stream", "--late", "inf", "--late is inf; give 0 to"),
        ("stream", "--follow", "-1", "--follow is -1; give 0.001 to"),
        ("ingest", "--follow", "nan", "--follow is nan; give 0.001 to"),
        ("movement", "--seed", "9223372036854775808", "--seed is 9223372036854775808; give one of at most 64 bits"),
    ],
)
def test_p2_a_number_that_cannot_be_meant_is_refused_by_the_name_of_its_option(
    ingested: Path, command: str, option: str, given: str, said: str
) -> None:
    assert said in refused("pipeline", command, str(ingested), option, given)


def test_p2_an_end_before_the_first_record_is_refused_with_both_times(ingested: Path) -> None:
    said = refused("pipeline", "oracle", str(ingested), "--until-s", "-0.1")
    assert f"{ingested}: its first record is of 0.000000 s; --until-s is -0.100000" in said


def test_p2_a_page_or_a_model_that_cannot_be_kept_is_refused_with_its_place(ingested: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused("pipeline", "audit", str(ingested), "--out", str(tmp_path / "file"))
    assert f"{tmp_path}/file: cannot be a directory for the page" in said
    said = refused("pipeline", "movement", str(ingested), "--out", str(tmp_path))
    assert f"{tmp_path}: is a directory; give --out a file" in said


@pytest.mark.parametrize("address", ["nowhere://journal", "s3://"])
def test_p6_an_address_that_nothing_can_read_is_named(spark: SparkSession, address: str) -> None:
    assert f"{address.rstrip('/')}/tables: not an address that can be read" in refused("audit", address)
