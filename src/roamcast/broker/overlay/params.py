"""Parameters of overlays that reshape themselves: of brokers, and of their clients."""

from typing import Literal

from msgspec import Struct

from roamcast.broker.modulators.limits import Limits
from roamcast.broker.overlay.messages import LINK_KBPS
from roamcast.broker.params import BrokerParams


class OverlayParams(Struct, frozen=True, forbid_unknown_fields=True):
    brokers: tuple[str, ...] = ("broker",)
    """The groups whose hosts are brokers."""
    relays: tuple[str, ...] = ("relay",)
    """The groups whose hosts only pass on what others look for; everybody else is a client."""
    topology: Literal["adaptive", "given"] = "adaptive"
    """`given`: the brokers find their neighbours once, at the start, and keep them."""
    home: Literal["adaptive", "given"] = "adaptive"
    """`given`: a client keeps the home broker it found first."""
    balance: bool = True
    """Whether home brokers are chosen by load before they are chosen by path."""
    offload: bool = False
    """Whether a broker that is overloaded sends a modulator to a broker that is not."""
    place: bool = False
    """Whether modulators go where they save traffic, upstream or downstream of the home broker (O9)."""
    light_moves: bool = False
    """Whether modulators without state move without waiting for producers' brokers, which hear of it afterwards."""
    update_period_s: float = 20.0
    """How often a broker looks for its neighbours, and tells them what has changed."""
    discovery_period_s: float = 10.0
    """How often a client looks for the nearest broker."""
    neighbours: int = 4
    """A search stops when it has found so many brokers."""
    ring_hops_max: int = 10
    """How far a search goes."""
    ring_wait_ms: float = 50.0
    """How long a search waits for answers, for each hop it goes."""
    answer_jitter_ms: float = 10.0
    """Within what time a broker answers a search: of those equally near, others are found first each time."""
    searches_max: int = 4_096
    """How many searches of others a host remembers, to pass on each once."""
    brokers_max: int = 1_024
    """Of how many brokers a broker knows."""
    resend_s: float = 2.0
    """How long a message between two brokers may go unacknowledged before it is sent again."""
    resend_s_max: float = 20.0
    """The same after many times."""
    acknowledge_s: float = 0.3
    """How long an acknowledgement may wait for something to go with."""
    window_messages: int = 64
    """How many messages are under way to one broker; the others wait for these."""
    stored_messages_max: int = 10_000
    """How many messages wait for one broker; events beyond that are refused, and counted as lost."""
    parcels_remembered_max: int = 256
    """How many parcels a broker can send again on another path when their next broker cannot be reached."""
    tend_s: float = 1.0
    """How often a broker or client looks after who could not be reached."""
    hold_s_max: float = 60.0
    """How long an event waits for the one before it of the same producer."""
    handoff_s_max: float = 30.0
    """How long a broker waits for another one to take a client before it keeps it."""
    give_up_s: float = 120.0
    """How long another broker may leave what it is told unanswered before this one goes on without it."""
    load_period_s: float = 5.0
    """Over what time load is measured."""
    load_max: float = 0.8
    """Above this share of its capacity a broker is overloaded."""
    queued_messages_max: int = 10_000
    """With so many messages that wait to be taken by others, a broker counts as fully loaded."""
    memory_bytes_max: int = 1024 * 1024 * 1024
    """The same of the memory of its process."""
    link_kbps: float = LINK_KBPS
    """What the link of a broker carries, where its host has no attribute `link_kbps`: of paths with as many hops the
    faster is taken, and placement counts a hop over a slow link for more."""
    event_cost_ms: float = 1.0
    """In a simulation, how long a broker works on one event for one modulator. A live broker measures it."""
    clients: BrokerParams = BrokerParams()
    """Bounds of sessions, as for all brokers."""
    modulators: Limits = Limits()
    """What a broker grants to each modulator."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value}; give a number above 0")


def microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
