"""A modulator in WebAssembly: a pure function of its state and an event (O9; docs/reference/MODULATORS.md).

The code gets `Given` in MessagePack and answers with `Answer`: its next state, and the content of the events that go
on in place of this one. Since every event has an instance of its own (`sandbox.py`), the state that the code hands
out is all there is: it moves to another broker as it is, and an event that fails leaves no trace.
"""

import msgspec
from msgspec import Struct

from roamcast.broker.modulators.interface import Failed, derived
from roamcast.broker.modulators.limits import Limits, checked_length
from roamcast.broker.modulators.sandbox import check_starts, compiled, run
from roamcast.broker.modulators.spec import Wasm
from roamcast.model.event import Event
from roamcast.model.values import BadValue, Point, Value


class Given(Struct, frozen=True, array_like=True):
    """What the code is told; fields are only ever added at the end."""

    state: bytes
    """Empty at first."""
    attributes: dict[str, Value]
    parameters: dict[str, Value]
    subject: str
    now_us: int
    published_us: int
    expires_us: int
    id: str
    publisher: str
    position: Point | None
    """Of the publisher when it published."""


class Answer(Struct, frozen=True, array_like=True):
    state: bytes | None
    """None: as it was."""
    outputs: list[dict[str, Value]]


READ_ANSWER = msgspec.msgpack.Decoder(Answer)


class WasmModulator:
    def __init__(self, spec: Wasm, limits: Limits) -> None:
        self.parameters = spec.parameters
        self.limits = limits
        self._module = compiled(spec.code, limits)
        check_starts(self._module, limits)
        self._state = b""

    def take(self, event: Event, now_us: int) -> list[Event]:
        given = Given(
            state=self._state,
            attributes=event.attributes,
            parameters=self.parameters,
            subject=event.subject,
            now_us=now_us,
            published_us=event.published_us,
            expires_us=event.expires_us,
            id=event.id,
            publisher=event.publisher.host,
            position=event.publisher.position,
        )
        said = run(self._module, msgspec.msgpack.encode(given), self.limits)
        if not said:
            return []
        answer, events = self._read(said, event)
        if answer.state is not None:
            self._state = answer.state
        return events

    def state(self) -> bytes:
        return self._state

    def load(self, state: bytes) -> None:
        if len(state) > self.limits.state_bytes_max:
            raise Failed("state", f"{len(state)} bytes")
        self._state = state

    def _read(self, said: bytes, event: Event) -> tuple[Answer, list[Event]]:
        try:
            answer = READ_ANSWER.decode(said)
        except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError, OverflowError) as problem:
            raise Failed("output", str(problem)) from problem
        if answer.state is not None and len(answer.state) > self.limits.state_bytes_max:
            raise Failed("state", f"{len(answer.state)} bytes")
        if len(answer.outputs) > self.limits.outputs_max:
            raise Failed("output", f"{len(answer.outputs)} events")
        try:
            events = [derived(event, attributes, index) for index, attributes in enumerate(answer.outputs)]
        except BadValue as problem:
            raise Failed("output", str(problem)) from problem
        checked_length(events, self.limits)
        return answer, events
