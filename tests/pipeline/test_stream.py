"""P5: the streaming query delivers what the oracle's definition does, through a restart, each pair once."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamcast.journal import Move, Published, Record, Run, Subscribed
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point
from roamcast.pipeline.ingest import ingest
from roamcast.pipeline.job import BadPipeline, Settings
from roamcast.pipeline.store import Store
from roamcast.pipeline.stream import STREAMED, stream
from roamcast.pipeline.survey import settings_of
from tests.pipeline.chain import WORLD_US, many_worlds, write_journal
from tests.pipeline.worlds import GRAPH, PERIOD_US, RANGE_M, SECOND_US

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
SEEDS = range(3_000, 3_012)
LATER_US = (len(SEEDS) + 10) * WORLD_US


@pytest.mark.slow
def test_p5_c6_two_runs_of_the_stream_deliver_together_what_the_definition_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The second run goes on where the first one stopped, with what the shares remember."""
    whole, journal = tmp_path / "whole", tmp_path / "journal"
    wanted = many_worlds(whole, Plane(), SEEDS)
    assert len(wanted) > 8
    about = Run("later", 0, Plane(), 1, "worlds", RANGE_M, GRAPH.neighbours)
    write_journal(whole, [Move("later", LATER_US, Point(0.0, 0.0))], about)
    shutil.copytree(whole, journal)
    for path in [*journal.rglob("worlds-*-00000002.parquet"), *journal.rglob("later-*.parquet")]:
        path.unlink()
    found: list[dict[tuple[str, str], int]] = []
    for _ in range(2):
        ingest(spark, str(journal))
        store = Store(spark, str(journal))
        settings = settings_of(store, period_us=PERIOD_US)
        stream(store, settings, shares=2, bucket_us=4 * SECOND_US, late_us=2 * WORLD_US)
        rows = store.read(STREAMED).collect()
        found.append({(row["event_id"], row["subscription_id"]): row["at_us"] for row in rows})
        assert len(found[-1]) == len(rows), "a pair is there twice"
        shutil.copytree(whole, journal, dirs_exist_ok=True)
    assert found[1] == wanted
    assert 0 < len(found[0]) < len(wanted)


@pytest.mark.slow
def test_p5_what_was_subscribed_at_the_very_beginning_is_not_late(spark: SparkSession, tmp_path: Path) -> None:
    """The table of subscriptions has no record after time 0, and nothing may come late."""
    event = Event("e", "x", Context("h", None, SECOND_US), SECOND_US, SECOND_US)
    records: list[Record] = [
        Move("h", 0, Point(0.0, 0.0)),
        Subscribed("h", 0, Subscription("s", "h", "x", 0, FOREVER_US)),
        Published("h", SECOND_US, event),
        Move("h", 9 * SECOND_US, Point(0.0, 0.0)),
    ]
    write_journal(tmp_path, records, Run("early", 0, Plane(), 1))
    ingest(spark, str(tmp_path))
    store = Store(spark, str(tmp_path))
    stream(store, settings_of(store), shares=1, late_us=0)
    assert [tuple(row) for row in store.read(STREAMED).collect()] == [("e", "s", "h", SECOND_US)]


def test_p5_amounts_that_make_no_sense_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    settings = Settings(Plane(), RANGE_M, None, 0, SECOND_US, SECOND_US, PERIOD_US)
    with pytest.raises(BadPipeline, match="0 shares"):
        stream(Store(spark, str(tmp_path)), settings, shares=0)
