"""The border of a broker: its clients, each with a session, their subscriptions, and what they get (R1, R3).

A subscription becomes a wish that needs no reader: a filter over the client's own state is one only the client can
judge, so its wish is the subject alone, and the client drops what it does not want. (Logical mobility and bound
filters make that narrower, `logical/`.)
"""

from collections.abc import Iterable

from roamcast.model.event import Event
from roamcast.model.filter import EVERYTHING
from roamcast.model.filter.bind import is_bound
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.space import Space
from roamcast.model.subject import subject_matches
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import CancelTimer, Does, Note, Send, SetTimer
from roamcast.protocols.broker.counterpart import Counterpart
from roamcast.protocols.broker.messages import Accepted, Attach, Lost, Numbered, Pub
from roamcast.protocols.broker.neighbourhood import Neighbourhood
from roamcast.protocols.broker.params import BrokerParams
from roamcast.protocols.broker.router import CLIENT
from roamcast.protocols.broker.sessions import Session
from roamcast.protocols.broker.wishes import Wish


class Border:
    def __init__(self, neighbourhood: Neighbourhood, params: BrokerParams, space: Space) -> None:
        self.neighbourhood = neighbourhood
        self.params = params
        self.space = space
        self.sessions: dict[str, Session] = {}
        self._wishes_made = 0

    # Sessions.

    def full(self) -> bool:
        return len(self.sessions) >= self.params.sessions_max

    def open(self, client: str, attach: Attach) -> tuple[Session, list[Does]]:
        counterpart = Counterpart(self.params.counterpart_events_max, self.params.marks_max, attach.after + 1)
        session = self.sessions[client] = Session(client, attach.epoch, counterpart)
        return session, self.take_over(session, attach)

    def return_to(self, session: Session, attach: Attach) -> list[Does]:
        """The client is back at the broker it was at: what it lacks goes to it at once."""
        session.epoch = attach.epoch
        session.attached = True
        effects: list[Does] = [CancelTimer(f"away:{session.client}"), *self.take_over(session, attach)]
        session.counterpart.acknowledge(attach.after)
        if session.awaits is not None:
            return effects
        return [*effects, *self.send(session, session.counterpart.after(attach.after))]

    def take_over(self, session: Session, attach: Attach) -> list[Does]:
        """The client's word on what it wants replaces what was known."""
        wanted = {each.id for each in attach.subscriptions}
        effects: list[Does] = []
        for subscription in attach.subscriptions:
            effects += self.subscribe(session, subscription)
        for subscription_id in [each for each in session.subscriptions if each not in wanted]:
            effects += self.unsubscribe(session, subscription_id)
        return effects

    def close(self, session: Session) -> list[Does]:
        """Nothing of a session stays behind but what a claim may have been promised."""
        effects: list[Does] = [CancelTimer(f"away:{session.client}")]
        for subscription_id in list(session.subscriptions):
            effects += self.unsubscribe(session, subscription_id)
        self.sessions.pop(session.client, None)
        return effects

    def link_down(self, now_us: int, client: str) -> list[Does]:
        session = self.sessions.get(client)
        if session is None:
            return []
        session.attached = False
        return [SetTimer(f"away:{client}", now_us + round(self.params.counterpart_age_s_max * 1e6))]

    # Subscriptions.

    def subscribe(self, session: Session, subscription: Subscription) -> list[Does]:
        if session.subscriptions.get(subscription.id) == subscription:
            return []
        if self.neighbourhood.router.full():
            return [Note("wish_refused", subscription.id)]
        before = session.wishes.get(subscription.id)
        self._wishes_made += 1
        wish = wish_of(subscription, f"{subscription.id} {self._wishes_made}")
        session.subscriptions[subscription.id] = subscription
        session.wishes[subscription.id] = wish.id
        router, source = self.neighbourhood.router, CLIENT + session.client
        said = router.want(source, wish)
        if before is not None:
            said += router.unwant(source, before)
        return self.neighbourhood.say(said)

    def unsubscribe(self, session: Session, subscription_id: str) -> list[Does]:
        if session.subscriptions.pop(subscription_id, None) is None:
            return []
        wish_id = session.wishes.pop(subscription_id)
        return self.neighbourhood.say(self.neighbourhood.router.unwant(CLIENT + session.client, wish_id))

    # Events.

    def route(self, event: Event, serial: int, source: str) -> list[Does]:
        said, clients = self.neighbourhood.router.route(event, serial, source)
        effects = self.neighbourhood.say(said)
        for client in clients:
            effects += self.deliver(self.sessions[client], event, serial)
        return effects

    def publish(self, session: Session, pub: Pub) -> list[Does]:
        """Held while a replay is awaited: it must come behind what the client had published elsewhere."""
        if session.awaits is not None:
            if len(session.publications) >= self.params.publications_max:
                return [Note("publication_refused", pub.event.id)]
            session.publications.append(pub)
            return []
        if pub.serial <= session.published:
            return [Send(session.client, Accepted(session.published))]
        session.published = pub.serial
        effects = self.route(pub.event, pub.serial, CLIENT + session.client)
        return [*effects, Send(session.client, Accepted(pub.serial))]

    def deliver(self, session: Session, event: Event, serial: int) -> list[Does]:
        scene = Scene(event.attributes.get, None, event.publisher)
        wanted = tuple(
            each.id
            for each in session.subscriptions.values()
            if subject_matches(each.subject, event.subject)
            and (not is_bound(each.filter) or accepts(each.filter, scene, self.space))
        )
        if not wanted:
            return []
        if session.awaits is not None:
            session.hold(event, serial, wanted)
            return []
        return self.send(session, [session.counterpart.add(event, serial, wanted)])

    def send(self, session: Session, numbered: Iterable[Numbered]) -> list[Does]:
        if not session.attached:
            return []
        effects: list[Does] = []
        if session.counterpart.lost:
            effects += [
                Send(session.client, Lost(session.counterpart.lost)),
                Note("counterpart_lost", session.client),
            ]
            session.counterpart.lost = 0
        return [*effects, *[Send(session.client, each) for each in numbered]]


def wish_of(subscription: Subscription, wish_id: str) -> Wish:
    filter_ = subscription.filter if is_bound(subscription.filter) else EVERYTHING
    return Wish(wish_id, subscription.subject, filter_)
