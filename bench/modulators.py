"""What one event costs in each kind of modulator, and what WebAssembly costs before the first one."""

import time
from collections.abc import Callable, Mapping

from wasmtime import wat2wasm

from bench.filters import microseconds
from roamcast.broker.modulators.interface import derived
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.make import make_modulator
from roamcast.broker.modulators.registry import registered
from roamcast.broker.modulators.sandbox import COMPILED, check_starts, compiled
from roamcast.broker.modulators.spec import (
    Aggregate,
    ByCount,
    Declarative,
    Every,
    ModulatorSpec,
    Registered,
    Wasm,
)
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.space import Plane, Space
from roamcast.model.values import Point, Value

TAKES = "8 s"
FILTER = parse_text("mm > 3 AND where IN ('north', 'south')")
SUMMARY = (Aggregate("max", "mm"), Aggregate("mean", "mm"), Aggregate("count"))

NOTHING = """(module (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "take") (param i32 i32) (result i64) {body} (i64.const {answer})))"""
ECHO = NOTHING.replace("(func (export", '(data (i32.const 0) "\\92\\c0\\91\\81\\a2mm\\04") (func (export', 1)
WORST = "(loop $again (drop (memory.grow (i32.const 0))) (br $again))"
"""Of what was tried, the loop that takes the most time for its fuel."""


@registered("bench/doubled")
class Doubled:
    def __init__(self, parameters: Mapping[str, Value], space: Space) -> None: ...

    def take(self, event: Event, now_us: int) -> list[Event]:
        mm = event.attributes["mm"]
        assert isinstance(mm, float)
        return [derived(event, {"mm": 2 * mm})]

    def state(self) -> bytes:
        return b""

    def load(self, state: bytes) -> None: ...


def code(body: str = "", answer: int = 0, text: str = NOTHING) -> bytes:
    return bytes(wat2wasm(text.format(body=body, answer=answer)))


def one(spec: ModulatorSpec) -> Callable[[], object]:
    modulator = make_modulator(spec, Plane())
    event = Event(
        "e1", "rain", Context("gauge", Point(3, 4)), 10, 99, {"mm": 4.5, "where": "north", "note": "x" * 40}
    )
    return lambda: modulator.take(event, 50)


def starting(given: bytes) -> Callable[[], object]:
    module = compiled(given, Limits())
    return lambda: check_starts(module, Limits())


def slow_to_compile(blocks: int, tables: int) -> bytes:
    """Of what was tried, the code that takes longest to compile for its length: many ways into many blocks."""
    targets = " ".join(str(index % blocks) for index in range(1_000))
    jump = f"(block (br_if 0 (local.get 0)) (br_table {targets} (local.get 0)))"
    return code("(block " * blocks + jump * tables + ")" * blocks)


SLOW = slow_to_compile(100, 15)


def compile_s(given: bytes) -> float:
    COMPILED.clear()
    started = time.process_time()
    make_modulator(Wasm(given), Plane())
    return time.process_time() - started


def main() -> dict[str, float]:
    figures = {
        "filter_us": microseconds(one(Declarative(FILTER)), 20_000),
        "filter_projection_us": microseconds(one(Declarative(FILTER, ("mm",))), 20_000),
        "sampling_us": microseconds(one(Declarative(sampling=Every(10))), 20_000),
        "window_us": microseconds(one(Declarative(FILTER, ("mm",), None, ByCount(10), SUMMARY)), 20_000),
        "registered_us": microseconds(one(Registered("bench/doubled")), 20_000),
        "wasm_instance_us": microseconds(starting(code()), 2_000),
        "wasm_drops_us": microseconds(one(Wasm(code())), 2_000),
        "wasm_answers_us": microseconds(one(Wasm(code(answer=8, text=ECHO))), 2_000),
        "wasm_out_of_fuel_us": microseconds(one(Wasm(code("(loop $again (br $again))"))), 7),
        "wasm_worst_loop_us": microseconds(one(Wasm(code(WORST))), 7),
        "compile_small_ms": compile_s(code()) * 1e3,
        "compile_slow_ms": compile_s(SLOW) * 1e3,
    }
    for name, value in figures.items():
        print(f"{name:22} {value:10.1f}")
    print(f"slow code is {len(SLOW)} bytes long")
    return figures
