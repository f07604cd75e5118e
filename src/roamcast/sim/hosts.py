"""The hosts of a world: what a scenario says of them (`Resident`), and what they are while it runs (`Body`)."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct, field

from roamcast.model.values import Value
from roamcast.movement.legs import Track
from roamcast.node.boundary import Node
from roamcast.node.host import Host
from roamcast.node.kit import Seat
from roamcast.node.port import Application, Port
from roamcast.sim.kernel import Handle


class Resident(Struct, frozen=True):
    """A host of the scenario: who it is, how it moves, what makes its node and, if it has one, its application."""

    host: str
    track: Track
    make_node: Callable[[Seat], Node]
    attributes: dict[str, Value] = field(default_factory=dict)
    make_application: Callable[[], Application] | None = None
    runs_modulators: bool = True
    """Whether its protocol has brokers that run modulators, so that its application may ask for one."""


class Body:
    """A host while the world runs: its node, timers, groups, disk, and whether it is up or paused.

    Each time it comes up it is a new `Host` with a new node: whoever keeps a `Host` can tell whether it still lives.
    """

    __slots__ = (
        "_generators",
        "_rng",
        "attributes",
        "crashed",
        "disk",
        "groups",
        "host",
        "index",
        "pauses",
        "port",
        "refuses",
        "resident",
        "starts",
        "timers",
        "up",
        "waiting",
    )

    def __init__(
        self, index: int, resident: Resident, host: Host, refuses: bool, rng: Callable[[str, str], Random]
    ) -> None:
        self.index = index
        self.refuses = refuses
        self.attributes = resident.attributes
        self.port: Port | None = None
        self.resident = resident
        self.host = host
        self.up = False
        self.crashed = False
        self.starts = 0
        """How often it came up."""
        self.timers: dict[str, Handle] = {}
        self.groups: set[int] = set()
        self.disk: dict[str, bytes] = {}
        self.pauses = 0
        """How many pauses hold it."""
        self.waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] | None = None
        """While it is paused: what it does when it wakes up, in this order."""
        self._rng = rng
        self._generators: dict[str, Random] = {}

    def rng(self, purpose: str) -> Random:
        """This host's own generator for a purpose, made when it is first needed."""
        found = self._generators.get(purpose)
        if found is None:
            found = self._generators[purpose] = self._rng(purpose, self.resident.host)
        return found

    def lives_as(self, host: Host) -> bool:
        """Whether this is still the same life of the host: no crash and no absence since."""
        return self.up and self.host is host

    def act(self, action: Callable[..., None], *arguments: Any) -> None:
        """Does something of its own, or, while it is paused, does it when it wakes up.

        What waits here was begun before the pause, so there is no more of it than the host itself has begun.
        """
        if self.waiting is None:
            action(*arguments)
        else:
            self.waiting.append((action, arguments))

    def pause(self) -> None:
        self.pauses += 1
        if self.waiting is None:
            self.waiting = deque()

    def wake(self) -> None:
        """One pause ended; with the last one everything that waited happens, in order."""
        self.pauses -= 1
        if self.pauses > 0:
            return
        waited, self.waiting = self.waiting, None
        for action, arguments in waited or ():
            action(*arguments)

    def set_timer(self, name: str, handle: Handle) -> None:
        before = self.timers.get(name)
        if before is not None:
            before.cancel()
        self.timers[name] = handle

    def cancel_timer(self, name: str) -> None:
        handle = self.timers.pop(name, None)
        if handle is not None:
            handle.cancel()

    def die(self) -> None:
        """Everything that does not outlast a crash."""
        self.up = False
        self.port = None
        self.pauses = 0
        self.waiting = None
        for handle in self.timers.values():
            handle.cancel()
        self.timers.clear()
        self.groups.clear()
