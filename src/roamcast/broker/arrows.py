"""Arrows: where each client was seen last, as seen from this broker (R3).

A client that attaches to a new broker N is claimed from the old one O with a `Relocate` that follows the arrows from
N to O and turns them towards N on its way; the arrows of all other brokers stay right, since they point to that way.
An arrow keeps the claim that turned it, and that settles what happens when claims of one client meet:

    a later claim      turns the arrow, and goes on to where it pointed before;
    the same claim     is a copy, and ends;
    an earlier claim   ends, and the later one is sent back to where it came from, so that whoever believed the
    earlier
                       one learns better.

A broker with no arrow passes a claim to all its neighbours, and answers `NotFound` when all of them did.
"""

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.messages import NotFound, Relocate, Replay
from roamcast.broker.router import PeerMessages


class Arrow(Struct, frozen=True):
    claim: Relocate
    """The latest one heard of, with its path up to and including this broker."""
    towards: str | None
    """The neighbour before this broker on its path; None: the client is, or was last, at this broker."""


class Search(Struct):
    """A claim that went to all neighbours: who has not answered yet."""

    claim: Relocate
    asked: set[str]
    found: bool = False
    """Whether a replay has begun to come: then it does not matter that others have nothing."""


class Arrows:
    def __init__(self, host: str, arrows_max: int) -> None:
        self.host = host
        self.arrows_max = arrows_max
        self.of: dict[str, Arrow] = {}
        self.searches: dict[str, Search] = {}
        """By client, the latest one."""

    def here(self, claim: Relocate) -> Arrow | None:
        """The client has come here; answers where it was before, as far as is known."""
        before = self.of.pop(claim.client, None)
        self._set(Arrow(claim, None))
        return before

    def turn(self, claim: Relocate, towards: str) -> Arrow | None:
        before = self.of.pop(claim.client, None)
        self._set(Arrow(claim, towards))
        return before

    def _set(self, arrow: Arrow) -> None:
        if len(self.of) >= self.arrows_max:
            del self.of[next(iter(self.of))]
        self.of[arrow.claim.client] = arrow

    def forget(self, client: str, epoch: int) -> bool:
        """Whether there was an arrow, and none that a later claim had turned."""
        arrow = self.of.get(client)
        if arrow is None or arrow.claim.epoch > epoch:
            return False
        del self.of[client]
        self.searches.pop(client, None)
        return True

    def arrived(self, claim: Relocate) -> Relocate:
        """The claim with this broker on its way; if it was here before, without the loop it made."""
        path = claim.path[: claim.path.index(self.host)] if self.host in claim.path else claim.path
        return replace(claim, path=(*path, self.host))

    def search(self, claim: Relocate, neighbours: list[str]) -> PeerMessages:
        """Sends a claim to all these, and waits for their answers."""
        if len(self.searches) >= self.arrows_max:
            del self.searches[next(iter(self.searches))]
        self.searches[claim.client] = Search(claim, set(neighbours))
        return [(peer, claim) for peer in neighbours]

    def missed(self, answer: NotFound, sender: str) -> NotFound | None:
        """One of those asked found nothing; None while others may, or one did. Else the answer, as it goes on."""
        search = self.searches.get(answer.client)
        if search is None or search.claim.epoch != answer.epoch:
            return answer
        self._answered(search, sender)
        return None if search.asked or search.found else not_found(search.claim)

    def found(self, replay: Replay, sender: str) -> None:
        """One of those asked has the session. The others answer later than the first piece, or than the last."""
        search = self.searches.get(replay.client)
        if search is not None and search.claim.epoch == replay.epoch:
            search.found = True
            if replay.last:
                self._answered(search, sender)

    def _answered(self, search: Search, sender: str) -> None:
        search.asked.discard(sender)
        if not search.asked:
            del self.searches[search.claim.client]


def not_found(claim: Relocate) -> NotFound:
    return NotFound(claim.client, claim.epoch, claim.path)


def back(answer: Replay | NotFound) -> PeerMessages:
    """An answer, one step back on the way that its claim came."""
    path = answer.path[:-1]
    return [(path[-1], replace(answer, path=path))]
