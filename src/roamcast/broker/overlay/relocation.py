"""Relocation of modulators and sessions in the eight steps of section 2.4 (O4, O6).

What moves is a set of a client's posts and, if its home moves too, its session. S is where they are, D where they go.

| step | who | does |
|---|---|---|
| 1 | S | `Ask`s D |
| 2 | D | notes what will come, `Agree`s; from now on it buffers what arrives for that |
| 3 | S | tells every broker that has producers, itself and D, to `Detour` |
| 4 | each of them | sends to D from now on, and says so to S (`Detoured`), in the paper also to D |
| 5 | S | goes on with what still comes, until all have said so |
| 6 | D | buffers |
| 7 | S | hands everything over with its state (`Handoff`) and forgets it |
| 8 | D | takes it over, then what it has buffered; if it is the home now, it tells the client |

Why nothing is lost: flows keep order, so behind a broker's `Detoured` nothing of it comes to S any more. A producer
may be at a broker that was not told, by a move of its own or as a new one. What that one sends to S goes on to D, by
the directory (`directory.py`), and the sender is corrected.

Why nothing is doubled or disordered: each event is sent to one of the two; a post takes the events of a producer
along their chain (`posts.py`), so that neither a producer that moves at the same time nor an event that was faster
changes the order, and its output is numbered. So what has no state may also go without waiting for brokers with
producers (`light_moves`): an event that they send to S meanwhile takes one detour more. Until step 3 S can still
change its mind, after it D gets everything, however late.
"""

from roamcast.broker.overlay.acquaintance import Acquaintance
from roamcast.broker.overlay.arriving import Arriving
from roamcast.broker.overlay.broker_manager import BrokerManager
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.departing import Departing
from roamcast.broker.overlay.losses import Losses
from roamcast.broker.overlay.messages import (
    Agree,
    Ask,
    Cancel,
    Detour,
    Detoured,
    Handoff,
    HandoffPart,
    Refuse,
)
from roamcast.broker.overlay.params import OverlayParams
from roamcast.model.space import Space
from roamcast.node.boundary import Does


class Relocation:
    """A broker's part in all moves: as S (`departing.py`), as D (`arriving.py`), and as one that is told."""

    def __init__(
        self, host: str, params: OverlayParams, brokers: BrokerManager, clients: ClientManager, space: Space
    ) -> None:
        self.host = host
        self.brokers = brokers
        self.clients = clients
        self.losses = Losses(brokers, clients)
        self.departing = Departing(host, params, brokers, clients, self.losses)
        self.acquaintance = Acquaintance(host, params, brokers, clients, self.departing)
        self.arriving = Arriving(host, params, brokers, clients, self.acquaintance, space)

    def hear(
        self,
        now_us: int,
        inside: Ask | Agree | Refuse | Cancel | Detour | Detoured | Handoff | HandoffPart,
        sender: str,
    ) -> list[Does]:
        match inside:
            case Ask():
                return self.arriving.asked(now_us, inside, sender)
            case Agree():
                return self.departing.agreed(now_us, inside)
            case Refuse():
                return self.departing.refused(inside)
            case Cancel():
                return self.arriving.cancelled(inside, sender)
            case Detour():
                return self.detour(now_us, inside, sender)
            case Detoured():
                return self.departing.detoured(now_us, inside, sender)
            case Handoff():
                return self.arriving.taken_over(now_us, inside, sender)
            case HandoffPart():
                return self.arriving.put_together(now_us, inside, sender)

    def detour(self, now_us: int, detour: Detour, sender: str) -> list[Does]:
        for name, made, version in detour.posts:
            self.brokers.directory.moved(name, made, version, detour.to)
        moved = {(name, made) for name, made, _ in detour.posts}
        if detour.with_home:
            for post in self.clients.posts.values():
                # What leaves S itself is S's to the end.
                moving = sender == self.host and (post.subscription.id, post.made) in moved
                if post.subscription.subscriber == detour.client and post.born == detour.born and not moving:
                    post.home = detour.to
        if not detour.move:
            # Word of a home that moved before, from where it was: nobody waits for an answer.
            return []
        known = all(name in self.brokers.directory.entries for name, _, _ in detour.posts)
        return self.brokers.say(now_us, sender, Detoured(detour.client, detour.move, known))

    def bereave(self, now_us: int, broker: str) -> list[Does]:
        """A broker is given up: nobody waits for it, and nothing can go to it or come from it."""
        return [*self.arriving.bereave(now_us, broker), *self.departing.bereave(now_us, broker)]

    def tend(self, now_us: int) -> list[Does]:
        return [*self.departing.tend(now_us), *self.arriving.tend(now_us)]
