"""The hosts of a world: what a scenario says of them (`Resident`), and what they are while it runs (`Body`)."""

from collections import deque
from collections.abc import Callable
from random import Random

from msgspec import Struct, field

from roamcast.model.values import Value
from roamcast.node.boundary import Input, Node
from roamcast.node.host import Host
from roamcast.node.port import Application, Port
from roamcast.sim.kernel import Handle
from roamcast.sim.mobility.legs import Track


class Seat(Struct, frozen=True):
    """What a node is made from: its name, its own randomness, and whether it refuses to forward for others."""

    host: str
    rng: Random
    refuses: bool = False


class Resident(Struct, frozen=True):
    """A host of the scenario: who it is, how it moves, what makes its node and, if it has one, its application."""

    host: str
    track: Track
    make_node: Callable[[Seat], Node]
    attributes: dict[str, Value] = field(default_factory=dict)
    make_application: Callable[[], Application] | None = None


class Body:
    """A host while the world runs: its node, timers, groups, disk, and whether it is up or frozen."""

    __slots__ = (
        "attributes",
        "crashed",
        "disk",
        "frozen_inputs",
        "groups",
        "host",
        "index",
        "port",
        "refuses",
        "resident",
        "timers",
        "up",
    )

    def __init__(self, index: int, resident: Resident, host: Host, refuses: bool) -> None:
        self.index = index
        self.refuses = refuses
        self.attributes = resident.attributes
        self.port: Port | None = None
        self.resident = resident
        self.host = host
        self.up = False
        self.crashed = False
        self.timers: dict[str, Handle] = {}
        self.groups: set[int] = set()
        self.disk: dict[str, bytes] = {}
        self.frozen_inputs: deque[Input] | None = None
