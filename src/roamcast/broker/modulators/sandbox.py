"""Where a consumer's WebAssembly runs: no imports, so no clock, no randomness, no I/O; bounded fuel, memory, stack.

Code is compiled once for each content hash. It runs in a fresh instance every time: nothing is left of one call when
the next one comes, neither in memory nor in globals. So whatever a call does wrong is over with it, and the same
input gives the same output on every broker with the same engine. Of what came after WebAssembly 1.0 the engine lets
us refuse all but reference types, sign extension and saturating conversion; refused are, among others, bulk memory,
whose time grows with an operand, SIMD and threads. NaN has one pattern.

The settings are one constant set: the engine ends the process on settings that contradict each other.
"""

import hashlib
from collections import OrderedDict
from functools import lru_cache

from wasmtime import (
    Config,
    Engine,
    Func,
    FuncType,
    Instance,
    Memory,
    MemoryType,
    Module,
    Store,
    Trap,
    TrapCode,
    ValType,
    WasmtimeError,
)

from roamcast.broker.modulators.interface import BadModulator, Failed
from roamcast.broker.modulators.limits import Limits

STACK_BYTES_MAX = 262_144
TABLE_ELEMENTS_MAX = 4_096
COMPILED_MAX = 64
"""How many compiled modules are kept; of more, those used least recently are compiled again when they are wanted."""

FEATURES_REFUSED = (
    "wasm_bulk_memory",
    "wasm_component_model",
    "wasm_exceptions",
    "wasm_function_references",
    "wasm_gc",
    "wasm_memory64",
    "wasm_multi_memory",
    "wasm_multi_value",
    "wasm_relaxed_simd",
    "wasm_simd",
    "wasm_tail_call",
    "wasm_threads",
)

EXPORTS: dict[str, tuple[list[str], list[str]]] = {
    "alloc": (["i32"], ["i32"]),
    "take": (["i32", "i32"], ["i64"]),
}
"""The functions that a modulator must export, with their parameters and results; and `memory` besides."""

REASONS = {
    TrapCode.OUT_OF_FUEL: "fuel",
    TrapCode.STACK_OVERFLOW: "stack",
    TrapCode.MEMORY_OUT_OF_BOUNDS: "memory",
}


@lru_cache(maxsize=1)
def engine() -> Engine:
    config = Config()
    config.consume_fuel = True
    config.cranelift_nan_canonicalization = True
    config.max_wasm_stack = STACK_BYTES_MAX
    config.parallel_compilation = False
    for feature in FEATURES_REFUSED:
        setattr(config, feature, False)
    return Engine(config)


COMPILED: OrderedDict[bytes, Module | str] = OrderedDict()
"""By content hash: the module, or why there is none, so that bad code sent again is not compiled again."""


def compiled(code: bytes, limits: Limits) -> Module:
    """The module, if its code is short enough, valid, without imports, and has what a modulator exports."""
    if len(code) > limits.module_bytes_max:
        raise BadModulator(f"WebAssembly of {len(code)} bytes; this broker takes {limits.module_bytes_max}")
    digest = hashlib.sha256(code).digest()
    if digest not in COMPILED:
        COMPILED[digest] = compile_module(code)
        if len(COMPILED) > COMPILED_MAX:
            COMPILED.popitem(last=False)
    COMPILED.move_to_end(digest)
    found = COMPILED[digest]
    if isinstance(found, str):
        raise BadModulator(found)
    return found


def compile_module(code: bytes) -> Module | str:
    try:
        # Valid first: that takes time in proportion to its length, which compiling does not.
        Module.validate(engine(), code)
        module = Module(engine(), code)
    except WasmtimeError as problem:
        return f"no WebAssembly that can run here: {first_line(problem)}"
    imports = [f"{each.module}.{each.name}" for each in module.imports]
    if imports:
        return f"a modulator imports nothing, this one wants {', '.join(imports)[:100]}"
    exports = {each.name: each.type for each in module.exports}
    for name, (parameters, results) in EXPORTS.items():
        kind = exports.get(name)
        if not isinstance(kind, FuncType) or (names(kind.params), names(kind.results)) != (parameters, results):
            return f"a modulator exports {name}({', '.join(parameters)}) -> {', '.join(results)}"
    if not isinstance(exports.get("memory"), MemoryType):
        return "a modulator exports its memory as 'memory'"
    return module


def run(module: Module, given: bytes, limits: Limits) -> bytes:
    """Hands `given` to `take` of a new instance; what it answers, nothing if that is 0. Raises `Failed`."""
    store = Store(engine())
    try:
        instance = started(store, module, limits)
        exports = instance.exports(store)
        memory, alloc, take = exports["memory"], exports["alloc"], exports["take"]
        if not isinstance(memory, Memory) or not isinstance(alloc, Func) or not isinstance(take, Func):
            raise Failed("trap", "exports of another kind")
        place = alloc(store, len(given)) & 0xFFFF_FFFF
        check_span(place, len(given), memory.data_len(store))
        memory.write(store, given, place)
        answer = take(store, place, len(given)) & 0xFFFF_FFFF_FFFF_FFFF
        place, length = answer >> 32, answer & 0xFFFF_FFFF
        if length > limits.output_bytes_max + limits.state_bytes_max:
            raise Failed("output", f"{length} bytes")
        check_span(place, length, memory.data_len(store))
        return bytes(memory.read(store, place, place + length))
    except Trap as trap:
        code = trap.trap_code
        raise Failed("trap" if code is None else REASONS.get(code, "trap"), first_line(trap)) from trap
    except WasmtimeError as problem:
        raise Failed("trap", first_line(problem)) from problem
    finally:
        store.close()


def started(store: Store, module: Module, limits: Limits) -> Instance:
    """A new instance; a start function runs here and burns the fuel of the event."""
    store.set_limits(
        memory_size=limits.memory_bytes_max, table_elements=TABLE_ELEMENTS_MAX, instances=1, tables=1, memories=1
    )
    store.set_fuel(limits.fuel_per_event)
    return Instance(store, module, [])


def check_starts(module: Module, limits: Limits) -> None:
    """Raises `BadModulator` for code that cannot even be started within the limits."""
    store = Store(engine())
    try:
        started(store, module, limits)
    except (Trap, WasmtimeError) as problem:
        raise BadModulator(f"this WebAssembly cannot be started here: {first_line(problem)}") from problem
    finally:
        store.close()


def check_span(place: int, length: int, size: int) -> None:
    if place + length > size:
        raise Failed("pointer", f"{length} bytes at {place} of a memory of {size}")


def names(kinds: list[ValType]) -> list[str]:
    return [str(kind) for kind in kinds]


def first_line(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[-1] if lines else type(problem).__name__)[:200]
