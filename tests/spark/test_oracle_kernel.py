"""P2, C6: the oracle's kernel finds what `model.match` says, at the same moments, on any number of buckets."""

from dataclasses import replace as changed

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roamcast.journal import Published, Record, Subscribed
from roamcast.model.filter.tree import EVERYTHING
from roamcast.model.scope import EVERYWHERE
from roamcast.model.space import Earth, Plane
from roamcast.spark.oracle.boxes import Boxes, in_chunks, overlapping, spread
from tests.effort import examples
from tests.spark.buckets import found_by_kernel
from tests.spark.worlds import expected, small_world


@pytest.mark.parametrize("space", [Plane(), Earth()], ids=["plane", "earth"])
@pytest.mark.parametrize("block", range(3))
def test_p2_c6_the_kernel_equals_the_definition_on_random_worlds(space: Plane | Earth, block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        world = small_world(seed, space=space)
        wanted = expected(world)
        buckets = 1 + seed % 4
        assert found_by_kernel(world, buckets) == wanted, f"seed {seed}, {buckets} buckets"


def test_p2_random_worlds_reach_every_part_of_the_definition() -> None:
    """Agreement on worlds in which nothing matches, or nothing is asked, would prove nothing."""
    worlds = [small_world(seed) for seed in range(240)]
    events = [r.event for world in worlds for r in world.records if isinstance(r, Published)]
    wanted = [r.subscription for world in worlds for r in world.records if isinstance(r, Subscribed)]
    scopes = [e.relevance for e in events] + [e.audience for e in events]
    scopes += [s.interest for s in wanted] + [s.publishers for s in wanted]
    shapes = {type(scope.region).__name__ for scope in scopes}
    assert shapes == {"NoneType", "Circle", "Box", "Polygon", "Anchored"}
    found = [expected(world) for world in worlds]
    assert sum(map(len, found)) > 200
    later = [pair for world, each in zip(worlds, found, strict=True) for pair in late_pairs(world.records, each)]
    assert len(later) > 20, "hardly anything matches only after a while"


def late_pairs(records: list[Record], found: dict[tuple[str, str], int]) -> list[tuple[str, str]]:
    """The pairs that did not match when the younger of the two appeared, but later."""
    begun = {r.event.id: r.at_us for r in records if isinstance(r, Published)}
    begun |= {r.subscription.id: r.at_us for r in records if isinstance(r, Subscribed)}
    return [pair for pair, at_us in found.items() if at_us > max(begun[pair[0]], begun[pair[1]])]


@pytest.mark.parametrize("wrong", ["no relevance", "no audience", "no publishers", "no filter", "no interest"])
def test_p2_the_comparison_catches_a_kernel_that_leaves_a_condition_out(wrong: str) -> None:
    def lenient(record: Record) -> Record:
        if isinstance(record, Published) and wrong in ("no relevance", "no audience"):
            return replace(record, event=replace(record.event, **{wrong[3:]: EVERYWHERE}))
        if isinstance(record, Subscribed) and wrong in ("no publishers", "no interest"):
            return replace(record, subscription=replace(record.subscription, **{wrong[3:]: EVERYWHERE}))
        if isinstance(record, Subscribed) and wrong == "no filter":
            return replace(record, subscription=replace(record.subscription, filter=EVERYTHING))
        return record

    for seed in range(60):
        world = small_world(seed)
        easier = changed(world, records=[lenient(record) for record in world.records])
        if found_by_kernel(easier) != expected(world):
            return
    pytest.fail("nothing was noticed")


coordinates = st.integers(0, 12).map(float)
sizes = st.sampled_from([-1.0, 0.0, 1.0, 4.0, 20.0, np.inf])
boxes = st.lists(st.tuples(coordinates, coordinates, sizes, sizes), max_size=12)


@examples(300)
@given(boxes, boxes)
def test_p2_overlapping_finds_each_pair_of_boxes_that_overlap_once(
    one: list[tuple[float, ...]], other: list[tuple[float, ...]]
) -> None:
    a, b = made(one), made(other)
    found = [(int(i), int(j)) for left, right in overlapping(a, b) for i, j in zip(left, right, strict=True)]
    wanted = [
        (int(i), int(j))
        for i in np.flatnonzero(a.filled)
        for j in np.flatnonzero(b.filled)
        if a.west[i] <= b.east[j] and b.west[j] <= a.east[i] and a.south[i] <= b.north[j] and b.south[j] <= a.north[i]
    ]
    assert sorted(found) == sorted(wanted)


def made(given_boxes: list[tuple[float, ...]]) -> Boxes:
    cells = np.array(given_boxes, np.float64).reshape(-1, 4)
    west, south, across, high = cells.T
    open_ = np.isinf(across)
    return Boxes(np.where(open_, -np.inf, west), south.copy(), west + across, south + high)


def test_p2_chunks_cover_all_rows_and_stay_small() -> None:
    counts = np.array([3, 0, 9, 1, 1, 1, 0, 5])
    chunks = [list(map(int, rows)) for rows in in_chunks(counts, 4)]
    assert [row for rows in chunks for row in rows] == list(range(8))
    assert all(len(rows) == 1 or counts[rows].sum() <= 4 for rows in chunks)
    rows, nth = spread(np.array([2, 0, 3]))
    assert (rows.tolist(), nth.tolist()) == ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])
