"""Who of the clients here gets an event that has come to this broker, and how: into the session, or at once.

What a client asked for with QoS 1 or 2 goes into its session, where it gets a number. What it gets with QoS 0 is
handed to its connection now or never. What lasts is looked for again, since clients come into its reach.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from roamcast.broker.messages import Pub
from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.effects import Deliver, Hand, Remark
from roamcast.broker.mqtt.events import Events, with_origin
from roamcast.broker.mqtt.keeping import Keeping, goes_to_all
from roamcast.broker.mqtt.properties import subscription_id
from roamcast.broker.mqtt.wishes import RETAINED, Plan, Recipients, Shape, alike, asked_of
from roamcast.broker.session import Session
from roamcast.broker.window import Delivery
from roamcast.model.event import Event
from roamcast.mqtt.batches import Batch, batch_of
from roamcast.mqtt.messages import Form, Message, Subscription
from roamcast.node.boundary import Does

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

Part: TypeAlias = tuple[Event, tuple[str, ...]]


class LocalDelivery:
    def __init__(self, border: "MqttBorder", audience: Audience, events: Events, keeping: Keeping) -> None:
        self.border = border
        self.audience = audience
        self.events = events
        self.keeping = keeping

    def arrived(self, event: Event, serial: int) -> list[Does]:
        """An event has come, from a client here or from another broker: who wants it gets it."""
        if goes_to_all(event) and not self.keeping.take(event):
            return []
        message = self.events.message_of(event)
        if message is None:
            return []
        if not message.qos:
            self.border.goes_ahead(event.publisher.host, event.subject)
        if message.user_properties and self.events.is_copy(event, message):
            return []
        recipients = self.audience.of(event, self.border.now_us, message.chosen)
        return self.give([Pub(serial, event)], [message], recipients)

    def give(self, run: Sequence[Pub], messages: Sequence[Message], recipients: Recipients) -> list[Does]:
        """Events of one publisher, which are alike but for what they say, to clients of whom each gets all of them.

        Nearly always a client is connected and gets the events themselves for one subscription. Such clients share
        deliveries, and observers are told of all of them at once."""
        border, first = self.border, messages[0]
        qos, lasts, sessions = first.qos, run[0].event.id in self.keeping.lasting.of, border.sessions
        shares = bool(qos) and not first.retain and not lasts
        size_bytes = body_bytes = 0
        for pub, message in zip(run, messages, strict=True):
            size_bytes += message.size_bytes
            body_bytes += len(pub.event.body or b"")
        effects: list[Does] = []
        clients, observed = list[str](), list[str | None]()
        shared = dict[Shape, Deliver]()
        for client, entries in recipients:
            session = sessions.get(client)
            if session is None:
                continue
            entry = entries[0]
            shape = entry.shape
            if shares and shape is not None and shape[1] and len(entries) == 1 and session.connected:
                attachment = session.attachment
                if attachment.awaits is None and not attachment.quiet:
                    deliver = shared.get(shape)
                    if deliver is None:
                        deliver = shared[shape] = Deliver(deliveries(run, shape, qos), [])
                    number = session.window.add_run(deliver.run, size_bytes, body_bytes)
                    if number:
                        deliver.receivers.append((session, number))
                        clients.append(client)
                        observed.append(entry.observed)
                        continue
            for pub, message in zip(run, messages, strict=True):
                effects += self._give_one(session, pub, message, asked_of(entries), lasts)
        if clients:
            border.deliver_all(shared.values())
            for pub in run:
                border.observation.fanned_out(pub.event, clients, observed)
        return effects

    def _give_one(
        self, session: Session, pub: Pub, message: Message, asked: list[Subscription], lasts: bool
    ) -> list[Does]:
        """An event to one client, into the session where it is QoS 1 or 2; the rest it is handed at once."""
        event = pub.event
        if lasts:
            asked = self._unseen(session, event, message, asked)
        wanted, effects = self._for_session(session, message, asked), list[Does]()
        others = [each for each in asked if each not in wanted]
        if others:
            self.hand_one(session, event, message, others, False)
        # What waits to be numbered must find room twice: now, and when it is.
        if wanted and (session.attachment.awaits is None or self._has_room(session, message)):
            names = tuple([each.filter.text for each in wanted])
            effects = self.border.give(session, event, pub.serial, names)
        return effects

    def _has_room(self, session: Session, message: Message) -> bool:
        """Whether another message may wait for a client. All that is kept for it counts."""
        attachment = session.attachment
        if session.window.has_room(message.size_bytes + attachment.held_bytes, len(attachment.held)):
            return True
        self.border.emit(Remark("delivery_dropped", session.client))
        return False

    def _for_session(self, session: Session, message: Message, asked: list[Subscription]) -> list[Subscription]:
        """Those for which it is QoS 1 or 2. All that see the message itself go together, as one delivery."""
        if not message.qos:
            return []
        if not len(session.modulators):
            for each in asked:
                if each.qos:
                    return asked
            return []
        plain = [each for each in asked if each.filter.text not in session.modulators]
        reliable = any(each.qos for each in plain)
        return [each for each in asked if (reliable if each in plain else each.qos)]

    def hand_one(
        self, session: Session, event: Event, message: Message, asked: list[Subscription], passing: bool
    ) -> None:
        if not passing and not message.qos:
            self.border.goes_ahead(event.publisher.host, event.subject)
        plain = [each for each in asked if each.filter.text not in session.modulators]
        if plain:
            seen = with_origin(event, message, plain)
            self.hand(batch_of(seen), alike([(session.client, plain)]))
        for each in asked:
            if each not in plain:
                for made in self.messages_for(session, event, message, each.filter.text, passing):
                    self.hand(batch_of(made), alike([(session.client, [each])]))
        if session.connected:
            self.border.observation.delivered(session.client, event, asked)

    # What modulators make of messages.

    def parts(self, session: Session, event: Event, wanted: tuple[str, ...]) -> list[Part]:
        """What goes into a client's session for an event: the event itself, and what its modulators make of it."""
        modulators = session.modulators
        before = wanted[:1] if wanted[0] == RETAINED else ()
        names = wanted[len(before) :]
        plain = tuple(name for name in names if name not in modulators)
        parts: list[Part] = [(event, (*before, *plain))] if plain else []
        message = self.events.message_of(event)
        if message is None:
            return parts
        for name in names:
            if name in modulators:
                for made in self._made_of(session, event, message, name, False):
                    parts.append((made, (*before, name)))
        return parts

    def _made_of(self, session: Session, event: Event, message: Message, name: str, passing: bool) -> list[Event]:
        now_us, budget = self.border.now_us, self.border.cpu_budget
        take = partial(session.modulators.take, name, event, now_us, passing, self._remark)
        made = take() if budget is None else budget.run(now_us, session.client, name, take)
        return [self.events.modulated(event, message, each, subscription_id(session.client, name)) for each in made]

    def messages_for(
        self, session: Session, event: Event, message: Message, name: str, passing: bool
    ) -> list[Message]:
        """What one subscription of a client gets for a message, as far as it is QoS 0."""
        if name not in session.modulators:
            return [message]
        made = self._made_of(session, event, message, name, passing)
        return [each for each in map(self.events.message_of, made) if each is not None]

    def switch_off(self, client: str, name: str) -> None:
        session = self.border.sessions.get(client)
        if session is not None and session.modulators.switch_off(name):
            self._remark("modulator_off", f"{client}, {name}: it takes too much of the processor")

    def _remark(self, what: str, detail: str) -> None:
        self.border.emit(Remark(what, detail))

    # Messages that last.

    def _unseen(
        self, session: Session, event: Event, message: Message, asked: list[Subscription]
    ) -> list[Subscription]:
        """Those that have not had it. Who is away cannot be handed anything, and has not had it then either."""
        if not session.connected:
            asked = [each for each in asked if min(message.qos, each.qos)]
        return session.unseen(event.id, asked)

    def look_for_newcomers(self, _: str) -> None:
        """Who has come into the reach of messages that last."""
        border, lasting = self.border, self.keeping.lasting
        for event_id in lasting.expire(border.now_us):
            for each in border.sessions.values():
                each.seen.pop(event_id, None)
        events = lasting.events()
        for event, recipients in zip(events, self.audience.of_lasting(events, border.now_us), strict=True):
            message = self.events.message_of(event)
            if message is not None:
                # Of whom it is not known yet what it has had, it will be at the next look.
                known = [each for each in recipients if is_settled(border.sessions.get(each[0]))]
                border.finish(self.give([Pub(0, event)], [message], known))
        self.keeping.look_later()

    def hand(self, batch: Batch, plan: Plan) -> None:
        for receivers in plan:
            retain = batch.messages[0].retain and receivers.retain_as_published
            self.border.emit(Hand(receivers.clients, batch, retain, receivers.subscription_ids))


def deliveries(run: Sequence[Pub], shape: Shape, qos: int) -> list[Delivery]:
    """For clients that get these events for one subscription of this shape."""
    text, asked_qos, subscription_id, origin = shape
    form = Form(min(qos, asked_qos), False, () if subscription_id is None else (subscription_id,), origin)
    return [Delivery(pub.event, pub.serial, (text,), form) for pub in run]


def is_settled(session: Session | None) -> bool:
    return session is not None and session.attachment.awaits is None
