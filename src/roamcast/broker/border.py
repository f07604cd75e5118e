"""The border of a broker: its clients, each with a session, their subscriptions, and what they get (R1, R3).

A subscription becomes a wish that needs no reader. One whose filter depends on the client's place or state is
followed (`logical/following.py`); of any other that reads its client the wish is what can be judged without, and the
client drops what it does not want.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from roamcast.broker.advertising import Advertising
from roamcast.broker.logical.reach import relaxed
from roamcast.broker.logical.template import NOWHERE, State, Template
from roamcast.broker.mesh.identity import EventIds
from roamcast.broker.messages import Accepted, Attach, Early, Lost, Notified, Numbered, Pub, Resend
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.running import Modulators
from roamcast.broker.params import BrokerParams
from roamcast.broker.router import CLIENT, PeerMessages
from roamcast.broker.session import Session, numbered
from roamcast.broker.transfer import Interest, SessionState
from roamcast.broker.window import Delivery, Window
from roamcast.broker.wishes import Wish
from roamcast.model.event import Event
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.subject import subject_matches
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import CancelTimer, Does, Message, Note, Send, SetTimer

if TYPE_CHECKING:
    from roamcast.broker.broker import Broker

AWAY = "away:"
"""The timer of a client that stays away."""
HOPS_MAX = 500
"""More than any tree of brokers is wide: an event that has gone so far goes round in a circle."""
_encoder = msgspec.msgpack.Encoder(order="deterministic")


class Border:
    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self.host = broker.host
        self.neighbours = broker.neighbours
        self.params = broker.params
        self.bounds = broker.params.window_bounds
        self.space = broker.space
        self.following = broker.logical.following
        self.sessions: dict[str, Session] = {}
        self.advertising = Advertising(self.neighbours.router) if self.params.advertisements else None
        self.passing: Callable[[Event, int], None] | None = None
        """Who is told of every event that passes (R7)."""
        self.judges_when_published = False
        """Whether it judges events for its clients, by what they had reported when an event was published; or lets
        pass what a client may want, which judges on arrival."""
        self.tracks_changes = False
        self.changed: dict[str, None] = {}
        """The clients whose session or subscriptions have changed, if anybody wants to know."""
        self.ids: EventIds | None = None
        """Who gives events system-wide ids, in a mesh (M3)."""
        self.follows_clients = False
        """Whether what comes for a client that is elsewhere is sent after it, by the handover (M5)."""
        self.stranded: list[tuple[Session, Numbered]] = []
        """What came for such clients since the broker's last input."""
        self.links: dict[str, None] = {}
        """Who is linked to this broker now, clients and neighbours, as far as a handover asks (M5)."""

    def adopt(self, params: BrokerParams) -> None:
        """What clients have already stays, also where the bounds are smaller."""
        self.params = params
        self.bounds = params.window_bounds
        for session in self.sessions.values():
            session.window.bounds = self.bounds

    # What borders do differently.

    def tell(self, client: str, message: Message) -> list[Does]:
        """Says something to a client."""
        return [Send(client, message)]

    def accepted(self, session: Session, serial: int) -> list[Does]:
        """All that a client has published up to this one has gone out."""
        return self.tell(session.client, Accepted(serial))

    def complete(self, session: Session) -> None:
        """Its client goes on to another broker: what is to be numbered for it is numbered now."""

    def state_of(self, session: Session) -> SessionState:
        """What goes to the client's next broker beside its events. The client says there what it wants."""
        return SessionState(session.epoch, session.published, session.missing, session.window.state())

    def known_of(self, session: Session) -> SessionState | None:
        """What a broker may be told that asks for a client which cannot say itself what it wants."""
        return None

    def source_of(self, session: Session) -> str:
        """As whose the router knows a client's wishes."""
        return CLIENT + session.client

    def is_here(self, client: str) -> bool:
        """Whether it can be reached over a link of this broker."""
        return client in self.links

    def took_over(self, session: Session) -> None:
        """All of a replay has come."""

    # Sessions.

    def full(self) -> bool:
        return len(self.sessions) >= self.params.sessions_max

    def open(self, client: str, attach: Attach) -> tuple[Session, list[Does]]:
        session = self.sessions[client] = self._made(client, attach.epoch, Window(self.bounds, attach.after + 1))
        session.client_state = attach.state or NOWHERE
        return session, self.take_over(session, attach)

    def _made(self, client: str, epoch: int, window: Window) -> Session:
        return Session(client, epoch, window, Modulators(self.space, Limits()))

    def return_to(self, session: Session, attach: Attach) -> list[Does]:
        """The client is back at the broker it was at: what it lacks goes to it at once."""
        session.epoch = attach.epoch
        session.attachment.attached = True
        state = session.client_state if attach.subscriptions is None else attach.state or NOWHERE
        effects: list[Does] = [CancelTimer(AWAY + session.client), *self.report(session, state)]
        effects += self.take_over(session, attach)
        session.window.acknowledge(attach.after)
        if session.attachment.awaits is None:
            effects += self.tell_missing(session)
        # While a replay is awaited, what has come of it while the client was away is here, and will not come again.
        return [*effects, *self.send(session, session.window.after(attach.after))]

    def tell_missing(self, session: Session) -> list[Does]:
        """The client is told as soon as it is here."""
        if not session.missing or not session.attachment.attached:
            return []
        session.missing = False
        return self.tell(session.client, Lost(None))

    def take_over(self, session: Session, attach: Attach) -> list[Does]:
        """The client's word on what it wants replaces what was known."""
        effects: list[Does] = []
        if attach.subscriptions is not None:
            wanted = {each.id for each in attach.subscriptions}
            for subscription in attach.subscriptions:
                effects += self.subscribe(session, Interest(subscription))
            for name in [each for each in session.subscriptions if each not in wanted]:
                effects += self.unsubscribe(session, name)
        for subject in attach.announced:
            effects += self.advertise(session, subject)
        for subject in [each for each in session.announced if each not in attach.announced]:
            effects += self.unadvertise(session, subject)
        return effects

    def close(self, session: Session) -> list[Does]:
        """Nothing of a session stays behind but what a claim may have been promised."""
        effects: list[Does] = [CancelTimer(AWAY + session.client)]
        for name in list(session.subscriptions):
            effects += self.unsubscribe(session, name)
        self.sessions.pop(session.client, None)
        for subject in list(session.announced):
            effects += self.unadvertise(session, subject)
        self._touch(session)
        return effects

    def _touch(self, session: Session) -> None:
        if self.tracks_changes:
            self.changed[session.client] = None

    def link_down(self, now_us: int, client: str) -> list[Does]:
        session = self.sessions.get(client)
        if session is None:
            return []
        session.attachment.attached = False
        expires_us = now_us + round(self.params.counterpart_age_s_max * 1e6)
        return [SetTimer(AWAY + client, expires_us), *self.neighbours.send(self._followed(session))]

    # Subscriptions.

    def subscribe(self, session: Session, interest: Interest) -> list[Does]:
        name, subscription = interest.name, interest.wanted
        known = session.subscriptions.get(name)
        if known is not None and known.wanted == subscription:
            session.put(interest)
            return []
        if self.neighbours.router.full():
            return [Note("wish_refused", subscription.id)]
        self._touch(session)
        if self.following.follows(subscription.filter):
            return self._follow(session, interest)
        before = session.wishes.get(name)
        wish = lasting_wish(subscription, f"{session.client}/{name}")
        session.put(interest)
        if before == wish.id:
            return []
        session.wishes[name] = wish.id
        router, source = self.neighbours.router, self.source_of(session)
        outgoing = router.want(source, wish)
        if before is not None:
            outgoing += self._withdraw(source, before)
        return self.neighbours.send(outgoing)

    def unsubscribe(self, session: Session, name: str) -> list[Does]:
        if not session.drop(name):
            return []
        self._touch(session)
        wish_id = session.wishes.pop(name)
        return self.neighbours.send(self._withdraw(self.source_of(session), wish_id))

    def _withdraw(self, source: str, wish_id: str) -> PeerMessages:
        return [*self.neighbours.router.unwant(source, wish_id), *self.following.release(source, wish_id)]

    # Subscriptions that depend on their client.

    def report(self, session: Session, state: State) -> list[Does]:
        """The client's word on where and what it is."""
        session.client_state = state
        return self.neighbours.send(self._followed(session))

    def _followed(self, session: Session) -> PeerMessages:
        outgoing: PeerMessages = []
        for interest in session.subscriptions.values():
            if self._is_followed(session, interest):
                outgoing += self.following.hold(self.source_of(session), self._template(session, interest))
        return outgoing

    def _follow(self, session: Session, interest: Interest) -> list[Does]:
        name, source = interest.name, self.source_of(session)
        before = session.wishes.get(name)
        session.put(interest)
        if before is None or not self.following.filter_of(source, before):
            # No other broker gives it this name: the client attaches once in an epoch.
            session.wishes[name] = f"{interest.wanted.id}@{session.epoch}"
        outgoing = self.following.hold(source, self._template(session, interest))
        if before is not None and before != session.wishes[name]:
            outgoing += self._withdraw(source, before)
        return self.neighbours.send(outgoing)

    def _is_followed(self, session: Session, interest: Interest) -> bool:
        return self.following.filter_of(self.source_of(session), session.wishes[interest.name]) is not None

    def _template(self, session: Session, interest: Interest) -> Template:
        return Template(
            session.wishes[interest.name],
            interest.wanted.subject,
            interest.wanted.filter,
            session.client_state,
            session.client_state.access_us,
            away=not session.attachment.attached and not self.judges_when_published,
            since_us=session.stated_us,
        )

    # Advertisements.

    def advertise(self, session: Session, subject: str) -> list[Does]:
        if self.advertising is None or subject in session.announced:
            return []
        if self.neighbours.router.full():
            return [Note("advertisement_refused", subject)]
        session.announced[subject] = None
        return self.neighbours.send(self.advertising.advertise(CLIENT + session.client, subject))

    def unadvertise(self, session: Session, subject: str) -> list[Does]:
        if self.advertising is None or subject not in session.announced:
            return []
        if session.client in self.sessions and any(pub.event.subject == subject for pub in session.publications):
            # What waits for it to settle must still go out; the advertisement ends with the session.
            return []
        del session.announced[subject]
        return self.neighbours.send(self.advertising.unadvertise(CLIENT + session.client, subject))

    def settled(self, client: str) -> list[Does]:
        """An advertisement of the client has settled: what waited for it goes out."""
        session = self.sessions.get(client)
        return [] if session is None or session.attachment.awaits is not None else self.publish_held(session)

    def publish_held(self, session: Session) -> list[Does]:
        publications, session.publications = session.publications, []
        effects: list[Does] = []
        for pub in publications:
            effects += self.publish(session, pub)
        if session.refused and not session.publications:
            session.refused = False
            effects += self.tell(session.client, Resend())
        return effects

    # Events.

    def route(self, notified: Notified, source: str) -> list[Does]:
        if notified.hops > HOPS_MAX:
            return [Note("event_looped", notified.event.id)]
        event = notified.event
        outgoing, clients = self.neighbours.router.route(notified, source)
        effects = self._sent_on(notified, outgoing)
        for client in clients:
            session = self.sessions[client]
            wanted = self._wanted(session, event)
            if wanted:
                effects += self.give(session, event, notified.serial, wanted)
        return effects

    def _sent_on(self, notified: Notified, outgoing: PeerMessages) -> list[Does]:
        if self.passing is not None:
            self.passing(notified.event, notified.serial)
        return self.neighbours.send(outgoing)

    def publish(self, session: Session, pub: Pub) -> list[Does]:
        """Held while a replay is awaited: it must come behind what the client had published elsewhere. Held also
        until its advertisement has settled, and behind what is held."""
        effects = self._advertise_for(session, pub) if session.attachment.awaits is None else []
        if session.attachment.awaits is not None or session.publications or not self._may_publish(session, pub):
            return [*effects, *self._hold(session, pub)]
        if pub.serial <= session.published:
            return self.accepted(session, session.published)
        session.published = pub.serial
        event_id = None if self.ids is None else self.ids.next()
        effects += self.route(Notified(pub.event, pub.serial, event_id), CLIENT + session.client)
        effects += self.accepted(session, pub.serial)
        return effects

    def _hold(self, session: Session, pub: Pub) -> list[Does]:
        """Nothing is taken behind one that found no room, or the client would believe that one accepted too."""
        if session.publications and pub.serial <= session.publications[-1].serial:
            return []
        if session.refused or len(session.publications) >= self.params.publications_max:
            session.refused = True
            return [Note("publication_refused", pub.event.id)]
        session.publications.append(pub)
        return []

    def _advertise_for(self, session: Session, pub: Pub) -> list[Does]:
        return self.advertise(session, pub.event.subject)

    def _may_publish(self, session: Session, pub: Pub) -> bool:
        """What is not advertised for a bound goes out as it is, to where wishes stand already."""
        subject = pub.event.subject
        if self.advertising is None or subject not in session.announced:
            return True
        return self.advertising.is_settled(session.client, subject)

    def give(self, session: Session, event: Event, serial: int, wanted: tuple[str, ...]) -> list[Does]:
        """An event for these subscriptions of a client."""
        if session.attachment.awaits is not None:
            session.hold(event, serial, wanted)
            return self.deliver_early(session, event, serial)
        new = self.number(session, event, serial, wanted)
        return [] if session.attachment.quiet else self.send(session, new)

    def number(
        self, session: Session, event: Event, serial: int, wanted: tuple[str, ...]
    ) -> list[tuple[int, Delivery]]:
        delivery = Delivery(event, serial, wanted)
        return [(session.window.add(delivery), delivery)]

    def deliver_early(self, session: Session, event: Event, serial: int) -> list[Does]:
        """Ahead of its number, in an attachment for which everything before it is known to be with the client."""
        if session.attachment.early_epoch != session.epoch or not session.attachment.attached:
            return []
        wanted = self._wanted(session, event)
        return self.tell(session.client, Early(session.epoch, event, serial, wanted)) if wanted else []

    def _wanted(self, session: Session, event: Event) -> tuple[str, ...]:
        """For which of its subscriptions."""
        scene, source = Scene(event.attributes.get, None, event.publisher), self.source_of(session)
        return tuple(
            name
            for name, each in session.subscriptions.items()
            if subject_matches(each.wanted.subject, event.subject)
            and accepts(
                self.following.filter_of(source, session.wishes[name]) or relaxed(each.wanted.filter),
                scene,
                self.space,
            )
        )

    def send(self, session: Session, deliveries: Sequence[tuple[int, Delivery]]) -> list[Does]:
        if not session.attachment.attached:
            self.stranded += [(session, each) for each in numbered(deliveries)] if self.follows_clients else []
            return []
        effects: list[Does] = []
        if session.window.lost:
            effects += self.tell(session.client, Lost(session.window.lost))
            effects.append(Note("counterpart_lost", session.client))
            session.window.lost = 0
        for number, delivery in deliveries:
            effects += self.tell(session.client, Numbered(number, delivery))
        return effects


def wish_of(subscription: Subscription, wish_id: str) -> Wish:
    return Wish(wish_id, subscription.subject, relaxed(subscription.filter))


def lasting_wish(subscription: Subscription, name: str) -> Wish:
    """Under the same id at every broker that its client comes to, until it wants something else (R3)."""
    wish = wish_of(subscription, "")
    digest = blake2b(_encoder.encode(wish), digest_size=8).hexdigest()
    return replace(wish, id=f"{name} {digest}")
