"""What a modulator is made from: as messages and as text, checked and bounded (O1, O9)."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.modulators.interface import BadModulator
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.registry import registered
from roamcast.broker.modulators.spec import (
    CODE_BYTES_MAX,
    Aggregate,
    AtMostOne,
    ByCount,
    ByTime,
    Declarative,
    Every,
    ModulatorSpec,
    Registered,
    Wasm,
    spec_from_text,
    spec_to_text,
)
from roamcast.broker.modulators.traffic import Meter
from roamcast.model.filter import EVERYTHING, parse_text
from roamcast.model.values import Instant, Point
from roamcast.node.boundary import Message
from roamcast.node.codec import BadMessage, Codec
from tests.broker.modulator_samples import COUNTING, Total, event, made
from tests.effort import examples

NAMES = st.text("abc_", min_size=1, max_size=5)
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("xyz", max_size=5),
    st.builds(Instant, st.integers(0, 2**53)),
    st.builds(Point, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)),
)
AMOUNTS = st.integers(1, 2**53)
WINDOWED = st.builds(
    Declarative,
    filter=st.sampled_from([EVERYTHING, parse_text("mm > 3 AND where IN ('a', 'b')")]),
    sampling=st.one_of(st.none(), st.builds(Every, AMOUNTS), st.builds(AtMostOne, AMOUNTS)),
    window=st.one_of(st.builds(ByCount, AMOUNTS), st.builds(ByTime, AMOUNTS)),
    aggregates=st.just((Aggregate("max", "mm"), Aggregate("count", name="events"))),
)
PLAIN = st.builds(Declarative, keep=st.one_of(st.none(), st.lists(NAMES, max_size=4).map(tuple)))
SPECS: st.SearchStrategy[ModulatorSpec] = st.one_of(
    PLAIN,
    WINDOWED,
    st.builds(Registered, NAMES, st.dictionaries(NAMES, VALUES, max_size=4)),
    st.builds(Wasm, st.binary(min_size=1, max_size=50), st.dictionaries(NAMES, VALUES, max_size=4)),
)


class Carrying(Message, frozen=True, tag="carrying"):
    spec: ModulatorSpec


CODEC = Codec((Carrying,))


@examples(150)
@given(SPECS)
def test_o1_a_spec_comes_out_of_a_message_as_it_went_in(spec: ModulatorSpec) -> None:
    assert CODEC.decode(CODEC.encode(Carrying(spec))) == Carrying(spec)


@examples(150)
@given(SPECS)
def test_o1_a_spec_comes_out_of_text_as_it_went_in(spec: ModulatorSpec) -> None:
    assert spec_from_text(spec_to_text(spec)) == spec


def test_o1_the_text_of_a_registered_modulator_is_its_name() -> None:
    assert spec_to_text(Registered("runoff")) == "runoff"
    assert spec_from_text("runoff") == Registered("runoff")


@pytest.mark.parametrize("text", ["", "[", '["wasm"]', '["unknown", 1]', "[" * 5_000, '["declarative", 3]', "{}"])
def test_o9_text_that_is_no_spec_is_refused(text: str) -> None:
    with pytest.raises(BadModulator):
        spec_from_text(text)


REFUSED: dict[str, Callable[[], object]] = {
    "cannot ask about its reader": lambda: Declarative(parse_text("mm > me.limit")),
    "a window needs aggregates": lambda: Declarative(window=ByCount(3)),
    "aggregates need a window": lambda: Declarative(aggregates=(Aggregate("count"),)),
    "same attribute": lambda: Declarative(window=ByCount(3), aggregates=(Aggregate("count"),) * 2),
    "not among the attributes kept": lambda: Declarative(
        keep=("a",), window=ByCount(3), aggregates=(Aggregate("min", "b"),)
    ),
    "33 aggregates": lambda: Declarative(
        window=ByCount(3), aggregates=tuple(Aggregate("count", f"a{n}") for n in range(33))
    ),
    "257 attributes": lambda: Declarative(keep=tuple(f"a{n}" for n in range(257))),
    "needs an attribute": lambda: Aggregate("max"),
    "projection": lambda: Declarative(keep=("",)),
    "aggregate: attribute name": lambda: Aggregate("count", "x" * 200),
    "every is 0": lambda: Every(0),
    "interval_us is -1": lambda: AtMostOne(-1),
    "events is 0": lambda: ByCount(0),
    "width_us is": lambda: ByTime(2**60),
    "65 parameters": lambda: Registered("x", {f"p{n}": n for n in range(65)}),
    "1 to 128 characters": lambda: Registered(""),
    "0 bytes": lambda: Wasm(b""),
    f"{CODE_BYTES_MAX + 1} bytes": lambda: Wasm(bytes(CODE_BYTES_MAX + 1)),
}


@pytest.mark.parametrize(("said", "make"), REFUSED.items(), ids=REFUSED.keys())
def test_o9_a_spec_beyond_its_bounds_is_refused(said: str, make: Callable[[], object]) -> None:
    with pytest.raises(BadModulator, match=said):
        make()


def test_o9_a_spec_beyond_its_bounds_is_no_message() -> None:
    encoded = CODEC.encode(Carrying(Declarative(sampling=Every(7))))
    assert encoded.count(b"\x07") == 1
    with pytest.raises(BadMessage):
        CODEC.decode(encoded.replace(b"\x07", b"\x00"))


@examples(150)
@given(SPECS, st.data())
def test_o9_a_damaged_spec_is_another_spec_or_no_message(spec: ModulatorSpec, data: st.DataObject) -> None:
    encoded = bytearray(CODEC.encode(Carrying(spec)))
    encoded[data.draw(st.integers(3, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(CODEC.decode(bytes(encoded)), Carrying)
    except BadMessage:
        return


# The registry.


def test_o1_an_unknown_name_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(BadModulator, match=r"no modulator 'tests/nothing' is registered .*tests/total"):
        made(Registered("tests/nothing"))


def test_o1_parameters_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadModulator, match="'tests/total': start is an integer"):
        made(Registered("tests/total", {"start": "now"}))


def test_o1_a_name_belongs_to_one_modulator() -> None:
    class Other(Total):
        pass

    with pytest.raises(BadModulator, match="registered already"):
        registered("tests/total")(Other)
    assert made(Registered("tests/total")).take(event(1, mm=2), 0) != []


def test_o1_a_file_that_is_loaded_again_registers_again(tmp_path: Path) -> None:
    """As the files of applications are, for each run, under whatever name."""
    file = tmp_path / "again.py"
    file.write_text(
        "from roamcast.broker.modulators.registry import registered\n"
        "from tests.broker.modulator_samples import Total\n"
        "@registered('tests/again')\n"
        "class Again(Total): ...\n"
    )
    for name in ("again_1", "again_2"):
        loading = importlib.util.spec_from_file_location(name, file)
        assert loading is not None
        assert loading.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(loading)
        loading.loader.exec_module(sys.modules[name])
        assert type(made(Registered("tests/again")).inner).__module__ == name


# Limits and traffic.


def test_o9_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="outputs_max is 0"):
        Limits(outputs_max=0)


def test_o9_what_goes_into_a_modulator_and_comes_out_is_measured() -> None:
    modulator = made(Declarative(parse_text("mm > 3"), ("mm",)))
    assert modulator.meter.read(0) is None
    given_events = [event(number, mm=number, more="x" * 100) for number in range(10)]
    passed = [each for one in given_events for each in modulator.take(one, 5)]
    effect = modulator.meter.read(2_000_000)
    assert effect is not None
    assert effect.bytes_in == sum(len(msgspec.msgpack.encode(each)) for each in given_events)
    assert effect.bytes_out == sum(len(msgspec.msgpack.encode(each)) for each in passed)
    assert (effect.rate_in, effect.rate_out) == (effect.bytes_in / 2, effect.bytes_out / 2)
    assert modulator.meter.bytes_in == modulator.meter.bytes_out == 0


def test_o9_a_meter_read_twice_at_once_or_by_a_clock_that_is_behind_tells_nothing() -> None:
    meter = Meter()
    assert meter.read(10) is None
    meter.came(5)
    assert meter.read(10) is None
    assert meter.bytes_in == 5
    assert meter.read(3) is None
    assert meter.bytes_in == 0


def test_o9_what_a_wasm_modulator_drops_is_not_counted_as_coming_out() -> None:
    modulator = made(Wasm(COUNTING))
    modulator.meter.read(0)
    for number in range(5):
        modulator.take(event(number), 0)
    effect = modulator.meter.read(1_000_000)
    assert effect is not None
    assert effect.bytes_out < effect.bytes_in
