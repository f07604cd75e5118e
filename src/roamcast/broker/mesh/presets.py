"""Which handover a parameter names."""

from roamcast.broker.border import Border
from roamcast.broker.mesh.batch import Batch
from roamcast.broker.mesh.grid import Grid
from roamcast.broker.mesh.handover import MeshHandover
from roamcast.broker.mesh.predictive import Predictive
from roamcast.broker.mesh.probing import Probing
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.broker.params import BrokerParams
from roamcast.model.movement import MovementModel

HANDOVERS: dict[str, type[MeshHandover]] = {"predictive": Predictive, "probing": Probing, "batch": Batch}


def mesh_handover(
    host: str,
    params: BrokerParams,
    border: Border,
    neighbours: NeighbourBrokers,
    grid: Grid,
    movement: MovementModel | None,
) -> MeshHandover:
    return HANDOVERS[params.handover](host, params, border, neighbours, grid, movement)
