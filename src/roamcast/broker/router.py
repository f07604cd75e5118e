"""The router of a broker: what neighbours and clients want, what neighbours are asked for, where an event goes (R1,
R2).

A *source* of wishes is a neighbour, by its name, or a client of this broker, by its name behind `CLIENT`. What the
router has to say to neighbours it returns as a list of (neighbour, message); how that gets there is not its business.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from roamcast.broker.gated import AskAdvertised
from roamcast.broker.messages import BrokerMessage, Notified, Unwanted, Wanted
from roamcast.broker.routing import Asking, Change, Strategy, asking_for
from roamcast.broker.wishes import Table, Wish
from roamcast.model.event import Event
from roamcast.model.space import Space

CLIENT = "client\0"
"""No host can be called so, hence no neighbour is taken for a client."""
PeerMessages: TypeAlias = list[tuple[str, BrokerMessage]]


class Beside(Protocol):
    """Wishes that are routed beside the strategies, by rules of their own (R4)."""

    def meet(self, peer: str) -> PeerMessages: ...
    def part(self, peer: str) -> PeerMessages: ...
    def concerned(self, event: Event) -> dict[str, None]: ...
    def sources_of(self, topic: str) -> Iterator[str]: ...
    def any_below(self, pattern: str) -> bool: ...
    def lead(self, peer: str, opens: bool, subject: str) -> PeerMessages:
        """A subject is advertised behind the neighbour from now on, or no longer (R1)."""
        ...

    def __len__(self) -> int: ...


class Router:
    def __init__(self, strategy: Strategy, space: Space, merged_wishes_max: int, wishes_max: int) -> None:
        self.strategy: Strategy = strategy
        self.space = space
        self.merged_wishes_max = merged_wishes_max
        self.wishes_max = wishes_max
        self.table = Table(space)
        self.neighbours: dict[str, Asking] = {}
        self.lost: dict[str, None] = {}
        """Neighbours whose link is down for longer than anybody waits who looks for something behind them."""
        self.beside: list[Beside] = []
        self.gated = False
        """Whether a neighbour is asked only for what is advertised behind it (R1)."""
        self.to_all: Callable[[Event], bool] | None = None
        """Which events go to every broker, whoever wants them, where there are such."""

    def meet(self, peer: str) -> PeerMessages:
        """A new neighbour is asked for whatever anybody else wants."""
        asking = asking_for(self.strategy, self.space, self.merged_wishes_max)
        if self.gated:
            asking = AskAdvertised(asking)
        self.neighbours[peer] = asking
        for source, wishes in self.table.wishes.items():
            if source != peer:
                for wish in wishes.values():
                    asking.add(source, wish)
        outgoing: PeerMessages = [(peer, Wanted(wish)) for wish in asking.asked()]
        for each in self.beside:
            outgoing += each.meet(peer)
        return outgoing

    def part(self, peer: str) -> PeerMessages:
        """A neighbour is gone, and with it whatever it wanted."""
        self.neighbours.pop(peer, None)
        self.lost.pop(peer, None)
        outgoing: PeerMessages = []
        for wish in self.table.of(peer):
            outgoing += self.unwant(peer, wish.id)
        for each in self.beside:
            outgoing += each.part(peer)
        return outgoing

    def leads(self, peer: str, subject: str) -> bool:
        """Whether what these subjects match may come from the neighbour."""
        asking = self.neighbours.get(peer)
        return not isinstance(asking, AskAdvertised) or asking.leads(subject)

    def full(self) -> bool:
        return len(self.table) + sum(map(len, self.beside)) >= self.wishes_max

    def want(self, source: str, wish: Wish) -> PeerMessages:
        """Wishes do not change: who wants something else asks for that under another id, then withdraws this one."""
        if wish.id in self.table.wishes.get(source, {}):
            return []
        self.table.add(source, wish)
        return self._ask_others(source, lambda asking: asking.add(source, wish))

    def unwant(self, source: str, wish_id: str) -> PeerMessages:
        if self.table.remove(source, wish_id) is None:
            return []
        return self._ask_others(source, lambda asking: asking.remove(source, wish_id))

    def _ask_others(self, source: str, change_of: Callable[[Asking], Change]) -> PeerMessages:
        """First asks, then withdraws: there is never a moment at which nobody is asked."""
        outgoing: PeerMessages = []
        for peer, asking in self.neighbours.items():
            if peer != source:
                change = change_of(asking)
                outgoing += [(peer, Wanted(wish)) for wish in change.ask]
                outgoing += [(peer, Unwanted(wish_id)) for wish_id in change.withdraw]
        return outgoing

    def route(self, notified: Notified, source: str) -> tuple[PeerMessages, list[str]]:
        """The event on its way to the neighbours that want it, and the clients here that do."""
        concerned = self._concerned(notified.event)
        to_all = self._goes_to_all(notified.event)
        peers = [peer for peer in self.neighbours if peer != source and (to_all or peer in concerned)]
        clients = [name.removeprefix(CLIENT) for name in concerned if name.startswith(CLIENT)]
        return onward(notified, peers), clients

    def to_neighbours(self, notified: Notified, source: str) -> PeerMessages:
        """The same for neighbours alone, where somebody else knows which clients get an event."""
        peers = [peer for peer in self.neighbours if peer != source]
        if peers and not self._goes_to_all(notified.event):
            concerned = self._concerned(notified.event)
            peers = [peer for peer in peers if peer in concerned]
        return onward(notified, peers)

    def may_leave(self, topic: str) -> bool:
        """Whether an event of a topic may concern a neighbour, whatever it says; but for those that go to all."""
        if self.strategy == "flooding":
            return bool(self.neighbours)
        asked = chain(self.table.sources_of(topic), *(each.sources_of(topic) for each in self.beside))
        return any(source in self.neighbours for source in asked)

    def may_leave_below(self, pattern: str) -> bool:
        """Whether to ask for single topics that a pattern covers is of any use."""
        return (
            self.strategy == "flooding"
            or self.table.any_below(pattern)
            or any(each.any_below(pattern) for each in self.beside)
        )

    def _concerned(self, event: Event) -> dict[str, None]:
        concerned = self.table.concerned(event)
        for each in self.beside:
            concerned.update(each.concerned(event))
        return concerned

    def _goes_to_all(self, event: Event) -> bool:
        return self.strategy == "flooding" or (self.to_all is not None and self.to_all(event))


def onward(notified: Notified, peers: list[str]) -> PeerMessages:
    """One message for all of them, one hop further."""
    if not peers:
        return []
    message = replace(notified, hops=notified.hops + 1)
    return [(peer, message) for peer in peers]
