"""The parameters of geocast: radio range, delays, suppression, recovery from voids, bounds."""

from msgspec import Struct


class GeocastParams(Struct, frozen=True, forbid_unknown_fields=True):
    range_m: float = 200.0
    """The nominal radio range: delays and coverage are reckoned with it."""
    greedy_delay_ms: float = 40.0
    """The longest delay on the way to the region, of a host that makes hardly any progress."""
    jitter_ms: float = 5.0
    flood_delay_ms: float = 50.0
    """Inside the region a host waits a random time up to this."""
    suppress_copies: int = 2
    """Inside, a host that has heard so many copies keeps quiet, if its neighbours must have heard them too."""
    coverage: float = 0.8
    """A neighbour has heard a copy if it is within this share of the range of its sender."""
    retry_ms: float = 120.0
    retries_max: int = 1
    bridges: bool = True
    """Whether hosts outside the region help to spread a message inside."""
    walks: bool = True
    """Whether messages walk around voids, and outside regions to find all their parts."""
    held_max: int = 64
    """0: messages in a void are not carried on."""
    held_s: float = 10.0
    carries_max: int = 3
    """How often a carried message is tried again."""
    hops_max: int = 250
    seen_ids_max: int = 20_000
    under_way_max: int = 1_000

    def __post_init__(self) -> None:
        for name in ("range_m", "retry_ms", "held_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number above 0")
        for name in ("greedy_delay_ms", "jitter_ms", "flood_delay_ms", "retries_max", "held_max"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.coverage <= 1:
            raise ValueError(f"coverage is {self.coverage}; a share lies between 0 and 1")
        for name in ("suppress_copies", "hops_max", "seen_ids_max", "under_way_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more")
        if self.retry_ms < self.greedy_delay_ms + self.jitter_ms:
            raise ValueError(
                f"retry_ms is {self.retry_ms}; the next hop may take greedy_delay_ms + jitter_ms to answer"
            )
