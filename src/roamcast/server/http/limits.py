"""What the HTTP port takes, as the settings say it."""

from msgspec import Struct


class HttpLimits(Struct, frozen=True, forbid_unknown_fields=True):
    head_bytes_max: int = 16_384
    """Of a request's first line and headers together."""
    body_bytes_max: int = 1_048_576
    connections_max: int = 256
    requests_per_s: float = 100.0
    """Over all connections; 0 means no limit."""
    idle_s: float = 15.0
    """How long a connection may be without a whole request."""

    def __post_init__(self) -> None:
        for name in ("head_bytes_max", "connections_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
        if not 0 <= self.requests_per_s < float("inf") or self.body_bytes_max < 0:
            raise ValueError("requests_per_s and body_bytes_max are 0 or more")
        if not 0 < self.idle_s < float("inf"):
            raise ValueError(f"idle_s is {self.idle_s}; give seconds above 0")
