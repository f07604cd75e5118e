"""L7: rates and numbers of connections are limited, and what one address does leaves others alone."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.mqtt import Reason
from roamcast.server.security import Bucket, ClientBuckets, Doors, RateLimits
from tests.effort import examples

SECOND_US = 1_000_000


def test_a_bucket_gives_a_burst_and_then_its_rate() -> None:
    bucket = Bucket(0, per_s=10, burst_s=2)
    assert sum(bucket.allows(0) for _ in range(100)) == 20
    assert sum(bucket.allows(SECOND_US) for _ in range(100)) == 10
    assert sum(bucket.allows(60 * SECOND_US) for _ in range(100)) == 20


def test_a_debt_is_to_be_waited_for() -> None:
    bucket = Bucket(0, per_s=1_000, burst_s=1)
    assert bucket.take(0, 1_000) == 0
    assert bucket.take(0, 5_000) == pytest.approx(5 * SECOND_US, abs=2)
    assert bucket.take(6 * SECOND_US, 1_000) == 0


def test_a_rate_of_zero_is_no_limit() -> None:
    bucket = Bucket(0, per_s=0, burst_s=1)
    assert all(bucket.allows(0, 1e9) and bucket.take(0, 1e9) == 0 for _ in range(10))


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 3 * SECOND_US), st.floats(0, 50)), max_size=60))
def test_whoever_waits_as_told_never_exceeds_the_rate_by_more_than_the_burst(steps: list[tuple[int, float]]) -> None:
    bucket = Bucket(0, per_s=10, burst_s=2)
    now_us, taken, last = 0, 0.0, 0.0
    for pause_us, amount in steps:
        now_us += pause_us
        taken, last = taken + amount, amount
        assert taken - last <= 20 + 10 * now_us / SECOND_US + 1e-6
        now_us += bucket.take(now_us, amount)


def test_a_clock_that_is_set_back_changes_nothing() -> None:
    bucket = Bucket(10 * SECOND_US, per_s=1, burst_s=1)
    assert bucket.allows(10 * SECOND_US)
    assert not bucket.allows(0)
    assert not bucket.allows(10 * SECOND_US)
    assert bucket.allows(11 * SECOND_US)


def test_l7_a_client_waits_for_whichever_limit_is_the_tighter() -> None:
    client = ClientBuckets(RateLimits(messages_per_s=10, bytes_per_s=1_000, subscribes_per_s=1, burst_s=1), 0)
    assert client.published(0, 1_000) == 0
    assert client.published(0, 2_000) == pytest.approx(2 * SECOND_US, abs=2)
    assert client.subscribed(0, 3) == pytest.approx(2 * SECOND_US, abs=2)


def test_l7_connections_are_counted_in_total_and_by_address() -> None:
    doors = Doors(RateLimits(connections_max=3, connections_per_address_max=2))
    assert [doors.enter(0, "10.0.0.1").reason for _ in range(3)] == [
        Reason.SUCCESS,
        Reason.SUCCESS,
        Reason.QUOTA_EXCEEDED,
    ]
    assert doors.enter(0, "10.0.0.2").allowed
    assert doors.enter(0, "10.0.0.3").reason is Reason.SERVER_BUSY
    doors.leave("10.0.0.1")
    assert doors.enter(0, "10.0.0.3").allowed


def test_l7_a_flood_of_connections_from_one_address_keeps_no_other_out() -> None:
    doors = Doors(RateLimits(connects_per_s=2, burst_s=1))
    reasons = []
    for _ in range(5):
        verdict = doors.enter(0, "10.0.0.1")
        reasons.append(verdict.reason)
        if verdict.allowed:
            doors.leave("10.0.0.1")
    assert reasons == [Reason.SUCCESS] * 2 + [Reason.CONNECTION_RATE_EXCEEDED] * 3
    assert doors.enter(0, "10.0.0.2").allowed
    assert doors.enter(SECOND_US, "10.0.0.1").allowed


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("a path", "another", False),
    ],
)
def test_addresses_of_one_household_count_together(one: str, other: str, together: bool) -> None:
    doors = Doors(RateLimits(connections_per_address_max=1))
    assert doors.enter(0, one).allowed
    assert doors.enter(0, other).allowed is not together


def test_the_table_of_addresses_is_bounded() -> None:
    doors = Doors(RateLimits(addresses_max=50))
    doors.enter(0, "stays")
    for number in range(500):
        doors.enter(0, str(number))
        doors.leave(str(number))
    assert len(doors._addresses) <= 50
    doors.leave("stays")


@pytest.mark.parametrize("wrong", [{"messages_per_s": -1}, {"burst_s": 0}, {"connections_max": 0}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError, match=next(iter(wrong))):
        msgspec.convert(wrong, RateLimits)
