"""Where protocols and runtimes meet: the `kind` of a scenario's protocol becomes nodes that can run.

This is the one list of protocols. A new one is one entry: its parameters, its messages, and what makes a node. Each
loads its protocol when it is asked for: there are many, and a run needs one.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from roamcast.config_errors import error_text
from roamcast.model.movement import MovementModel, load_model
from roamcast.model.values import BadValue
from roamcast.node.boundary import Node
from roamcast.node.codec import Codec
from roamcast.node.compact import CompactCodec
from roamcast.node.kit import ProtocolKit, Seat
from roamcast.sim.radio import RadioParams
from roamcast.sim.scenario import BadScenario

Params = TypeVar("Params")


def flooding_kit(given: dict[str, Any]) -> ProtocolKit:
    from roamcast.adhoc import flooding

    params = params_from(given, flooding.FloodingParams)
    node = flooding.AdhocFlooding if params.over == "air" else flooding.BrokerFlooding

    def make_node(seat: Seat) -> flooding.Flooding:
        return node(params, seat.refuses, seat.space, seat.graph)

    codec = CompactCodec if params.over == "air" else Codec
    return ProtocolKit(codec(flooding.MESSAGES), make_node)


def context_kit(given: dict[str, Any]) -> ProtocolKit:
    from roamcast.adhoc.context import messages as context_messages
    from roamcast.adhoc.context import node as context
    from roamcast.adhoc.context import params as context_params

    preset = given.get("preset", "recommended")
    if not isinstance(preset, str) or preset not in context_params.PRESETS:
        raise BadScenario(f"protocol.preset: there is no {preset!r} (allowed: {', '.join(context_params.PRESETS)})")
    changes = {key: value for key, value in given.items() if key not in ("preset", "radio_range_m")}
    geocast = changes.get("geocast", {})
    if "radio_range_m" in given and isinstance(geocast, dict):
        changes["geocast"] = {"range_m": given["radio_range_m"], **geocast}
    full = context_params.over_preset(context_params.PRESETS[preset](), changes)
    params = params_from(full, context_params.ContextParams)

    def make_node(seat: Seat) -> context.ContextNode:
        return context.ContextNode(seat.host, seat.rng, params, seat.refuses, seat.space, seat.graph)

    return ProtocolKit(CompactCodec(context_messages.MESSAGES), make_node, domain_hops=params.query_hops)


def proximity_kit(given: dict[str, Any]) -> ProtocolKit:
    """`preset` names where the parameters start from; the others change single ones of them."""
    from roamcast.adhoc.proximity import messages as proximity_messages
    from roamcast.adhoc.proximity import node as proximity
    from roamcast.adhoc.proximity import params as proximity_params

    changes = {"preset": "recommended", **given}
    preset = changes.pop("preset")
    if not isinstance(preset, str) or preset not in proximity_params.PRESETS:
        raise BadScenario(f"protocol.preset: there is no {preset!r} (allowed: {', '.join(proximity_params.PRESETS)})")
    start = msgspec.structs.asdict(proximity_params.PRESETS[preset])
    params = params_from({**start, **changes}, proximity_params.ProximityParams)

    def make_node(seat: Seat) -> proximity.Proximity:
        return proximity.Proximity(params, seat.rng, seat.refuses, seat.space, seat.graph)

    return ProtocolKit(CompactCodec(proximity_messages.MESSAGES), make_node)


def broker_kit(given: dict[str, Any]) -> ProtocolKit:
    """`brokers` names the groups whose hosts are brokers; all other hosts are clients."""
    from roamcast.broker import broker, client
    from roamcast.broker import messages as broker_messages
    from roamcast.broker import params as broker_params
    from roamcast.broker.mesh import client as mesh_client

    is_broker, changes = brokers_among(given)
    params = params_from(changes, broker_params.BrokerParams)
    movement = movement_model(params.mesh.movement, "mesh", params.mesh.check_model)
    walked = movement_model(params.logical.movement, "logical")
    led = movement_model(params.ahead.movement, "ahead", params.ahead.check_model)
    if led is not None:
        params = replace(params, ahead=params.ahead.following(led))
    graph = None if walked is None else walked.graph()
    if walked is not None:
        params = replace(params, logical=params.logical.following(walked))
    make_client = client.Client if params.handover == "relocation" else mesh_client.MeshClient

    def make_node(seat: Seat) -> broker.Broker | client.Client:
        if is_broker(seat.host):
            return broker.Broker(
                seat.host, params, seat.rng.getrandbits(62), seat.space, graph or seat.graph, movement
            )
        return make_client(seat.host, params, seat.space, graph or seat.graph)

    return ProtocolKit(Codec(broker_messages.MESSAGES), make_node)


def resubscribing_kit(given: dict[str, Any]) -> ProtocolKit:
    from roamcast.broker import resubscribing

    is_broker, changes = brokers_among(given)
    params = params_from(changes, resubscribing.ResubscribingParams)

    def make_node(seat: Seat) -> resubscribing.ResubscribingBroker | resubscribing.ResubscribingClient:
        if is_broker(seat.host):
            return resubscribing.ResubscribingBroker(params, seat.rng.getrandbits(62), seat.space)
        return resubscribing.ResubscribingClient(seat.host, params, seat.space, seat.graph)

    return ProtocolKit(Codec(resubscribing.MESSAGES), make_node)


def brokers_among(given: dict[str, Any]) -> tuple[Callable[[str], object], dict[str, Any]]:
    """What tells a broker from a client by its name, and the other parameters."""
    changes = dict(given)
    groups = changes.pop("brokers", ["broker"])
    if not isinstance(groups, list) or not groups or not all(isinstance(each, str) for each in groups):
        raise BadScenario(f"protocol.brokers is {groups!r}; give a list of names of groups, for example ['broker']")
    return re.compile("|".join(rf"{re.escape(group)}(-\d+)?" for group in groups)).fullmatch, changes


def overlay_kit(given: dict[str, Any]) -> ProtocolKit:
    from roamcast.broker.overlay import client as overlay_client
    from roamcast.broker.overlay import messages as overlay_messages
    from roamcast.broker.overlay import modelled as overlay_modelled
    from roamcast.broker.overlay import params as overlay_params
    from roamcast.broker.overlay import relay as overlay_relay

    params = params_from(given, overlay_params.OverlayParams)
    is_broker, is_relay = in_groups(params.brokers), in_groups(params.relays)

    def make_node(seat: Seat) -> Node:
        if is_broker(seat.host):
            return overlay_modelled.ModelledBroker(seat.host, params, seat.rng, seat.space)
        if is_relay(seat.host):
            return overlay_relay.Relay(seat.host, params)
        return overlay_client.OverlayClient(seat.host, params, seat.rng, seat.space, seat.graph)

    return ProtocolKit(Codec(overlay_messages.MESSAGES), make_node, runs_modulators=True)


def in_groups(groups: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a host is in one of the groups, by its name."""
    pattern = re.compile("|".join(rf"{re.escape(group)}(-\d+)?" for group in groups) or r"(?!)")
    return lambda host: pattern.fullmatch(host) is not None


def movement_model(
    path: str, part: str, check: Callable[[MovementModel], None] = lambda _: None
) -> MovementModel | None:
    """The model, loaded and found to fit; None where no file is named."""
    if not path:
        return None
    try:
        model = load_model(Path(path))
        check(model)
        return model
    except BadValue as problem:
        raise BadScenario(f"protocol.{part}.movement: {problem}") from problem


KITS: dict[str, Callable[[dict[str, Any]], ProtocolKit]] = {
    "flooding": flooding_kit,
    "proximity": proximity_kit,
    "context": context_kit,
    "broker": broker_kit,
    "overlay": overlay_kit,
    "resubscribing": resubscribing_kit,
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
        raise BadScenario(f"protocol: {error_text(problem, given, wanted)}") from problem


def check_finite(given: dict[str, Any], within: str = "protocol") -> None:
    """No protocol has a use for an endless number, and most would fail on one much later."""
    for key, value in given.items():
        if isinstance(value, dict):
            check_finite(value, f"{within}.{key}")
        elif isinstance(value, float) and not math.isfinite(value):
            raise BadScenario(f"{within}.{key} is {value}; give a finite number")
