"""Handover: the part of a broker that decides what becomes of a session when its client goes elsewhere.

Relocation (R3) is one, forwarding to where the client will be (M5 to M7) another. Neighbours' messages and timers
that the broker itself has no use for are the handover's. What only some handovers need has an answer here that does
nothing.
"""

from typing import Protocol

from roamcast.broker.arrows import Arrow
from roamcast.broker.messages import Attach, BrokerMessage, Has, Poll, Prepare
from roamcast.broker.params import BrokerParams
from roamcast.node.boundary import Does, Note


class Handover(Protocol):
    def attach(self, now_us: int, client: str, attach: Attach) -> list[Does]:
        """A client has a new link to this broker: it was here before, or elsewhere, or nowhere."""
        ...

    def hear(self, now_us: int, message: BrokerMessage, sender: str) -> list[Does]:
        """From a neighbour, in the order in which it was said."""
        ...

    def fired(self, now_us: int, name: str) -> list[Does]: ...

    def hear_client(self, now_us: int, message: Has | Poll, client: str) -> list[Does]:
        """From a client whose session may be elsewhere."""
        return [Note("unexpected_message", message.kind)]

    def linked(self, now_us: int, peer: str) -> list[Does]:
        """A link to a neighbour or a client has come up."""
        return []

    def met(self, peer: str) -> list[Does]:
        """A neighbour is new, or new again after a crash."""
        return []

    def unlinked(self, now_us: int, peer: str) -> list[Does]:
        return []

    def follow(self, now_us: int) -> list[Does]:
        """After each input: sends what has come for clients that are elsewhere after them."""
        return []

    def arrow_of(self, client: str) -> Arrow | None:
        """Where the client was seen last, if that is known (R3)."""
        return None

    def foretold(self, client: str) -> Prepare | None:
        """What the client's present broker has said of it, if this one subscribes ahead for it (R7)."""
        return None

    def adopt(self, params: BrokerParams) -> None:
        """Goes on with other bounds."""
        ...

    def left(self) -> dict[str, int]:
        """How much of everything it still remembers, by its name: nothing, when all clients are gone."""
        ...
