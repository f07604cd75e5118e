"""A client of brokers: the local broker of Rebeca, part of the library that an application uses (R1).

It attaches to whichever broker its newest link leads to, tells it what it wants and up to which number it has
everything, and acknowledges what it gets. What it publishes it keeps until a broker has accepted it, so a publication
made while moving is not lost. It never says where it was before, and it need not say goodbye.

Brokers judge by what the event says; whatever depends on the client's own state (where it is, what it has) the client
judges itself when the event arrives.
"""

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import (
    Deliver,
    Does,
    Input,
    LinkDown,
    LinkUp,
    Message,
    Moved,
    Note,
    Publish,
    Received,
    Send,
    Start,
    Subscribe,
    Unsubscribe,
)
from roamcast.protocols.broker.messages import Accepted, Ack, Attach, Lost, Numbered, Pub, Sub, Unsub
from roamcast.protocols.broker.params import BrokerParams
from roamcast.protocols.judging import wanted_here


class Client:
    def __init__(
        self, host: str, params: BrokerParams, space: Space | None = None, graph: MovementGraph | None = None
    ) -> None:
        self.host = host
        self.params = params
        self.space = space or Plane()
        self.graph = graph
        self.me = Context(host)
        self.broker: str | None = None
        self.links: dict[str, None] = {}
        self.last = 0
        """The number of the last event it got."""
        self.epoch = 0
        self.restarted = False
        self.subscriptions: dict[str, Subscription] = {}
        self.pending: dict[int, Event] = {}
        """What it has published and no broker has accepted, by serial."""
        self.published = 0

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Received(message, sender):
                return self._hear(now_us, message, sender)
            case LinkUp(peer):
                self.links[peer] = None
                return self._attach(now_us, peer)
            case LinkDown(peer):
                return self._detached(now_us, peer)
            case Publish(event):
                return self._publish(now_us, event)
            case Subscribe(subscription):
                self.subscriptions[subscription.id] = subscription
                return [Send(self.broker, Sub(subscription))] if self.broker is not None else []
            case Unsubscribe(subscription_id):
                known = self.subscriptions.pop(subscription_id, None)
                return [Send(self.broker, Unsub(subscription_id))] if known and self.broker is not None else []
            case Start(context, restarted):
                self.me, self.restarted = context, restarted
                return []
            case Moved(context):
                self.me = context
                return []
            case _:
                return []

    def _attach(self, now_us: int, broker: str) -> list[Does]:
        first = self.epoch == 0
        # The client's own clock counts attachments: it goes on after a crash that forgot how many there were.
        self.epoch = max(now_us, self.epoch + 1)
        self.broker = broker
        attach = Attach(
            self.epoch,
            self.last,
            "again" if not first else "restarted" if self.restarted else "first",
            tuple(self.subscriptions.values()),
        )
        return [Send(broker, attach), *[Send(broker, Pub(serial, event)) for serial, event in self.pending.items()]]

    def _detached(self, now_us: int, peer: str) -> list[Does]:
        self.links.pop(peer, None)
        if peer != self.broker:
            return []
        self.broker = None
        return self._attach(now_us, next(reversed(self.links))) if self.links else []

    def _publish(self, now_us: int, event: Event) -> list[Does]:
        if len(self.pending) >= self.params.publications_max:
            return [Note("publication_refused", event.id)]
        self.published = max(now_us, self.published + 1)
        self.pending[self.published] = event
        return [Send(self.broker, Pub(self.published, event))] if self.broker is not None else []

    def _hear(self, now_us: int, message: Message, sender: str) -> list[Does]:
        match message:
            case Numbered():
                return self._take(now_us, message, sender)
            case Accepted(serial):
                for accepted in [each for each in self.pending if each <= serial]:
                    del self.pending[accepted]
                return []
            case Lost(count):
                return [Note("events_lost", "unknown" if count is None else str(count))]
            case _:
                return []

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        acknowledgement: list[Does] = []
        effects: list[Does] = []
        if numbered.number > self.last:
            self.last = numbered.number
            for subscription_id in numbered.subscriptions:
                subscription = self.subscriptions.get(subscription_id)
                if subscription is not None and self._wants(now_us, numbered.event, subscription):
                    effects.append(Deliver(numbered.event, subscription_id))
        if sender in self.links:
            acknowledgement.append(Send(sender, Ack(self.last)))
        return [*effects, *acknowledgement]

    def _wants(self, now_us: int, event: Event, subscription: Subscription) -> bool:
        return wanted_here(event, subscription, self.me, now_us, self.space, self.graph)
