"""What a stranger's frame names must exist: a node on Earth is not stopped by a place that does not (C7, C8)."""

import math
from random import Random

import pytest

from roamcast.model.context import Context
from roamcast.model.space import Earth
from roamcast.model.values import BadValue, Point, Velocity
from roamcast.node.boundary import Note, Received, Start, TimerFired
from roamcast.protocols.adhoc.context.node import ContextNode
from roamcast.protocols.adhoc.context.params import ContextParams
from roamcast.protocols.adhoc.neighbours import Beacon, Here


@pytest.mark.parametrize("place", [Point(400.0, 10.0), Point(0.0, 1e308), Point(-181.0, 0.0)])
def test_a_frame_from_nowhere_is_noted_and_changes_nothing(place: Point) -> None:
    node = ContextNode("me", Random(1), ContextParams(), space=Earth())
    node.handle(0, Start(Context("me", Point(24.9, 60.2), 0, Velocity(0.0, 0.0))))
    assert node.handle(1, Received(Beacon(Here(place)), "stranger")) == [Note("bad_message", "stranger")]
    assert node.neighbours.contexts(2) == []
    node.handle(2, TimerFired("tick"))


def test_a_place_that_is_no_number_cannot_be_said() -> None:
    with pytest.raises(BadValue):
        Here(Point(math.nan, 0.0))
    with pytest.raises(BadValue):
        Here(Point(0.0, 0.0), attributes={"speed": math.inf})
    assert Here(Point(0.0, 0.0)) == Here(Point(0.0, 0.0))
