"""Where protocols and runtimes meet: the `kind` of a scenario's protocol becomes nodes that can run.

This is the one list of protocols. A new one is one entry: its parameters, its messages, and what makes a node.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from roamcast.node.codec import Codec
from roamcast.protocols.baseline import flooding
from roamcast.sim.complaints import complaint
from roamcast.sim.residents import Seat
from roamcast.sim.run import ProtocolKit
from roamcast.sim.scenario import BadScenario

Params = TypeVar("Params")


def flooding_kit(given: dict[str, Any]) -> ProtocolKit:
    params = params_from(given, flooding.FloodingParams)
    node = flooding.AdhocFlooding if params.over == "air" else flooding.BrokerFlooding

    def make_node(seat: Seat) -> flooding.Flooding:
        return node(params, seat.refuses)

    return ProtocolKit(Codec(flooding.MESSAGES), make_node)


KITS: dict[str, Callable[[dict[str, Any]], ProtocolKit]] = {"flooding": flooding_kit}


def kit_of(protocol: dict[str, Any]) -> ProtocolKit:
    """The protocol that a scenario asks for."""
    kind = protocol.get("kind")
    if not isinstance(kind, str) or kind not in KITS:
        raise BadScenario(f"protocol.kind: no protocol is called {kind!r} (allowed: {', '.join(KITS)})")
    return KITS[kind]({key: value for key, value in protocol.items() if key != "kind"})


def params_from(given: dict[str, Any], wanted: type[Params]) -> Params:
    try:
        return msgspec.convert(given, wanted)
    except msgspec.ValidationError as problem:
        raise BadScenario(f"protocol: {complaint(problem, given, wanted)}") from problem
