"""What a broker grants to each modulator it runs. The broker's choice, never the consumer's."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from roamcast.broker.modulators.interface import Failed
from roamcast.model.event import Event

ENCODE = msgspec.msgpack.Encoder().encode


MAY_BE_0 = ("module_bytes_max", "cpu_ms_per_s", "cpu_ms_per_s_of_all")


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    outputs_max: int = 16
    """How many events may come out for one that went in."""
    output_bytes_max: int = 65_536
    """How long they may be together, as they are sent."""
    state_bytes_max: int = 65_536
    failures_in_row_max: int = 8
    """After so many events in a row that failed, a modulator is switched off."""
    module_bytes_max: int = 16_384
    """Of WebAssembly. Time to compile is bounded by nothing else: keep it small; 0 refuses such code altogether."""
    memory_bytes_max: int = 1_048_576
    """The linear memory of a WebAssembly module."""
    fuel_per_event: int = 500_000
    """About so many instructions of WebAssembly."""
    cpu_ms_per_s: int = 50
    """CPU time that all modulators of one client may take in a second, on the average of five; 0: any. The one that
    takes most is switched off."""
    cpu_ms_per_s_of_all: int = 250
    """The same of all clients together."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            least = 0 if name in MAY_BE_0 else 1
            if value < least:
                raise ValueError(f"{name} is {value}; give {least} or more")


DEFAULT_LIMITS = Limits()


def checked_length(events: Sequence[Event], limits: Limits) -> int:
    """The bytes of what a modulator gave for one event; raises `Failed` if it gave too much."""
    if len(events) > limits.outputs_max:
        raise Failed("output", f"{len(events)} events")
    length = sum(len(ENCODE(event)) for event in events)
    if length > limits.output_bytes_max:
        raise Failed("output", f"{length} bytes")
    return length
