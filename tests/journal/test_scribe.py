"""The observer that writes things down: what a reader of the journal can tell apart."""

from pathlib import Path

from roamcast.journal import ContextChange, Journal, Move, Run, read_records
from roamcast.journal.scribe import Scribe
from roamcast.model.context import Context
from roamcast.model.space import Plane
from roamcast.model.values import Point


def test_p1_a_host_that_is_down_is_told_from_one_whose_position_is_unknown(tmp_path: Path) -> None:
    with Journal(tmp_path, Run("run", 0, Plane()), durable=False) as journal:
        scribe = Scribe(journal)
        scribe.moved(1, Context("a", Point(1.0, 2.0), 1))
        scribe.moved(2, Context("a", at_us=2))
        scribe.gone(3, "a")
        scribe.moved(4, Context("a", Point(5.0, 2.0), 4))
    found = [(move.at_us, move.up, move.position) for move in read_records(tmp_path, Move)]
    assert found == [(1, True, Point(1.0, 2.0)), (2, True, None), (3, False, None), (4, True, Point(5.0, 2.0))]


def test_p1_attributes_are_written_once_for_a_host_that_goes_down_and_comes_back_with_them(tmp_path: Path) -> None:
    with Journal(tmp_path, Run("run", 0, Plane()), durable=False) as journal:
        scribe = Scribe(journal)
        scribe.moved(1, Context("a", Point(1.0, 2.0), 1, attributes={"seats": 4}))
        scribe.gone(2, "a")
        scribe.moved(3, Context("a", Point(1.0, 2.0), 3, attributes={"seats": 4}))
    assert list(read_records(tmp_path, ContextChange)) == [ContextChange("a", 1, {"seats": 4})]
