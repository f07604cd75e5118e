"""The parameters of the proximity protocol: one frozen value, four presets, every bound with its name and unit."""

import math

from msgspec import Struct


class ProximityParams(Struct, frozen=True, forbid_unknown_fields=True):
    radio_range_m: float = 200.0
    """TR: a proximity that lies within it is served by one transmission (S9)."""
    announcement_period_ms: float = 1_000.0
    announcements_missed_max: int = 30
    """A remote proximity is forgotten after so many silent periods; 0 keeps it for ever, as the paper does."""
    discovery_lookahead_periods: float = 1.5
    """A node counts as near enough to join if, at its own and the producer's speed, it may be inside within so many
    periods. It still delivers and forwards only inside. 0 is the letter of the paper: then who enters a proximity
    between two beacons misses what is raised before the second."""
    partition_periods: int = 3
    """A consumer that heard nothing of a producer for so many periods expects to have missed something (S11)."""
    forward_jitter_ms: float = 20.0
    """A forwarder waits a random time up to this."""
    gossip_distance_m: float = math.inf
    """G(d, p) of S12: forwarders farther than this from the producer forward with `gossip_probability`."""
    gossip_probability: float = 1.0
    clocks_agree_ms: float = 20.0
    """Clocks that differ by at most this are taken to agree."""

    recovery_patience_ms: float = 250.0
    """How long a gap in the sequence may be just a message on its way, at most twice that."""
    recovery_window_ms: float = 10_000.0
    """How long an instantaneous event can still be asked for; others until they expire."""
    recovery_asks_max: int = 3
    """How often one event is asked for in a row; one that lasts as often again, at ever longer intervals. 0 turns
    recovery off."""
    order_wait_ms: float = 2_500.0
    """How long ordered events wait for one before them that is missing."""

    cached_events_max: int = 64
    """For each announcement, at its producer; also how far back a consumer looks for gaps."""
    held_events_max: int = 64
    announcements_max: int = 20_000
    subscriptions_max: int = 20_000
    proximities_max: int = 20_000
    streams_max: int = 20_000
    outboxes_max: int = 4_000
    """Streams of a producer into the regions of consumers: one for each of its announcements and each region."""
    forwards_max: int = 10_000
    seen_ids_max: int = 100_000

    def __post_init__(self) -> None:
        above_zero = ("radio_range_m", "announcement_period_ms", "recovery_patience_ms", "gossip_distance_m")
        for name in above_zero:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number above 0")
        not_negative = ("forward_jitter_ms", "clocks_agree_ms", "recovery_window_ms", "order_wait_ms")
        for name in (*not_negative, "discovery_lookahead_periods"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; give a finite number, 0 or more")
        if not 0 <= self.gossip_probability <= 1:
            raise ValueError(f"gossip_probability is {self.gossip_probability}; it lies between 0 and 1")
        for name in ("announcements_missed_max", "recovery_asks_max"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")
        for name in (*(name for name in self.__struct_fields__ if name.endswith("s_max")), "partition_periods"):
            if name not in ("announcements_missed_max", "recovery_asks_max") and getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more")

    @classmethod
    def pedestrian(cls) -> "ProximityParams":
        """People with phones: slow, so that announcements can be rare and radios short."""
        return cls(radio_range_m=80.0, announcement_period_ms=2_000.0)

    @classmethod
    def vehicle(cls) -> "ProximityParams":
        """Cars: at 50 m/s two announcements a second find a proximity within 25 m of entering it."""
        return cls(radio_range_m=250.0, announcement_period_ms=500.0, forward_jitter_ms=10.0)

    @classmethod
    def paper(cls) -> "ProximityParams":
        """What section 5 of the paper used: TR is 200 m, an update every second, no recovery, nothing but beacons and
        moves ages a proximity. No event was lost at any speed, so proximities were found in time: lookahead stays."""
        return cls(announcements_missed_max=0, recovery_asks_max=0)

    @property
    def announcement_period_us(self) -> int:
        return round(self.announcement_period_ms * 1_000)

    @property
    def forward_jitter_us(self) -> int:
        return round(self.forward_jitter_ms * 1_000)

    @property
    def clocks_agree_us(self) -> int:
        return round(self.clocks_agree_ms * 1_000)

    @property
    def recovery_patience_us(self) -> int:
        return round(self.recovery_patience_ms * 1_000)

    @property
    def recovery_window_us(self) -> int:
        return round(self.recovery_window_ms * 1_000)

    @property
    def order_wait_us(self) -> int:
        return round(self.order_wait_ms * 1_000)


PRESETS = {
    "recommended": ProximityParams(),
    "paper": ProximityParams.paper(),
    "pedestrian": ProximityParams.pedestrian(),
    "vehicle": ProximityParams.vehicle(),
}
