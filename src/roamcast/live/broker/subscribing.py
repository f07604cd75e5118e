"""What clients here want, and where they are."""

import msgspec
from msgspec.structs import replace

from roamcast.broker.messages import Sub, Unsub
from roamcast.live.broker.audience import Audience
from roamcast.live.broker.effects import Grant, Hand, Remark, Revoke
from roamcast.live.broker.groups import Groups
from roamcast.live.broker.inputs import Asked, Reported, ReportedTogether, Withdrew
from roamcast.live.broker.properties import BadProperty, is_common, is_lasting, subscription_of
from roamcast.live.broker.retained import Retained
from roamcast.live.broker.station import Station
from roamcast.live.broker.travelling import Travelling
from roamcast.live.broker.visitor import RETAINED, Visitor
from roamcast.live.broker.wishes import ids_of
from roamcast.model.context import Context
from roamcast.model.subscription import Subscription as Wanted
from roamcast.model.values import FOREVER_US, BadValue
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.messages import Subscription
from roamcast.mqtt.reasons import Reason

GRANTED = (Reason.SUCCESS, Reason.GRANTED_QOS_1, Reason.GRANTED_QOS_2)
ALWAYS, IF_NEW, NEVER = 0, 1, 2
"""When a subscription gets what was retained before it (MQTT 5, section 3.8.3.1)."""


SUBSCRIPTIONS_BYTES_MAX = 1_000_000
MODULATORS_MAX = 16
EXPIRY_SIGN = "\0"
"""Between client and topic filter in the name of a timer: neither can hold it."""

_encoder = msgspec.msgpack.Encoder()


class NoRoom(Exception):
    """The session has as much as it may; the message says of what."""


def size_of(asked: Subscription, wanted: Wanted) -> int:
    return len(_encoder.encode(asked)) + len(_encoder.encode(wanted))


def expiry_timer(client: str, text: str) -> str:
    return f"expiry:{client}{EXPIRY_SIGN}{text}"


class Subscribing:
    def __init__(
        self, station: Station, audience: Audience, retained: Retained, groups: Groups, travelling: Travelling
    ) -> None:
        self.station = station
        self.travelling = travelling
        self.groups = groups
        self.audience = audience
        self.retained = retained

    def subscribe(self, given: Asked) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is None:
            return
        reasons: list[Reason] = []
        text: str | None = None
        granted: list[tuple[Subscription, bool]] = []
        for asked in map(self.granted, given.subscriptions):
            if asked.filter.text in given.refused:
                reasons.append(given.refused[asked.filter.text])
                self._refused(visitor, f"{asked.filter.text}: {reasons[-1].name.lower().replace('_', ' ')}")
                continue
            try:
                wanted = self._wanted(visitor, asked)
                self._check_room(visitor, asked, wanted)
            except (BadProperty, BadValue) as problem:
                reasons.append(Reason.IMPLEMENTATION_SPECIFIC_ERROR)
                text = f"{asked.filter.text}: {problem}"
                self._refused(visitor, text)
                continue
            except NoRoom as problem:
                reasons.append(Reason.QUOTA_EXCEEDED)
                text = str(problem)
                self._refused(visitor, f"{asked.filter.text}: {text}")
                continue
            reasons.append(GRANTED[asked.qos])
            granted.append((asked, self.add(visitor, asked, wanted)))
        self.answer(visitor, Grant(given.client, given.packet_id, tuple(reasons), text))
        for asked, replaced in granted:
            self._give_retained(visitor, asked, replaced)

    def _refused(self, visitor: Visitor, why: str) -> None:
        """Many clients show nobody the text of SUBACK."""
        self.station.emit(Remark("subscription_refused", f"{visitor.client}: {why}"))

    def granted(self, asked: Subscription) -> Subscription:
        """What a client gets of what it asks for: all of it."""
        return asked

    def answer(self, visitor: Visitor, grant: Grant) -> None:
        self.station.emit(grant)

    def _wanted(self, visitor: Visitor, asked: Subscription) -> Wanted:
        wanted = subscription_of(visitor.client, asked, self.station.now_us, self.station.space)
        if wanted.modulator and asked.filter.text not in visitor.modulators:
            visitor.modulators.make(wanted.modulator)
        return wanted

    def _check_room(self, visitor: Visitor, asked: Subscription, wanted: Wanted) -> None:
        """All of a session's subscriptions must fit into one message between brokers."""
        if self.station.broker.neighbours.router.full():
            raise NoRoom("this broker has as many subscriptions as it may")
        session, text = visitor.session, asked.filter.text
        known = [each for each in visitor.asked if each != text]
        if len(known) >= session.limits.subscriptions_max:
            raise NoRoom(f"at most {session.limits.subscriptions_max} subscriptions")
        size = sum(visitor.sizes.get(each, 0) for each in known)
        if size + size_of(asked, wanted) > SUBSCRIPTIONS_BYTES_MAX:
            raise NoRoom(f"all subscriptions of a session have at most {SUBSCRIPTIONS_BYTES_MAX} bytes")
        if wanted.modulator and text not in visitor.modulators and len(visitor.modulators) >= MODULATORS_MAX:
            raise NoRoom(f"at most {MODULATORS_MAX} modulators")

    def add(self, visitor: Visitor, asked: Subscription, wanted: Wanted) -> bool:
        """Whether it took the place of another on the same filter."""
        text = asked.filter.text
        before = visitor.asked.get(text)
        if before is not None:
            self.audience.unsubscribe(visitor.client, before)
            self.groups.left(visitor.client, () if is_common(asked) else (before,))
        visitor.asked[text] = asked
        visitor.wanted[text] = wanted
        visitor.sizes[text] = size_of(asked, wanted)
        visitor.modulators.put(text, wanted.modulator)
        self._expire_later(visitor, text, wanted)
        self.audience.subscribe(visitor.client, asked, wanted)
        self.station.tell_broker(visitor, Sub(wanted))
        self.station.observation.subscribed(asked, wanted)
        self.groups.joined(visitor.client, (asked,), True)
        return before is not None

    def unsubscribe(self, given: Withdrew) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is None:
            return
        for text in given.filters:
            if text in visitor.asked:
                self._withdraw(visitor, text)
        self.station.emit(Revoke(given.client, given.packet_id))

    def _withdraw(self, visitor: Visitor, text: str) -> None:
        # The connection takes it out of the session when it answers: its answer says whether it was there.
        asked = visitor.asked.pop(text)
        self.audience.unsubscribe(visitor.client, asked)
        self.groups.left(visitor.client, (asked,))
        wanted = visitor.wanted.get(text)
        self._forget(visitor, text)
        if wanted is not None:
            self.station.observation.unsubscribed(asked, wanted)

    def _expire_later(self, visitor: Visitor, text: str, wanted: Wanted) -> None:
        timer = expiry_timer(visitor.client, text)
        if wanted.expires_us == FOREVER_US:
            self.station.timers.cancel(timer)
        else:
            # It still holds at the very moment, as the definition of matching has it.
            self.station.timers.set(timer, wanted.expires_us + 1)

    def expired(self, name: str) -> None:
        """A subscription's time is over: it goes as if its client had withdrawn it."""
        client, _, text = name.partition(EXPIRY_SIGN)
        visitor = self.station.visitors.get(client)
        if visitor is not None and text in visitor.asked:
            self._withdraw(visitor, text)
            visitor.session.unsubscribe(text)

    def reported(self, given: Reported | ReportedTogether) -> None:
        for context in (given.context,) if isinstance(given, Reported) else given.contexts:
            self.moved(context)

    def moved(self, context: Context) -> None:
        visitor = self.station.visitors.get(context.host)
        if visitor is not None:
            visitor.context = context
            self.audience.moved(context, self.station.has_neighbours())
            self.station.observation.moved(context)
            self.travelling.moved(visitor)

    def welcome(self, visitor: Visitor) -> None:
        """A client that was here before, or elsewhere: what it wants is known."""
        self.audience.moved(visitor.context)
        for text, asked in visitor.asked.items():
            wanted = visitor.wanted.get(text)
            if wanted is not None:
                visitor.sizes[text] = size_of(asked, wanted)
                self._expire_later(visitor, text, wanted)
                self.audience.subscribe(visitor.client, asked, wanted)

    def forget(self, visitor: Visitor) -> None:
        for text in self.audience.texts_of(visitor.client):
            self.station.timers.cancel(expiry_timer(visitor.client, text))
        self.audience.forget(visitor.client)

    def realign(self, visitor: Visitor) -> None:
        """What its last border said in the end may differ from what it had said first: the client was still there."""
        visitor.unaligned = False
        self.audience.moved(visitor.context)
        for text in self.audience.texts_of(visitor.client):
            if text not in visitor.asked:
                self.audience.remove(visitor.client, text)
        for text in [each for each in visitor.wanted if each not in visitor.asked]:
            self._forget(visitor, text)
        for text, asked in list(visitor.asked.items()):
            if text not in visitor.wanted or self.audience.asked(visitor.client, text) != asked:
                self._take_over(visitor, asked)

    def _take_over(self, visitor: Visitor, asked: Subscription) -> None:
        """It was granted elsewhere, to last for as long as was said there. What is over, or finds no room here, goes
        as if its client had withdrawn it."""
        text, now_us = asked.filter.text, self.station.now_us
        try:
            wanted = subscription_of(visitor.client, asked, now_us, self.station.space)
            wanted = replace(wanted, expires_us=visitor.ends_us().get(text, wanted.expires_us))
            self._check_room(visitor, asked, wanted)
        except (BadProperty, BadValue, NoRoom) as problem:
            self.station.emit(Remark("subscription_dropped", f"{visitor.client}: {text}: {problem}"))
            self._lapse(visitor, text)
            return
        if wanted.expires_us < now_us:
            self._lapse(visitor, text)
            return
        visitor.wanted[text] = wanted
        visitor.sizes[text] = size_of(asked, wanted)
        self._expire_later(visitor, text, wanted)
        self.audience.subscribe(visitor.client, asked, wanted)
        self.station.tell_broker(visitor, Sub(wanted))

    def _lapse(self, visitor: Visitor, text: str) -> None:
        asked = visitor.asked.pop(text)
        visitor.session.unsubscribe(text)
        self.audience.remove(visitor.client, text)
        self.groups.left(visitor.client, (asked,))
        self._forget(visitor, text)

    def _forget(self, visitor: Visitor, text: str) -> None:
        visitor.forget_subscription(text)
        self.station.timers.cancel(expiry_timer(visitor.client, text))
        gone = visitor.wanted.pop(text, None)
        if gone is not None:
            self.station.tell_broker(visitor, Unsub(gone.id))

    def _give_retained(self, visitor: Visitor, asked: Subscription, replaced: bool) -> None:
        if asked.filter.group is not None or asked.retain_handling == NEVER:
            return
        if replaced and asked.retain_handling == IF_NEW:
            return
        now_us, wanted = self.station.now_us, visitor.wanted[asked.filter.text]
        session = self.station.broker.border.sessions.get(visitor.name)
        for event, message in self.retained.matching(asked.filter.pattern, now_us):
            if session is None or not self.audience.wants_retained(event, wanted, now_us):
                continue
            if is_lasting(message):
                visitor.unseen(event.id, [asked])
            if not message.qos:
                self.station.goes_ahead(event.publisher.host, event.subject)
            if min(message.qos, asked.qos) == 0:
                for each in self.station.messages_for(visitor, event, message, asked, False):
                    self.station.emit(Hand((visitor.client,), batch_of(each), True, ids_of([asked])))
                self.station.observation.given_retained(visitor.client, event, message, [asked])
            elif self.station.has_room(visitor, message.size_bytes):
                self.station.perform(self.station.broker.border.give(session, event, 0, (RETAINED, wanted.id)))
