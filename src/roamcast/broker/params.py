"""Parameters of brokers and their clients."""

from typing import Literal

from msgspec import Struct

from roamcast.broker.logical.params import AheadParams, LogicalParams
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.routing import Strategy
from roamcast.broker.window import Bounds

BOUNDS = (
    "counterpart_events_max",
    "counterpart_age_s_max",
    "marks_max",
    "replay_events_max",
    "replay_wait_s_max",
    "stream_bytes_max",
    "stream_patience_s",
    "search_patience_s",
    "sessions_max",
    "arrows_max",
    "wishes_max",
    "publications_max",
)
"""Parameters that a broker may change while it goes on: how much, and how long."""


class BrokerParams(Struct, frozen=True, forbid_unknown_fields=True):
    routing: Strategy = "covering"
    merged_wishes_max: int = 16
    """Past so many wishes of a subject, merging takes inexact mergers too."""
    counterpart_events_max: int = 1_000
    """How many events wait for a client that is away; the oldest goes first, and is counted as lost."""
    counterpart_age_s_max: float = 600.0
    """How long a client may be away before everything kept for it is dropped."""
    marks_max: int = 1_024
    """Of how many publishers a session remembers how far it has them, to know copies that are still under way."""
    replay_events_max: int = 64
    """How many events one replay message carries."""
    replay_wait_s_max: float = 75.0
    """How long a new broker waits for what the old one kept: longer than searches wait for a link."""
    stream_bytes_max: int = 256 * 1024 * 1024
    """How much waits for a neighbour; beyond that publications for it are refused."""
    stream_patience_s: float = 7 * 86_400.0
    """How long a link may be down before its neighbour is given up, with what waits for it."""
    sessions_max: int = 100_000
    arrows_max: int = 1_000_000
    wishes_max: int = 1_000_000
    publications_max: int = 10_000
    """How many publications wait at a client for a broker to accept them."""
    advertisements: bool = False
    """Whether wishes go only to where what they want is announced; publications wait until that is settled."""
    logical: LogicalParams = LogicalParams()
    ahead: AheadParams = AheadParams()

    handover: Literal["relocation", "predictive", "probing", "batch"] = "relocation"
    """What becomes of a client that goes elsewhere. All but relocation need a mesh."""
    mesh: MeshParams = MeshParams()
    search_patience_s: float = 60.0
    """How long a link may be down before nobody waits for what can only be found behind it."""

    @property
    def window_bounds(self) -> Bounds:
        return Bounds(self.counterpart_events_max, self.marks_max)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value}; give a number above 0")
        if self.replay_wait_s_max <= self.search_patience_s:
            raise ValueError(
                f"replay_wait_s_max is {self.replay_wait_s_max} and search_patience_s {self.search_patience_s}; wait "
                "longer for a replay than for a link, or what a client missed is lost on the way"
            )
