"""How much of a processor clients' modulators may take (O9; docs/PROTOCOL.md, P-49).

Fuel and the other limits bound one event. Many modulators that each keep within them still add up, and everybody
waits behind them, for a broker does one thing after the other. So the time that modulators take is measured, by a
clock that whoever runs the broker brings, and paid back at a rate: that of one client, and that of all together. Who
owes more than the burst is overspent: the dearest of its modulators are to be switched off, until the others took
less than half of that.

A burst of seconds is for many small pieces of work, between which others have their turn. Work that is dear, with
more than `DEAR_S` for one event, has a much smaller one, for all clients together: modulators that begin to take all
that they may are off before anybody has waited long.

What is measured never changes a broker's state: the server says what is to be switched off by an input (`Overspent`),
and a log that is read again has the same inputs.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from msgspec import Struct

from roamcast.broker.modulators.limits import Limits

Result = TypeVar("Result")
BURST_S = 5.0
"""For so many seconds a client may save up what it did not take."""
DEAR_S = 0.000_25
"""More than this for one event is dear; WebAssembly that does something small takes a fifth of it."""
DEAR_BURST_S = 0.2
"""The burst of dear work: so many seconds of what all clients may take."""
DEBTS_MAX = 1_024
"""Of how many clients is known what they owe, before those are forgotten that owe nothing any more."""


Key: TypeAlias = tuple[str, str]
"""Client and subscription."""


class Debt(Struct):
    """Of one client, or of all."""

    owed_s: float = 0.0
    at_us: int = 0
    taken_s: dict[Key, float] = {}
    """What each modulator took since nothing was owed, but for those that are switched off."""

    def pay(self, now_us: int, per_s: float) -> None:
        self.owed_s -= (now_us - self.at_us) / 1e6 * per_s
        self.at_us = now_us
        if self.owed_s <= 0:
            self.owed_s, self.taken_s = 0.0, {}

    def add(self, key: Key, took_s: float) -> None:
        self.owed_s += took_s
        self.taken_s[key] = self.taken_s.get(key, 0.0) + took_s

    def dearest(self) -> list[Key]:
        """Forgets those that took most, until the others took less than half, and answers with them."""
        bearable_s, found = sum(self.taken_s.values()) / 2, list[Key]()
        for key in sorted(self.taken_s, key=lambda each: -self.taken_s[each]):
            found.append(key)
            del self.taken_s[key]
            if sum(self.taken_s.values()) < bearable_s:
                break
        self.owed_s = min(self.owed_s, sum(self.taken_s.values()))
        return found


class CpuBudget:
    def __init__(self, limits: Limits, cpu_s: Callable[[], float]) -> None:
        self._cpu_s = cpu_s
        self._client_s, self._all_s = limits.cpu_ms_per_s / 1e3, limits.cpu_ms_per_s_of_all / 1e3
        self._debts: dict[str, Debt] = {}
        self._all = Debt()
        self._dear = Debt()
        """Of all, for dear work alone."""
        self.overspent: dict[Key, None] = {}
        """The modulators to be switched off."""

    def run(self, now_us: int, client: str, name: str, work: Callable[[], Result]) -> Result:
        if not (self._client_s or self._all_s):
            return work()
        began_s = self._cpu_s()
        try:
            return work()
        finally:
            self._charge(now_us, (client, name), self._cpu_s() - began_s)

    def _charge(self, now_us: int, key: Key, took_s: float) -> None:
        client, _ = key
        debt = self._debts.get(client)
        if debt is None:
            self._forget(now_us)
            debt = self._debts[client] = Debt(at_us=now_us)
        debt.pay(now_us, self._client_s or self._all_s)
        self._all.pay(now_us, self._all_s)
        debt.add(key, took_s)
        self._all.owed_s += took_s
        if self._client_s and debt.owed_s > self._client_s * BURST_S:
            self._switch_off(debt)
        elif self._all_s and self._all.owed_s > self._all_s * BURST_S:
            for each in self._debts.values():
                each.pay(now_us, self._client_s or self._all_s)
            self._switch_off(max(self._debts.values(), key=lambda each: each.owed_s))
        if self._all_s and took_s > DEAR_S:
            self._dear.pay(now_us, self._all_s)
            self._dear.add(key, took_s)
            if self._dear.owed_s > self._all_s * DEAR_BURST_S:
                self.overspent |= dict.fromkeys(self._dear.dearest())

    def _switch_off(self, debt: Debt) -> None:
        owed_s = debt.owed_s
        self.overspent |= dict.fromkeys(debt.dearest())
        self._all.owed_s = max(0.0, self._all.owed_s - (owed_s - debt.owed_s))

    def _forget(self, now_us: int) -> None:
        if len(self._debts) >= DEBTS_MAX:
            for debt in self._debts.values():
                debt.pay(now_us, self._client_s or self._all_s)
            self._debts = {client: debt for client, debt in self._debts.items() if debt.owed_s}

    def take_overspent(self) -> list[Key]:
        overspent, self.overspent = list(self.overspent), {}
        return overspent
