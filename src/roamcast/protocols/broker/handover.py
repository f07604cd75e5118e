"""Handover: the part of a broker that decides what becomes of a session when its client goes elsewhere.

Relocation (R3) is one, forwarding to where the client will be (M5 to M7) another. Neighbours' messages and timers
that the broker itself has no use for are the handover's.
"""

from typing import Protocol

from roamcast.node.boundary import Does
from roamcast.protocols.broker.messages import Attach, Between


class Handover(Protocol):
    def attach(self, now_us: int, client: str, attach: Attach) -> list[Does]:
        """A client has a new link to this broker: it was here before, or elsewhere, or nowhere."""
        ...

    def hear(self, now_us: int, message: Between, sender: str) -> list[Does]:
        """From a neighbour, in the order in which it was said."""
        ...

    def fired(self, now_us: int, name: str) -> list[Does]: ...

    def left(self) -> dict[str, int]:
        """How much of everything it still remembers, by its name: nothing, when all clients are gone."""
        ...
