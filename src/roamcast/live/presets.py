"""Which presets of brokers MQTT clients can use, and what the settings of each must be like (L2, L3).

A preset is what `protocol` says: `handover` (relocation, or one of a mesh), `advertisements`, and brokers that
subscribe ahead. What clients may rely on under each is in docs/PROTOCOL.md, section 16.
"""

from collections.abc import Iterable

from roamcast.model.space import Space
from roamcast.protocols.broker.mesh.grid import Grid, hops
from roamcast.protocols.broker.params import BrokerParams


def check_preset(name: str, peers: Iterable[str], protocol: BrokerParams, space: Space) -> None:
    """Raises `ValueError` that names the key and what is allowed."""
    if protocol.handover != "relocation":
        check_mesh(name, list(peers), protocol, space)
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
