"""What clients here want, and where they are."""

from roamcast.live.broker.audience import Audience
from roamcast.live.broker.inputs import Asked, Withdrew
from roamcast.live.broker.orders import Grant, Hand, RecordSubscription, Revoke
from roamcast.live.broker.properties import BadProperty, subscription_of
from roamcast.live.broker.retained import Retained
from roamcast.live.broker.station import Station
from roamcast.live.broker.visitor import RETAINED, Visitor, delivery_of
from roamcast.live.mqtt.messages import Subscription
from roamcast.live.mqtt.reasons import Reason
from roamcast.model.context import Context
from roamcast.model.subscription import Subscription as Wanted
from roamcast.model.values import BadValue
from roamcast.protocols.broker.messages import Sub, Unsub

GRANTED = (Reason.SUCCESS, Reason.GRANTED_QOS_1, Reason.GRANTED_QOS_2)
ALWAYS, IF_NEW, NEVER = 0, 1, 2
"""When a subscription gets what was retained before it (MQTT 5, section 3.8.3.1)."""


class Subscribing:
    def __init__(self, station: Station, audience: Audience, retained: Retained) -> None:
        self.station = station
        self.audience = audience
        self.retained = retained

    def subscribe(self, given: Asked) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is None:
            return
        reasons: list[Reason] = []
        text: str | None = None
        granted: list[tuple[Subscription, bool]] = []
        for asked in given.subscriptions:
            if asked.filter.text in given.refused:
                reasons.append(given.refused[asked.filter.text])
                continue
            try:
                wanted = self._wanted(visitor, asked)
            except (BadProperty, BadValue) as problem:
                reasons.append(Reason.IMPLEMENTATION_SPECIFIC_ERROR)
                text = f"{asked.filter.text}: {problem}"
                continue
            if wanted is None:
                reasons.append(Reason.QUOTA_EXCEEDED)
                text = f"at most {visitor.session.limits.subscriptions_max} subscriptions"
                continue
            reasons.append(GRANTED[asked.qos])
            granted.append((asked, self.add(visitor, asked, wanted)))
        self.station.order(Grant(given.client, given.packet_id, tuple(reasons), text))
        for asked, replaced in granted:
            self._give_retained(visitor, asked, replaced)

    def _wanted(self, visitor: Visitor, asked: Subscription) -> Wanted | None:
        known = visitor.session.subscriptions
        if asked.filter.text not in known and len(known) >= visitor.session.limits.subscriptions_max:
            return None
        return subscription_of(visitor.client, asked, self.station.now_us, self.station.space)

    def add(self, visitor: Visitor, asked: Subscription, wanted: Wanted) -> bool:
        """Whether it took the place of another on the same filter."""
        text = asked.filter.text
        before = visitor.session.subscriptions.get(text)
        if before is not None:
            self.audience.unsubscribe(visitor.client, before)
        visitor.session.subscribe(asked)
        visitor.wanted[text] = wanted
        self.audience.subscribe(visitor.client, asked, wanted)
        self.station.tell_broker(visitor, Sub(wanted))
        self.station.order(RecordSubscription(visitor.client, wanted.id, wanted))
        return before is not None

    def unsubscribe(self, given: Withdrew) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is None:
            return
        for text in given.filters:
            asked = visitor.session.subscriptions.get(text)
            if asked is not None:
                self.audience.unsubscribe(visitor.client, asked)
                self._withdraw(visitor, text)
        self.station.order(Revoke(given.client, given.packet_id))

    def _withdraw(self, visitor: Visitor, text: str) -> None:
        # The connection takes it out of the session when it answers: its answer says whether it was there.
        wanted = visitor.wanted.pop(text, None)
        if wanted is not None:
            self.station.tell_broker(visitor, Unsub(wanted.id))
            self.station.order(RecordSubscription(visitor.client, wanted.id, None))

    def moved(self, context: Context) -> None:
        visitor = self.station.visitors.get(context.host)
        if visitor is not None:
            visitor.context = context
            self.audience.moved(context)

    def welcome(self, visitor: Visitor) -> None:
        """A client that was here before, or elsewhere: what it wants is known."""
        self.audience.moved(visitor.context)
        for text, asked in visitor.session.subscriptions.items():
            wanted = visitor.wanted.get(text)
            if wanted is not None:
                self.audience.subscribe(visitor.client, asked, wanted)

    def forget(self, visitor: Visitor) -> None:
        for asked in visitor.session.subscriptions.values():
            self.audience.unsubscribe(visitor.client, asked)
        self.audience.forget(visitor.client)

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
            if min(message.qos, asked.qos) == 0:
                self.station.order(Hand((visitor.client,), delivery_of(0, message, [asked], True)))
            else:
                self.station.perform(self.station.broker.border.give(session, event, 0, (RETAINED, wanted.id)))
