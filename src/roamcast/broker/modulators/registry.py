"""Registered modulators: trusted Python that a broker's own process brings, found by name (O1).

A modulator is registered where it is defined:

    @registered("runoff")
    class Runoff:
        def __init__(self, parameters: Mapping[str, Value], space: Space) -> None: ...

A consumer names it and gives parameters; it never gives code. Parameters that do not fit are refused by raising
when the modulator is made.
"""

import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from roamcast.broker.modulators.interface import BadModulator, Modulator
from roamcast.broker.modulators.spec import Registered
from roamcast.model.space import Space
from roamcast.model.values import Value

Factory: TypeAlias = Callable[[Mapping[str, Value], Space], Modulator]
F = TypeVar("F", bound=Factory)

REGISTRY: dict[str, Factory] = {}


def registered(name: str) -> Callable[[F], F]:
    """Registers what it decorates. Another one of the same name is refused, the same one loaded again is not."""

    def register(factory: F) -> F:
        known = REGISTRY.get(name)
        if known is not None and origin(known) != origin(factory):
            raise BadModulator(f"a modulator '{name}' is registered already, by {origin(known)}")
        REGISTRY[name] = factory
        return factory

    return register


def make_registered(spec: Registered, space: Space) -> Modulator:
    factory = REGISTRY.get(spec.name)
    if factory is None:
        known = ", ".join(sorted(REGISTRY)) or "none"
        raise BadModulator(f"no modulator '{spec.name}' is registered at this broker; registered are {known}")
    try:
        return factory(spec.parameters, space)
    except Exception as problem:  # the code is trusted, the parameters are a stranger's
        raise BadModulator(f"modulator '{spec.name}': {problem or type(problem).__name__}") from problem


def origin(factory: Factory) -> str:
    """Its file, not its module: each run loads the files of applications anew, under a name of its own."""
    module = factory.__module__
    place = getattr(sys.modules.get(module), "__file__", None) or module
    return f"{getattr(factory, '__qualname__', repr(factory))} in {place}"
