"""P1: Spark reads every table of a journal as it is."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamcast.journal import ContextChange, Journal, Move, Published, Run, Transmitted
from roamcast.journal.schema import TABLES
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.values import Point, Velocity

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def written(directory: Path) -> Path:
    audience = Scope(Anchored(Circle(Point(0.0, 0.0), 200.0), "bus"))
    event = Event(
        "e1", "traffic/jam", Context("bus", Point(1.0, 2.0)), 5, 9, {"lanes": 2, "kind": "jam"}, audience=audience
    )
    with Journal(directory, Run("run", 0, Plane(), seed=1), segment_rows_max=100) as journal:
        for number in range(250):
            journal.record(Transmitted(f"host-{number % 3}", number, "beacon", 50))
        journal.record(Move("bus", 5, Point(1.0, 2.0), Velocity(3.0, 0.0)))
        journal.record(ContextChange("bus", 5, {"speed": 3, "line": "46A"}))
        journal.record(Published("bus", 5, event))
    return directory / "v2"


def test_p1_spark_reads_every_table_and_its_nested_values(spark: SparkSession, tmp_path: Path) -> None:
    root = written(tmp_path)
    tables = {table.name: spark.read.parquet(str(root / table.name)) for table in TABLES}
    for table in TABLES:
        assert tables[table.name].columns == table.schema.names
    assert tables["transmissions"].dropDuplicates(["host", "incarnation", "sequence"]).count() == 250
    (speed,) = tables["contexts"].selectExpr("attributes['speed'].number", "attributes['line'].text").collect()
    assert tuple(speed) == (3.0, "46A")
    (place,) = (
        tables["publications"]
        .selectExpr(
            "attributes['lanes'].integer",
            "audience.region.radius_m",
            "audience.region.anchor",
            "relevance.filter",
            "publisher.x",
        )
        .collect()
    )
    assert tuple(place) == (True, 200.0, "bus", None, 1.0)
    assert [tuple(row) for row in tables["moves"].select("x", "velocity_east", "destination_x").collect()] == [
        (1.0, 3.0, None)
    ]
