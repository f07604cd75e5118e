"""The journal as an observer: what a reader can tell apart."""

import asyncio
import threading
from pathlib import Path

import pytest

from roamcast.journal import ContextChange, Delivered, Journal, Move, Noted, Run, read_entries, read_records
from roamcast.journal import live as live_module
from roamcast.journal.layout import Segment
from roamcast.journal.live import LiveJournal
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.values import Point


def test_p1_a_host_that_is_down_is_told_from_one_whose_position_is_unknown(tmp_path: Path) -> None:
    with Journal(tmp_path, Run("run", 0, Plane()), durable=False) as journal:
        journal.moved(1, Context("a", Point(1.0, 2.0), 1))
        journal.moved(2, Context("a", at_us=2))
        journal.gone(3, "a")
        journal.moved(4, Context("a", Point(5.0, 2.0), 4))
    found = [(move.at_us, move.up, move.position) for move in read_records(tmp_path, Move)]
    assert found == [(1, True, Point(1.0, 2.0)), (2, True, None), (3, False, None), (4, True, Point(5.0, 2.0))]


def test_p1_attributes_are_written_once_across_a_restart(tmp_path: Path) -> None:
    with Journal(tmp_path, Run("run", 0, Plane()), durable=False) as journal:
        journal.moved(1, Context("a", Point(1.0, 2.0), 1, attributes={"seats": 4}))
        journal.gone(2, "a")
        journal.moved(3, Context("a", Point(1.0, 2.0), 3, attributes={"seats": 4}))
    assert list(read_records(tmp_path, ContextChange)) == [ContextChange("a", 1, {"seats": 4})]


EVENT = Event("e", "t", Context("w"), 1, 1)


def test_p1_a_fan_out_is_a_row_for_each_receiver_but_for_what_the_model_has_no_words_for(tmp_path: Path) -> None:
    with Journal(tmp_path, Run("run", 0, Plane()), durable=False) as journal:
        journal.fanned_out(5, EVENT, ["a", "b", "c"], ["s1", None, "s2"])
        journal.delivered(6, "a", EVENT, "s1")
    found = [(entry.record, entry.sequence) for entry in read_entries(tmp_path, Delivered)]
    assert found == [
        (Delivered("a", 5, "e", "s1", "a"), 0),
        (Delivered("c", 5, "e", "s2", "c"), 0),
        (Delivered("a", 6, "e", "s1", "a"), 1),
    ]


def test_p1_a_fan_out_beyond_a_segment_goes_into_several(tmp_path: Path) -> None:
    hosts = [f"h{number}" for number in range(25)]
    with Journal(tmp_path, Run("run", 0, Plane()), durable=False, segment_rows_max=10) as journal:
        journal.fanned_out(5, EVENT, hosts, hosts)
    assert [record.host for record in read_records(tmp_path, Delivered)] == sorted(hosts)
    assert journal.segment == 4


def test_p1_a_row_that_an_interrupt_cut_short_is_left_out(tmp_path: Path) -> None:
    with Journal(tmp_path, Run("run", 0, Plane()), durable=False) as journal:
        journal.transmitted(1, "a", "beacon", 10, None, None)
        journal.delivered(2, "a", EVENT, "s")
        journal._columns[Delivered].hosts.append("b")
    assert [entry.record.host for entry in read_entries(tmp_path)] == ["run", "a", "a"]


def test_p1_a_live_journal_is_written_by_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "FLUSH_S", 0.02)
    writers: list[str] = []
    write_files = LiveJournal._write_files

    def noticed(journal: LiveJournal, segment: Segment, *about: object) -> None:
        writers.append(threading.current_thread().name)
        write_files(journal, segment, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(LiveJournal, "_write_files", noticed)

    async def work() -> None:
        journal = LiveJournal(tmp_path, Run("b", 0, Plane()))
        journal.fanned_out(5, EVENT, ["a"], ["s"])
        while not list(read_records(tmp_path, Delivered)):
            await asyncio.sleep(0.01)
        journal.end(9)

    asyncio.run(work())
    assert writers == ["MainThread", "journal", "MainThread"]
    assert [note.what for note in read_records(tmp_path, Noted)] == ["run_ended"]


def test_p1_what_a_slow_disk_leaves_no_room_for_is_dropped_and_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = threading.Event()
    write_files = LiveJournal._write_files

    def slow(journal: LiveJournal, segment: Segment, *about: object) -> None:
        assert segment.number == 0 or disk.wait(30)
        write_files(journal, segment, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(LiveJournal, "_write_files", slow)

    async def work() -> None:
        journal = LiveJournal(tmp_path, Run("b", 0, Plane()), segment_rows_max=10)
        for at_us in range(200):
            journal.delivered(at_us, "a", EVENT, "s")
        assert 0 < journal.dropped < 200
        disk.set()
        while journal._waiting.qsize():
            await asyncio.sleep(0.01)
        journal.delivered(300, "a", EVENT, "s")
        journal.end(301)
        (note, _) = read_records(tmp_path, Noted)
        assert note == Noted("b", 300, "records_dropped", str(journal.dropped))
        kept = [entry.sequence for entry in read_entries(tmp_path, Delivered)]
        assert kept == list(range(201 - journal.dropped))

    asyncio.run(work())


def test_p1_a_disk_that_fails_stops_the_journal_and_not_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        journal = LiveJournal(tmp_path, Run("b", 0, Plane()), segment_rows_max=10)

        def broken(*_: object) -> None:
            raise OSError("no space left")

        monkeypatch.setattr(journal, "_write_files", broken)
        for at_us in range(100):
            journal.delivered(at_us, "a", EVENT, "s")
            await asyncio.sleep(0)
        journal.end(200)
        assert str(journal.problem) == "no space left"

    asyncio.run(work())
