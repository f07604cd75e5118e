"""What a modulator is made from: a value that travels in messages, checked when it is read (O1, O9).

Three kinds. `Declarative`: filter, projection, sampling and aggregation over a window, in this order, each optional.
`Registered`: the name of a function that the broker's own code brings. `Wasm`: code that the consumer sends.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from roamcast.broker.modulators.interface import BadModulator
from roamcast.model.filter import EVERYTHING, Filter
from roamcast.model.filter.bound import is_bound
from roamcast.model.values import INTEGER_LIMIT, BadValue, Value, check_attributes

CODE_BYTES_MAX = 262_144
"""Of any code that travels; a broker takes what its own limits say."""
PARAMETERS_MAX = 64
KEPT_MAX = 256
AGGREGATES_MAX = 32
NAME_CHARS_MAX = 128

AggregateFunction: TypeAlias = Literal["count", "min", "max", "mean", "sum"]


class Every(Struct, frozen=True, array_like=True, tag="every"):
    """The first of each `events` events."""

    events: int

    def __post_init__(self) -> None:
        check_amount("sampling every", self.events)


class AtMostOne(Struct, frozen=True, array_like=True, tag="at_most_one"):
    """An event, and then none for `interval_us`, by the broker's clock."""

    interval_us: int

    def __post_init__(self) -> None:
        check_amount("sampling interval_us", self.interval_us)


class ByCount(Struct, frozen=True, array_like=True, tag="by_count"):
    """So many events, then the next so many."""

    events: int

    def __post_init__(self) -> None:
        check_amount("window of events", self.events)


class ByTime(Struct, frozen=True, array_like=True, tag="by_time"):
    """What arrives within one of the intervals into which `width_us` cuts time, by the broker's clock.

    The next event shows that a window is over: only then is it summed up.
    """

    width_us: int

    def __post_init__(self) -> None:
        check_amount("window width_us", self.width_us)


Sampling: TypeAlias = Every | AtMostOne
Window: TypeAlias = ByCount | ByTime


class Aggregate(Struct, frozen=True, array_like=True):
    """A function of the numbers that events of a window have in an attribute; `count` without one counts events."""

    function: AggregateFunction
    attribute: str = ""
    name: str = ""
    """Under which the result is given; by default the function and the attribute, as in `max_depth`."""

    def __post_init__(self) -> None:
        if not self.attribute and self.function != "count":
            raise BadModulator(f"aggregate '{self.function}' needs an attribute; only count does without")
        check_names((self.result,), "aggregate")

    @property
    def result(self) -> str:
        return self.name or (f"{self.function}_{self.attribute}" if self.attribute else self.function)


class Declarative(Struct, frozen=True, array_like=True, tag="declarative"):
    filter: Filter = EVERYTHING
    keep: tuple[str, ...] | None = None
    """The attributes kept; None keeps all."""
    sampling: Sampling | None = None
    window: Window | None = None
    aggregates: tuple[Aggregate, ...] = ()

    def __post_init__(self) -> None:
        if not is_bound(self.filter):
            raise BadModulator("the filter of a modulator is judged at a broker: it cannot ask about its reader (me)")
        if (self.window is None) != (not self.aggregates):
            raise BadModulator("a window needs aggregates, and aggregates need a window")
        if len(self.aggregates) > AGGREGATES_MAX:
            raise BadModulator(f"{len(self.aggregates)} aggregates; at most {AGGREGATES_MAX}")
        results = [each.result for each in self.aggregates]
        if len(set(results)) != len(results):
            raise BadModulator(f"two aggregates give the same attribute; the results are {', '.join(results)}")
        if self.keep is not None:
            self._check_kept(self.keep)

    def _check_kept(self, keep: tuple[str, ...]) -> None:
        if len(keep) > KEPT_MAX:
            raise BadModulator(f"{len(keep)} attributes to keep; at most {KEPT_MAX}")
        check_names(keep, "projection")
        for each in self.aggregates:
            if each.attribute and each.attribute not in keep:
                raise BadModulator(f"'{each.attribute}' is aggregated and not among the attributes kept")


class Registered(Struct, frozen=True, array_like=True, tag="registered"):
    name: str
    parameters: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= NAME_CHARS_MAX:
            raise BadModulator(f"a registered modulator has a name of 1 to {NAME_CHARS_MAX} characters")
        check_parameters(self.parameters)


class Wasm(Struct, frozen=True, array_like=True, tag="wasm"):
    code: bytes
    """A binary module of WebAssembly 1.0 (docs/reference/MODULATORS.md)."""
    parameters: dict[str, Value] = field(default_factory=dict)
    """Handed to the code with every event: the same code is compiled once, whatever its parameters."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.code) <= CODE_BYTES_MAX:
            raise BadModulator(f"WebAssembly of {len(self.code)} bytes; give 1 to {CODE_BYTES_MAX}")
        check_parameters(self.parameters)


ModulatorSpec: TypeAlias = Declarative | Registered | Wasm


def check_amount(what: str, amount: int) -> None:
    if not 1 <= amount <= INTEGER_LIMIT:
        raise BadModulator(f"{what} is {amount}; give 1 to 2^53")


def check_names(names: tuple[str, ...], what: str) -> None:
    try:
        check_attributes(dict.fromkeys(names, True))
    except BadValue as problem:
        raise BadModulator(f"{what}: {problem}") from problem


def check_parameters(parameters: dict[str, Value]) -> None:
    if len(parameters) > PARAMETERS_MAX:
        raise BadModulator(f"{len(parameters)} parameters; at most {PARAMETERS_MAX}")
    check_attributes(parameters)


# As text, which is how a subscription names its modulator.

READ_SPEC: msgspec.json.Decoder[ModulatorSpec] = msgspec.json.Decoder(ModulatorSpec)


def spec_to_text(spec: ModulatorSpec) -> str:
    """The name alone of a registered modulator without parameters, else JSON."""
    if isinstance(spec, Registered) and not spec.parameters and spec.name[0] not in "[{":
        return spec.name
    return msgspec.json.encode(spec).decode()


def spec_from_text(text: str) -> ModulatorSpec:
    if not text.startswith(("[", "{")):
        return Registered(text)
    try:
        spec: ModulatorSpec = READ_SPEC.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadModulator(f"no modulator can be read of '{text[:40]}': {problem}") from problem
    return spec
