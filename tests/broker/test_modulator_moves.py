"""State that moves: two instances, one after the other, give what one would have given (O4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.modulators.guarded import Guarded
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.registry import registered
from roamcast.broker.modulators.spec import (
    Aggregate,
    AtMostOne,
    ByCount,
    ByTime,
    Declarative,
    Every,
    ModulatorSpec,
    Registered,
    Wasm,
)
from roamcast.model.filter import parse_text
from tests.broker.modulator_samples import COUNTING, SUMMING, Total, event, made, module, wasm
from tests.effort import examples

SUMMARY = (Aggregate("mean", "mm"), Aggregate("max", "mm"), Aggregate("count"))


SPECS: dict[str, ModulatorSpec] = {
    "filter": Declarative(parse_text("mm > 3")),
    "every": Declarative(sampling=Every(3)),
    "at most one": Declarative(sampling=AtMostOne(50)),
    "by count": Declarative(window=ByCount(4), aggregates=SUMMARY),
    "by time": Declarative(window=ByTime(70), aggregates=SUMMARY),
    "everything": Declarative(parse_text("mm > 1"), ("mm",), Every(2), ByTime(90), SUMMARY),
    "registered": Registered("tests/total", {"start": 5}),
    "wasm": Wasm(SUMMING),
    "wasm that fails": Wasm(COUNTING),
}
STREAMS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=30)


def moved(modulator: Guarded, spec: ModulatorSpec) -> Guarded:
    other = made(spec)
    other.load(modulator.state())
    return other


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@examples(25)
@given(stream=STREAMS, moves=st.sets(st.integers(0, 30)))
def test_o4_a_modulator_that_moves_gives_what_it_would_have_given(
    spec: ModulatorSpec, stream: list[tuple[int, int]], moves: set[int]
) -> None:
    staying, moving = made(spec), made(spec)
    now_us = 0
    for number, (pause_us, mm) in enumerate(stream):
        now_us += pause_us
        if number in moves:
            moving = moved(moving, spec)
        assert moving.take(event(number, mm=mm), now_us) == staying.take(event(number, mm=mm), now_us)
    assert moving.off == staying.off


def test_o4_without_its_state_a_modulator_gives_something_else() -> None:
    """Proves that the test above can fail."""
    for name in ("every", "by count", "registered", "wasm"):
        staying, moving = made(SPECS[name]), made(SPECS[name])
        staying.take(event(0, mm=4), 0)
        outputs = [(staying.take(event(n, mm=4), n), moving.take(event(n, mm=4), n)) for n in range(1, 5)]
        assert any(one != other for one, other in outputs), name


def test_o9_a_modulator_that_was_switched_off_stays_so_where_it_moves() -> None:
    limits = Limits(failures_in_row_max=2)
    bad = wasm(module("unreachable"), limits)
    bad.take(event(1), 0)
    halfway = wasm(module("unreachable"), limits)
    halfway.load(bad.state())
    halfway.take(event(2), 0)
    assert halfway.off
    there = wasm(module("unreachable"), limits)
    there.load(halfway.state())
    assert there.off


@pytest.mark.parametrize("name", SPECS.keys())
@examples(15)
@given(state=st.binary(max_size=60))
def test_o9_a_state_that_is_none_stops_nobody(name: str, state: bytes) -> None:
    modulator = made(SPECS[name])
    modulator.load(state)
    modulator.take(event(1, mm=4), 0)


def test_o9_a_state_of_another_modulator_is_counted_and_the_modulator_begins_anew() -> None:
    other = made(Declarative(window=ByCount(4), aggregates=(Aggregate("count"),)))
    other.take(event(1), 0)
    modulator = made(SPECS["by count"])
    modulator.load(other.state())
    assert modulator.problems == {"state": 1}


class Hoarding(Total):
    def state(self) -> bytes:
        return bytes(70_000)


def test_o9_a_state_too_long_to_move_stays_behind_and_is_counted() -> None:
    registered("tests/hoarding")(Hoarding)
    modulator = made(Registered("tests/hoarding"))
    assert len(modulator.state()) < 10
    assert modulator.problems == {"state": 1}


def test_o9_an_exception_of_registered_code_drops_the_event_and_is_counted() -> None:
    modulator = made(Registered("tests/total"))
    assert [modulator.take(event(n, mm=mm), 0) != [] for n, mm in enumerate((1, 13, 2))] == [True, False, True]
    assert modulator.problems == {"exception": 1}
