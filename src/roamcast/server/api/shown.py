"""What the API tells, as types: they are the schemas of the OpenAPI document too."""

from typing import Any

from msgspec import Raw, Struct


class Position(Struct, frozen=True):
    x: float
    y: float
    at_us: int


class ClientShown(Struct, frozen=True):
    id: str
    connected: bool
    position: list[float] | None
    """Where it is now: `[longitude, latitude]`, or metres on a plane."""
    attributes: dict[str, Any]


class ClientList(Struct, frozen=True):
    clients: list[ClientShown]
    left_out: int
    """Those beyond `limit`."""


class SessionShown(Struct, frozen=True):
    client: str
    user: str | None
    connected: bool
    expiry_s: int
    """How long it outlives its connection."""
    subscriptions: int
    waiting_messages: int
    waiting_bytes: int


class SessionList(Struct, frozen=True):
    sessions: list[SessionShown]
    left_out: int


class Neighbour(Struct, frozen=True):
    name: str
    up: bool
    waiting_messages: int
    waiting_bytes: int


class Status(Struct, frozen=True):
    broker: str
    version: str
    state: str
    """`serving`, or `draining`: it takes no clients."""
    uptime_s: float
    space: str
    connected: int
    """Clients."""
    sessions: int
    subscriptions: int
    retained_messages: int
    retained_bytes: int
    waiting_messages: int
    waiting_bytes: int
    neighbours: list[Neighbour]
    storage_problem: str | None
    cpu_s: float
    """Of the process so far."""


class Done(Struct, frozen=True):
    done: str
    """What, in words."""


class Draining(Struct, frozen=True):
    told: int
    """How many clients were told to go."""
    to: str | None
    """Where they were sent."""
    sessions: int
    """How many are still here."""


class Published(Struct, frozen=True):
    topic: str
    qos: int


class FenceShown(Struct, frozen=True):
    name: str
    definition: Raw
    """GeoJSON, as it was put."""


class FenceList(Struct, frozen=True):
    fences: list[FenceShown]
