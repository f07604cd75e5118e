"""How patient links are, and how much they hold."""

from msgspec import Struct


class LinkSettings(Struct, frozen=True, forbid_unknown_fields=True):
    patience_s: float = 10.0
    """So long may a peer be silent; it is asked with pings before."""
    greeting_s: float = 5.0
    """So long may a connection take until it is a link."""
    hold_s: float = 1.0
    """So long waits a connection that the peer dialled for the one that is being dialled to it."""
    probe_s: float = 1.0
    """So long has a link to answer when its peer comes with another connection."""
    dial_s: float = 5.0
    """So long may one attempt to reach a peer take."""
    backoff_min_s: float = 0.1
    backoff_max_s: float = 5.0
    buffer_bytes_max: int = 64 * 1024 * 1024
    """More than this waiting for one peer ends its link."""
    strangers_max: int = 64
    """Accepted connections that have not said a name that is known to be theirs."""

    def __post_init__(self) -> None:
        times_s = (self.patience_s, self.greeting_s, self.hold_s, self.probe_s, self.dial_s, self.backoff_min_s)
        if not all(0 < each < 1e6 for each in times_s) or not self.backoff_min_s <= self.backoff_max_s < 1e6:
            raise ValueError("times of links are above 0 s, and backoff_min_s is at most backoff_max_s")
        if self.buffer_bytes_max < 1 or self.strangers_max < 1:
            raise ValueError("buffer_bytes_max and strangers_max are at least 1")
