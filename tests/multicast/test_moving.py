"""L1, S5, S6: nodes in namespaces of their own move through each other's proximities, on a radio that knows distance.

They get exactly what `model.match` says, but for close calls within an announcement period and the time of flight.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.values import Point, Velocity
from roamcast.spark.audit import audit
from roamcast.spark.oracle.expected import expected
from roamcast.spark.prepare import prepare
from tests.multicast.moving import Judgement, Moving, Turn, Way, judge
from tests.networks.namespaces import FOLDER, Machines, why_not
from tests.networks.radio import TapRadio
from tests.spark.chain import surveyed

REASON = why_not()
needs_namespaces = pytest.mark.skipif(REASON is not None, reason=REASON or "")

PRODUCERS = ("p0", "p1")
CONSUMERS = ("c0", "c1", "c2")
SIDE_M, RADIUS_M, RANGE_M = 600.0, 180.0, 400.0
TIMES_FASTER = 20
"""Twenty seconds of the trace pass in each second."""
PERIOD_S = 2.0 / TIMES_FASTER
PROTOCOL = {
    "kind": "proximity",
    "preset": "vehicle",
    "announcement_period_ms": PERIOD_S * 1e3,
    "radio_range_m": 400.0,
}
BEFORE_US = round(1.5 * PERIOD_S * 1e6) + 300_000
TRACE_S = float(os.environ.get("ROAMCAST_TRACE_S", "300"))
"""Of the trace; a longer one shows more."""
AFTER_US = 500_000
"""A machine with much else to do may be late by this."""


class Story:
    def __init__(self, seconds: float, journal: Path | None = None, loss: float = 0.0, seed: int = 1) -> None:
        names = [*PRODUCERS, *CONSUMERS]
        now_us = time.time_ns() // 1_000
        until_us = now_us + round((seconds + 60) * 1e6)
        self.ways = {
            name: Way(Random(f"{seed}/{name}"), SIDE_M, 2.0 * TIMES_FASTER, 5 / TIMES_FASTER, now_us, until_us)
            for name in names
        }
        with (
            Machines(names) as machines,
            TapRadio(machines.cards, self.where, RANGE_M, loss=loss, seed=seed) as self.radio,
        ):
            nodes = {
                name: Moving(name, machines.namespaces[name], self.ways[name], PROTOCOL, journal) for name in names
            }
            try:
                self.subscriptions = {name: nodes[name].subscribe() for name in CONSUMERS}
                for name in PRODUCERS:
                    nodes[name].announce(RADIUS_M)
                time.sleep(1.0)
                for name in PRODUCERS:
                    nodes[name].raise_every(0.2)
                time.sleep(seconds)
            finally:
                for node in reversed(nodes.values()):
                    node.stop()
        self.drops = {name: node.node.air.drops.counts for name, node in nodes.items()}
        self.raised = [event for name in PRODUCERS for event in nodes[name].raised]
        self.got = {name: nodes[name].got for name in CONSUMERS}
        last_us = max(event.published_us for event in self.raised) - AFTER_US
        self.raised = [event for event in self.raised if event.published_us < last_us]

    def where(self, name: str, now_us: int) -> Point:
        return self.ways[name].point(now_us)

    def judged(self) -> Judgement:
        return judge(self.raised, self.got, self.ways, BEFORE_US, AFTER_US)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("moving") / "journal"


@pytest.fixture(scope="module")
def story(journal: Path) -> Iterator[Story]:
    yield Story(TRACE_S / TIMES_FASTER, journal)
    assert not list(FOLDER.glob(f"rcast-{os.getpid()}-*"))


@pytest.mark.slow
@needs_namespaces
def test_l1_moving_nodes_get_exactly_what_the_model_says(story: Story) -> None:
    found = story.judged()
    assert len(found.expected) > 20
    assert len(found.close) < (len(story.raised) * len(CONSUMERS)) / 2
    assert (found.missed, found.unwanted, found.twice) == ([], [], [])


@needs_namespaces
def test_l1_the_radio_carried_frames_by_distance(story: Story) -> None:
    assert story.radio.carried > 100
    assert story.radio.out_of_range > 10
    assert story.radio.lost == story.radio.dropped == 0
    assert all(counts["forged"] == counts["malformed"] == counts["replayed"] == 0 for counts in story.drops.values())


@pytest.mark.slow
@needs_namespaces
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_l1_p2_the_audit_of_all_nodes_journals_finds_no_fault_but_close_calls(
    spark: SparkSession, story: Story, journal: Path
) -> None:
    found = story.judged()
    frames, settings = surveyed(spark, journal, period_us=100_000)
    compared = audit(expected(prepare(frames, str(journal), settings)), frames, settings)
    consumers = {subscription: name for name, subscription in story.subscriptions.items()}
    verdicts: dict[tuple[str, str], Any] = {
        (row["event_id"], consumers[row["subscription_id"]]): row for row in compared.collect()
    }
    judged = {event.id for event in story.raised}
    assert set(found.expected) <= set(verdicts)
    faults = [
        pair
        for pair, row in verdicts.items()
        if pair[0] in judged and (row["expected"] != (row["times"] > 0) or row["times"] > 1)
    ]
    assert set(faults) <= set(found.close)


@pytest.mark.slow
@needs_namespaces
def test_l1_s11_with_a_fifth_of_all_frames_lost_what_was_missed_is_asked_for_in_time() -> None:
    story = Story(6.0, loss=0.2, seed=3)
    found = story.judged()
    assert story.radio.lost > 50
    assert len(found.expected) > 10
    # A consumer may leave before its question was heard, so not everything need arrive.
    assert len(found.missed) <= len(found.expected) // 10
    assert (found.unwanted, found.twice) == ([], [])


# The checker can fail.


def still(x: float) -> Way:
    way = Way(Random(1), 1.0, 1.0, 1.0, 0, 1)
    way.turns = [Turn(0, Point(x, 0.0), Velocity(0.0, 0.0))]
    return way


@pytest.fixture
def standing() -> tuple[list[Event], dict[str, Way]]:
    audience = Scope(Anchored(Circle(Point(0.0, 0.0), 100.0), "p"))
    event = Event("p:e1", "ice", Context("p", Point(0.0, 0.0)), 5_000_000, 5_000_000, audience=audience)
    return [event], {"p": still(0.0), "near": still(50.0), "edge": still(101.0), "far": still(200.0)}


def test_the_judge_sees_what_is_missing_too_much_or_doubled(standing: tuple[list[Event], dict[str, Way]]) -> None:
    raised, ways = standing
    good = judge(raised, {"near": [("p:e1", 5_000_500)], "edge": [], "far": []}, ways, 100_000, 100_000)
    assert (good.missed, good.unwanted, good.twice) == ([], [], [])
    assert (good.expected, good.close) == ([("p:e1", "near")], [("p:e1", "edge")])
    bad = judge(raised, {"near": [], "far": [("p:e1", 5_000_500)] * 2}, ways, 100_000, 100_000)
    assert bad.missed == [("p:e1", "near")]
    assert bad.unwanted == bad.twice == [("p:e1", "far")]


def test_the_judge_calls_close_who_enters_while_an_event_is_on_its_way(
    standing: tuple[list[Event], dict[str, Way]],
) -> None:
    raised, ways = standing
    ways["far"].turns = [Turn(0, Point(3_050.0, 0.0), Velocity(-590.0, 0.0))]
    assert ways["far"].point(5_000_000).x == 100.0
    found = judge(raised, {"far": []}, ways, 100_000, 100_000)
    assert found.close == [("p:e1", "far")]
