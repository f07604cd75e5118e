"""Which handover a parameter names."""

from roamcast.model.movement import MovementModel
from roamcast.protocols.baseline.batch import Batch
from roamcast.protocols.baseline.probing import Probing
from roamcast.protocols.broker.border import Border
from roamcast.protocols.broker.mesh.grid import Grid
from roamcast.protocols.broker.mesh.handover import MeshHandover
from roamcast.protocols.broker.mesh.predictive import Predictive
from roamcast.protocols.broker.neighbourhood import Neighbourhood
from roamcast.protocols.broker.params import BrokerParams

HANDOVERS: dict[str, type[MeshHandover]] = {"predictive": Predictive, "probing": Probing, "batch": Batch}


def mesh_handover(
    host: str,
    params: BrokerParams,
    border: Border,
    neighbourhood: Neighbourhood,
    grid: Grid,
    movement: MovementModel | None,
) -> MeshHandover:
    return HANDOVERS[params.handover](host, params, border, neighbourhood, grid, movement)
