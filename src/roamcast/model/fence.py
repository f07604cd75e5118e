"""The definition of fences: when a host enters, leaves, passes or stays in a region. Slow, and obviously right.

    advance(fence, state, fix, space) -> (state, occurrences)

A host and a fence have one `State`, a small frozen value; the fixes of the host are folded into it, one by one. What
a million fences decide (`matching/fences.py`), what a broker tells and what the pipeline expects are tested against
this fold.

    outside --the way passes the border inwards--> inside       `enter`
    inside  --outwards, and it counts----------->  outside      `leave`, and `cross` if no fix was inside
    inside  --for so long----------------------->  inside       `dwell`, once

An occurrence has the moment, to the millisecond, at which the *straight way* between two fixes passes the border,
wherever on the way that is; it is known only when a fix comes, or a time is over. A host is outside of a fence that
its fixes have not been inside of yet, so the first fix inside is an `enter` at the time of that fix.

*Accuracy.* A fix is *surely* inside if all places within its accuracy are, *probably* if its position is. With
`probably` a passage inwards counts at once. With `surely` it counts when a fix is surely inside, and a passage
outwards when one is surely outside; until then it is pending, and the way back ends it.

*Hysteresis.* Positions jitter. A host at a border would enter and leave all day, so leaving counts

    hysteresis_m    as soon as a fix is so far outside; 0 is at once;
    outside_us      when it has been outside for so long without a break;
    both            whichever comes first;
    neither         six times the accuracy of the fix, or of 20 m where the fix tells none.

Six times, because a host that stands at the border is then seen beyond less than once in a hundred million fixes.

*Time.* Until its next fix a host is taken to be where its last fix was: when a dwell or a time outside is over by
then, it has happened, wherever the next fix is. So a clock and the next fix come to the same (`due_us`, `elapsed`).
"""

import math
from enum import StrEnum
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from roamcast.model.context import Context
from roamcast.model.event import CONTENT_ATTRIBUTES_MAX
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import EVERYTHING, Filter
from roamcast.model.region import PLANE, Anchored, Region, Shape, contains
from roamcast.model.space import Space
from roamcast.model.values import BadValue, Instant, Point, Value, is_number
from roamcast.model.way import Way, pieces, to_border_m

MILLISECOND_US = 1_000
NOISE_FACTOR = 6.0
ACCURACY_DEFAULT_M = 20.0
"""What hysteresis takes for the accuracy of a fix that tells none."""
ACCURACY_ATTRIBUTE = "accuracy_m"
"""The attribute in which a host tells how accurate its position is."""
ANCHOR_KEPT_US = 30_000_000
"""For so long it is remembered where a host was that a fence moves with: a way that began earlier begins anew."""
DURATION_US_MAX = 10 * 366 * 86_400 * 1_000_000
NAME_BYTES_MAX = 1_024


class Transition(StrEnum):
    ENTER = "enter"
    LEAVE = "leave"
    CROSS = "cross"
    DWELL = "dwell"


class FenceRule(Struct, frozen=True, array_like=True, cache_hash=True):
    """Many fences share one."""

    on: tuple[Transition, ...] = (Transition.ENTER, Transition.LEAVE)
    """Which transitions are told."""
    hosts: Filter = EVERYTHING
    """Over the host's attributes. A host that it does not accept is outside, and no transition tells so."""
    dwell_us: int | None = None
    hysteresis_m: float | None = None
    outside_us: int | None = None
    certainty: Literal["probably", "surely"] = "probably"

    def __post_init__(self) -> None:
        if not self.on or len(set(self.on)) != len(self.on):
            raise BadValue("on: name at least one of enter, leave, cross and dwell, and each once")
        if (self.dwell_us is None) == (Transition.DWELL in self.on):
            raise BadValue("'dwell' needs dwell_s, and dwell_s needs 'dwell' in `on`")
        for name, value in (("dwell", self.dwell_us), ("outside", self.outside_us)):
            if value is not None and not 0 < value <= DURATION_US_MAX:
                raise BadValue(f"{name}: {value / 1e6} s; give more than 0 and at most ten years")
        metres = self.hysteresis_m
        if metres is not None and not (is_number(metres) and 0 <= metres < math.inf):
            raise BadValue(f"hysteresis: {metres} m; give 0 or more")


class Fence(Struct, frozen=True, array_like=True, cache_hash=True):
    name: str
    region: Region
    rule: FenceRule = FenceRule()

    def __post_init__(self) -> None:
        if not 1 <= len(self.name.encode()) <= NAME_BYTES_MAX or any(each in self.name for each in "+#\0"):
            raise BadValue(f"a fence needs a name of 1 to {NAME_BYTES_MAX} bytes without +, # and NUL")


class Fix(Struct, frozen=True, array_like=True):
    at_us: int
    position: Point
    accuracy_m: float | None = None
    anchor: Point | None = None
    """Where the host was then that an anchored fence moves with."""


class Stay(Struct, frozen=True, array_like=True):
    """What is to be known of a host and a fence besides its last fix."""

    entered_us: int | None = None
    """None: it is outside."""
    passed_us: int | None = None
    """When the way passed the border to the other side, which does not count yet."""
    passed_at: Point | None = None
    fix_inside: bool = False
    """Whether a fix was inside since it entered."""
    dwelt: bool = False

    @property
    def is_within(self) -> bool:
        """Whether the way is inside now, whether that counts or not."""
        return (self.entered_us is None) != (self.passed_us is None)


OUTSIDE = Stay()


class State(Struct, frozen=True, array_like=True):
    last: Fix | None = None
    """From where the way goes on; None: it begins with the next fix. So it does where the place of the host that the
    fence moves with was not known."""
    stay: Stay = OUTSIDE


class Occurrence(Struct, frozen=True, array_like=True):
    """A transition that happened."""

    transition: Transition
    at_us: int
    position: Point
    """Where the way passed the border; of a dwell, where the host was last seen."""
    dwell_us: int = 0
    """How long the host was inside by then."""


BEGIN = State()


def advance(fence: Fence, state: State, fix: Fix, space: Space) -> tuple[State, tuple[Occurrence, ...]]:
    """One fix more. One that claims to be older than the last counts as of the same time."""
    last = state.last
    if last is not None and fix.at_us < last.at_us:
        fix = replace(fix, at_us=last.at_us)
    judge = Judge(fence.rule, state.stay)
    if last is not None:
        judge.elapse(fix.at_us, last.position)
        if last.anchor is None and isinstance(fence.region, Anchored):
            last = None
    for share, inside in way_pieces(fence.region, last, fix, space):
        if inside != judge.stay.is_within:
            judge.passes(*moment(last, fix, share, space), inside, fix)
    judge.settle(fix, border_m(fence.region, fix, space) if judge.stay.passed_us is not None else 0.0)
    return State(fix, judge.stay), told(fence.rule, judge.occurrences)


def elapsed(fence: Fence, state: State, now_us: int) -> tuple[State, tuple[Occurrence, ...]]:
    """What time alone has brought about by now."""
    if state.last is None:
        return state, ()
    judge = Judge(fence.rule, state.stay)
    judge.elapse(now_us, state.last.position)
    return State(state.last, judge.stay), told(fence.rule, judge.occurrences)


def due_us(fence: Fence, state: State) -> int | None:
    """When time alone brings something about; None: never."""
    rule, stay = fence.rule, state.stay
    if stay.entered_us is None or state.last is None:
        return None
    if stay.passed_us is not None:
        return None if rule.outside_us is None else stay.passed_us + rule.outside_us
    return None if rule.dwell_us is None or stay.dwelt else stay.entered_us + rule.dwell_us


def step(
    fence: Fence, state: State, context: Context, space: Space, anchor: Point | None = None
) -> tuple[State, tuple[Occurrence, ...]]:
    """`advance` by what a host reports. Where its position is not known, or that of the host which the fence moves
    with, the way breaks off: what time alone has brought about by then has happened, and the next fix begins another.
    A fence does not concern the host that it moves with."""
    region = fence.region
    if isinstance(region, Anchored) and region.host == context.host:
        return BEGIN, ()
    if not concerns(fence.rule, context, space):
        return BEGIN, elapsed(fence, state, context.at_us)[1]
    fix = fix_of(context, anchor)
    if fix is None or (anchor is None and isinstance(region, Anchored)):
        state, told_by_then = elapsed(fence, state, context.at_us)
        return State(fix, state.stay), told_by_then
    return advance(fence, state, fix, space)


def concerns(rule: FenceRule, context: Context, space: Space) -> bool:
    """Whether a fence is for this host."""
    return rule.hosts is EVERYTHING or accepts(rule.hosts, Scene(context.value, context), space)


def fix_of(context: Context, anchor: Point | None = None) -> Fix | None:
    """None where the position is not known."""
    if context.position is None:
        return None
    said = context.attributes.get(ACCURACY_ATTRIBUTE)
    accuracy_m = float(said) if isinstance(said, int | float) and not isinstance(said, bool) and said >= 0 else None
    return Fix(context.at_us, context.position, accuracy_m, anchor)


# What is inside where.


def way_pieces(region: Region, last: Fix | None, fix: Fix, space: Space) -> list[tuple[float, bool]]:
    """Which parts of the way are inside; without a last fix there is only its end."""
    shape, space_of_shape = shape_of(region, space)
    end = place_in(region, fix, space)
    if last is None:
        return [(1.0, contains(shape, end, space_of_shape))]
    return pieces(Way(place_in(region, last, space), end, fix.at_us - last.at_us), shape, space_of_shape)


def border_m(region: Region, fix: Fix, space: Space) -> float:
    """How far a fix is from the border, less than 0 inside."""
    shape, space_of_shape = shape_of(region, space)
    return to_border_m(shape, place_in(region, fix, space), space_of_shape)


def shape_of(region: Region, space: Space) -> tuple[Shape, Space]:
    """An anchored region is in metres around its host: what counts is the way as seen from there."""
    return (region.shape, PLANE) if isinstance(region, Anchored) else (region, space)


def place_in(region: Region, fix: Fix, space: Space) -> Point:
    if not isinstance(region, Anchored):
        return fix.position
    assert fix.anchor is not None
    east_m, north_m = space.offset_m(fix.anchor, fix.position)
    return Point(east_m + region.reference.x, north_m + region.reference.y)


def moment(last: Fix | None, fix: Fix, share: float, space: Space) -> tuple[int, Point]:
    """When and where a share of the way is over."""
    if last is None:
        return fix.at_us, fix.position
    exact_us = last.at_us + share * (fix.at_us - last.at_us)
    at_us = round(exact_us / MILLISECOND_US) * MILLISECOND_US
    return min(max(at_us, last.at_us), fix.at_us), Way(last.position, fix.position).at(share, space)


def told(rule: FenceRule, occurrences: list[Occurrence]) -> tuple[Occurrence, ...]:
    return tuple(each for each in occurrences if each.transition in rule.on)


# The states.


class Judge:
    """One stay while a fix is folded into it."""

    def __init__(self, rule: FenceRule, stay: Stay) -> None:
        self.rule = rule
        self.stay = stay
        self.occurrences: list[Occurrence] = []

    def elapse(self, now_us: int, position: Point) -> None:
        rule, stay = self.rule, self.stay
        if stay.entered_us is None:
            return
        if stay.passed_us is None:
            self._dwell_by(now_us, position)
        elif rule.outside_us is not None and stay.passed_us + rule.outside_us <= now_us:
            self._leave()

    def passes(self, at_us: int, position: Point, inwards: bool, fix: Fix) -> None:
        """The way passes the border."""
        stay, rule = self.stay, self.rule
        back = stay.passed_us is not None
        if back and stay.entered_us is not None and rule.outside_us is not None:
            assert stay.passed_us is not None
            if at_us - stay.passed_us >= rule.outside_us:
                self._leave()
                stay, back = self.stay, False
        if back:
            self.stay = replace(stay, passed_us=None, passed_at=None)
        else:
            self.stay = replace(stay, passed_us=at_us, passed_at=position)
            if inwards and self._enters_at_once(fix):
                self._enter()
            elif not inwards and self._margin_m(fix) == 0:
                self._leave()

    def settle(self, fix: Fix, off_m: float) -> None:
        """At the fix itself, which is `off_m` outside the border."""
        stay = self.stay
        if stay.passed_us is not None and stay.entered_us is None:
            if -off_m >= (fix.accuracy_m or 0.0):
                self._enter()
        elif stay.passed_us is not None and off_m >= self._margin_m(fix):
            self._leave()
        self.elapse(fix.at_us, fix.position)
        if self.stay.entered_us is not None and self.stay.passed_us is None and not self.stay.fix_inside:
            self.stay = replace(self.stay, fix_inside=True)

    def _enters_at_once(self, fix: Fix) -> bool:
        return self.rule.certainty == "probably" or not fix.accuracy_m

    def _margin_m(self, fix: Fix) -> float:
        """How far outside a fix must be for a host to have left."""
        rule, accuracy_m = self.rule, fix.accuracy_m
        if rule.hysteresis_m is not None:
            margin_m = rule.hysteresis_m
        elif rule.outside_us is not None:
            return math.inf
        else:
            margin_m = NOISE_FACTOR * (ACCURACY_DEFAULT_M if accuracy_m is None else accuracy_m)
        return max(margin_m, accuracy_m or 0.0) if rule.certainty == "surely" else margin_m

    def _enter(self) -> None:
        at_us, position = self._passage()
        self.stay = Stay(entered_us=at_us)
        self._say(Transition.ENTER, at_us, position, 0)

    def _leave(self) -> None:
        at_us, position = self._passage()
        stay = self.stay
        assert stay.entered_us is not None
        self._dwell_by(at_us, position)
        self.stay = OUTSIDE
        self._say(Transition.LEAVE, at_us, position, at_us - stay.entered_us)
        if not stay.fix_inside:
            self._say(Transition.CROSS, at_us, position, at_us - stay.entered_us)

    def _dwell_by(self, now_us: int, position: Point) -> None:
        entered_us, dwell_us = self.stay.entered_us, self.rule.dwell_us
        if entered_us is None or dwell_us is None or self.stay.dwelt or entered_us + dwell_us > now_us:
            return
        self.stay = replace(self.stay, dwelt=True)
        self._say(Transition.DWELL, entered_us + dwell_us, position, dwell_us)

    def _passage(self) -> tuple[int, Point]:
        assert self.stay.passed_us is not None
        assert self.stay.passed_at is not None
        return self.stay.passed_us, self.stay.passed_at

    def _say(self, transition: Transition, at_us: int, position: Point, dwell_us: int) -> None:
        self.occurrences.append(Occurrence(transition, at_us, position, dwell_us))


def content_of(context: Context, fence: Fence, occurrence: Occurrence) -> dict[str, Value]:
    """What is told of an occurrence. Attributes of the host are there too, but for those that would hide it."""
    said: dict[str, Value] = {
        "host": context.host,
        "fence": fence.name,
        "transition": occurrence.transition.value,
        "position": occurrence.position,
        "time": Instant(occurrence.at_us),
        "dwell_s": occurrence.dwell_us / 1e6,
    }
    own = [(name, value) for name, value in context.attributes.items() if name not in said]
    return {**said, **dict(own[: CONTENT_ATTRIBUTES_MAX - len(said)])}
