"""The parameters of context-aware publish/subscribe, and their presets.

`ContextParams()` is what we recommend; `paper()` is section 4.1 as far as it says, and leaves out what the paper
leaves out (void recovery, lingering). A scenario names a preset and changes single values of it.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from roamcast.adhoc.geocast_params import GeocastParams


class ContextParams(Struct, frozen=True, forbid_unknown_fields=True):
    geocast: GeocastParams = GeocastParams()
    key_attributes: tuple[str, ...] = ()
    """The attributes that frames carry, over which relational properties of relevance and interest range."""
    beacon_s: float = 5.0
    neighbour_s: float = 12.5
    """So long after it was last heard of a neighbour is one."""
    neighbours_max: int = 1_000
    reachability_m: float = 50.0
    """Side of the square in which a publisher or subscriber can be reached."""
    safe_distance_m: float = 10.0
    """So near its boundary a new one is told."""
    refresh_s: float = 5.0
    enlarge_m: float = 60.0
    """Events and subscriptions go to a region that is larger by this on every side."""
    default_region_m: float = 500.0
    """Radius around its issuer where an event or subscription goes that names no region at all."""
    tick_s: float = 1.0
    """So often a host looks whether what it holds matches where it is now."""
    matches_again: bool = True
    """Whether a refresh is matched anew, so that what was lost has another chance; else it only updates where its
    issuer can be reached."""
    linger_ms: float = 500.0
    """So long after its end an event or subscription is still held for its counterpart that may be on its way."""
    in_flight_s: float = 5.0
    """So long after their end issuers remember their events and subscriptions, for answers that are on their way."""
    silent_s: float = 60.0
    """What its issuer has not refreshed for so long is forgotten: the issuer has gone."""
    digest_delay_ms: float = 100.0
    digest_items_max: int = 8
    query_hops: int = 1
    """How far the group reaches over which relational properties of domains range."""
    query_ms: float = 300.0
    queries_max: int = 64
    query_ways_max: int = 1_000
    """Ways back that a host remembers for the queries of others; further ones it does not answer."""
    events_max: int = 2_000
    subscriptions_max: int = 2_000
    local_events_max: int = 1_000
    local_subscriptions_max: int = 1_000
    handled_pairs_max: int = 10_000

    def __post_init__(self) -> None:
        positive = (
            "beacon_s",
            "neighbour_s",
            "reachability_m",
            "refresh_s",
            "default_region_m",
            "tick_s",
            "silent_s",
        )
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number above 0")
        for name in ("safe_distance_m", "enlarge_m", "linger_ms", "in_flight_s", "digest_delay_ms", "query_ms"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        for name in self.__struct_fields__:
            if (name.endswith("_max") or name == "query_hops") and getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more")
        if 2 * self.safe_distance_m >= self.reachability_m:
            raise ValueError(
                f"safe_distance_m is {self.safe_distance_m}; it must be less than half of reachability_m "
                f"({self.reachability_m}), or a host is always too near the boundary"
            )

    @staticmethod
    def paper() -> "ContextParams":
        """Section 4.1; no bridges, no recovery from voids, nothing lingers."""
        return ContextParams(
            geocast=GeocastParams(suppress_copies=3, bridges=False, walks=False, held_max=0), linger_ms=0.0
        )

    @staticmethod
    def pedestrian() -> "ContextParams":
        """Slow and in pockets: a short range, few beacons, and a reachability that lasts."""
        return ContextParams(
            geocast=GeocastParams(range_m=80.0), beacon_s=10.0, neighbour_s=25.0, refresh_s=10.0, enlarge_m=30.0
        )

    @staticmethod
    def vehicle() -> "ContextParams":
        """Fast: frequent beacons, wide reachability, so that a second of driving does not leave it."""
        return ContextParams(
            beacon_s=2.0,
            neighbour_s=5.0,
            reachability_m=150.0,
            safe_distance_m=30.0,
            refresh_s=3.0,
            enlarge_m=100.0,
            tick_s=0.5,
        )


PRESETS: dict[str, Callable[[], ContextParams]] = {
    "recommended": ContextParams,
    "paper": ContextParams.paper,
    "pedestrian": ContextParams.pedestrian,
    "vehicle": ContextParams.vehicle,
}


def over_preset(preset: ContextParams, given: dict[str, Any]) -> dict[str, Any]:
    """What a scenario gives, on top of a preset, ready to be validated as a whole."""
    base = {name: getattr(preset, name) for name in preset.__struct_fields__ if name != "geocast"}
    geocast = {name: getattr(preset.geocast, name) for name in preset.geocast.__struct_fields__}
    changed = given.get("geocast", {})
    if isinstance(changed, dict):
        changed = geocast | changed
    return base | given | {"geocast": changed}
