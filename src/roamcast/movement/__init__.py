"""Where a host is: sources of locations behind one interface, and what makes their fixes usable (L4).

    async with aclosing(positions(source("gpsd:localhost"), Cleaner(Earth()))) as found:
        async for fix in found:
            ...  # the newest position, or None while there is none

`source` is for whoever puts a program together, since it knows the simulator's models of movement. The live system
needs `fix`, `clean` and `following` alone.
"""

from typing import TYPE_CHECKING

from roamcast.movement.clean import Cleaner, Limits, Reason
from roamcast.movement.fix import BadSource, Fix, Source
from roamcast.movement.following import positions

if TYPE_CHECKING:
    from roamcast.movement.choosing import source

__all__ = ["BadSource", "Cleaner", "Fix", "Limits", "Reason", "Source", "positions", "source"]


def __getattr__(name: str) -> object:
    """`source` brings the simulator's models with it, so it comes when it is asked for."""
    if name == "source":
        from roamcast.movement.choosing import source

        return source
    raise AttributeError(f"module 'roamcast.movement' has no attribute '{name}'")
