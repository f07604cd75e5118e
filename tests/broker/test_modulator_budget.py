"""O9, L13: how much of a processor modulators may take."""

import pytest
from msgspec import Struct

from roamcast.broker.modulators.budget import BURST_S, DEAR_BURST_S, DEAR_S, CpuBudget
from roamcast.broker.modulators.limits import Limits

LIMITS = Limits(cpu_ms_per_s=50, cpu_ms_per_s_of_all=200)
ALLOWED_S = 0.05 * BURST_S
PIECES = 1_000
DEAR_ALLOWED_S = 0.2 * DEAR_BURST_S


class Machine(Struct):
    """A processor, and a clock on the wall."""

    cpu_s: float = 0.0
    now_us: int = 0

    def budget(self, limits: Limits = LIMITS) -> CpuBudget:
        return CpuBudget(limits, lambda: self.cpu_s)

    def take(self, budget: CpuBudget, client: str, name: str, seconds: float) -> None:
        """In small pieces."""
        for _ in range(PIECES):
            budget.run(self.now_us, client, name, lambda: self.work(seconds / PIECES))

    def take_at_once(self, budget: CpuBudget, client: str, name: str, seconds: float) -> None:
        budget.run(self.now_us, client, name, lambda: self.work(seconds))

    def work(self, seconds: float) -> None:
        self.cpu_s += seconds


def test_a_client_within_its_rate_is_never_overspent() -> None:
    machine = Machine()
    budget = machine.budget()
    for _ in range(1_000):
        machine.now_us += 10_000
        machine.take(budget, "c", "t", 0.000_5)
    assert budget.take_overspent() == []


def test_the_dearest_modulator_of_who_takes_more_is_named_once() -> None:
    machine = Machine()
    budget = machine.budget()
    for _ in range(3):
        machine.take(budget, "c", "cheap", ALLOWED_S / 10)
        machine.take(budget, "c", "dear", ALLOWED_S / 3)
    assert budget.take_overspent() == [("c", "dear")]
    assert budget.take_overspent() == []


def test_of_many_that_take_as_much_about_half_are_named() -> None:
    machine = Machine()
    budget = machine.budget()
    for number in range(1_000):
        machine.take(budget, "c", f"t/{number % 16}", 0.01)
        if budget.overspent:
            break
    assert 6 <= len(budget.take_overspent()) <= 9


def test_what_was_taken_is_paid_back_with_time() -> None:
    machine = Machine()
    budget = machine.budget()
    for _ in range(20):
        machine.take(budget, "c", "t", 0.9 * ALLOWED_S)
        machine.now_us += round(BURST_S * 1e6)
    assert budget.take_overspent() == []


def test_all_clients_together_have_a_bound_too() -> None:
    machine = Machine()
    budget = machine.budget()
    for client in ("a", "b", "c", "d"):
        machine.take(budget, client, "t", 0.9 * ALLOWED_S)
    assert budget.take_overspent() == []
    machine.take(budget, "d", "t", 0.08 * ALLOWED_S)
    machine.take(budget, "e", "t", 0.5 * ALLOWED_S)
    assert budget.take_overspent() == [("d", "t")]


def test_who_took_much_long_ago_is_not_named_for_others() -> None:
    machine = Machine()
    budget = machine.budget()
    for number in range(50):
        machine.take(budget, f"idle {number}", "t", 0.9 * ALLOWED_S)
        machine.now_us += 10_000_000
    while not budget.overspent:
        for number in range(10):
            machine.take(budget, f"busy {number}", "t", 0.005)
        machine.now_us += 100_000
    assert all(client.startswith("busy") for client, _ in budget.take_overspent())


def test_dear_work_of_many_clients_is_overspent_long_before_their_bursts_are_o9() -> None:
    machine = Machine()
    budget = machine.budget()
    for number in range(1_000):
        machine.take_at_once(budget, f"c{number % 16}", "t", 2 * DEAR_S)
        if budget.overspent:
            break
    assert machine.cpu_s == pytest.approx(DEAR_ALLOWED_S, rel=0.05)
    assert 6 <= len(budget.take_overspent()) <= 9


def test_dear_work_now_and_then_is_not_overspent_o9() -> None:
    machine = Machine()
    budget = machine.budget()
    for _ in range(1_000):
        machine.take_at_once(budget, "c", "t", 2 * DEAR_S)
        machine.now_us += 20_000
    assert budget.take_overspent() == []


def test_a_rate_of_0_is_no_bound() -> None:
    machine = Machine()
    budget = machine.budget(Limits(cpu_ms_per_s=0, cpu_ms_per_s_of_all=0))
    machine.take(budget, "c", "t", 1_000.0)
    assert budget.take_overspent() == []


def test_work_that_fails_is_counted() -> None:
    machine = Machine()
    budget = machine.budget()

    def fail() -> None:
        machine.work(2 * ALLOWED_S)
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        budget.run(0, "c", "t", fail)
    assert budget.take_overspent() == [("c", "t")]
