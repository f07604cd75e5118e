"""Advertisements: wishes go only where what they want is published (R1; Rebeca, section 2.1).

A client's announcement is an advertisement of its subject at its border broker, and what it publishes unannounced is
advertised for it. Each broker tells its neighbours once of each subject that is advertised on another side
(`Advertised`), and withdraws it with the last (`Unadvertised`). A wish is asked of a neighbour only if it overlaps
what that one advertises (`gated.py`).

A new advertisement must not be followed by events before the wishes are there, so it settles first, as an echo over
the tree:

    `Advertised` arrives  -> the broker asks back for the wishes it has, and tells its other neighbours if it has not;
    all those answered    -> `Settled` goes back, behind all wishes that they asked for meanwhile;
    the border broker     -> has all answers: whatever waited goes out.

Guarantee: when an advertisement has settled, every wish in the network that overlaps it and was there when it was
made has arrived, because links keep order. Publications wait until then, in their order, and are not accepted before;
so a producer that moves on meanwhile takes them along. A neighbour that goes away, or whose link is down for long, is
not waited for.
"""

from collections.abc import Iterator

from msgspec import Struct

from roamcast.broker.gated import AskAdvertised
from roamcast.broker.messages import Advertised, Settled, Unadvertised, Unwanted, Wanted
from roamcast.broker.router import CLIENT, PeerMessages, Router
from roamcast.broker.routing import Change
from roamcast.model.event import Event


class Told(Struct):
    """A subject that a neighbour was told of."""

    number: int
    settled: bool = False


class Heard(Struct):
    """A subject that a neighbour advertises, or a client."""

    number: int
    answered: bool = False


class Advertising:
    def __init__(self, router: Router) -> None:
        self.router = router
        self.heard: dict[str, dict[str, Heard]] = {}
        """By subject and source."""
        self.told: dict[str, dict[str, Told]] = {}
        """By neighbour and subject."""
        self.settled: dict[str, None] = {}
        """The clients of which an advertisement has settled since somebody asked."""
        self._count = 0
        router.gated = True
        router.beside.append(self)

    def hear(self, message: Advertised | Unadvertised | Settled, sender: str) -> PeerMessages:
        match message:
            case Advertised(subject, number):
                return self.advertise(sender, subject, number)
            case Unadvertised(subject):
                return self.unadvertise(sender, subject)
            case Settled(subject, number):
                told = self.told.get(sender, {}).get(subject)
                if told is None or told.number != number:
                    return []
                told.settled = True
                return self._answer(subject)

    def advertise(self, source: str, subject: str, number: int = 0) -> PeerMessages:
        """First asks the source for what others want of it, then lets the others know."""
        known = self.heard.setdefault(subject, {}).get(source)
        if known is not None and known.number == number:
            return []
        self.heard[subject][source] = Heard(number)
        outgoing = self._open(source, subject) if known is None else []
        for peer in self.router.neighbours:
            if peer != source:
                outgoing += self._tell(peer, subject)
        return [*outgoing, *self._answer(subject)]

    def unadvertise(self, source: str, subject: str) -> PeerMessages:
        heard = self.heard.get(subject, {})
        if heard.pop(source, None) is None:
            return []
        outgoing = self._shut(source, subject)
        for peer in list(self.told):
            if not any(other != peer for other in heard) and self.told[peer].pop(subject, None) is not None:
                outgoing.append((peer, Unadvertised(subject)))
        if not heard:
            del self.heard[subject]
        return [*outgoing, *self._answer(subject)]

    def is_settled(self, client: str, subject: str) -> bool:
        heard = self.heard.get(subject, {}).get(CLIENT + client)
        return heard is not None and heard.answered

    def take_settled(self) -> list[str]:
        clients, self.settled = list(self.settled), {}
        return clients

    # Beside the strategies.

    def meet(self, peer: str) -> PeerMessages:
        self.told[peer] = {}
        outgoing: PeerMessages = []
        for subject, heard in self.heard.items():
            if any(source != peer for source in heard):
                outgoing += self._tell(peer, subject)
        return outgoing

    def part(self, peer: str) -> PeerMessages:
        self.told.pop(peer, None)
        outgoing: PeerMessages = []
        for subject in list(self.heard):
            outgoing += self.unadvertise(peer, subject)
        for subject in self.heard:
            outgoing += self._answer(subject)
        return outgoing

    def answer_all(self) -> PeerMessages:
        """After a neighbour was lost."""
        return [each for subject in self.heard for each in self._answer(subject)]

    def sources_of(self, topic: str) -> Iterator[str]:
        return iter(())

    def any_below(self, pattern: str) -> bool:
        return False

    def concerned(self, event: Event) -> dict[str, None]:
        return {}

    def lead(self, peer: str, opens: bool, subject: str) -> PeerMessages:
        return []

    def __len__(self) -> int:
        return sum(map(len, self.heard.values()))

    # Inside.

    def _tell(self, peer: str, subject: str) -> PeerMessages:
        if subject in self.told[peer]:
            return []
        self._count += 1
        self.told[peer][subject] = Told(self._count)
        return [(peer, Advertised(subject, self._count))]

    def _answer(self, subject: str) -> PeerMessages:
        """To every source behind whose back everybody has answered."""
        outgoing: PeerMessages = []
        for source, heard in self.heard.get(subject, {}).items():
            lost = self.router.lost
            others = (told for peer, told in self.told.items() if peer != source and peer not in lost)
            if heard.answered or not all(told[subject].settled for told in others if subject in told):
                continue
            heard.answered = True
            if source.startswith(CLIENT):
                self.settled[source.removeprefix(CLIENT)] = None
            else:
                outgoing.append((source, Settled(subject, heard.number)))
        return outgoing

    def _open(self, source: str, subject: str) -> PeerMessages:
        gate = self.router.neighbours.get(source)
        if not isinstance(gate, AskAdvertised):
            return []
        outgoing = changed(source, gate.advertise(subject))
        for each in self.router.beside:
            outgoing += each.lead(source, True, subject)
        return outgoing

    def _shut(self, source: str, subject: str) -> PeerMessages:
        gate = self.router.neighbours.get(source)
        if not isinstance(gate, AskAdvertised):
            return []
        outgoing = changed(source, gate.unadvertise(subject))
        for each in self.router.beside:
            outgoing += each.lead(source, False, subject)
        return outgoing


def changed(peer: str, change: Change) -> PeerMessages:
    outgoing: PeerMessages = [(peer, Wanted(wish)) for wish in change.ask]
    outgoing += [(peer, Unwanted(wish_id)) for wish_id in change.withdraw]
    return outgoing
