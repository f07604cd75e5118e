"""What tests of several packages share: profiles, order, and one Spark session for each worker that needs it."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from roamcast.matching import Engine
from roamcast.model.space import Plane
from tests import effort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.load_profile(effort.QUICK)

# A Java process here lives for seconds: its second compiler and parallel collector would cost half as much again
# as all the work. Spark hands this to every one that it starts, in commands that tests run too.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    """Before the workers start: otherwise each of them, and each broker that they start, compiles the same."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        Engine(Plane()).warm_up()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start tests that take long first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("slow", "spark", "process", "browser"))))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession  # only here: tests without Spark must not load it

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("roamcast tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        # Compiling a query takes longer than running it over a hundred rows; commands that tests run do compile.
        .config("spark.sql.codegen.wholeStage", "false")
        # So does planning the rest of it anew after every stage.
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
