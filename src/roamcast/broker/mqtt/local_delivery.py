"""Who of the clients here gets an event that has come to this broker, and how: into the session, or at once.

What a client asked for with QoS 1 or 2 goes into its session, where it gets a number. What it gets with QoS 0 is
handed to its connection now or never. What lasts is looked for again, since clients come into its reach.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.effects import Hand, Remark
from roamcast.broker.mqtt.events import Events, with_origin
from roamcast.broker.mqtt.forms import RETAINED
from roamcast.broker.mqtt.keeping import Keeping, goes_to_all
from roamcast.broker.mqtt.properties import subscription_id
from roamcast.broker.mqtt.wishes import Plan, Recipients, alike
from roamcast.broker.session import Session
from roamcast.model.event import Event
from roamcast.mqtt.batches import Batch, batch_of
from roamcast.mqtt.messages import Message, Subscription

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

Part: TypeAlias = tuple[Event, tuple[str, ...]]


class LocalDelivery:
    def __init__(self, border: "MqttBorder", audience: Audience, events: Events, keeping: Keeping) -> None:
        self.border = border
        self.audience = audience
        self.events = events
        self.keeping = keeping

    def recipients(self, event: Event) -> Iterable[tuple[Session, tuple[str, ...]]]:
        """Who of the clients gets an event into the session, for which subscriptions."""
        if goes_to_all(event) and not self.keeping.take(event):
            return []
        message = self.events.message_of(event)
        if message is not None and not message.qos:
            self.border.goes_ahead(event.publisher.host, event.subject)
        if message is not None and self.events.is_copy(event, message):
            return []
        chosen = () if message is None else message.chosen
        return self.parted(event, self.audience.of(event, self.border.now_us, chosen))

    def parted(self, event: Event, recipients: Recipients) -> list[tuple[Session, tuple[str, ...]]]:
        """Who is to get an event into the session. The others of the recipients are handed it at once."""
        message = self.events.message_of(event)
        if message is None:
            return []
        reliable: list[tuple[Session, tuple[str, ...]]] = []
        lasts = event.id in self.keeping.lasting
        for client, asked in recipients:
            session = self.border.sessions.get(client)
            if session is None:
                continue
            if lasts:
                asked = self._unseen(session, event, message, asked)
            if len(asked) == 1 and not session.modulators.running:
                wanted = asked if message.qos and asked[0].qos else []
            else:
                wanted = self._for_session(session, message, asked)
            if wanted and (session.attachment.awaits is None or self._has_room(session, message)):
                # What waits to be numbered must find room twice: now, and when it is.
                names = tuple([each.filter.text for each in wanted]) if len(wanted) > 1 else (wanted[0].filter.text,)
                reliable.append((session, names))
            if wanted is not asked:
                others = [each for each in asked if each not in wanted]
                if others:
                    self.hand_one(session, event, message, others, False)
        return reliable

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
        events = list(lasting.all())
        for event, recipients in zip(events, self.audience.of_lasting(events, border.now_us), strict=True):
            # Of whom it is not known yet what it has had, it will be at the next look.
            known = [each for each in recipients if is_settled(border.sessions.get(each[0]))]
            for session, wanted in self.parted(event, known):
                border.finish(border.give(session, event, 0, wanted))
        self.keeping.look_later()

    def hand(self, batch: Batch, plan: Plan) -> None:
        for receivers in plan:
            retain = batch.messages[0].retain and receivers.retain_as_published
            self.border.emit(Hand(receivers.clients, batch, retain, receivers.subscription_ids))


def is_settled(session: Session | None) -> bool:
    return session is not None and session.attachment.awaits is None
