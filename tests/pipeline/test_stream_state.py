"""P5: judged bucket by bucket as records come, the stream finds what the definition does. Without Spark."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roamcast.model.space import Earth, Plane
from roamcast.pipeline.oracle.bucket import World
from roamcast.pipeline.stream_state import KINDS, Share
from tests.pipeline.chain import Expected, many_worlds
from tests.pipeline.worlds import GRAPH, PERIOD_US, RANGE_M, SECOND_US

BUCKET_US = 3 * SECOND_US + 500_000
END_US = 10**12


@pytest.fixture(scope="module", params=[Plane(), Earth()], ids=["plane", "earth"])
def worlds(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[World, dict[str, Any], Expected]:
    directory = tmp_path_factory.mktemp("stream")
    wanted = many_worlds(directory, request.param, range(2_000, 2_014))
    tables = {table.name: pq.read_table(directory / "v2" / table.name).cast(table.schema) for table in KINDS}
    assert len(wanted) > 8
    return World(request.param, RANGE_M, GRAPH, PERIOD_US), tables, wanted


def streamed(world: World, tables: dict[str, Any], times_us: list[int], rng: random.Random) -> Expected:
    """Records come in slices of time, in no order within one; the share forgets and recalls itself after each."""
    memory = Share(world, BUCKET_US).remembered()
    found: Expected = {}
    for first_us, last_us in zip([-1, *times_us], [*times_us, END_US], strict=True):
        share = Share(world, BUCKET_US)
        share.recall(memory)
        for name, table in tables.items():
            at_us = table["at_us"].to_numpy()
            rows = [n for n, time_us in enumerate(at_us) if first_us <= time_us < last_us]
            rng.shuffle(rows)
            share.add(name, table.take(pa.array(rows + rows[:2], pa.int64())))
        for event, subscription, _, at in share.judge(last_us):
            assert (event, subscription) not in found, "a pair comes twice"
            found[event, subscription] = at
        memory = share.remembered()
    return found


@pytest.mark.parametrize("slices", [0, 7, 30])
def test_p5_c6_the_stream_finds_what_the_definition_does_however_records_are_cut(
    worlds: tuple[World, dict[str, Any], Expected], slices: int
) -> None:
    world, tables, wanted = worlds
    rng = random.Random(slices)
    last_us = max(int(table["at_us"].to_numpy().max()) for table in tables.values() if len(table))
    times_us = sorted(rng.sample(range(1, last_us), slices))
    assert streamed(world, tables, times_us, rng) == wanted


def test_p5_the_comparison_catches_records_that_never_came(worlds: tuple[World, dict[str, Any], Expected]) -> None:
    world, tables, wanted = worlds
    fewer = {**tables, "moves": tables["moves"].slice(len(tables["moves"]) // 2)}
    assert streamed(world, fewer, [], random.Random(1)) != wanted


def test_p5_a_share_forgets_what_is_over(worlds: tuple[World, dict[str, Any], Expected]) -> None:
    world, tables, _ = worlds
    share = Share(world, BUCKET_US)
    for name, table in tables.items():
        share.add(name, table)
    full = len(share.remembered())
    share.judge(END_US)
    assert not share.matched
    assert not share.ends_us
    assert [len(share.tables[name]) for name in ("publications", "unsubscriptions")] == [0, 0]
    assert len(share.tables["moves"]) == len(set(tables["moves"]["host"].to_pylist()))
    assert len(share.remembered()) < full / 2


def test_p5_nothing_is_judged_before_a_bucket_is_complete(worlds: tuple[World, dict[str, Any], Expected]) -> None:
    world, tables, _ = worlds
    share = Share(world, BUCKET_US)
    assert share.judge(END_US) == []
    for name, table in tables.items():
        share.add(name, table)
    assert share.judge(BUCKET_US - 1) == []
    assert share.next_us is None
