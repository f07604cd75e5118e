"""Code that a consumer sends cannot harm the broker, and gives the same for the same (O9)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasmtime import wat2wasm

from roamcast.broker.modulators.guarded import Guarded
from roamcast.broker.modulators.interface import BadModulator
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.sandbox import COMPILED, COMPILED_MAX
from roamcast.broker.modulators.wasm import Answer
from roamcast.model.values import Instant, Point
from tests.broker.modulator_samples import COUNT_IN_MEMORY, COUNTING, answer, event, module, saying, wasm
from tests.effort import examples

ANSWER = msgspec.msgpack.encode(Answer(None, [{"mm": 2.5, "where": Point(1, 2), "at": Instant(7)}, {"ok": True}]))
LOOPING = module("(loop $again (br $again)) (i64.const 0)")


def fails_with(modulator: Guarded, reason: str) -> bool:
    out = modulator.take(event(1, mm=1), 5)
    return out == [] and modulator.problems == {reason: 1}


def test_o1_what_the_code_answers_goes_on_in_place_of_the_event() -> None:
    first, second = wasm(saying(ANSWER)).take(event(1, mm=1), 5)
    assert first.attributes == {"mm": 2.5, "where": Point(1, 2), "at": Instant(7)}
    assert second.attributes == {"ok": True}
    assert (first.id, second.id) == ("e1", "e1~1")


def test_o1_an_answer_of_0_lets_nothing_pass_and_is_no_failure() -> None:
    modulator = wasm(module("(i64.const 0)"))
    assert modulator.take(event(1, mm=1), 5) == []
    assert modulator.problems == {}


def test_o9_an_infinite_loop_runs_out_of_fuel() -> None:
    assert fails_with(wasm(LOOPING), "fuel")


def test_o9_a_loop_in_alloc_runs_out_of_fuel() -> None:
    code = wat2wasm("""(module (memory (export "memory") 1)
        (func (export "alloc") (param i32) (result i32) (loop $again (br $again)) (i32.const 0))
        (func (export "take") (param i32 i32) (result i64) (i64.const 0)))""")
    assert fails_with(wasm(bytes(code)), "fuel")


def test_o9_a_memory_that_grows_and_grows_stops_at_its_limit() -> None:
    """Growing fails with -1 there, as the code can see; here it goes on until its fuel is gone."""
    assert fails_with(
        wasm(module("(loop $again (drop (memory.grow (i32.const 1))) (br $again)) (i64.const 0)")), "fuel"
    )


def test_o9_writing_beyond_the_memory_that_could_not_grow_fails() -> None:
    code = module(
        "(drop (memory.grow (i32.const 60000))) (i32.store (i32.const 2000000) (i32.const 1)) (i64.const 0)"
    )
    assert fails_with(wasm(code), "memory")


def test_o9_endless_recursion_ends_at_the_stack_limit() -> None:
    deep = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))"
    code = module("(drop (call $deep (i32.const 1))) (i64.const 0)", beside=deep)
    assert fails_with(wasm(code, Limits(fuel_per_event=10**9)), "stack")


@pytest.mark.parametrize("place", [65_530, 2**31, 2**32 - 1])
def test_o9_an_answer_outside_the_memory_is_not_read(place: int) -> None:
    assert fails_with(
        wasm(module(f"(i64.or (i64.shl (i64.const {place}) (i64.const 32)) (i64.const 20))")), "pointer"
    )


@pytest.mark.parametrize("place", ["65530", "-1", "-2147483648"])
def test_o9_an_alloc_that_points_outside_the_memory_is_not_written_to(place: str) -> None:
    code = wat2wasm(f"""(module (memory (export "memory") 1)
        (func (export "alloc") (param i32) (result i32) (i32.const {place}))
        (func (export "take") (param i32 i32) (result i64) (i64.const 0)))""")
    assert fails_with(wasm(bytes(code)), "pointer")


def test_o9_a_trap_drops_the_event_and_is_counted() -> None:
    assert fails_with(wasm(module("unreachable")), "trap")


def test_o9_a_division_by_zero_is_a_trap() -> None:
    assert fails_with(wasm(module("(i64.div_u (i64.const 1) (i64.load (i32.const 8)))")), "trap")


@pytest.mark.parametrize(
    "said",
    [
        b"\xc1",
        b"\x93\xc0\x90",
        b"\x92\xc0\x81\xa1n\x01",
        b"\x92\x01\x90",
        b"\x92\xc0\x91\x81\x01\x01",
        msgspec.msgpack.encode([None, [{"": 1}]]),
        msgspec.msgpack.encode([None, [{"x": float("nan")}]]),
        msgspec.msgpack.encode([None, [{"x": 2**60}]]),
        msgspec.msgpack.encode([None, [{"x": [1, 2]}]]),
        b"\x92\xc0\xdd\xff\xff\xff\xff",
        b"\x91" * 500,
    ],
)
def test_o9_an_answer_that_is_no_answer_is_a_failure(said: bytes) -> None:
    assert fails_with(wasm(saying(said)), "output")


def test_o9_too_many_events_for_one_are_a_failure() -> None:
    code = saying(msgspec.msgpack.encode([None, [{"n": 1}] * 17]))
    assert fails_with(wasm(code), "output")
    assert len(wasm(code, Limits(outputs_max=17)).take(event(1), 5)) == 17


def test_o9_too_long_an_answer_is_a_failure() -> None:
    code = saying(msgspec.msgpack.encode([None, [{"t": "x" * 5_000}]]))
    assert fails_with(wasm(code, Limits(output_bytes_max=5_000)), "output")
    assert fails_with(wasm(module(answer(0, 2**30))), "output")


def test_o9_too_long_a_state_is_a_failure_and_is_not_taken() -> None:
    modulator = wasm(saying(msgspec.msgpack.encode([b"x" * 200, []])), Limits(state_bytes_max=100))
    before = modulator.inner.state()
    assert fails_with(modulator, "state")
    assert modulator.inner.state() == before


IMPORTS = (
    '(import "env" "now" (func (result i64)))',
    '(import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))',
    '(import "env" "shared" (global i32))',
    '(import "env" "table" (table 1 funcref))',
)


@pytest.mark.parametrize("wanted", IMPORTS)
def test_o9_code_that_imports_anything_is_refused(wanted: str) -> None:
    code = wat2wasm(f"""(module {wanted} (memory (export "memory") 1)
        (func (export "alloc") (param i32) (result i32) (i32.const 0))
        (func (export "take") (param i32 i32) (result i64) (i64.const 0)))""")
    with pytest.raises(BadModulator, match="imports nothing"):
        wasm(bytes(code))


def test_o9_an_imported_memory_is_refused() -> None:
    code = wat2wasm("""(module (import "env" "memory" (memory 1)) (export "memory" (memory 0))
        (func (export "alloc") (param i32) (result i32) (i32.const 0))
        (func (export "take") (param i32 i32) (result i64) (i64.const 0)))""")
    with pytest.raises(BadModulator, match=r"env\.memory"):
        wasm(bytes(code))


def test_o9_a_start_function_that_loops_is_refused() -> None:
    with pytest.raises(BadModulator, match="cannot be started"):
        wasm(module("(i64.const 0)", beside="(func $begin (loop $again (br $again))) (start $begin)"))


@pytest.mark.parametrize(
    ("memory", "beside"),
    [("17", ""), ("65536", ""), ("1", "(table 10000000 funcref)"), ("1", '(data (i32.const 65535) "abc")')],
)
def test_o9_code_that_begins_beyond_the_limits_is_refused(memory: str, beside: str) -> None:
    with pytest.raises(BadModulator, match="cannot be started"):
        wasm(module("(i64.const 0)", memory=memory, beside=beside))


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("bulk memory", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 9))"),
        ("simd", "(drop (i32x4.splat (i32.const 1)))"),
        ("threads", "(drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))"),
    ],
)
def test_o9_instructions_that_need_not_cost_what_they_take_are_refused(name: str, instruction: str) -> None:
    with pytest.raises(BadModulator, match="no WebAssembly that can run here"):
        wasm(module(f"{instruction} (i64.const 0)"))


def test_o9_filling_a_table_costs_fuel_for_its_length() -> None:
    """Of the instructions that work on many elements this one cannot be refused; it must not be cheap."""
    fill = "(table.fill (i32.const 0) (ref.null func) (i32.const 4096))"
    code = module(fill * 200 + "(i64.const 0)", beside="(table 4096 funcref)")
    assert fails_with(wasm(code), "fuel")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('(module (memory (export "memory") 1))', "exports alloc"),
        (
            '(module (memory (export "memory") 1) (func (export "alloc") (param i32) (result i32) (i32.const 0)))',
            "take",
        ),
        (
            """(module (func (export "alloc") (param i32) (result i32) (i32.const 0))
               (func (export "take") (param i32 i32) (result i64) (i64.const 0)))""",
            "memory",
        ),
        (
            """(module (memory (export "memory") 1) (func (export "alloc") (param i64) (result i32) (i32.const 0))
               (func (export "take") (param i32 i32) (result i64) (i64.const 0)))""",
            "exports alloc",
        ),
    ],
)
def test_o1_code_without_the_exports_of_a_modulator_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadModulator, match=said):
        wasm(bytes(wat2wasm(text)))


@pytest.mark.parametrize("code", [b"\0asm", b"(module)", b"\0asm\x01\0\0\0\xff\xff", bytes(100)])
def test_o9_bytes_that_are_no_code_are_refused(code: bytes) -> None:
    with pytest.raises(BadModulator, match="no WebAssembly"):
        wasm(code)


@examples(60)
@given(st.data())
def test_o9_damaged_code_is_refused_or_runs_within_its_limits(data: st.DataObject) -> None:
    code = bytearray(COUNTING)
    for _ in range(data.draw(st.integers(1, 4))):
        code[data.draw(st.integers(8, len(code) - 1))] = data.draw(st.integers(0, 255))
    try:
        modulator = wasm(bytes(code), Limits(fuel_per_event=20_000))
    except BadModulator:
        return
    for number in range(3):
        assert len(modulator.take(event(number, mm=1), 5)) <= 16


def test_o9_code_longer_than_the_broker_takes_is_refused() -> None:
    code = saying(ANSWER)
    with pytest.raises(BadModulator, match=f"{len(code)} bytes; this broker takes 10"):
        wasm(code, Limits(module_bytes_max=10))
    with pytest.raises(BadModulator, match="takes 0"):
        wasm(code, Limits(module_bytes_max=0))


def test_o9_the_same_code_is_compiled_once() -> None:
    first, second = wasm(saying(ANSWER)), wasm(saying(ANSWER))
    assert first.inner is not second.inner
    assert vars(first.inner)["_module"] is vars(second.inner)["_module"]


def test_o9_few_compiled_modules_are_kept() -> None:
    for number in range(COMPILED_MAX + 5):
        wasm(saying(msgspec.msgpack.encode([None, [{"n": number}]])))
    assert len(COMPILED) == COMPILED_MAX


def test_o9_after_too_many_failures_in_a_row_a_modulator_is_switched_off() -> None:
    modulator = wasm(module("unreachable"), Limits(failures_in_row_max=3))
    for number in range(5):
        assert modulator.take(event(number, mm=1), number) == []
    assert modulator.off
    assert modulator.problems == {"trap": 3, "off": 2}


def test_o9_a_success_ends_a_row_of_failures() -> None:
    """This one fails on an event without attributes."""
    code = module(
        "(if (i32.eq (i32.load8_u (i32.add (local.get $given) (i32.const 3))) (i32.const 128)) (then unreachable))"
        + answer(0, 0)
    )
    modulator = wasm(code, Limits(failures_in_row_max=3))
    for number in range(12):
        modulator.take(event(number) if number % 3 else event(number, mm=1), 0)
    assert not modulator.off
    assert modulator.problems == {"trap": 8}


def test_o9_nothing_survives_an_event_but_the_state_that_is_handed_out() -> None:
    """The code counts in its memory and in a global, and always begins anew."""
    modulator = wasm(COUNT_IN_MEMORY)
    said = [each.attributes for number in range(3) for each in modulator.take(event(number), 0)]
    assert said == [{"n": 2}] * 3


def test_o9_an_event_that_fails_leaves_the_state_as_it_was() -> None:
    modulator = wasm(COUNTING)
    said = [each.attributes["n"] for number in range(7) for each in modulator.take(event(number), 0)]
    assert said == [1, 2, 3, 4]
    assert modulator.problems == {"trap": 3}


def test_o9_one_modulators_failure_is_nothing_to_another() -> None:
    bad, good = wasm(LOOPING), wasm(COUNTING)
    said = []
    for number in range(3):
        assert bad.take(event(number), 0) == []
        said += [each.attributes["n"] for each in good.take(event(number), 0)]
    assert said == [1, 2, 3]


def test_o9_a_number_that_is_none_has_the_same_bits_everywhere() -> None:
    """0/0 is the state that this code hands out."""
    code = module(
        """(i64.store (i32.const 3)
             (i64.reinterpret_f64 (f64.div (f64.load (i32.const 64)) (f64.load (i32.const 64)))))"""
        + answer(0, 12),
        beside='(data (i32.const 0) "\\92\\c4\\08\\00\\00\\00\\00\\00\\00\\00\\00\\90")',
    )
    modulator = wasm(code)
    modulator.take(event(1), 0)
    assert modulator.problems == {}
    assert modulator.inner.state() == bytes.fromhex("000000000000f87f")
