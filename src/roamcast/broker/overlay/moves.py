"""What the two ends of a relocation remember of it while it is under way (O4)."""

from typing import Literal, TypeAlias

from msgspec import Struct, field

from roamcast.broker.overlay.messages import Address, Ask, Modulated, Retire, Routed, SwitchedOff
from roamcast.broker.overlay.pieces import Pieces

Buffered: TypeAlias = tuple[Routed, Address, str] | tuple[Modulated | SwitchedOff, str] | Retire
"""What came for something that is still to come, and from whom."""


Why: TypeAlias = Literal["nearer", "overload", "offload", "traffic", "asked"]
"""A client's home moves to a broker on a shorter path, or away from one that is overloaded; a modulator away from one
that is overloaded, or to where it saves traffic; or somebody asked for it."""


class Move(Struct):
    """At S."""

    ask: Ask
    why: Why
    to: str
    asked_us: int
    born: int
    """Of the session, if it moves."""
    told: tuple[str, ...] = ()
    """Who knows of what moves, when step 3 began."""
    informed: tuple[str, ...] = ()
    """Who was told in step 3."""
    awaits: set[str] | None = None
    """Who has not said yet that it takes the new way; None before step 3."""
    afterwards: list[Retire] = field(default_factory=list)
    """What D must hear of behind the handoff."""

    def untell(self, broker: str) -> None:
        """This one knows nothing of what moves, so D tells it."""
        self.told = tuple(each for each in self.told if each != broker)
        self.informed = tuple(each for each in self.informed if each != broker)


class Arrival(Struct):
    """At D: what will come, and what has come for it already."""

    ask: Ask
    sender: str
    since_us: int
    buffered: list[Buffered] = field(default_factory=list)
    missed: int = 0
    pieces: Pieces | None = None
    """What has come of a handoff that comes in pieces."""
