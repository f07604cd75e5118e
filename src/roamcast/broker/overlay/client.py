"""A client of an overlay (O1, O3; section 3.6): producer, consumer or both, on a host that moves.

It looks for the nearest broker from time to time. The first one found becomes its home broker; later ones it only
tells its home broker of, which decides (`adaptors/home.py`). What is said between the two is what any client says to
its broker (`broker/client.py`), with `HomeIs` in the place of a link that comes up. While the home broker cannot be
reached the client keeps what it publishes, and tries again. It also passes on the searches of others.

A client that is alone for longer than brokers keep sessions, or whose home broker has forgotten it, begins anew at
the nearest broker and notes that it may have missed something.
"""

from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.client import Client
from roamcast.broker.messages import Ack, Numbered
from roamcast.broker.overlay.messages import Here, HomeIs, Leave, Nearest, NotHome, Refused, Search, Silent
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.broker.overlay.search import Found, Relaying, Searching
from roamcast.model.event import Event
from roamcast.model.filter import EVERYTHING
from roamcast.model.filter.bound import is_bound
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import (
    Does,
    Input,
    LinkDown,
    LinkUp,
    Message,
    Note,
    Received,
    Send,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)

START_US = 2_000_000
"""Within so long after its start a client looks for a broker, which lets the brokers find each other first."""


class ClientState(Struct, frozen=True, array_like=True):
    """A client on its way to another host, but for its publications that nobody has accepted yet."""

    home: str | None
    born: int
    moves: int
    epoch: int
    last: int
    published: int
    subscriptions: tuple[Subscription, ...]
    silent: tuple[str, ...]


class Customer(Client):
    """A client whose events may have been through a modulator: what that made of an event need not pass the filter
    that the event itself has passed."""

    def _is_new(self, publisher: str, serial: int) -> bool:
        """A modulator may make several events of one, and a post takes each event once."""
        return True

    def _wanted(self, now_us: int, event: Event, named: list[Subscription]) -> list[Subscription]:
        passed = [
            replace(each, filter=EVERYTHING) if each.modulator and is_bound(each.filter) else each for each in named
        ]
        return super()._wanted(now_us, event, passed)


class OverlayClient:
    def __init__(
        self,
        host: str,
        params: OverlayParams,
        rng: Random,
        space: Space | None = None,
        graph: MovementGraph | None = None,
    ) -> None:
        self.host = host
        self.params = params
        self.rng = rng
        self.customer = Customer(host, params.clients, space or Plane(), graph)
        self.relaying = Relaying(host, params)
        self.searching = Searching(host, params)
        self.home: str | None = None
        self.born = 0
        """The epoch of the attachment that its session began with."""
        self.moves = 0
        """How many home brokers the session has had since."""
        self.alone_us: int | None = None
        """Since when its home broker cannot be reached."""
        self.silent: dict[str, None] = {}
        """The subscriptions whose modulators are switched off, as far as it was told."""

    def state(self) -> ClientState:
        customer = self.customer
        return ClientState(
            self.home,
            self.born,
            self.moves,
            customer.epoch,
            customer.last,
            customer.published,
            tuple(customer.subscriptions.values()),
            tuple(self.silent),
        )

    def resume(self, now_us: int, start: Start, state: ClientState, pending: dict[int, Event]) -> list[Does]:
        """Goes on from the state of a client that was elsewhere: it attaches to its home broker again, and looks for
        a nearer one at once."""
        effects = self.handle(now_us, start)
        self.home, self.born, self.moves = state.home, state.born, state.moves
        self.silent = dict.fromkeys(state.silent)
        customer = self.customer
        customer.epoch, customer.last, customer.published = state.epoch, state.last, state.published
        customer.pending = dict(pending)
        for subscription in state.subscriptions:
            effects += customer.handle(now_us, Subscribe(subscription))
        if self.home is not None:
            effects += customer.handle(now_us, LinkUp(self.home))
        return [*effects, SetTimer("discover", now_us)]

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Subscribe(subscription):
                self.silent.pop(subscription.id, None)
                return self.customer.handle(now_us, given)
            case Unsubscribe(subscription_id):
                self.silent.pop(subscription_id, None)
                return self.customer.handle(now_us, given)
            case Received(Search() as search):
                return self.relaying.hear(search)[1]
            case Received(message, sender):
                return self._hear(now_us, message, sender)
            case TimerFired(name):
                return self._fired(now_us, name)
            case LinkDown(peer):
                if peer != self.home:
                    return []
                self.alone_us = now_us if self.alone_us is None else self.alone_us
                return self.customer.handle(now_us, given)
            case Start():
                return [
                    *self.customer.handle(now_us, given),
                    SetTimer("discover", now_us + self.rng.randint(START_US // 2, START_US)),
                    SetTimer("tend", now_us + microseconds(self.params.tend_s)),
                ]
            case _:
                return self.customer.handle(now_us, given)

    def _fired(self, now_us: int, name: str) -> list[Does]:
        match name:
            case "discover":
                again = SetTimer("discover", now_us + microseconds(self.params.discovery_period_s))
                looks = self.home is None or self.params.home == "adaptive"
                searches = self.searching.begin(now_us, 1) if looks else []
                return [again, *self._sign_of_life(), *searches]
            case "ring":
                found, effects = self.searching.fired(now_us)
                return [*effects, *self._found(now_us, found[0])] if found else effects
            case _:
                return [SetTimer("tend", now_us + microseconds(self.params.tend_s)), *self._tend(now_us)]

    def _sign_of_life(self) -> list[Does]:
        broker = self.customer.broker
        return [] if broker is None else [Send(broker, Ack(self.customer.last))]

    def _found(self, now_us: int, nearest: Found) -> list[Does]:
        if self.home is None:
            return self._settle(now_us, nearest.broker)
        if nearest.broker == self.home or self.customer.broker is None:
            return []
        return [Send(self.home, Nearest(nearest.broker, nearest.hops, nearest.load))]

    def _settle(self, now_us: int, broker: str) -> list[Does]:
        """A new session begins."""
        self.home, self.moves, self.alone_us = broker, 0, None
        effects = self.customer.handle(now_us, LinkUp(broker))
        self.born = self.customer.epoch
        return effects

    def _tend(self, now_us: int) -> list[Does]:
        if self.home is None or self.customer.broker is not None:
            return []
        age_us = microseconds(self.params.clients.counterpart_age_s_max)
        if self.alone_us is not None and now_us - self.alone_us > age_us:
            return self._forget(now_us)
        return self.customer.handle(now_us, LinkUp(self.home))

    def _forget(self, now_us: int) -> list[Does]:
        """The session is lost; the next one begins at whichever broker is found first."""
        home, self.home, self.alone_us = self.home, None, None
        if home is not None:
            self.customer.handle(now_us, LinkDown(home))
        self.customer.epoch, self.customer.restarted = 0, True
        self.silent.clear()
        return [Note("events_lost", "unknown"), *self.searching.begin(now_us, 1)]

    def _hear(self, now_us: int, message: Message, sender: str) -> list[Does]:
        match message:
            case Here():
                self.searching.answered(message, sender)
                return []
            case HomeIs(born, moves):
                return self._told(now_us, born, moves, sender)
            case Refused(subscription_id) if sender == self.home:
                return [Note("subscription_refused", subscription_id)]
            case Silent(subscription_id) if sender == self.home and subscription_id not in self.silent:
                self.silent[subscription_id] = None
                return [Note("subscription_off", subscription_id)]
            case NotHome():
                return self._forget(now_us) if sender == self.home else []
            case Numbered(epoch=epoch) if epoch != self.customer.epoch:
                # Said before its home broker heard of its last attachment: it comes again.
                return []
            case _ if sender == self.home:
                self.alone_us = None
                return self.customer.handle(now_us, Received(message, sender))
            case _:
                # The home broker of before; the present one says it again.
                return []

    def _told(self, now_us: int, born: int, moves: int, sender: str) -> list[Does]:
        if born != self.born:
            return [Send(sender, Leave(self.born))] if born < self.born else []
        if moves < self.moves:
            return []
        before, self.home, self.moves, self.alone_us = self.home, sender, moves, None
        effects = self.customer.handle(now_us, LinkUp(sender))
        if before is not None and before != sender:
            effects += self.customer.handle(now_us, LinkDown(before))
        return effects
