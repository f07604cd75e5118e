"""Faults of a run: crashes, pauses, cut links, lost datagrams, all drawn from the run's seed.

On the air each hearer may lose a frame, get it twice, or get it late, after frames that were sent later. Hosts crash
(with or without their disk), freeze for a while, have clocks that are off, or refuse to forward for others. Links are
cut and heal. `quiet_after_s` ends all of these: from then on whatever was promised must arrive. So a crash, pause or
cut that reaches beyond it is refused, one that never ends among them.
"""

from random import Random
from typing import Protocol

from msgspec import Struct

from roamcast.sim.kernel import Kernel
from roamcast.sim.links import Links


class Crash(Struct, frozen=True, forbid_unknown_fields=True):
    host: str
    at_s: float
    restart_s: float | None = None
    """None: the host stays down."""
    keeps_disk: bool = True

    def __post_init__(self) -> None:
        check_span(self.at_s, self.restart_s, "restart_s")


class Pause(Struct, frozen=True, forbid_unknown_fields=True):
    """The host stands still inside, as in a long garbage collection: what arrives waits, timers run late."""

    host: str
    at_s: float
    until_s: float

    def __post_init__(self) -> None:
        check_span(self.at_s, self.until_s, "until_s")


class Cut(Struct, frozen=True, forbid_unknown_fields=True):
    a: str
    b: str
    at_s: float
    until_s: float | None = None

    def __post_init__(self) -> None:
        check_span(self.at_s, self.until_s, "until_s")


class FaultParams(Struct, frozen=True, forbid_unknown_fields=True):
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_by_ms: float = 100.0
    refuse_share: float = 0.0
    """The share of hosts, chosen by the seed, that forward nothing for others."""
    clock_offset_ms: float = 0.0
    """Each host's clock is off by a constant drawn from plus or minus this."""
    quiet_after_s: float | None = None
    crash: tuple[Crash, ...] = ()
    pause: tuple[Pause, ...] = ()
    cut: tuple[Cut, ...] = ()

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "reorder", "refuse_share"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is {share}; a share lies between 0 and 1")
        if self.reorder_by_ms < 0 or self.clock_offset_ms < 0:
            raise ValueError("reorder_by_ms and clock_offset_ms must not be negative")
        if self.quiet_after_s is not None:
            self._check_quiet(self.quiet_after_s)

    def _check_quiet(self, quiet_after_s: float) -> None:
        if not quiet_after_s >= 0:
            raise ValueError(f"quiet_after_s is {quiet_after_s}; give 0 or more")
        spans = [
            *((f"the crash of '{each.host}'", each.at_s, each.restart_s) for each in self.crash),
            *((f"the pause of '{each.host}'", each.at_s, each.until_s) for each in self.pause),
            *((f"the cut between '{each.a}' and '{each.b}'", each.at_s, each.until_s) for each in self.cut),
        ]
        beyond = [
            f"{name} at {at_s:g} s " + ("never ends" if until_s is None else f"lasts until {until_s:g} s")
            for name, at_s, until_s in spans
            if until_s is None or until_s > quiet_after_s
        ]
        if beyond:
            raise ValueError(f"quiet_after_s = {quiet_after_s:g} ends all faults, but {', '.join(beyond)}")


def check_span(at_s: float, until_s: float | None, name: str) -> None:
    if at_s < 0 or (until_s is not None and until_s <= at_s):
        raise ValueError(f"{name} must come after at_s, and at_s must not be negative")


class DatagramFaults:
    """Decides the fate of each frame at each hearer: the delays after which it arrives, none for a lost one."""

    def __init__(self, params: FaultParams) -> None:
        self.params = params
        self.quiet_from_us = None if params.quiet_after_s is None else round(params.quiet_after_s * 1e6)
        self.harmless = params.loss == params.duplicate == params.reorder == 0

    def delays_us(self, now_us: int, rng: Random) -> tuple[int, ...]:
        """`rng` is the hearer's own."""
        if self.harmless or (self.quiet_from_us is not None and now_us >= self.quiet_from_us):
            return (0,)
        params, chance = self.params, rng.random
        if chance() < params.loss:
            return ()
        late_us = 0
        if chance() < params.reorder:
            late_us = round(chance() * params.reorder_by_ms * 1_000)
        if chance() < params.duplicate:
            return (late_us, late_us + round(chance() * params.reorder_by_ms * 1_000))
        return (late_us,)


class Sufferer(Protocol):
    """What faults happen to: a world."""

    kernel: Kernel
    links: Links

    def check_known(self, *hosts: str) -> None: ...
    def crash(self, host: str, keeps_disk: bool) -> None: ...
    def restart(self, host: str) -> None: ...
    def pause(self, host: str, until_us: int) -> None: ...


def schedule(params: FaultParams, world: Sufferer) -> None:
    """Puts every crash, pause and cut of the scenario on the world's clock."""
    at = world.kernel.at
    for crash in params.crash:
        world.check_known(crash.host)
        at(round(crash.at_s * 1e6), world.crash, crash.host, crash.keeps_disk)
        if crash.restart_s is not None:
            at(round(crash.restart_s * 1e6), world.restart, crash.host)
    for pause in params.pause:
        world.check_known(pause.host)
        at(round(pause.at_s * 1e6), world.pause, pause.host, round(pause.until_s * 1e6))
    for cut in params.cut:
        if (cut.a, cut.b) not in world.links.between:
            raise ValueError(f"cannot cut a link between '{cut.a}' and '{cut.b}': there is none")
        at(round(cut.at_s * 1e6), world.links.cut, cut.a, cut.b)
        if cut.until_s is not None:
            at(round(cut.until_s * 1e6), world.links.heal, cut.a, cut.b)
