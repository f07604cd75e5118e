"""P2, C6: index, compiled kernel and the rest of a task find what `model.match` says; a damaged index is refused."""

from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from pyspark import SparkFiles

from roamcast.journal import Published, Record
from roamcast.model.scope import EVERYWHERE
from roamcast.model.space import Earth, Plane
from roamcast.pipeline.oracle.index import EventSide, event_side
from roamcast.pipeline.oracle.kernel import available, entered, met
from roamcast.pipeline.oracle.sections import BadSections, write_sections
from roamcast.pipeline.oracle.share import Share
from roamcast.pipeline.oracle.shipping import Shipped
from roamcast.pipeline.oracle.swift import warm
from tests.pipeline.buckets import tables_of
from tests.pipeline.shares import aimed_world, found_by_shares, once_only, settings_for, write_index, write_tables
from tests.pipeline.worlds import expected, small_world


@pytest.mark.parametrize("space", [Plane(), Earth()], ids=["plane", "earth"])
@pytest.mark.parametrize("block", range(2))
def test_p2_c6_a_task_equals_the_definition_on_random_worlds(
    tmp_path: Path, space: Plane | Earth, block: int
) -> None:
    for seed in range(block * 20, block * 20 + 20):
        world = small_world(seed, space=space)
        buckets = 1 + seed % 4
        found = found_by_shares(tmp_path / str(seed), world, buckets)
        assert found == expected(world), f"seed {seed}, {buckets} buckets"


@pytest.mark.slow
def test_p2_c6_a_task_equals_the_definition_where_the_kernel_settles_most(tmp_path: Path) -> None:
    for seed in range(60):
        world = aimed_world(seed)
        found = found_by_shares(tmp_path / str(seed), world, 1 + seed % 3)
        assert found == expected(world), f"seed {seed}"


@pytest.mark.slow
def test_p2_without_the_compiled_kernel_the_results_are_the_same(tmp_path: Path) -> None:
    for seed in range(100, 130):
        world = aimed_world(seed)
        compiled = found_by_shares(tmp_path / f"{seed}", world, 2)
        assert compiled == found_by_shares(tmp_path / f"{seed}-numpy", world, 2, compiled=False), f"seed {seed}"


def test_p2_aimed_worlds_are_settled_by_the_kernel_or_left_to_others_by_it(tmp_path: Path) -> None:
    """Agreement would prove nothing if the kernel were never asked, or never settled anything."""
    assert available()
    settled = asked = 0
    for seed in range(60):
        world = aimed_world(seed)
        settings = settings_for(world, 1)
        root = tmp_path / str(seed)
        root.mkdir()
        side = write_index(root / "world.index", world, settings)
        share = Share(settings, write_tables(root, world, settings), side, 0, side.events_of(0))
        if len(share.swift):
            found = share.found()
            settled, asked = settled + len(found.event), asked + len(found.asked_event)
    assert min(settled, asked) > 10


@pytest.mark.slow
def test_p2_pairs_of_events_that_stay_in_their_bucket_are_found_once_and_only_of_others_more_often(
    tmp_path: Path,
) -> None:
    """What the table is written without looking for the earliest match of a pair relies on."""
    alone = again = 0
    for seed in range(40):
        world = aimed_world(seed)
        if seed % 2:
            world = changed(world, records=[at_once(record) for record in world.records])
        settings = settings_for(world, 6)
        root = tmp_path / str(seed)
        root.mkdir()
        side, places = write_index(root / "world.index", world, settings), write_tables(root, world, settings)
        shares = (Share(settings, places, side, number, side.events_of(number)) for number in range(side.buckets))
        found = [
            pair for share in shares for event, life, _ in share.matches() for pair in zip(event, life, strict=True)
        ]
        if side.each_in_one_bucket(settings):
            alone += len(found)
            assert len(set(found)) == len(found), f"seed {seed}"
        else:
            again += len(found) - len(set(found))
    assert alone >= 5
    assert again >= 4


def at_once(record: Record) -> Record:
    if not isinstance(record, Published):
        return record
    return replace(record, event=replace(record.event, expires_us=record.event.published_us))


def test_p2_warming_the_kernel_up_compiles_what_tasks_run(tmp_path: Path) -> None:
    """Arrays of another type, or that may be written to, would be compiled anew in every worker."""
    world = next(world for world in map(aimed_world, range(60)) if expected(world))
    settings = settings_for(world, 1)
    side = write_index(tmp_path / "world.index", world, settings)
    warm(side)
    compiled = len(entered.signatures), len(met.signatures)  # type: ignore[attr-defined]
    share = Share(settings, write_tables(tmp_path, world, settings), side, 0, side.events_of(0))
    assert len(share.found().event) >= 0
    assert (len(entered.signatures), len(met.signatures)) == compiled  # type: ignore[attr-defined]


def test_p2_the_comparison_catches_a_task_that_leaves_the_audience_out(tmp_path: Path) -> None:
    for seed in range(60):
        world = aimed_world(seed)
        records = [
            replace(record, event=replace(record.event, audience=EVERYWHERE))
            if isinstance(record, Published)
            else record
            for record in world.records
        ]
        if found_by_shares(tmp_path / str(seed), changed(world, records=records)) != expected(world):
            return
    pytest.fail("nothing was noticed")


def test_p2_an_index_that_is_cut_off_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    world = small_world(3, space=Plane())
    path = tmp_path / "world.index"
    write_index(path, world, settings_for(world, 1))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(BadSections, match=r"world\.index: is cut off"):
        EventSide(str(path))
    path.write_bytes(b"PAR1" + content)
    with pytest.raises(BadSections, match="does not begin"):
        EventSide(str(path))
    with pytest.raises(BadSections, match="cannot be read"):
        EventSide(str(tmp_path / "nowhere.index"))


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        ("event_subject", 10**6),
        ("life_pattern", -1),
        ("life_domain", 10**6),
        ("bucket_events", 10**6),
        ("host_first", 10**6),
    ],
)
def test_p2_numbers_that_would_lead_compiled_code_astray_are_refused(
    tmp_path: Path, section: str, wrong: int
) -> None:
    """It checks no bounds itself."""
    world = small_world(3, space=Plane())
    _, _, events, lives = tables_of(world)
    arrays, tables = event_side(once_only(events), once_only(lives), settings_for(world, 1))
    arrays[section] = np.full_like(arrays[section], wrong)
    path = tmp_path / "world.index"
    with path.open("wb") as out:
        write_sections(out, arrays, tables)
    with pytest.raises(BadSections, match=section):
        EventSide(str(path))


def test_p6_a_worker_takes_the_copy_of_the_index_that_spark_made_on_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.index").write_bytes(b"copy")
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    assert Shipped("/elsewhere/a.index", "a.index").here() == str(tmp_path / "a.index")
    assert Shipped("/elsewhere/b.index", "b.index").here() == "/elsewhere/b.index"
    assert Shipped("/elsewhere/a.index").here() == "/elsewhere/a.index"
