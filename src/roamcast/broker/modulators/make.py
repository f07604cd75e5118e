"""From a spec to a modulator that runs."""

from roamcast.broker.modulators.declarative import DeclarativeModulator
from roamcast.broker.modulators.guarded import Guarded
from roamcast.broker.modulators.interface import Modulator
from roamcast.broker.modulators.limits import DEFAULT_LIMITS, Limits
from roamcast.broker.modulators.registry import make_registered
from roamcast.broker.modulators.spec import Declarative, ModulatorSpec, Registered, Wasm
from roamcast.model.space import Space


def make_modulator(spec: ModulatorSpec, space: Space, limits: Limits = DEFAULT_LIMITS) -> Guarded:
    """Raises `BadModulator` for what this broker does not know or does not take; after that nothing is raised."""
    return Guarded(made(spec, space, limits), limits)


def made(spec: ModulatorSpec, space: Space, limits: Limits) -> Modulator:
    match spec:
        case Declarative():
            return DeclarativeModulator(spec, space)
        case Registered():
            return make_registered(spec, space)
        case Wasm():
            # Wasmtime is large, and few brokers run such modulators.
            from roamcast.broker.modulators.wasm import WasmModulator

            return WasmModulator(spec, limits)
