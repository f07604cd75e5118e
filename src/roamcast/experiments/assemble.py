"""Where protocols and runtimes meet: the `kind` of a scenario's protocol becomes nodes that can run.

This is the one list of protocols. A new one is one entry: its parameters, its messages, and what makes a node.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from roamcast.node.codec import Codec
from roamcast.node.kit import ProtocolKit, Seat
from roamcast.protocols.adhoc.context import messages as context_messages
from roamcast.protocols.adhoc.context import node as context
from roamcast.protocols.adhoc.context import params as context_params
from roamcast.protocols.adhoc.proximity import messages as proximity_messages
from roamcast.protocols.adhoc.proximity import node as proximity
from roamcast.protocols.adhoc.proximity import params as proximity_params
from roamcast.protocols.baseline import flooding
from roamcast.sim.complaints import complaint
from roamcast.sim.radio import RadioParams
from roamcast.sim.scenario import BadScenario

Params = TypeVar("Params")


def flooding_kit(given: dict[str, Any]) -> ProtocolKit:
    params = params_from(given, flooding.FloodingParams)
    node = flooding.AdhocFlooding if params.over == "air" else flooding.BrokerFlooding

    def make_node(seat: Seat) -> flooding.Flooding:
        return node(params, seat.refuses, seat.space, seat.graph)

    return ProtocolKit(Codec(flooding.MESSAGES), make_node)


def context_kit(given: dict[str, Any]) -> ProtocolKit:
    preset = given.get("preset", "recommended")
    if preset not in context_params.PRESETS:
        raise BadScenario(f"protocol.preset: there is no {preset!r} (allowed: {', '.join(context_params.PRESETS)})")
    changes = {key: value for key, value in given.items() if key not in ("preset", "radio_range_m")}
    geocast = changes.get("geocast", {})
    if "radio_range_m" in given and isinstance(geocast, dict):
        changes["geocast"] = {"range_m": given["radio_range_m"], **geocast}
    full = context_params.over_preset(context_params.PRESETS[preset](), changes)
    params = params_from(full, context_params.ContextParams)

    def make_node(seat: Seat) -> context.ContextNode:
        return context.ContextNode(seat.host, seat.rng, params, seat.refuses, graph=seat.graph)

    return ProtocolKit(Codec(context_messages.MESSAGES), make_node)


def proximity_kit(given: dict[str, Any]) -> ProtocolKit:
    """`preset` names where the parameters start from; the others change single ones of them."""
    changes = {"preset": "paper", **given}
    preset = changes.pop("preset")
    if preset not in proximity_params.PRESETS:
        raise BadScenario(f"protocol.preset: {preset!r} is none (allowed: {', '.join(proximity_params.PRESETS)})")
    start = msgspec.structs.asdict(proximity_params.PRESETS[preset])
    params = params_from({**start, **changes}, proximity_params.ProximityParams)

    def make_node(seat: Seat) -> proximity.Proximity:
        return proximity.Proximity(params, seat.rng, seat.refuses, graph=seat.graph)

    return ProtocolKit(Codec(proximity_messages.MESSAGES), make_node)


KITS: dict[str, Callable[[dict[str, Any]], ProtocolKit]] = {
    "flooding": flooding_kit,
    "proximity": proximity_kit,
    "context": context_kit,
}


KNOW_THE_RANGE = ("proximity", "context")
"""Protocols that decide by how far a radio reaches."""


def kit_of(protocol: dict[str, Any], radio: RadioParams | None = None) -> ProtocolKit:
    """The protocol that a scenario asks for; what it must know of the radio it is told, unless the scenario does."""
    kind = protocol.get("kind")
    if not isinstance(kind, str) or kind not in KITS:
        raise BadScenario(f"protocol.kind: no protocol is called {kind!r} (allowed: {', '.join(KITS)})")
    given = {key: value for key, value in protocol.items() if key != "kind"}
    check_finite(given)
    if radio is not None and kind in KNOW_THE_RANGE:
        given.setdefault("radio_range_m", radio.range_m)
    return KITS[kind](given)


def params_from(given: dict[str, Any], wanted: type[Params]) -> Params:
    try:
        return msgspec.convert(given, wanted)
    except msgspec.ValidationError as problem:
        raise BadScenario(f"protocol: {complaint(problem, given, wanted)}") from problem


def check_finite(given: dict[str, Any], within: str = "protocol") -> None:
    """No protocol has a use for an endless number, and most would fail on one much later."""
    for key, value in given.items():
        if isinstance(value, dict):
            check_finite(value, f"{within}.{key}")
        elif isinstance(value, float) and not math.isfinite(value):
            raise BadScenario(f"{within}.{key} is {value}; give a finite number")
