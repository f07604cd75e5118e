"""What a runtime needs of a protocol: its message types, and a function that makes a node for a host.

A runtime, simulated or live, knows no protocol. It is handed a `ProtocolKit` and makes a node for each host, and
another one each time the host comes up again, out of a `Seat`.
"""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.node.boundary import Node
from roamcast.node.codec import Codec

PLANE = Plane()


class Seat(Struct, frozen=True):
    """What a node is made from: its name, its own randomness, whether it refuses to forward for others, the movement
    graph that `myloc` walks on, and the space that positions are in."""

    host: str
    rng: Random
    refuses: bool = False
    graph: MovementGraph | None = None
    space: Space = PLANE


class ProtocolKit(Struct, frozen=True):
    """A protocol, ready to be run: what its messages are and what makes a node."""

    codec: Codec
    make_node: Callable[[Seat], Node]
    runs_modulators: bool = False
    """Whether its brokers run consumers' modulators (O1)."""
    domain_hops: int = 1
    """How far the group of hosts reaches that a domain asks about (C9)."""
