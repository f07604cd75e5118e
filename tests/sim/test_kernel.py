"""Virtual time is a heap: in order, repeatable, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.sim.kernel import Kernel


@given(st.lists(st.integers(0, 1_000), max_size=60))
def test_actions_run_in_the_order_of_their_time_and_then_of_their_scheduling(times: list[int]) -> None:
    kernel = Kernel()
    ran: list[tuple[int, int]] = []
    for number, time_us in enumerate(times):
        kernel.at(time_us, lambda number=number: ran.append((kernel.now_us, number)))
    kernel.run_until(1_000)
    assert ran == sorted((time_us, number) for number, time_us in enumerate(times))


def test_a_cancelled_action_never_runs() -> None:
    kernel = Kernel()
    ran: list[str] = []
    kernel.at(5, ran.append, "kept")
    kernel.at(5, ran.append, "cancelled").cancel()
    kernel.run_until(10)
    assert ran == ["kept"]


def test_the_clock_stops_at_the_end_and_what_is_due_later_waits() -> None:
    kernel = Kernel()
    ran: list[int] = []
    kernel.at(11, ran.append, 11)
    kernel.run_until(10)
    assert (kernel.now_us, ran) == (10, [])
    kernel.run_until(11)
    assert ran == [11]


def test_what_is_due_in_the_past_happens_now() -> None:
    kernel = Kernel()
    kernel.run_until(100)
    seen: list[int] = []
    kernel.at(3, lambda: seen.append(kernel.now_us))
    kernel.run_until(100)
    assert seen == [100]


def test_an_action_may_schedule_another_one_for_the_same_instant() -> None:
    kernel = Kernel()
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        kernel.at(1, seen.append, "then")

    kernel.at(1, first)
    kernel.at(1, seen.append, "second")
    kernel.run_until(1)
    assert seen == ["first", "second", "then"]
