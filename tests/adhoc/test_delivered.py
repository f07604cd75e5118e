"""At most once (S3): what a subscription got is remembered for as long as the event lasts, in bounded memory."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from roamcast.adhoc.proximity.delivering import Delivering
from roamcast.adhoc.proximity.interests import Interests
from roamcast.adhoc.proximity.ordering import Arrival
from roamcast.model.context import Context
from roamcast.model.event import Delivery, Event
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.node.boundary import Deliver, Does, Note
from tests.effort import examples

SECOND_US = 1_000_000
ME = Context("c", Point(0.0, 0.0))


def delivering(pairs_max: int) -> Delivering:
    interests = Interests()
    interests.add(Subscription("s", "c", "x", 0, 10**15))
    return Delivering(interests, Plane(), pairs_max)


def arrive(into: Delivering, name: str, at_s: int, lifetime_s: int, now_s: int) -> list[Does]:
    event = Event(name, "x", Context("p", Point(0.0, 0.0)), at_s * SECOND_US, (at_s + lifetime_s) * SECOND_US)
    return into.deliver(now_s * SECOND_US, ME, [Arrival(event, Delivery(), at_s * SECOND_US)])


def test_s3_an_event_that_lasts_is_not_delivered_twice_however_many_came_in_between() -> None:
    got = delivering(pairs_max=10)
    assert isinstance(arrive(got, "long", 0, 10_000, 0)[0], Deliver)
    for second in range(1, 500):
        assert len(arrive(got, f"brief {second}", second, 5, second)) == 1
    assert arrive(got, "long", 0, 10_000, 500) == []
    assert len(got.delivered.pairs) <= 10


def test_s3_that_more_last_than_can_be_remembered_is_noted() -> None:
    got = delivering(pairs_max=3)
    effects = [arrive(got, f"e{number}", 0, 1_000 + number, 0) for number in range(4)]
    assert [len(each) for each in effects] == [1, 1, 1, 2]
    assert effects[3][1] == Note("delivered_forgotten", "e0")
    assert arrive(got, "e3", 0, 1_003, 1) == []


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10)), max_size=120))
@examples(150)
def test_s3_nothing_that_lasts_comes_twice_unless_it_was_noted_to_be_forgotten(
    arrived: list[tuple[int, int]],
) -> None:
    """Events by number, each with a lifetime of its own; time passes between any two arrivals."""
    got, now_s = delivering(pairs_max=8), 0
    raised: dict[str, tuple[int, int]] = {}
    times: Counter[str] = Counter()
    for number, pause_s in arrived:
        now_s += pause_s
        name = f"e{number}"
        at_s, lifetime_s = raised.setdefault(name, (now_s, 5 * number))
        for effect in arrive(got, name, at_s, lifetime_s, now_s):
            if isinstance(effect, Deliver):
                times[name] += 1
                assert times[name] == 1
            elif isinstance(effect, Note) and effect.what == "delivered_forgotten":
                assert sum(at_s + lifetime_s >= now_s for at_s, lifetime_s in raised.values()) > 8
                times[effect.detail] -= 1
