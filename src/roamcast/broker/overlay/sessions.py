"""A client at its home broker: the session of all brokers, and what an overlay adds to it (O1, O4)."""

from msgspec.structs import replace

from roamcast.broker.messages import Lost, Numbered
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.running import Modulators
from roamcast.broker.overlay.messages import ClientAddress, HomeState, Modulated, Silent
from roamcast.broker.params import BrokerParams
from roamcast.broker.session import Session, numbered
from roamcast.broker.window import Delivery, Window, WindowState
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Does, Note, Send


class HomeSession(Session):
    def __init__(self, client: str, born: int, window: Window) -> None:
        super().__init__(client, born, window, Modulators(Plane(), Limits()))
        self.born = born
        self.wanted: dict[str, Subscription] = {}
        """Its subscriptions, by id: what they want is the posts' business."""
        """The epoch of the attachment that this session began with, wherever that was."""
        self.moves = 0
        """How often it has changed its home broker."""
        self.produces = False
        self.away_us: int | None = None
        """Since when the client cannot be reached."""
        self.departing = False
        """Whether it is on its way to another broker, so that nothing is decided for it here."""
        self.heard_us = 0
        """When the client was last heard of, and how far it was then."""
        self.hops = 0
        self.expected: dict[str, tuple[int, int]] = {}
        """By subscription, which post it has, and the number of what comes next from there."""
        self.ahead: dict[tuple[str, int], Modulated] = {}
        """What has come before its turn, by subscription and number."""
        self.chain: dict[str, tuple[int, int]] = {}
        """By subscription, its post and the serial of what the client published for it last."""
        self.missed: dict[str, int] = {}
        """By subscription, how many of the client's events since were refused by a bound."""
        self.address: ClientAddress | None = None
        self.load = 0.0
        """The share of a broker's time that it took in the last period, without its modulators."""
        self.off: dict[str, None] = {}
        """The subscriptions whose modulators are switched off."""

    def take(self, modulated: Modulated) -> list[Numbered]:
        """What is now in order, numbered for the client."""
        name = modulated.subscription_id
        made, following = self.expected.get(name, (0, 0))
        if made != modulated.made or modulated.number < following:
            return []
        self.ahead[(name, modulated.number)] = modulated
        ready_deliveries = list[tuple[int, Delivery]]()
        while (ready := self.ahead.pop((name, following), None)) is not None:
            following += 1
            self.window.lost += ready.missed
            delivery = Delivery(ready.event, ready.serial, (name,))
            ready_deliveries.append((self.window.add(delivery), delivery))
        self.expected[name] = (made, following)
        return numbered(ready_deliveries)

    def post_of(self, subscription_id: str) -> int:
        """When the post of this subscription was made; 0: it has none."""
        return self.expected.get(subscription_id, (0, 0))[0]

    def forget(self, subscription_id: str) -> None:
        self.wanted.pop(subscription_id, None)
        self.expected.pop(subscription_id, None)
        self.off.pop(subscription_id, None)
        self.ahead = {key: each for key, each in self.ahead.items() if key[0] != subscription_id}

    def send(self, deliveries: list[Numbered]) -> list[Does]:
        if not self.attachment.attached:
            return []
        effects: list[Does] = []
        if self.window.lost:
            effects += [Send(self.client, Lost(self.window.lost)), Note("counterpart_lost", self.client)]
            self.window.lost = 0
        # What is on its way to a client that attaches again comes once more behind that: nothing may overtake it.
        return [*effects, *[Send(self.client, replace(each, epoch=self.epoch)) for each in deliveries]]

    def tell_off(self) -> list[Does]:
        """Of whose modulators nothing comes any more. Said whenever the client attaches, as the word may get lost."""
        return [Send(self.client, Silent(name)) for name in self.off] if self.attachment.attached else []

    def tell_missing(self) -> list[Does]:
        """That a post was lost with all it had."""
        if not self.missing or not self.attachment.attached:
            return []
        self.missing = False
        return [Send(self.client, Lost(None))]

    def home_state(self) -> HomeState:
        return HomeState(
            self.born,
            self.moves,
            self.epoch,
            self.window.next_number,
            tuple(self.lacking(0)),
            self.window.lost,
            self.published,
            self.produces,
            tuple(self.wanted.values()),
            tuple((name, made, number) for name, (made, number) in self.expected.items()),
            tuple(self.ahead.values()),
            tuple((name, made, serial) for name, (made, serial) in self.chain.items()),
            tuple(self.missed.items()),
            tuple(self.off),
            self.missing,
            self.load,
            self.address,
        )


def session_from(client: str, state: HomeState, now_us: int, bounds: BrokerParams) -> HomeSession:
    """At the new home broker: away until the client says that it knows."""
    session = HomeSession(client, state.born, Window(bounds.window_bounds))
    for each in state.kept:
        session.window.keep(each.number, each.delivery)
    session.window.take_over(WindowState(state.next_number, lost=state.lost))
    session.moves = state.moves + 1
    session.epoch = state.epoch
    session.published = state.published
    session.produces = state.produces
    session.attachment.attached = False
    session.away_us = session.heard_us = now_us
    session.wanted = {each.id: each for each in state.subscriptions}
    session.expected = {name: (made, number) for name, made, number in state.expected}
    session.ahead = {(each.subscription_id, each.number): each for each in state.ahead}
    session.chain = {name: (made, serial) for name, made, serial in state.chain}
    session.missed = dict(state.missed)
    session.off = dict.fromkeys(state.off)
    session.missing = state.missing
    session.load, session.address = state.load, state.address
    return session
