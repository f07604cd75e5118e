"""L8: what the write-ahead log promises about the order of storing and performing."""

from collections.abc import Callable

from roamcast.broker.mqtt.effects import AnyEffect, Remark
from roamcast.broker.mqtt.inputs import Finished, Fired, Reported, ReportedTogether, decode_batch
from roamcast.model.context import Context
from roamcast.server.snapshot import BlockingSnapshotter, Snapshot, SnapshotFailed, Snapshotter, Then
from roamcast.server.storage.store import Needed, Segment
from roamcast.server.write_ahead import CONCURRENT_S, Due, WriteAhead


class Shelf:
    """A store that is told when to be done."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.snapshots: list[bytes] = []
        self.behind: list[int] = []
        self.waiting: list[Callable[[Exception | None], None]] = []

    def submit(
        self, batch: bytes, done: Callable[[Exception | None], None], segments: tuple[Segment, ...] = ()
    ) -> None:
        self.batches.append(batch)
        self.waiting.append(done)

    def snapshot(
        self,
        state: bytes,
        behind: int,
        done: Callable[[Exception | None], None],
        segments: tuple[Segment, ...] = (),
        needed: Needed | None = None,
    ) -> None:
        self.snapshots.append(state)
        self.behind.append(behind)
        self.waiting.append(done)

    def fetch(self, number: int, then: Callable[[bytes | None], None]) -> None:
        raise AssertionError(f"nobody has set segment {number} aside")

    def answer(self, problem: Exception | None = None) -> None:
        self.waiting.pop(0)(problem)


class SlowSnapshotter(Snapshotter):
    """One whose snapshots are ready when the test says so."""

    def __init__(self, state: Callable[[], bytes]) -> None:
        self.state = state
        self.unfinished: list[tuple[Snapshot, Then]] = []

    def take(self, then: Then) -> None:
        self.unfinished.append((Snapshot(self.state(), 2.0), then))

    def develop(self, problem: SnapshotFailed | None = None) -> None:
        snapshot, then = self.unfinished.pop(0)
        then(problem or snapshot)


class Desk:
    def __init__(self, slow: bool = False, due: Due | None = None, group_s: float = 0.0) -> None:
        self.now_s = 100.0
        self.shelf = Shelf()
        self.done: list[str] = []
        self.later: list[Callable[[], None]] = []
        self.begun: list[str] = []
        """Names of inputs that are added with the next batch."""
        self.added: list[str] = []
        self.problems: list[Exception | None] = []
        self.snapshotter = SlowSnapshotter(self.state)
        self.write_ahead = WriteAhead(
            self.shelf,
            self.perform,
            lambda _, action: self.later.append(action),
            self.snapshotter if slow else BlockingSnapshotter(self.state),
            self.problems.append,
            due,
            group_s,
            lambda: self.now_s,
            self.gather,
        )

    def gather(self) -> None:
        begun, self.begun = self.begun, []
        for name in begun:
            self.add(name)

    def state(self) -> bytes:
        return "".join(self.added).encode()

    def write(self, *names: str, work_s: float = 0.0) -> None:
        """Each in a batch of its own, stored."""
        for name in names:
            self.add(name, work_s)
            self.write_ahead.commit()
            self.shelf.answer()

    def perform(self, effects: list[AnyEffect]) -> None:
        self.done += [each.what for each in effects if isinstance(each, Remark)]

    def add(self, name: str, work_s: float = 0.0) -> None:
        self.added.append(name)
        self.write_ahead.add(1, Fired(name), [Remark(name)], work_s)

    def stored(self) -> list[list[str]]:
        return [[getattr(each.given, "timer", "") for each in decode_batch(batch)] for batch in self.shelf.batches]


def test_l8_effects_are_performed_when_their_inputs_are_stored_and_not_before() -> None:
    desk = Desk()
    desk.add("a")
    desk.write_ahead.commit()
    assert desk.done == []
    desk.shelf.answer()
    assert desk.done == ["a"]
    assert desk.write_ahead.settled


def test_l8_inputs_that_are_gathered_when_only_effects_wait_are_stored() -> None:
    desk = Desk()
    desk.add("a")
    desk.write_ahead.commit()
    desk.write_ahead.add_behind([Remark("behind a")], 10)
    desk.begun = ["b"]
    desk.shelf.answer()
    assert desk.done == ["a", "behind a"]
    desk.gather()
    desk.write_ahead.commit()
    desk.shelf.answer()
    assert desk.stored() == [["a"], ["b"]]
    assert desk.done == ["a", "behind a", "b"]


def test_l8_what_comes_while_the_disk_is_busy_shares_the_next_batch() -> None:
    desk = Desk()
    for name in "abc":
        desk.add(name)
        desk.write_ahead.commit()
    desk.shelf.answer()
    assert desk.stored() == [["a"], ["b", "c"]]


def test_commits_of_concurrent_inputs_are_a_group_apart() -> None:
    desk = Desk(group_s=0.005)
    for name in "abc":
        desk.add(name)
        desk.write_ahead.commit()
    desk.now_s += 0.001
    desk.shelf.answer()
    assert desk.stored() == [["a"]]
    desk.add("d")
    desk.write_ahead.commit()
    desk.now_s += 0.004
    (close_group,) = desk.later
    close_group()
    desk.shelf.answer()
    assert desk.stored() == [["a"], ["b", "c", "d"]]
    assert desk.done == ["a", "b", "c", "d"]


def test_inputs_that_wait_for_each_other_are_committed_at_once() -> None:
    desk = Desk(group_s=0.005)
    desk.write("a", "b", "c")
    assert desk.stored() == [["a"], ["b"], ["c"]]
    assert desk.later == []


def test_a_lone_input_after_a_pause_is_committed_at_once() -> None:
    desk = Desk(group_s=0.005)
    desk.add("a")
    desk.add("b")
    desk.write_ahead.commit()
    desk.shelf.answer()
    desk.now_s += 0.006
    desk.write("c")
    assert desk.stored() == [["a", "b"], ["c"]]


def test_inputs_are_grouped_no_more_when_they_have_come_one_by_one_for_a_while() -> None:
    desk = Desk(group_s=0.005)
    desk.add("a")
    desk.add("b")
    desk.write_ahead.commit()
    desk.shelf.answer()
    desk.now_s += CONCURRENT_S
    desk.write("c", "d")
    assert desk.stored() == [["a", "b"], ["c"], ["d"]]


def test_l8_acknowledgements_wait_for_an_input_with_effects_and_are_stored_before_it() -> None:
    desk = Desk()
    desk.write_ahead.add(1, Finished((("c", (1,)), ("d", (1, 2)))), [])
    desk.write_ahead.commit()
    assert desk.stored() == []
    desk.write("a")
    assert desk.stored() == [["", "a"]]


def test_l8_pressing_has_everything_stored_that_waits() -> None:
    desk = Desk()
    desk.write_ahead.add(1, Finished((("c", (1,)),)), [])
    desk.write_ahead.press()
    desk.shelf.answer()
    assert desk.stored() == [[""]]
    assert desk.write_ahead.settled


def test_l8_reports_wait_for_something_that_must_be_stored_and_are_stored_before_it() -> None:
    desk = Desk()
    desk.write_ahead.add(1, Reported(Context("c")), [])
    desk.write_ahead.commit()
    assert desk.stored() == []
    desk.add("a")
    desk.write_ahead.commit()
    assert desk.stored() == [["", "a"]]


def test_l8_reports_are_stored_by_themselves_after_a_while() -> None:
    desk = Desk()
    for _ in range(3):
        desk.write_ahead.add(1, Reported(Context("c")), [])
        desk.write_ahead.commit()
    assert not desk.write_ahead.settled
    (press,) = desk.later
    press()
    desk.shelf.answer()
    assert desk.stored() == [["", "", ""]]
    assert desk.write_ahead.settled


def test_l8_of_reports_that_are_in_the_state_the_last_of_each_client_is_stored_before_what_comes_next() -> None:
    desk = Desk()
    for number, client in enumerate("cdc", start=1):
        desk.write_ahead.reported(number, Context(client, at_us=number), False)
        desk.write_ahead.commit()
    assert desk.later == []
    desk.add("a")
    desk.write_ahead.commit()
    (batch,) = desk.shelf.batches
    together, after = decode_batch(batch)
    assert isinstance(together.given, ReportedTogether)
    assert {each.host: each.at_us for each in together.given.contexts} == {"c": 3, "d": 2}
    assert after.given == Fired("a")


def test_l8_such_a_report_of_a_session_that_lasts_is_stored_after_a_while_and_once() -> None:
    desk = Desk()
    for number in range(3):
        desk.write_ahead.reported(7 + number, Context("c", at_us=number), True)
    (press,) = desk.later
    press()
    desk.shelf.answer()
    (entry,) = decode_batch(desk.shelf.batches[0])
    assert entry.now_us == 9
    assert desk.write_ahead.settled
    desk.write_ahead.reported(10, Context("c", at_us=10), True)
    assert len(desk.later) == 2


def test_l8_many_reports_do_not_wait() -> None:
    desk = Desk()
    for number in range(1_000):
        desk.write_ahead.add(number, Reported(Context("c")), [])
    desk.write_ahead.commit()
    assert len(desk.stored()) == 1


def test_l8_a_report_that_brings_something_about_does_not_wait() -> None:
    desk = Desk()
    desk.write_ahead.add(1, Reported(Context("c")), [Remark("delivered")])
    desk.write_ahead.commit()
    desk.shelf.answer()
    assert desk.done == ["delivered"]


def test_l8_a_batch_that_cannot_be_stored_goes_to_disk_with_the_whole_state_and_nothing_overtakes_it() -> None:
    desk = Desk()
    desk.add("a")
    desk.write_ahead.commit()
    desk.shelf.answer(OSError("full"))
    assert str(desk.write_ahead.full) == "full"
    desk.add("b")
    desk.write_ahead.commit()
    assert (desk.stored(), desk.shelf.snapshots, desk.done) == ([["a"]], [b"a"], [])
    desk.shelf.answer()
    assert desk.done == ["a"]
    desk.shelf.answer()
    assert desk.write_ahead.full is None
    desk.shelf.answer()
    assert desk.stored() == [["a"], [], ["b"]]
    assert desk.done == ["a", "b"]


def test_l8_as_long_as_there_is_no_room_for_a_batch_everything_goes_to_disk_with_the_state() -> None:
    desk = Desk()
    desk.add("a")
    desk.write_ahead.commit()
    for problem in (OSError("full"), None, OSError("still")):
        desk.shelf.answer(problem)
    assert (desk.done, str(desk.write_ahead.full)) == (["a"], "still")
    desk.add("b")
    desk.write_ahead.commit()
    assert desk.shelf.waiting == []
    desk.later.pop()()
    for problem in (OSError("still"), None, None):
        desk.shelf.answer(problem)
    assert desk.shelf.snapshots == [b"a", b"ab"]
    assert (desk.done, desk.write_ahead.full, desk.write_ahead.settled) == (["a", "b"], None, True)


def test_l8_where_nothing_can_be_stored_nothing_is_performed_and_it_is_tried_again() -> None:
    desk = Desk()
    desk.add("a")
    desk.write_ahead.commit()
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
    desk.write_ahead.commit()
    desk.add("b")
    desk.write_ahead.snapshot()
    assert desk.shelf.snapshots == []
    desk.shelf.answer()
    assert (desk.stored(), desk.shelf.snapshots, desk.done) == ([["a"]], [b"ab"], ["a"])
    desk.shelf.answer()
    assert desk.done == ["a", "b"]
    assert desk.write_ahead.settled


def test_l8_a_log_that_has_grown_gives_way_to_a_snapshot_while_batches_go_on() -> None:
    desk = Desk(slow=True, due=Due(logged_bytes=1))
    desk.write("a", "b", "c", "d")
    assert (desk.done, desk.shelf.snapshots) == (["a", "b", "c", "d"], [])
    desk.snapshotter.develop()
    assert (desk.shelf.snapshots, desk.shelf.behind) == ([b"ab"], [2])
    desk.add("e")
    desk.write_ahead.commit()
    assert desk.done == ["a", "b", "c", "d"]
    desk.shelf.answer()
    desk.shelf.answer()
    assert (desk.done[-1], desk.problems) == ("e", [None])


def test_l8_a_snapshot_waits_for_the_batch_that_it_covers() -> None:
    desk = Desk(slow=True, due=Due(logged_bytes=1))
    desk.write("a")
    desk.add("b")
    desk.write_ahead.commit()
    desk.snapshotter.develop()
    assert desk.shelf.snapshots == []
    desk.shelf.answer()
    assert (desk.shelf.snapshots, desk.shelf.behind) == ([b"ab"], [0])


def test_l8_a_snapshot_that_covers_a_batch_which_could_not_be_stored_is_not_used() -> None:
    desk = Desk(slow=True, due=Due(logged_bytes=1))
    desk.write("a")
    desk.add("b")
    desk.write_ahead.commit()
    desk.shelf.answer(OSError("full"))
    desk.snapshotter.develop()
    assert desk.shelf.snapshots == []
    desk.snapshotter.develop()
    assert (desk.shelf.snapshots, desk.shelf.behind) == ([b"ab"], [0])
    desk.shelf.answer()
    desk.shelf.answer()
    assert (desk.done, desk.write_ahead.full, desk.write_ahead.settled) == (["a", "b"], None, True)


def test_l8_after_work_that_would_take_long_to_repeat_a_snapshot_is_due() -> None:
    desk = Desk(slow=True, due=Due(replay_s=1.0))
    desk.write("a", "b", "c", work_s=0.4)
    assert desk.snapshotter.unfinished == []
    desk.write("d", work_s=0.4)
    assert len(desk.snapshotter.unfinished) == 1


def test_l8_snapshots_that_take_long_are_no_more_often_due_than_they_take() -> None:
    desk = Desk(slow=True, due=Due(replay_s=1.0))
    desk.write("a", "b", work_s=1.0)
    desk.snapshotter.develop()
    desk.shelf.answer()
    desk.write("c", "d", work_s=1.0)
    assert desk.snapshotter.unfinished == []
    desk.write("e", work_s=1.0)
    assert len(desk.snapshotter.unfinished) == 1


def test_l8_a_snapshot_that_fails_is_tried_again_when_as_much_was_logged_again() -> None:
    desk = Desk(slow=True, due=Due(replay_s=1.0))
    desk.write("a", "b", work_s=1.0)
    desk.snapshotter.develop(SnapshotFailed("killed"))
    desk.write("c", work_s=0.5)
    assert (desk.snapshotter.unfinished, [str(each) for each in desk.problems]) == ([], ["killed"])
    desk.write("d", "e", work_s=1.0)
    assert len(desk.snapshotter.unfinished) == 1
    assert desk.done == ["a", "b", "c", "d", "e"]


def test_l8_a_snapshot_that_finds_no_room_leaves_the_log_and_its_batches_go_on() -> None:
    desk = Desk(due=Due(logged_bytes=1))
    desk.write("a", "b")
    desk.shelf.answer(OSError("no room for as much"))
    desk.write("c")
    assert (desk.done, desk.write_ahead.full, len(desk.problems)) == (["a", "b", "c"], None, 1)
