"""A client of brokers: the local broker of Rebeca, part of the library that an application uses (R1).

It attaches to whichever broker its newest link leads to, tells it what it wants and up to which number it has
everything, and acknowledges what it gets. What it publishes it keeps until a broker has accepted it, so a publication
made while moving is not lost. It never says where it was before, and it need not say goodbye.

Brokers judge by what the event says; whatever depends on the client's own state (where it is, what it has) the client
judges itself when the event arrives.
"""

from roamcast.broker.logical.template import State
from roamcast.broker.logical.traveller import Traveller
from roamcast.broker.messages import (
    Accepted,
    Ack,
    Advertise,
    Attach,
    Early,
    Echo,
    Lost,
    Numbered,
    Probe,
    Pub,
    Report,
    Resend,
    Sub,
    Unsub,
)
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import (
    Announce,
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
    Unannounce,
    Unsubscribe,
)
from roamcast.node.local_match import asks_the_unknown, wanted_here


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
        self.begun_anew: dict[str, None] = {}
        """Brokers of earlier attachments whose numbers are not those of the latest one."""
        self.epoch = 0
        self.restarted = False
        self.subscriptions: dict[str, Subscription] = {}
        self.pending: dict[int, Event] = {}
        """What it has published and no broker has accepted, by serial."""
        self.published = 0
        self.announced: dict[str, str] = {}
        """By announcement, its subject, where there are advertisements (R1)."""
        self.marks: dict[str, int] = {}
        """By publisher, the serial of its last event; the publisher heard of longest ago comes first."""
        self.traveller = Traveller(params.logical)
        self.reported: State | None = None
        """What its broker knows of what its subscriptions depend on."""

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
                unknown = asks_the_unknown(subscription)
                if unknown:
                    return unknown
                self.subscriptions[subscription.id] = subscription
                self.traveller.follow(self.subscriptions.values())
                # The broker must know where the client is before it can follow it.
                report = self._report(now_us)
                return [*report, *self._ask(Sub(subscription))]
            case Unsubscribe(subscription_id):
                known = self.subscriptions.pop(subscription_id, None)
                self.traveller.follow(self.subscriptions.values())
                return self._ask(Unsub(subscription_id)) if known else []
            case Announce(announcement) if self.params.advertisements:
                self.announced[announcement.id] = announcement.event_type.subject
                return self._advertise(announcement.event_type.subject)
            case Unannounce(announcement_id) if announcement_id in self.announced:
                subject = self.announced.pop(announcement_id)
                return [] if subject in self.announced.values() else self._advertise(subject, ends=True)
            case Start(context, restarted):
                self.me, self.restarted = context, restarted
                self.traveller.moved(now_us, context)
                return []
            case Moved(context):
                self.me = context
                self.traveller.moved(now_us, context)
                return self._report(now_us)
            case _:
                return []

    def _attach(self, now_us: int, broker: str) -> list[Does]:
        first = self.epoch == 0
        # The client's own clock counts attachments: it goes on after a crash that forgot how many there were.
        self.epoch = max(now_us, self.epoch + 1)
        self.broker = broker
        self.begun_anew.pop(broker, None)
        self.reported = self.traveller.state()
        attach = Attach(
            self.epoch,
            self.last,
            "again" if not first else "restarted" if self.restarted else "first",
            tuple(self.subscriptions.values()),
            self.reported,
            None,
            tuple(self.marks.items()) if self.params.ahead.next_brokers else (),
            tuple(dict.fromkeys(self.announced.values())),
        )
        effects: list[Does] = [Send(broker, self._told(now_us, attach))]
        if self.reported is not None:
            effects.append(Send(broker, Probe(now_us)))
        return [*effects, *[Send(broker, Pub(serial, event)) for serial, event in self.pending.items()]]

    def _told(self, now_us: int, attach: Attach) -> Attach:
        """With whatever else a broker is told: nothing, of most clients."""
        return attach

    def _ask(self, message: Sub | Unsub) -> list[Does]:
        """Without a broker there is nothing to say: whoever is next hears all subscriptions."""
        return [Send(self.broker, message)] if self.broker is not None else []

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

    def _advertise(self, subject: str, ends: bool = False) -> list[Does]:
        return [Send(self.broker, Advertise(subject, ends))] if self.broker is not None else []

    def _report(self, now_us: int) -> list[Does]:
        """Tells the broker what the subscriptions depend on, if that has changed."""
        state = self.traveller.state()
        if self.broker is None or state is None or state == self.reported:
            return []
        first, self.reported = self.reported is None, state
        effects: list[Does] = [Send(self.broker, Report(state))]
        return [*effects, Send(self.broker, Probe(now_us))] if first else effects

    def _hear(self, now_us: int, message: Message, sender: str) -> list[Does]:
        match message:
            case Lost(None) if sender != self.broker:
                # A broker of an earlier attachment began anew: ignore its numbers. The current broker tells losses.
                self.begun_anew[sender] = None
                return []
            case Numbered(epoch=0) if sender in self.begun_anew:
                return []
            case Numbered():
                return self._take(now_us, message, sender)
            case Accepted(serial):
                for accepted in [each for each in self.pending if each <= serial]:
                    del self.pending[accepted]
                return []
            case Early():
                return self._take_early(now_us, message, sender)
            case Echo(at_us):
                self.traveller.echoed(now_us - at_us)
                return self._report(now_us)
            case Resend():
                return [Send(sender, Pub(serial, event)) for serial, event in self.pending.items()]
            case Lost(count):
                return [Note("events_lost", "unknown" if count is None else str(count))]
            case _:
                return []

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        acknowledgement: list[Does] = []
        effects: list[Does] = []
        if numbered.number > self.last:
            self.last = numbered.number
            event, names = numbered.delivery.event, numbered.delivery.subscriptions
            if self._is_new(event.publisher.host, numbered.delivery.serial):
                named = [self.subscriptions[each] for each in names if each in self.subscriptions]
                wanted = self._wanted(now_us, event, named)
                effects += [Deliver(event, subscription.id) for subscription in wanted]
        if sender in self.links:
            acknowledgement.append(Send(sender, Ack(self.last)))
        return [*effects, *acknowledgement]

    def _take_early(self, now_us: int, early: Early, sender: str) -> list[Does]:
        """What a broker sent in an earlier attachment may lack a predecessor that never arrived."""
        publisher = early.event.publisher.host
        if sender != self.broker or early.epoch != self.epoch or not self._is_new(publisher, early.serial):
            return []
        named = [self.subscriptions[each] for each in early.subscriptions if each in self.subscriptions]
        return [Deliver(early.event, each.id) for each in self._wanted(now_us, early.event, named)]

    def _is_new(self, publisher: str, serial: int) -> bool:
        """Whether the client has this event not yet. It may have come ahead of its number (R7); or a broker crashed
        between passing it on and accepting it, so that its publisher said it again."""
        before = self.marks.pop(publisher, -1)
        self.marks[publisher] = max(serial, before)
        if len(self.marks) > self.params.marks_max:
            del self.marks[next(iter(self.marks))]
        return serial > before

    def _wanted(self, now_us: int, event: Event, named: list[Subscription]) -> list[Subscription]:
        return wanted_here(event, named, self.me, now_us, self.space, self.graph)
