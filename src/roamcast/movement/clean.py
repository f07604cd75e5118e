"""Cleans fixes: drops those that are old, vague or impossible. A state machine without a clock (L4).

A `Cleaner` is given every fix of one source, in the order in which they come, and answers with the fix to use, or
with None. Nothing that a source says can make it fail; what it does is counted by `Reason`.

    no position --fix--> at a position --suspicious fix--> at a position, another one held back

- A position that is not in the space, or vaguer than the limit, is dropped, and so is one of a time that was had.
- A fix is suspicious if it lies further away than anything moves, or before the last one in time. It is held back. If
  the next fix goes with it, both are right (the receiver had lost its way, the clock was set) and the next one is
  used. If the next fix goes with the last good one, what was held back is dropped. If it goes with neither, it is
  held back itself.
- Speed and heading that are missing or make no sense are derived from the last fix and this one, unless these lie too
  far apart in time.
- A position that is older than the limit is no position: `current` says so.

Every fix is counted once as taken, out_of_range, vague, repeated, jump or clock_back; every one that was held back
(jump, clock_back) once more as confirmed or unconfirmed when the next one has told.
"""

import math
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from roamcast.model.space import Space
from roamcast.model.values import BadValue
from roamcast.movement.fix import Fix, heading_of

HEADING_SPEED_MIN_MPS = 0.3
"""Slower than this the way from one fix to the next is noise, and has no direction."""
TIME_MAX_US = 2**53


class Reason(StrEnum):
    TAKEN = "taken"
    OUT_OF_RANGE = "out_of_range"
    VAGUE = "vague"
    REPEATED = "repeated"
    JUMP = "jump"
    CLOCK_BACK = "clock_back"
    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    GAP = "gap"
    BAD_SPEED = "bad_speed"
    BAD_HEADING = "bad_heading"
    SPEED_DERIVED = "speed_derived"
    HEADING_DERIVED = "heading_derived"


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    gap_us: int = 10_000_000
    """A position that is older is no position."""
    speed_mps_max: float = 100.0
    """Nothing that is followed moves faster: whatever seems to has jumped."""
    jump_slack_m: float = 50.0
    """How far two fixes may lie apart beyond that, since each is wrong by some metres."""
    accuracy_m_max: float = 200.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; give a finite number above 0")

    @classmethod
    def pedestrian(cls) -> "Limits":
        return cls(speed_mps_max=15.0)

    @classmethod
    def aircraft(cls) -> "Limits":
        return cls(speed_mps_max=1_000.0, jump_slack_m=500.0)


class Cleaner:
    def __init__(self, space: Space, limits: Limits | None = None) -> None:
        self.space = space
        self.limits = limits or Limits()
        self.counts: dict[Reason, int] = dict.fromkeys(Reason, 0)
        self.verdict = Reason.TAKEN
        """What became of the last fix that was given."""
        self._last: Fix | None = None
        self._held: Fix | None = None

    def add(self, fix: Fix) -> Fix | None:
        """The fix to use from now on, if this one gives any."""
        refusal = self._refusal(fix)
        if refusal is not None:
            self._decide(refusal)
            return None
        return self._judged(self._sane(fix))

    def current(self, now_us: int) -> Fix | None:
        """The last good fix, as long as it is not too old (or as far ahead of the clock)."""
        last = self._last
        return last if last is not None and abs(now_us - last.at_us) <= self.limits.gap_us else None

    def _decide(self, verdict: Reason) -> None:
        self.verdict = verdict
        self.counts[verdict] += 1

    def _refusal(self, fix: Fix) -> Reason | None:
        try:
            self.space.check(fix.point)
        except BadValue:
            return Reason.OUT_OF_RANGE
        if abs(fix.at_us) > TIME_MAX_US:
            return Reason.OUT_OF_RANGE
        if fix.accuracy_m is not None and not 0 <= fix.accuracy_m <= self.limits.accuracy_m_max:
            return Reason.VAGUE
        if self._last is not None and fix.at_us == self._last.at_us:
            return Reason.REPEATED
        return None

    def _sane(self, fix: Fix) -> Fix:
        """Without a speed or a heading that makes no sense."""
        speed_mps, heading_deg = fix.speed_mps, fix.heading_deg
        if speed_mps is not None and not 0 <= speed_mps <= self.limits.speed_mps_max:
            self.counts[Reason.BAD_SPEED] += 1
            speed_mps = None
        if heading_deg is not None and not -360 <= heading_deg <= 360:
            self.counts[Reason.BAD_HEADING] += 1
            heading_deg = None
        # A negative number so small that it vanishes leaves 360 behind.
        turned = None if heading_deg is None else heading_deg % 360.0 % 360.0
        return replace(fix, speed_mps=speed_mps, heading_deg=turned)

    def _judged(self, fix: Fix) -> Fix | None:
        last, held = self._last, self._held
        if last is None or self._goes_with(last, fix):
            if held is not None:
                self.counts[Reason.UNCONFIRMED] += 1
            return self._taken(fix, last)
        if held is not None and self._goes_with(held, fix):
            self.counts[Reason.CONFIRMED] += 1
            return self._taken(fix, held)
        if held is not None:
            self.counts[Reason.UNCONFIRMED] += 1
        self._decide(Reason.CLOCK_BACK if fix.at_us < last.at_us else Reason.JUMP)
        self._held = fix
        return None

    def _goes_with(self, before: Fix, fix: Fix) -> bool:
        seconds = (fix.at_us - before.at_us) / 1e6
        far_m = self.limits.jump_slack_m + self.limits.speed_mps_max * seconds
        return seconds > 0 and self.space.distance_m(before.point, fix.point) <= far_m

    def _taken(self, fix: Fix, before: Fix | None) -> Fix:
        self._decide(Reason.TAKEN)
        if before is not None:
            if fix.at_us - before.at_us > self.limits.gap_us:
                self.counts[Reason.GAP] += 1
            else:
                fix = self._completed(fix, before)
        self._last, self._held = fix, None
        return fix

    def _completed(self, fix: Fix, before: Fix) -> Fix:
        if fix.speed_mps is not None and fix.heading_deg is not None:
            return fix
        seconds = (fix.at_us - before.at_us) / 1e6
        speed_mps = self.space.distance_m(before.point, fix.point) / seconds
        # Two fixes in one instant, some metres apart, say nothing about speed.
        if speed_mps > self.limits.speed_mps_max:
            return fix
        if fix.speed_mps is None:
            self.counts[Reason.SPEED_DERIVED] += 1
            fix = replace(fix, speed_mps=speed_mps)
        if fix.heading_deg is None and speed_mps >= HEADING_SPEED_MIN_MPS:
            self.counts[Reason.HEADING_DERIVED] += 1
            fix = replace(fix, heading_deg=heading_of(*self.space.offset_m(before.point, fix.point)))
        return fix
