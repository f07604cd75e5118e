"""L3: what a broker remembers of where its clients were is what they had reported by then."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roamcast.live.broker.earlier import EARLIER_MAX, EARLIER_US, Earlier
from roamcast.model.context import Context
from roamcast.model.values import Point

HOSTS = ("ann", "bob", "eve")
REPORTS = st.lists(st.tuples(st.sampled_from(HOSTS), st.integers(1, 200_000)), max_size=40)


@given(reports=REPORTS, back_us=st.integers(0, 1_000_000))
@settings(max_examples=200, deadline=None)
def test_l3_it_goes_back_to_the_last_report_before_a_moment(reports: list[tuple[str, int]], back_us: int) -> None:
    earlier, told, now_us = Earlier(), dict[str, list[Context]](), 10_000_000
    for host, later_us in reports:
        now_us += later_us
        context = Context(host, Point(now_us, 0), now_us)
        if host in told:
            earlier.replaced(told[host][-1], context)
        told.setdefault(host, []).append(context)
    moment_us = now_us - back_us
    expected = {
        host: max((each for each in all_of if each.at_us <= moment_us), key=at_us, default=all_of[0])
        for host, all_of in told.items()
        if all_of[-1].at_us > moment_us and len(all_of) > 1
    }
    assert {each.host: each for each in earlier.at(moment_us)} == expected


def at_us(context: Context) -> int:
    return context.at_us


def test_l3_a_report_from_another_broker_hides_nobody_who_reported_before_it() -> None:
    earlier = Earlier()
    earlier.replaced(Context("ann", Point(0, 0), 0), Context("ann", Point(9, 0), 900))
    earlier.replaced(Context("bob", Point(0, 0), 0), Context("bob", Point(1, 0), 100))
    assert [each.host for each in earlier.at(500)] == ["ann"]


@pytest.mark.parametrize("every_us", [1_000, EARLIER_US // 4])
def test_l3_what_it_remembers_is_bounded(every_us: int) -> None:
    earlier, before = Earlier(), Context("ann", Point(0, 0), 0)
    for number in range(1, 1_000):
        now = Context("ann", Point(number, 0), number * every_us)
        earlier.replaced(before, now)
        before = now
    oldest = earlier.at(0)[0]
    assert before.at_us - oldest.at_us <= max(EARLIER_US + every_us, EARLIER_MAX * every_us)
    earlier.forget("ann")
    assert earlier.at(0) == []
