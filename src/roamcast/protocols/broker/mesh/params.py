"""Parameters of a mesh of brokers (M)."""

from msgspec import Struct


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
