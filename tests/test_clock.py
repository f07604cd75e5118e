"""L13: a clock that goes on evenly when somebody sets the system clock."""

from pathlib import Path

from msgspec import Struct

from roamcast.clock import SteadyClock
from roamcast.server.storage.kept_clock import keep_clock, kept_clock

NOON_US = 1_800_000_000_000_000
HOUR_US = 3_600_000_000


class Machine(Struct):
    """Its counter, and a system clock that anybody may set."""

    up_us: int = 5_000_000
    wall_us: int = NOON_US

    def wait(self, for_us: int) -> None:
        self.up_us += for_us
        self.wall_us += for_us

    def clock(self, anchor_us: int | None = None) -> SteadyClock:
        return SteadyClock(anchor_us, lambda: self.up_us * 1_000, lambda: self.wall_us * 1_000)


def test_it_shows_wall_time() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wait(HOUR_US)
    assert clock.now_us() == NOON_US + HOUR_US


def test_it_goes_on_when_the_system_clock_is_set() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_us -= HOUR_US
    machine.wait(7)
    assert clock.now_us() == NOON_US + 7
    assert clock.behind_us() == -HOUR_US


def test_a_step_is_told_once() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_us += HOUR_US
    assert clock.step_us() == HOUR_US
    assert clock.step_us() == 0


def test_drift_is_no_step() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_us += 20_000
    assert clock.step_us() == 0


def test_it_is_never_before_what_is_stored() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.not_before(NOON_US + HOUR_US)
    machine.wait(3)
    assert clock.now_us() == NOON_US + HOUR_US + 3
    clock.not_before(NOON_US)
    assert clock.now_us() == NOON_US + HOUR_US + 3


def test_a_restart_keeps_the_anchor_until_the_machine_starts_anew(tmp_path: Path) -> None:
    keep_clock(tmp_path, "this boot", SteadyClock(123))
    assert kept_clock(tmp_path, "this boot").anchor_us == 123
    assert kept_clock(tmp_path, "the next boot").anchor_us != 123


def test_without_a_boot_id_or_with_a_damaged_file_it_begins_anew(tmp_path: Path) -> None:
    keep_clock(tmp_path, "", SteadyClock(123))
    assert kept_clock(tmp_path, "").anchor_us != 123
    (tmp_path / "clock").write_bytes(b"{")
    assert kept_clock(tmp_path, "this boot").anchor_us != 123
