"""A memory that keeps each key until it has ended (C7, C9)."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.adhoc.until import Until
from tests.effort import examples


def test_what_has_ended_goes_before_what_lives() -> None:
    kept = Until(2)
    assert kept.add(0, "long", 100) is None
    assert kept.add(0, "short", 5) is None
    assert kept.add(6, "next", 50) is None
    assert ("long" in kept, "short" in kept, "next" in kept) == (True, False, True)
    assert kept.forgotten == 0


def test_of_the_living_the_one_that_ends_soonest_goes_and_is_told() -> None:
    kept = Until(2)
    kept.add(0, "long", 100)
    kept.add(0, "short", 50)
    assert kept.add(1, "shortest", 10) == "short"
    assert "long" in kept
    assert "shortest" in kept
    assert kept.forgotten == 1


def test_a_known_key_is_kept_for_the_longer_time() -> None:
    kept = Until(1)
    kept.add(0, "a", 10)
    kept.add(0, "a", 30)
    kept.add(0, "a", 20)
    assert kept.add(25, "b", 90) == "a"


steps = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcdefgh"), st.integers(0, 30)), max_size=40)


@examples(200)
@given(steps, st.integers(1, 5))
def test_it_is_bounded_and_forgets_nothing_that_lives_without_telling(
    adds: list[tuple[int, str, int]], size_max: int
) -> None:
    kept, now_us = Until(size_max), 0
    living: dict[str, int] = {}
    for later_us, key, lasts_us in adds:
        now_us += later_us
        told = kept.add(now_us, key, now_us + lasts_us)
        living[key] = max(living.get(key, 0), now_us + lasts_us)
        if told is not None:
            assert told != key
            del living[told]
        living = {each: ends_us for each, ends_us in living.items() if ends_us >= now_us}
        assert len(kept) <= size_max
        assert all(each in kept for each in living)
