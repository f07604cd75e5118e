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
        self.logbook = Logbook(self.shelf, self.perform, lambda _, action: self.later.append(action), self.state)
        self.added: list[str] = []

    def state(self) -> bytes:
        return "".join(self.added).encode()

    def perform(self, orders: list[AnyOrder]) -> None:
        self.done += [each.what for each in orders if isinstance(each, Remark)]

    def add(self, name: str) -> None:
        self.added.append(name)
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


def test_l8_a_batch_that_cannot_be_stored_goes_to_disk_with_the_whole_state_and_nothing_overtakes_it() -> None:
    desk = Desk()
    desk.add("a")
    desk.logbook.commit()
    desk.shelf.answer(OSError("full"))
    assert str(desk.logbook.full) == "full"
    desk.add("b")
    desk.logbook.commit()
    assert (desk.stored(), desk.shelf.snapshots, desk.done) == ([["a"]], [b"a"], [])
    desk.shelf.answer()
    assert desk.done == ["a"]
    desk.shelf.answer()
    assert desk.logbook.full is None
    desk.shelf.answer()
    assert desk.stored() == [["a"], [], ["b"]]
    assert desk.done == ["a", "b"]


def test_l8_as_long_as_there_is_no_room_for_a_batch_everything_goes_to_disk_with_the_state() -> None:
    desk = Desk()
    desk.add("a")
    desk.logbook.commit()
    for problem in (OSError("full"), None, OSError("still")):
        desk.shelf.answer(problem)
    assert (desk.done, str(desk.logbook.full)) == (["a"], "still")
    desk.add("b")
    desk.logbook.commit()
    assert desk.shelf.waiting == []
    desk.later.pop()()
    for problem in (OSError("still"), None, None):
        desk.shelf.answer(problem)
    assert desk.shelf.snapshots == [b"a", b"ab"]
    assert (desk.done, desk.logbook.full, desk.logbook.settled) == (["a", "b"], None, True)


def test_l8_where_nothing_can_be_stored_nothing_is_performed_and_it_is_tried_again() -> None:
    desk = Desk()
    desk.add("a")
    desk.logbook.commit()
    for _ in range(3):
        while desk.shelf.waiting:
            desk.shelf.answer(OSError("broken"))
        assert (desk.done, len(desk.later)) == ([], 1)
        desk.later.pop()()
    desk.shelf.answer()
    desk.shelf.answer()
    assert desk.stored()[-1] == ["a"]
    assert desk.done == ["a"]


def test_l8_a_snapshot_has_all_inputs_even_those_not_submitted_yet() -> None:
    desk = Desk()
    desk.add("a")
    desk.logbook.commit()
    desk.add("b")
    desk.logbook.snapshot()
    assert desk.shelf.snapshots == []
    desk.shelf.answer()
    assert (desk.stored(), desk.shelf.snapshots, desk.done) == ([["a"]], [b"ab"], ["a"])
    desk.shelf.answer()
    assert desk.done == ["a", "b"]
    assert desk.logbook.settled


def test_l8_a_log_that_has_grown_gives_way_to_a_snapshot() -> None:
    shelf, done = Shelf(), list[AnyOrder]()
    logbook = Logbook(shelf, done.extend, lambda _, action: None, lambda: b"state", snapshot_every_bytes=1)
    for name in "ab":
        logbook.add(1, Fired(name), [Remark(name)])
        logbook.commit()
    shelf.answer()
    assert (len(shelf.batches), shelf.snapshots) == (1, [b"state"])
    shelf.answer()
    assert len(done) == 2
