"""Events to modulate, modulators to move, and WebAssembly modules written by hand."""

from collections.abc import Mapping

from wasmtime import wat2wasm

from roamcast.broker.modulators.guarded import Guarded
from roamcast.broker.modulators.interface import derived
from roamcast.broker.modulators.limits import DEFAULT_LIMITS, Limits
from roamcast.broker.modulators.make import make_modulator
from roamcast.broker.modulators.registry import registered
from roamcast.broker.modulators.spec import ModulatorSpec, Wasm
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane, Space
from roamcast.model.values import Point, Value

SPACE = Plane()


@registered("tests/total")
class Total:
    """The sum of what it has seen; it fails on 13."""

    def __init__(self, parameters: Mapping[str, Value], space: Space) -> None:
        start = parameters.get("start", 0)
        assert isinstance(start, int), "start is an integer"
        self.total = start

    def take(self, event: Event, now_us: int) -> list[Event]:
        mm = event.attributes["mm"]
        if not isinstance(mm, int) or mm == 13:
            raise ValueError("unlucky")
        self.total += mm
        return [derived(event, {"total": self.total})]

    def state(self) -> bytes:
        return self.total.to_bytes(8, "big", signed=True)

    def load(self, state: bytes) -> None:
        self.total = int.from_bytes(state, "big", signed=True)


def event(number: int, **attributes: Value) -> Event:
    return Event(f"e{number}", "rain", Context("gauge", Point(3, 4)), 10, 99, attributes)


def module(take: str, *, memory: str = "1", beside: str = "") -> bytes:
    """A module whose `take` has this body; what it is given stands at 1024."""
    return bytes(
        wat2wasm(f"""(module
          (memory (export "memory") {memory})
          {beside}
          (func (export "alloc") (param $length i32) (result i32) (i32.const 1024))
          (func (export "take") (param $given i32) (param $length i32) (result i64) {take}))""")
    )


def answer(place: int, length: int) -> str:
    return f"(i64.const {place << 32 | length})"


def saying(said: bytes, **options: str) -> bytes:
    """A module that answers always the same."""
    text = "".join(f"\\{byte:02x}" for byte in said)
    return module(answer(0, len(said)), beside=f'(data (i32.const 0) "{text}")', **options)


COUNTING = module(
    """
    ;; Given is an array of ten; its first element the state: bin 8, a length, and the count if there is one.
    (if (i32.load8_u (i32.add (local.get $given) (i32.const 2)))
      (then (local.set $length (i32.load8_u (i32.add (local.get $given) (i32.const 3)))))
      (else (local.set $length (i32.const 0))))
    (local.set $length (i32.and (i32.add (local.get $length) (i32.const 1)) (i32.const 127)))
    (if (i32.eq (i32.rem_u (local.get $length) (i32.const 5)) (i32.const 0)) (then unreachable))
    (i32.store8 (i32.const 3) (local.get $length))
    (i32.store8 (i32.const 8) (local.get $length))
    """
    + answer(0, 9),
    beside='(data (i32.const 0) "\\92\\c4\\01\\00\\91\\81\\a1n\\00")',
)
"""Says how many events came, as attribute `n`; it traps on the fifth, and so on every later one."""

SUMMING = module(
    """
    (if (i32.load8_u (i32.add (local.get $given) (i32.const 2)))
      (then (local.set $length (i32.load8_u (i32.add (local.get $given) (i32.const 3)))))
      (else (local.set $length (i32.const 0))))
    ;; The attributes follow the state: a map of one, a name of one letter, a small number.
    (local.set $given (i32.add (local.get $given) (i32.load8_u (i32.add (local.get $given) (i32.const 2)))))
    (local.set $length (i32.add (local.get $length) (i32.load8_u (i32.add (local.get $given) (i32.const 6)))))
    (local.set $length (i32.and (local.get $length) (i32.const 127)))
    (i32.store8 (i32.const 3) (local.get $length))
    (i32.store8 (i32.const 8) (local.get $length))
    """
    + answer(0, 9),
    beside='(data (i32.const 0) "\\92\\c4\\01\\00\\91\\81\\a1s\\00")',
)
"""The sum modulo 128 of the only attribute of the events so far, as attribute `s`."""

COUNT_IN_MEMORY = module(
    """
    (i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 1)))
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (i32.store8 (i32.const 6) (i32.add (i32.load (i32.const 512)) (global.get $calls)))
    """
    + answer(0, 7),
    beside='(global $calls (mut i32) (i32.const 0)) (data (i32.const 0) "\\92\\c0\\91\\81\\a1n\\00")',
)
"""Counts its calls in its memory and in a global, and says the sum of both as attribute `n`."""


def wasm(code: bytes, limits: Limits = DEFAULT_LIMITS) -> Guarded:
    return make_modulator(Wasm(code), SPACE, limits)


def made(spec: ModulatorSpec) -> Guarded:
    return make_modulator(spec, SPACE)
