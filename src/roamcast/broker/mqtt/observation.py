"""What a broker tells its observers, in the words of the model, so that its journal can be audited (P2).

The pipeline computes from moves, subscriptions and publications what an ideal system delivers, and compares it with
the deliveries. So each of them must say what the broker was asked to do, at the time at which it did it:

- A client is there as long as its session, connected or not: what it wants waits for it. It is gone when the session
  ends, and not when it goes on to another broker.
- A message holds at the moment of its publication, unless it lasts (`persist`): its expiry interval says until when
  it may be delivered, and not that it waits for who comes later.
- A delivery is told by the broker that gave it to the client's session first. Where a client roams with deliveries
  that it has not acknowledged, the next broker sends them again and does not tell of them again.
- What the model has no words for is told apart: shared subscriptions and those without what their client says itself
  (No Local). A retained message that a new subscription is given is a note.

Observers are called at once, not after a commit: only so are the times in the journal those at which the broker
matched. Deliveries of one event are collected and told together. Nothing of this is stored: a broker whose log is
read again has no observers.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from roamcast.broker.modulators.running import MADE_OF
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.mqtt.properties import is_lasting, subscription_id
from roamcast.broker.mqtt.wishes import RETAINED, asked_by
from roamcast.broker.session import Session
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.mqtt.messages import Message
from roamcast.mqtt.messages import Subscription as Asked
from roamcast.node.observer import Observer, Observers, SubscriptionIds

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

RETAINED_GIVEN = "retained_given"
FENCE_PUT, FENCE_REMOVED, PLACE_KEPT, ANCHOR_AT = "fence_put", "fence_removed", "place_kept", "anchor_at"


class Observation:
    def __init__(self, border: "MqttBorder") -> None:
        self.border = border
        self._begin()

    def _begin(self) -> None:
        self.observers = Observers(self._failed)
        self.event: Event | None = None
        """Whose deliveries are collected: these, by host and subscription."""
        self._hosts: list[str] = []
        self._subscription_ids: list[str | None] = []

    def __getstate__(self) -> dict[str, object]:
        return {"border": self.border}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._begin()

    @property
    def on(self) -> bool:
        """Whether anybody looks."""
        return bool(self.observers.all)

    def _failed(self, observer: Observer, why: str) -> None:
        self.border.emit(Remark("observer_failed", f"{type(observer).__name__}, {why}"))

    # Clients.

    def moved(self, context: Context, is_fix: bool = True) -> None:
        """`is_fix` says that the client has reported its place, and so that its way for fences ends there."""
        if self.observers.all:
            self.flush()
            self.observers.moved(self.border.now_us, context)
            if not is_fix and len(self.border.fencing):
                self.observers.noted(self.border.now_us, context.host, PLACE_KEPT, "")

    def disconnected(self, client: str) -> None:
        if self.observers.all:
            self.flush()
            self.observers.disconnected(self.border.now_us, client)

    def gone(self, client: str, to: str | None = None) -> None:
        if self.observers.all:
            self.flush()
            self.observers.gone(self.border.now_us, client, to)

    def subscribed(self, asked: Asked, wanted: Subscription) -> None:
        if self.observers.all:
            self.flush()
            tell = self.observers.subscribed if is_modelled(asked) else self.observers.subscribed_unmodelled
            tell(self.border.now_us, wanted.subscriber, wanted)

    def unsubscribed(self, asked: Asked, wanted: Subscription) -> None:
        if self.observers.all:
            self.flush()
            tell = self.observers.unsubscribed if is_modelled(asked) else self.observers.unsubscribed_unmodelled
            tell(self.border.now_us, wanted.subscriber, wanted.id)

    # Events.

    def published(self, client: str, event: Event, message: Message) -> None:
        if self.observers.all:
            self.flush()
            if not event.instantaneous and not is_lasting(message):
                event = replace(event, expires_us=event.published_us)
            self.observers.published(self.border.now_us, client, event)

    def withdrawn(self, event: Event) -> None:
        """By its publisher, or whoever emptied its topic."""
        if self.observers.all:
            self.flush()
            self.observers.withdrawn(self.border.now_us, event.publisher.host, event.id)

    def delivered(self, client: str, event: Event, asked: Iterable[Asked]) -> None:
        if not self.observers.all:
            return
        if event is not self.event:
            self.flush()
            self.event = event
        for each in asked:
            self._hosts.append(client)
            self._subscription_ids.append(subscription_id(client, each.filter.text) if is_modelled(each) else None)

    def fanned_out(self, event: Event, clients: Sequence[str], subscription_ids: SubscriptionIds) -> None:
        """All deliveries of an event at once."""
        if self.observers.all:
            self.flush()
            self.observers.fanned_out(self.border.now_us, event, clients, subscription_ids)

    def given_retained(self, client: str, event: Event, message: Message, asked: Iterable[Asked]) -> None:
        """To a subscription that came after it."""
        if is_lasting(message):
            self.delivered(client, event, asked)
        elif self.observers.all:
            self.flush()
            event = original(event)
            self.observers.noted(self.border.now_us, client, RETAINED_GIVEN, event.id)
            self.observers.fanned_out(self.border.now_us, event, (client,), (None,))

    def given(
        self, session: Session, event: Event, message: Message, names: tuple[str, ...], asked: list[Asked]
    ) -> None:
        """Into its session."""
        if names[0] == RETAINED:
            self.given_retained(session.client, event, message, asked)
        else:
            self.delivered(session.client, event, asked)

    def waited_for(self, session: Session) -> None:
        """Its client is back, or has come from elsewhere: what waited for it is its now."""
        if self.on:
            for _, delivery in session.window.after(session.observed_through):
                message = self.border.events.message_of(delivery.event)
                if message is not None:
                    names = delivery.subscriptions
                    self.given(session, delivery.event, message, names, asked_by(session, names))

    def fenced(self, name: str, text: str) -> None:
        """The fences of this name are these, as GeoJSON; none if there is none."""
        if self.observers.all:
            self.flush()
            what, detail = (FENCE_PUT, f"{name}\n{text}") if text else (FENCE_REMOVED, name)
            self.observers.noted(self.border.now_us, self.border.host, what, detail)

    def anchored(self, client: str, place: Point | None) -> None:
        """This broker has learned where a client is that fences move with."""
        if self.observers.all:
            self.flush()
            x_y = "" if place is None else f"{place.x!r},{place.y!r}"
            self.observers.noted(self.border.now_us, self.border.host, ANCHOR_AT, f"{client}\n{x_y}")

    def heard(self, peer: str, event: Event) -> None:
        if self.observers.look_at_links:
            self.flush()
            self.observers.heard(self.border.now_us, peer, event)

    def forwarded(self, peer: str, event: Event) -> None:
        if self.observers.look_at_links:
            self.flush()
            self.observers.forwarded(self.border.now_us, peer, event)

    def flush(self) -> None:
        """Tells of the deliveries that were collected: before anything else is told, and at the end of an input."""
        event, self.event = self.event, None
        if event is not None:
            hosts, self._hosts = self._hosts, []
            subscription_ids, self._subscription_ids = self._subscription_ids, []
            self.observers.fanned_out(self.border.now_us, original(event), hosts, subscription_ids)


def is_modelled(asked: Asked) -> bool:
    return asked.filter.group is None and not asked.no_local


def original(event: Event) -> Event:
    """Under the name that it had before it was told apart from what others get of it."""
    name, made, _ = event.id.partition(MADE_OF)
    return replace(event, id=name) if made else event
