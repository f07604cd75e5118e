"""A mobile proximity is where its producer is, also for an event that was raised before the producer turned (S5)."""

import pytest

from roamcast.adhoc.proximity.delivering import Delivering
from roamcast.adhoc.proximity.interests import Interests
from roamcast.adhoc.proximity.ordering import Arrival
from roamcast.model.context import Context
from roamcast.model.event import Delivery, Event
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Velocity

SECOND_US = 1_000_000
STANDING = Velocity(0.0, 0.0)


@pytest.mark.parametrize(
    ("consumer_x", "told", "delivered"),
    [(125.0, True, 0), (105.0, True, 1), (125.0, False, 1), (-80.0, True, 1), (-80.0, False, 0)],
)
def test_a_lasting_event_is_judged_by_where_its_producer_is_now(
    consumer_x: float, told: bool, delivered: int
) -> None:
    """It drove at 10 m/s when it raised the event at x = 0, and stopped at x = 10, which a beacon has told or not."""
    interests = Interests()
    interests.add(Subscription("s", "c", "x", 0, 100 * SECOND_US))
    producer = Context("p", Point(0.0, 0.0), 0, Velocity(10.0, 0.0))
    audience = Scope(Anchored(Circle(Point(0.0, 0.0), 100.0), "p"))
    event = Event("e", "x", producer, 0, 60 * SECOND_US, audience=audience)
    stopped = Context("p", Point(10.0, 0.0), 2 * SECOND_US, STANDING)
    me = Context("c", Point(consumer_x, 0.0), 5 * SECOND_US, STANDING)
    arrival = Arrival(event, Delivery(), 0, stopped if told else None)
    found = Delivering(interests, Plane(), 100).deliver(5 * SECOND_US, me, [arrival])
    assert len(found) == delivered
