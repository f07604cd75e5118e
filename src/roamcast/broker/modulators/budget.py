"""How much of a processor clients' modulators may take (O9; docs/PROTOCOL.md, P-49).

Fuel and the other limits bound one event. Many modulators that each keep within them still add up, and everybody
waits behind them, for a broker does one thing after the other. So the time that modulators take is measured, by a
clock that whoever runs the broker brings, and paid back at a rate: that of one client, and that of all together. Who
owes more than the burst is overspent: the dearest of its modulators are to be switched off, until the others took
less than half of that.

What is measured never changes a broker's state: the server says what is to be switched off by an input (`Overspent`),
and a log that is read again has the same inputs.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from roamcast.broker.modulators.limits import Limits

Result = TypeVar("Result")
BURST_S = 5.0
"""For so many seconds a client may save up what it did not take."""
DEBTS_MAX = 1_024
"""Of how many clients is known what they owe, before those are forgotten that owe nothing any more."""


class Debt(Struct):
    """Of one client, or of all."""

    owed_s: float = 0.0
    at_us: int = 0
    by_name: dict[str, float] = {}
    """What each modulator took since nothing was owed."""

    def pay(self, now_us: int, per_s: float) -> None:
        self.owed_s -= (now_us - self.at_us) / 1e6 * per_s
        self.at_us = now_us
        if self.owed_s <= 0:
            self.owed_s, self.by_name = 0.0, {}


class CpuBudget:
    def __init__(self, limits: Limits, cpu_s: Callable[[], float]) -> None:
        self._cpu_s = cpu_s
        self._client_s, self._all_s = limits.cpu_ms_per_s / 1e3, limits.cpu_ms_per_s_of_all / 1e3
        self._debts: dict[str, Debt] = {}
        self._all = Debt()
        self.overspent: dict[tuple[str, str], None] = {}
        """By client and subscription, the modulators to be switched off."""

    def run(self, now_us: int, client: str, name: str, work: Callable[[], Result]) -> Result:
        if not (self._client_s or self._all_s):
            return work()
        began_s = self._cpu_s()
        try:
            return work()
        finally:
            self._charge(now_us, client, name, self._cpu_s() - began_s)

    def _charge(self, now_us: int, client: str, name: str, took_s: float) -> None:
        debt = self._debts.get(client)
        if debt is None:
            self._forget(now_us)
            debt = self._debts[client] = Debt(at_us=now_us)
        debt.pay(now_us, self._client_s or self._all_s)
        self._all.pay(now_us, self._all_s)
        debt.owed_s += took_s
        self._all.owed_s += took_s
        debt.by_name[name] = debt.by_name.get(name, 0.0) + took_s
        if self._client_s and debt.owed_s > self._client_s * BURST_S:
            self._switch_off(client, debt)
        elif self._all_s and self._all.owed_s > self._all_s * BURST_S:
            for each in self._debts.values():
                each.pay(now_us, self._client_s or self._all_s)
            dearest = max(self._debts, key=lambda each: self._debts[each].owed_s)
            self._switch_off(dearest, self._debts[dearest])

    def _switch_off(self, client: str, debt: Debt) -> None:
        bearable_s = sum(debt.by_name.values()) / 2
        for name in sorted(debt.by_name, key=lambda each: -debt.by_name[each]):
            self.overspent[client, name] = None
            del debt.by_name[name]
            if sum(debt.by_name.values()) < bearable_s:
                break
        left_s = min(debt.owed_s, sum(debt.by_name.values()))
        self._all.owed_s = max(0.0, self._all.owed_s - (debt.owed_s - left_s))
        debt.owed_s = left_s

    def _forget(self, now_us: int) -> None:
        if len(self._debts) >= DEBTS_MAX:
            for debt in self._debts.values():
                debt.pay(now_us, self._client_s or self._all_s)
            self._debts = {client: debt for client, debt in self._debts.items() if debt.owed_s}

    def take_overspent(self) -> list[tuple[str, str]]:
        overspent, self.overspent = list(self.overspent), {}
        return overspent
