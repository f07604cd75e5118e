"""P6: a session says clearly what it lacks, and the package that executors get is whole."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.spark.files import file_system, missing_package, path_within
from roamcast.spark.session import (
    check_java,
    check_master,
    classic,
    connected,
    defaults,
    package_archive,
    pairs_given,
    quiet_start,
)
from roamcast.spark.tables import BadPipeline


def test_p6_without_java_the_message_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadPipeline, match="JAVA_HOME has none") as problem:
        check_java()
    assert "apt-get install default-jre-headless" in str(problem.value)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadPipeline, match="none was found"):
        check_java()


def test_p6_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadPipeline, match="version 11"):
        check_java()


def test_p6_the_package_that_is_sent_to_executors_runs_from_its_archive() -> None:
    """The archive alone on the path: whoever imports the oracle from it finds all that is ours."""
    archive = package_archive()
    code = "import roamcast.spark.oracle.expected as oracle; print(oracle.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(archive))


def test_p6_a_connect_server_that_cannot_be_reached_is_an_error_of_one_sentence() -> None:
    """Whether its packages are there or not: there is nobody on this port."""
    with pytest.raises(BadPipeline, match=r"Spark Connect"):
        connected("sc://127.0.0.1:1/;user_id=test")


@pytest.mark.parametrize(
    ("remote", "said"),
    [
        ("spark://here:7077", "give sc://HOST"),
        ("sc://", "give sc://HOST"),
        ("sc://here:many", "invalid port"),
    ],
)
def test_p6_a_connect_server_that_cannot_be_is_an_error_that_says_how_to_name_one(remote: str, said: str) -> None:
    with pytest.raises(BadPipeline, match=said):
        connected(remote)


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("nonsense", r"--master is 'nonsense'; give local\[\*\], spark://HOST:PORT"),
        ("local[0]", r"--master is 'local\[0\]'; give local"),
        ("sc://here:15002", "give local"),
        ("spark://here", "give spark://HOST:PORT"),
        ("spark://127.0.0.1:1", "no Spark master at 'spark://127.0.0.1:1': .*refused"),
    ],
)
def test_p6_a_master_that_cannot_be_is_an_error_that_says_how_to_name_one(master: str, said: str) -> None:
    with pytest.raises(BadPipeline, match=said):
        classic(master, {})


def test_p6_masters_that_spark_knows_are_let_through_and_one_of_several_is_enough() -> None:
    for master in ("local", "local[*]", "local[2]", "local[*, 3]", "local-cluster[2,1,1024]", "yarn", "k8s://here"):
        check_master(master)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{listening.getsockname()[1]}")


@pytest.mark.parametrize("place", ["/a b/c%20d", "file:/a b/c%20d", "file:///a b/c%20d"])
def test_p1_places_are_the_same_to_spark_and_arrow(place: str) -> None:
    assert file_system(place)[1] == "/a b/c%20d"


def test_p6_what_is_said_during_a_start_is_held_back_and_what_is_said_later_is_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """By a process that was started within, as Java is: its standard error stays what it was."""
    with quiet_start():
        code = "import os; os.write(2, b'noise'); print(flush=True); input(); os.write(2, b'trouble')"
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
    child.communicate(b"\n")
    os.write(2, b"ours")
    said = capfd.readouterr().err
    while "trouble" not in said:
        said += capfd.readouterr().err
    assert "noise" not in said
    assert "ours" in said


def test_p6_what_is_said_during_a_start_that_fails_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def failing() -> None:
        with quiet_start():
            os.write(2, b"the reason")
            raise ValueError("no start")

    with pytest.raises(ValueError, match="no start"):
        failing()
    assert capfd.readouterr().err == "the reason"


def test_p1_a_path_with_dots_in_it_is_the_one_without() -> None:
    assert path_within("/a/b/../c") == path_within("file:/a/c") == "/a/c"


def test_p7_settings_of_users_are_read_from_options_and_from_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.ui.enabled  false\nspark.driver.memory=3g\n\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert defaults() == {"spark.ui.enabled": "false", "spark.driver.memory": "3g"}
    assert pairs_given("--conf", ["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(BadPipeline, match="--conf is 'a'; give NAME=VALUE"):
        pairs_given("--conf", ["a"])


@pytest.mark.parametrize(
    ("said", "package"),
    [
        ('No FileSystem for scheme "s3a"', "org.apache.hadoop:hadoop-aws"),
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "hadoop-aws"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure", "io.delta:delta-spark_2.13"),
        ("Failed to find data source: kafka. Please deploy", "org.apache.spark:spark-sql-kafka-0-10_2.13"),
        (
            "Cannot find catalog plugin class for catalog 'lake': org.apache.iceberg.spark.SparkCatalog.",
            "org.apache.iceberg:iceberg-spark-runtime",
        ),
        ("Failed to find the data source: floppy.", "a package that has it"),
    ],
)
def test_p7_what_spark_lacks_is_named_with_its_package(said: str, package: str) -> None:
    assert package in (missing_package(said) or "")
    assert missing_package("something else") is None
