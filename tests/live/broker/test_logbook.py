"""L8: what a logbook promises about the order of storing and performing."""

from collections.abc import Callable

from roamcast.live.broker.inputs import Fired, decode_batch
from roamcast.live.broker.orders import AnyOrder, Remark
from roamcast.live.server.logbook import Logbook


class Shelf:
    """A store that is told when to be done."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.snapshots: list[bytes] = []
        self.waiting: list[Callable[[Exception | None], None]] = []

    def submit(self, batch: bytes, done: Callable[[Exception | None], None]) -> None:
        self.batches.append(batch)
        self.waiting.append(done)

    def snapshot(self, state: bytes, done: Callable[[Exception | None], None]) -> None:
        self.snapshots.append(state)
        self.waiting.append(done)

    def answer(self, problem: Exception | None = None) -> None:
        self.waiting.pop(0)(problem)


class Desk:
    def __init__(self) -> None:
        self.shelf = Shelf()
        self.done: list[str] = []
        self.later: list[Callable[[], None]] = []
        self.logbook = Logbook(self.shelf, self.perform, lambda _, action: self.later.append(action))

    def perform(self, orders: list[AnyOrder]) -> None:
        self.done += [each.what for each in orders if isinstance(each, Remark)]

    def add(self, name: str) -> None:
        self.logbook.add(1, Fired(name), [Remark(name)])

    def stored(self) -> list[list[str]]:
        return [[getattr(each.given, "timer", "") for each in decode_batch(batch)] for batch in self.shelf.batches]


def test_l8_orders_are_performed_when_their_inputs_are_stored_and_not_before() -> None:
    desk = Desk()
    desk.add("a")
    desk.logbook.commit()
    assert desk.done == []
    desk.shelf.answer()
    assert desk.done == ["a"]
    assert desk.logbook.settled


def test_l8_what_comes_while_the_disk_is_busy_shares_the_next_batch() -> None:
    desk = Desk()
    for name in "abc":
        desk.add(name)
        desk.logbook.commit()
    desk.shelf.answer()
    assert desk.stored() == [["a"], ["b", "c"]]


def test_l8_a_batch_that_cannot_be_stored_is_tried_again_and_nothing_overtakes_it() -> None:
    desk = Desk()
    desk.add("a")
    desk.logbook.commit()
    desk.shelf.answer(OSError("full"))
    assert str(desk.logbook.full) == "full"
    desk.add("b")
    desk.logbook.commit()
    assert desk.stored() == [["a"]]
    assert desk.done == []
    desk.later.pop()()
    desk.shelf.answer()
    assert desk.logbook.full is None
    desk.shelf.answer()
    assert desk.stored() == [["a"], ["a"], ["b"]]
    assert desk.done == ["a", "b"]


def test_l8_a_snapshot_stands_behind_all_inputs_that_it_holds_even_those_not_submitted_yet() -> None:
    desk = Desk()
    desk.add("a")
    desk.logbook.commit()
    desk.add("b")
    desk.logbook.snapshot(lambda: b"all of it", lambda problem: None)
    assert desk.stored() == [["a"], ["b"]]
    assert desk.shelf.snapshots == [b"all of it"]
    for _ in range(3):
        desk.shelf.answer()
    assert desk.done == ["a", "b"]
    assert desk.logbook.settled
