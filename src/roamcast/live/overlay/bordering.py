"""What MQTT clients of an overlay publish and want: the same border as of all brokers, with guests behind it.

What an overlay does not keep is refused in MQTT's own words (docs/PROTOCOL.md, section 16).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from roamcast.broker.overlay.posts import refused_by
from roamcast.live.broker.content import REPORT_TOPIC
from roamcast.live.broker.effects import Grant
from roamcast.live.broker.inputs import Published
from roamcast.live.broker.passing import Passing
from roamcast.live.broker.properties import PERSIST, BadProperty, is_lasting, subscription_of
from roamcast.live.broker.publishing import Publishing
from roamcast.live.broker.subscribing import NoRoom, Subscribing
from roamcast.live.broker.visitor import Visitor
from roamcast.live.origin import ORIGIN_PROPERTY
from roamcast.live.overlay.guests import QOS_MAX, Guests
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription as Wanted
from roamcast.model.values import BadValue
from roamcast.mqtt.batches import Batch
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.reasons import Reason


class OverlayPublishing(Publishing):
    guests: Guests

    def publish(self, given: Published) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is None:
            return
        if given.message.topic == REPORT_TOPIC:
            self._report(visitor, given.message, given.packet_id)
            self.guests.moved(visitor)
            return
        self._say(visitor, given.message, given.packet_id)

    def pass_on(self, passing: Sequence[tuple[str, Batch]]) -> None:
        for client, batch in passing:
            visitor = self.station.visitors.get(client)
            if visitor is not None:
                for message in batch.messages:
                    self._say(visitor, message, 0)

    def heard_passing(self, peer: str, passing: Passing) -> None:
        """Nobody in an overlay says so."""

    def _say(self, visitor: Visitor, message: Message, packet_id: int) -> None:
        try:
            event = self._event(visitor, message)
        except (BadProperty, BadValue) as problem:
            self._refuse(visitor, message, packet_id, Reason.IMPLEMENTATION_SPECIFIC_ERROR, str(problem))
            return
        if not self.guests.publish(visitor, event, packet_id if message.qos else 0):
            text = "too many messages wait for a broker to accept them"
            self._refuse(visitor, message, packet_id, Reason.QUOTA_EXCEEDED, text)

    def _event(self, visitor: Visitor, message: Message) -> Event:
        if is_lasting(message):
            raise BadProperty(f"{PERSIST}: nothing lasts in an overlay")
        if any(name == ORIGIN_PROPERTY for name, _ in message.user_properties):
            raise BadProperty(f"{ORIGIN_PROPERTY}: messages of an overlay are their publishers' own")
        publisher = replace(visitor.context, host=self.guests.name_of(visitor))
        return self.events.event_of(publisher, message, self.station.now_us)


class OverlaySubscribing(Subscribing):
    guests: Guests

    def _wanted(self, visitor: Visitor, asked: Subscription) -> Wanted:
        """As the session has it. What the overlay is asked for is made in `add`."""
        wanted = subscription_of(visitor.client, asked, self.station.now_us, self.station.space)
        why_not = refused_by(wanted, self.station.space, self.guests.params) if wanted.modulator else None
        if why_not is not None:
            raise BadProperty(f"modulator: {why_not}")
        return replace(wanted, modulator="")

    def _check_room(self, visitor: Visitor, asked: Subscription, wanted: Wanted) -> None:
        super()._check_room(visitor, asked, wanted)
        if len(self.guests.broker.brokers.directory.entries) >= self.guests.params.clients.wishes_max:
            raise NoRoom("this broker knows of as many subscriptions as it may")

    def granted(self, asked: Subscription) -> Subscription:
        return replace(asked, qos=min(asked.qos, QOS_MAX))

    def answer(self, visitor: Visitor, grant: Grant) -> None:
        self.guests.grant(visitor, grant)

    def add(self, visitor: Visitor, asked: Subscription, wanted: Wanted) -> bool:
        replaced = super().add(visitor, asked, wanted)
        name = self.guests.name_of(visitor)
        self.guests.subscribe(visitor, subscription_of(name, asked, self.station.now_us, self.station.space))
        return replaced

    def _withdraw(self, visitor: Visitor, text: str) -> None:
        super()._withdraw(visitor, text)
        self.guests.unsubscribe(visitor, text)

    def moved(self, context: Context) -> None:
        super().moved(context)
        visitor = self.station.visitors.get(context.host)
        if visitor is not None:
            self.guests.moved(visitor)

    def forget(self, visitor: Visitor) -> None:
        super().forget(visitor)
        self.guests.leaves(visitor)
