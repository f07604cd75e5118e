"""Which presets of brokers MQTT clients can use, and what the settings of each must be like (L2, L3).

A preset is what `protocol` says: `handover` (relocation, or one of a mesh), `advertisements`, brokers that subscribe
ahead, or another `kind`. What clients may rely on under each is in docs/PROTOCOL.md, section 16.
"""

import re
from collections.abc import Iterable
from typing import Any

from roamcast.broker.mesh.grid import Grid, hops
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.params import BOUNDS, BrokerParams
from roamcast.model.space import Space


class BadKind(Exception):
    """There is no such kind of brokers for MQTT clients; the message says which there are."""


def by_kind(given: dict[str, Any]) -> dict[str, Any]:
    """Settings without `protocol.kind`, which is that of scenarios: an overlay has keys of its own."""
    protocol = given.get("protocol")
    if not isinstance(protocol, dict) or "kind" not in protocol:
        return given
    if "overlay" in given:
        raise BadKind(
            f"protocol.kind is {protocol['kind']!r}, and there is a table 'overlay' as well; give one of them"
        )
    others = {key: value for key, value in protocol.items() if key != "kind"}
    match protocol["kind"]:
        case "broker":
            return {**given, "protocol": others}
        case "overlay":
            return {**{key: value for key, value in given.items() if key != "protocol"}, "overlay": others}
        case kind:
            raise BadKind(f"protocol.kind is {kind!r}; MQTT clients are served by 'broker' and 'overlay'")


def as_written(error_text: str, given: dict[str, Any]) -> str:
    """What is said of an overlay, under the name that its table has in the settings."""
    return error_text if "overlay" in given else re.sub(r"\boverlay(?=[.:])", "protocol", error_text)


def check_overlay(protocol: BrokerParams, overlay: OverlayParams, journal: str, studio: bool | None) -> None:
    """What an overlay does not have is not promised. Raises `ValueError` as all of these."""
    if protocol != BrokerParams():
        raise ValueError("protocol and overlay both say how brokers work together; give one of them")
    usual = BrokerParams()
    for key in usual.__struct_fields__:
        if key not in BOUNDS and getattr(overlay.clients, key) != getattr(usual, key):
            raise ValueError(f"overlay.clients.{key}: brokers of an overlay have no such thing; leave it out")
    if (overlay.brokers, overlay.relays) != (OverlayParams().brokers, OverlayParams().relays):
        raise ValueError("overlay.brokers and overlay.relays are groups of hosts in a scenario; leave them out")
    if overlay.event_cost_ms != OverlayParams().event_cost_ms:
        raise ValueError(
            "overlay.event_cost_ms: a model for simulations; brokers measure what work costs, leave it out"
        )
    if journal:
        raise ValueError("journal: brokers of an overlay do not write journals; leave it out")
    if studio:
        raise ValueError("studio.enabled is true, and a broker of an overlay has no studio; leave it out")


def check_preset(name: str, peers: Iterable[str], protocol: BrokerParams, space: Space) -> None:
    """Raises `ValueError` that names the key and what is allowed."""
    if protocol.handover != "relocation":
        check_mesh(name, list(peers), protocol, space)
    elif protocol.mesh != MeshParams():
        raise ValueError(
            "protocol.mesh: there is none with handover 'relocation'; give handover as 'predictive', 'probing' or "
            "'batch'"
        )
    check_ahead(protocol)


def check_ahead(protocol: BrokerParams) -> None:
    ahead = protocol.ahead
    if (ahead.next_brokers or ahead.movement) and protocol.handover != "relocation":
        raise ValueError(
            f"protocol.ahead: with handover '{protocol.handover}' what is for a client goes after it by itself; "
            "next_brokers and movement are for 'relocation'"
        )
    for broker, following in ahead.next_brokers.items():
        if broker in following:
            raise ValueError(f"protocol.ahead.next_brokers: '{broker}' is named as the broker after itself")


def check_mesh(name: str, peers: list[str], protocol: BrokerParams, space: Space) -> None:
    """The broker's name says which cell is its own, and its peers are in the cells around."""
    grid = Grid(protocol.mesh, space)
    mesh = f"{grid.broker((0, 0))} to {grid.broker((grid.columns - 1, grid.rows - 1))}"
    here = grid.cell_of(name)
    if here is None:
        raise ValueError(
            f"name is '{name}', and protocol.handover '{protocol.handover}' needs a broker for each cell of "
            f"protocol.mesh; they are called {mesh}, row by row"
        )
    for peer in peers:
        cell = grid.cell_of(peer)
        if cell is None or hops(here, cell) != 1:
            around = ", ".join(sorted(grid.broker(each) for each in grid.neighbours(here)))
            raise ValueError(
                f"links.peers: '{peer}' is not in a cell beside that of '{name}'; those are {around or 'none'}"
            )
    parent = grid.parent(here)
    if parent is not None and grid.broker(parent) not in peers:
        raise ValueError(
            f"links.peers: '{grid.broker(parent)}' is missing; subscriptions of '{name}' go that way to the others"
        )
