"""Ages without common clocks: exact when clocks agree, close when they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.adhoc.proximity.clocks import GENERATION_MESSAGES, Clocks
from tests.effort import examples


def test_with_clocks_that_agree_ages_are_exact() -> None:
    clocks = Clocks(agree_us=20_000, hosts_max=10)
    assert clocks.age_us("p", 1_000_400, 1_000_000, 0) == 400
    assert clocks.age_us("p", 2_500_000, 2_000_000, 100_000) == 500_000


@given(st.integers(-(10**7), 10**7), st.lists(st.integers(0, 500_000), min_size=1, max_size=GENERATION_MESSAGES))
@examples(200)
def test_with_clocks_that_differ_ages_are_short_by_the_quickest_delivery_at_most(
    offset_us: int, delays_us: list[int]
) -> None:
    """The receiver's clock is ahead by any offset; the first message came quickly, also if that is long ago."""
    clocks = Clocks(agree_us=20_000, hosts_max=10)
    for number, delay_us in enumerate([300, *delays_us]):
        now_us = 10**9 * number + delay_us
        age_us = clocks.age_us("p", now_us + offset_us, 10**9 * number, 0)
        assert -20_300 <= age_us - delay_us <= 20_000


@pytest.mark.parametrize("back_us", [30_000, 1_000_000, 9_000_000])
@pytest.mark.parametrize("period_us", [100_000, 500_000, 1_000_000])
def test_a_clock_that_was_set_back_is_followed_within_seconds(back_us: int, period_us: int) -> None:
    """S5: until then its messages seem older than they are, and short-lived events to have expired."""
    clocks = Clocks(agree_us=20_000, hosts_max=10)
    for number in range(100):
        assert clocks.age_us("p", number * period_us + 400, number * period_us, 0) == 400
    ages_us = [
        clocks.age_us("p", number * period_us + 400, number * period_us - back_us, 0) for number in range(100, 300)
    ]
    assert ages_us[0] == back_us + 400
    late = sum(age_us > 20_000 for age_us in ages_us)
    assert late * period_us <= 16_000_000
    assert ages_us[late:] == [0] * (200 - late)


def test_a_clock_that_was_set_forward_is_followed_at_once() -> None:
    """S5: and a forged message that claims to be from the future misleads for some seconds only."""
    clocks = Clocks(agree_us=20_000, hosts_max=10)
    clocks.age_us("p", 1_000_400, 1_000_000, 0)
    assert clocks.age_us("p", 2_000_400, 7_000_000, 0) == 0
    ages_us = [clocks.age_us("p", second * 10**6 + 400, second * 10**6, 0) for second in range(3, 30)]
    assert ages_us[0] > 10**6
    assert ages_us[16:] == [400] * 11


def test_what_a_forwarder_counted_is_never_lost() -> None:
    clocks = Clocks(agree_us=20_000, hosts_max=10)
    assert clocks.age_us("p", 0, 10**9, 70_000) == 70_000
    assert clocks.age_us("q", 0, 0, -5) == 0


def test_a_clock_that_was_set_is_followed() -> None:
    clocks = Clocks(agree_us=20_000, hosts_max=10)
    assert clocks.age_us("p", 10**9, 10**9 - 300, 0) == 300
    assert clocks.age_us("p", 2 * 10**9, 10**9, 0) == 0
    assert clocks.age_us("p", 3 * 10**9 + 50_000, 2 * 10**9, 0) == pytest.approx(50_000, abs=20)


def test_the_table_is_bounded() -> None:
    clocks = Clocks(agree_us=20_000, hosts_max=3)
    for number in range(10):
        clocks.age_us(f"p{number}", 10, 0, 0)
    assert list(clocks.lags) == ["p7", "p8", "p9"]
