"""The settings of a broker's storage, as `[storage]` gives them."""

from typing import Literal

from msgspec import Struct

GROUP_MS_MAX = 1_000
LEASE_S_MIN, LEASE_S_MAX = 1.0, 60.0
QUOTA_BYTES_MIN = 65_536
"""An empty log takes some pages."""


class StorageSettings(Struct, frozen=True, forbid_unknown_fields=True):
    bytes_max: int = 1024 * 1024 * 1024
    """What the log may take on disk."""
    free_bytes_min: int = 64 * 1024 * 1024
    """What must stay free on the file system; with 0 nobody looks before the system itself refuses."""
    snapshot_bytes: int = 64 * 1024 * 1024
    """When so much was logged, the state is written in one piece in its place."""
    snapshot_replay_s: float = 2.0
    """The same when so many seconds of work were logged: so long it would take to read them again."""
    sync: Literal["full", "off"] = "full"
    """With `off` a killed broker loses nothing, but a machine that loses power may lose or damage the log."""
    group_ms: float = 5.0
    """While several clients publish, commits begin at least so far apart; 0: as soon as the last one has ended."""
    lease_s: float = 3.0
    """In a database: so long after the last sign of this broker another one may take its place."""

    def __post_init__(self) -> None:
        if self.bytes_max < QUOTA_BYTES_MIN or self.free_bytes_min < 0:
            raise ValueError(f"bytes_max is at least {QUOTA_BYTES_MIN}, free_bytes_min 0 or more")
        if self.snapshot_bytes < 1:
            raise ValueError(f"snapshot_bytes is {self.snapshot_bytes}; give at least 1")
        if not 0 < self.snapshot_replay_s < float("inf"):
            raise ValueError(f"snapshot_replay_s is {self.snapshot_replay_s}; give a number above 0")
        if not 0 <= self.group_ms <= GROUP_MS_MAX:
            raise ValueError(f"group_ms is {self.group_ms}; give 0 to {GROUP_MS_MAX}")
        if not LEASE_S_MIN <= self.lease_s <= LEASE_S_MAX:
            raise ValueError(f"lease_s is {self.lease_s}; give {LEASE_S_MIN:g} to {LEASE_S_MAX:g}")

    @property
    def snapshot_every_bytes(self) -> int:
        """Early enough that what is logged does not take the room for what is kept."""
        return min(self.snapshot_bytes, self.bytes_max // 4)
