"""Parameters of a mesh of brokers (M)."""

import math

from msgspec import Struct

from roamcast.model.movement import MovementModel
from roamcast.model.values import BadValue

SAME = 1e-9
"""Two grids that differ by less have the same cells: a nanometre, or a nanodegree."""


class MeshParams(Struct, frozen=True, forbid_unknown_fields=True):
    broker: str = "broker"
    """The group of the brokers: `broker-1` is in the first cell of the first row, and so on, row by row."""
    columns: int = 3
    rows: int = 3
    cell_m: float = 250.0
    """How wide and high a cell is."""
    origin: tuple[float, float] = (0.0, 0.0)
    """The corner at which the first cell begins."""
    hop_delay_ms: float = 5.0
    """`Delay` of Algorithm 1: how long an event takes from one broker to the next."""
    arrival_wait_s: float = 1.0
    """How long a forwarding broker keeps an event for a client that is not in its cell yet."""
    held_events_max: int = 64
    """How many events it keeps for one such client."""
    chases_max: int = 4
    """How often an event is sent on from a broker whose cell the client has left already."""
    stays_max: int = 1_024
    """How many cells ahead a client's way is predicted."""
    trail_max: int = 256
    """How many brokers a message remembers that goes around brokers which are down."""
    report_s: float = 60.0
    """How long after the end of its trip a client that finds itself elsewhere says where it is."""
    probe_s: float = 10.0
    """Probing: how often a client asks its broker for new events."""
    movement: str = ""
    """The file of a movement model, used for clients that tell no destination."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value}; give a number above 0")
        if not self.broker:
            raise ValueError("broker is empty; give the name of the group of brokers")

    def check_model(self, model: MovementModel) -> None:
        """Refuses a model whose cells are not this mesh's: under the same name they would be other places."""
        if model.cell_m == 0:
            raise BadValue(f"{self.movement}: field 'cell_m' is 0: its places are not cells, as a mesh's are")
        pairs = [("cell_m", model.cell_m, self.cell_m)]
        pairs += [("origin", learned, ours) for learned, ours in zip(model.origin, self.origin, strict=True)]
        for field, learned, ours in pairs:
            if not math.isclose(learned, ours, rel_tol=SAME, abs_tol=SAME):
                raise BadValue(
                    f"{self.movement}: field '{field}': the model was learned with {learned:.12g}, and the mesh has "
                    f"{ours:.12g}; learn it again with the mesh's `--cells` and `--origin`"
                )
