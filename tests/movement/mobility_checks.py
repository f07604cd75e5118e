"""What holds for the legs of every model of movement, as checks that the tests of all of them share."""

import math
import random
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise, takewhile

from roamcast.movement.legs import FOREVER_US, Leg, Mobility

SECOND_US = 1_000_000


def legs_of(model: Mobility, seed: int = 1, index: int = 0, count: int = 1) -> Iterator[Leg]:
    return model.legs(random.Random(seed), index, count)


def first(legs: Iterable[Leg], number: int) -> list[Leg]:
    return list(islice(legs, number))


def until(legs: Iterable[Leg], end_us: int) -> list[Leg]:
    return list(takewhile(lambda leg: leg.start_us < end_us, legs))


def apart_m(leg: Leg, following: Leg) -> float:
    end = leg.position_at(leg.end_us)
    return math.hypot(end.x - following.start.x, end.y - following.start.y)


def check_legs(legs: list[Leg]) -> None:
    """Contiguous from 0, continuous but for announced jumps, resting and moving as M2's status says."""
    assert legs[0].start_us == 0
    for leg, following in pairwise(legs):
        assert following.start_us == leg.end_us
        assert following.jumps or apart_m(leg, following) <= 1e-6
    for leg in legs:
        assert leg.end_us <= FOREVER_US
        if leg.pause_left_us:
            assert leg.resting
            assert leg.destination == leg.start
            assert leg.pause_left_us <= leg.pause_us


def check_trips(legs: list[Leg]) -> None:
    """A trip that announces a pause is followed, at its destination, by a rest of that length."""
    for leg, following in pairwise(legs):
        if not leg.resting and following.resting and following.present and not following.jumps:
            assert following.start == leg.destination
            assert following.pause_left_us == leg.pause_us
