"""The client manager (O6; section 3.3): the clients whose home this broker is, their posts here, and their events.

A client's event goes from its home broker to the posts of all subscriptions that accept it, wherever those are; what
a post's modulator makes goes to the home broker of its consumer, and from there, numbered, to the consumer. A client
that cannot be reached gets what it missed later, and is told of what the bounds cost it; one that stays away for too
long is forgotten, here and everywhere.
"""

from msgspec.structs import replace

from roamcast.broker.messages import Accepted, Attach, Pub
from roamcast.broker.modulators.interface import BadModulator
from roamcast.broker.overlay.broker_manager import BrokerManager
from roamcast.broker.overlay.discarding import discard_of, least_missed
from roamcast.broker.overlay.gauge import Gauge
from roamcast.broker.overlay.messages import (
    Address,
    Detour,
    Discharge,
    Enrol,
    HomeIs,
    Met,
    Modulated,
    NotHome,
    Produces,
    Refused,
    Retire,
    Routed,
    SwitchedOff,
    Unknown,
    Whereabouts,
)
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.broker.overlay.posts import Post
from roamcast.broker.overlay.sessions import HomeSession
from roamcast.broker.window import Window
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Does, Note, Send

SIGNS_MISSED = 3
"""A client gives a sign of life with every search; one that has missed so many is asked whether it is there."""


class ClientManager:
    def __init__(self, host: str, params: OverlayParams, brokers: BrokerManager, space: Space, gauge: Gauge) -> None:
        self.host = host
        self.params = params
        self.bounds = params.clients
        self.brokers = brokers
        self.space = space
        self.gauge = gauge
        self.sessions: dict[str, HomeSession] = {}
        self.posts: dict[str, Post] = {}
        """By subscription: the modulators that run here."""
        self.gone: dict[str, tuple[int, str, int]] = {}
        """Clients that have another home broker: since when, which, and the birth of their session. It will tell
        them; what they still say here is late."""
        self._versions = 0

    # Clients.

    def attach(self, now_us: int, client: str, attach: Attach, hops: int) -> list[Does]:
        session = self.sessions.get(client)
        if session is None and attach.came == "again":
            return self.stranger(client)
        if session is not None and attach.epoch < session.epoch and attach.came == "again":
            # It was said before the client came to where it is now.
            return [Note("stale_attachment", client)]
        effects: list[Does] = []
        if session is not None and attach.came != "again":
            # One that departs is over as well: its posts are retired behind the handoff.
            effects += self.close(now_us, session)
            session = None
        if session is None:
            if len(self.sessions) >= self.bounds.sessions_max:
                return [*effects, Note("session_refused", client)]
            window = Window(self.bounds.window_bounds, attach.after + 1)
            session = self.sessions[client] = HomeSession(client, attach.epoch, window)
        session.epoch, session.heard_us, session.hops = attach.epoch, now_us, hops
        session.attachment.attached, session.away_us = True, None
        session.window.acknowledge(attach.after)
        if not session.departing:
            effects += self._take_over(now_us, session, attach)
        return [
            *effects,
            *session.send(session.lacking(attach.after)),
            *session.tell_off(),
            *session.tell_missing(),
        ]

    def _take_over(self, now_us: int, session: HomeSession, attach: Attach) -> list[Does]:
        """The client's word on what it wants replaces what was known."""
        wanted = {each.id for each in attach.subscriptions or ()}
        effects: list[Does] = []
        for subscription in attach.subscriptions or ():
            effects += self.subscribe(now_us, session, subscription)
        for subscription_id in [each for each in session.wanted if each not in wanted]:
            effects += self.unsubscribe(now_us, session, subscription_id)
        return effects

    def close(self, now_us: int, session: HomeSession) -> list[Does]:
        """Nothing of a client stays behind."""
        effects: list[Does] = []
        for subscription_id in list(session.wanted):
            effects += self.unsubscribe(now_us, session, subscription_id)
        if self.sessions.get(session.client) is session:
            del self.sessions[session.client]
        return [*effects, *self._tell_production(now_us, session, None)]

    def unreachable(self, now_us: int, client: str) -> list[Does]:
        session = self.sessions.get(client)
        if session is not None and session.attachment.attached:
            session.attachment.attached, session.away_us = False, now_us
        return []

    def stranger(self, client: str) -> list[Does]:
        """Somebody talks as if this were its home broker."""
        return [] if client in self.gone else [Send(client, NotHome())]

    def tend(self, now_us: int) -> list[Does]:
        """Looks after clients that could not be reached, and events that wait for earlier ones."""
        age_us = microseconds(self.bounds.counterpart_age_s_max)
        self.gone = {client: each for client, each in self.gone.items() if now_us - each[0] < age_us}
        silence_us = microseconds(SIGNS_MISSED * self.params.discovery_period_s)
        effects: list[Does] = []
        for session in list(self.sessions.values()):
            if session.attachment.attached and now_us - session.heard_us > silence_us:
                self.unreachable(now_us, session.client)
            if session.attachment.attached or session.away_us is None or session.departing:
                continue
            if now_us - session.away_us > age_us:
                effects += [Note("counterpart_expired", session.client), *self.close(now_us, session)]
            else:
                effects.append(Send(session.client, HomeIs(session.born, session.moves)))
        for post in list(self.posts.values()):
            made = post.lose_patience(now_us, microseconds(self.params.hold_s_max))
            effects += [Note("order_given_up", post.subscription.id)] if made else []
            effects += [*self.send_home(now_us, post, made), *self._troubles(now_us, post)]
        return [*effects, *self._watch(now_us)]

    def _watch(self, now_us: int) -> list[Does]:
        """Asks whether those are there on whom clients of this broker, or posts here, depend."""
        others = {post.home: None for post in self.posts.values()}
        for session in self.sessions.values():
            others.update(dict.fromkeys(self.places(session)))
        effects: list[Does] = []
        for broker in others:
            if broker != self.host and self.brokers.flows.quiet(now_us, broker):
                effects += self.brokers.say(now_us, broker, Met())
        return effects

    def places(self, session: HomeSession) -> dict[str, list[Subscription]]:
        """Where the session's own posts are, and which."""
        places: dict[str, list[Subscription]] = {}
        for name, subscription in session.wanted.items():
            entry = self.brokers.directory.entries.get(name)
            if entry is not None and entry.made == session.post_of(name):
                places.setdefault(entry.place, []).append(subscription)
        return places

    # Subscriptions.

    def subscribe(self, now_us: int, session: HomeSession, subscription: Subscription) -> list[Does]:
        if session.wanted.get(subscription.id) == subscription:
            return []
        effects = self.unsubscribe(now_us, session, subscription.id)
        if len(self.brokers.directory.entries) >= self.bounds.wishes_max:
            return [*effects, Note("wish_refused", subscription.id)]
        # The clock goes on counting after a crash that forgot the last version; another broker's may be ahead.
        known = self.brokers.directory.entries.get(subscription.id)
        self._versions = max(now_us, self._versions + 1, 0 if known is None else known.version + 1)
        try:
            post = Post(subscription, self._versions, self.host, self.space, self.params, session.born, self.gauge)
        except BadModulator as problem:
            refused = Send(session.client, Refused(subscription.id, str(problem)))
            return [*effects, Note("modulator_refused", subscription.id), refused]
        self.posts[subscription.id] = post
        session.wanted[subscription.id] = subscription
        session.expected[subscription.id] = (post.made, 1)
        entry = Enrol(subscription, self.host, self._versions, post.made)
        self.brokers.directory.enrol(entry)
        return [*effects, *self.brokers.say_all(now_us, entry)]

    def unsubscribe(self, now_us: int, session: HomeSession, subscription_id: str) -> list[Does]:
        if subscription_id not in session.wanted:
            return []
        retire = Retire(subscription_id, session.post_of(subscription_id))
        session.forget(subscription_id)
        entry = self.brokers.directory.entries.get(subscription_id)
        # If the entry is of a later post, of a session elsewhere, only a post here can still be of this one: all
        # other brokers drop theirs when they hear of the later one.
        place = self.host if entry is None or entry.made != retire.made else entry.place
        return self.brokers.say(now_us, place, retire)

    def retire(self, now_us: int, subscription_id: str, made: int) -> list[Does]:
        """A post here is no longer needed."""
        here = self.has_post(subscription_id, made)
        if here:
            del self.posts[subscription_id]
        entry = self.brokers.directory.entries.get(subscription_id)
        if entry is None or entry.made != made:
            return []
        if not here and entry.place != self.host:
            return self.brokers.say(now_us, entry.place, Retire(subscription_id, made))
        discharge = Discharge(subscription_id, entry.version, made)
        self.brokers.directory.discharge(discharge)
        return self.brokers.say_all(now_us, discharge)

    def has_post(self, subscription_id: str, made: int) -> bool:
        post = self.posts.get(subscription_id)
        return post is not None and post.made == made

    def enrolled(self, entry: Enrol) -> list[Does]:
        """Another broker tells where a subscription's post is."""
        name = entry.subscription.id
        if not self.brokers.directory.enrol(entry):
            return [Note("entry_refused", name)]
        if name in self.posts and self.posts[name].made != entry.made:
            del self.posts[name]
        return []

    def told_of(self, now_us: int, whereabouts: Whereabouts, sender: str) -> list[Does]:
        """Another broker says where posts have gone."""
        directory = self.brokers.directory
        for name, made, version in whereabouts.posts:
            directory.moved(name, made, version, whereabouts.place)
        # Also of one of which an earlier post is known: word of the later one was lost with a broker.
        unknown = tuple((name, made) for name, made, version in whereabouts.posts if directory.lacks(name, version))
        return self.brokers.say(now_us, sender, Unknown(unknown)) if unknown else []

    def enquired(self, now_us: int, unknown: Unknown, sender: str) -> list[Does]:
        effects: list[Does] = []
        for name, made in unknown.posts:
            entry = self.brokers.directory.entries.get(name)
            if self.has_post(name, made) and entry is not None and entry.place == self.host:
                effects += self.brokers.say(now_us, sender, entry)
        return effects

    # Events.

    def publish(self, now_us: int, session: HomeSession, pub: Pub) -> list[Does]:
        if session.departing:
            # Not accepted: the client says it again to its next home broker.
            return []
        if pub.serial <= session.published:
            return [Send(session.client, Accepted(session.published))]
        session.published = pub.serial
        effects: list[Does] = []
        if not session.produces:
            session.produces = True
            effects += self._tell_production(now_us, session, self.host)
        for place, addresses in self._addresses(session, pub).items():
            effects += self._route(now_us, session, pub, place, addresses)
        return [*effects, Send(session.client, Accepted(pub.serial))]

    def _addresses(self, session: HomeSession, pub: Pub) -> dict[str, list[Address]]:
        """Whom the event is for, by the broker where their posts are."""
        directory = self.brokers.directory
        if len(session.chain) > 2 * len(directory.entries) + 16:
            session.chain = {name: each for name, each in session.chain.items() if name in directory.entries}
            session.missed = {name: each for name, each in session.missed.items() if name in directory.entries}
        by_place: dict[str, list[Address]] = {}
        for entry in directory.concerned(pub.event):
            name = entry.subscription.id
            made, before = session.chain.get(name, (entry.made, 0))
            after = before if made == entry.made else 0
            address = Address(name, after, entry.version, session.missed.get(name, 0), entry.made)
            by_place.setdefault(entry.place, []).append(address)
        return by_place

    def _route(self, now_us: int, session: HomeSession, pub: Pub, place: str, addresses: list[Address]) -> list[Does]:
        if self.brokers.flows.full(place):
            for address in addresses:
                session.missed[address.subscription_id] = address.missed + 1
            return [Note("event_refused", pub.event.id)]
        for address in addresses:
            session.chain[address.subscription_id] = (address.made, pub.serial)
            session.missed.pop(address.subscription_id, None)
        return self.brokers.say(now_us, place, Routed(pub.event, pub.serial, tuple(addresses)))

    def work(self, now_us: int, routed: Routed, address: Address, sender: str) -> list[Does]:
        """An event has reached one of its posts."""
        post = self.posts.get(address.subscription_id)
        if post is None or post.made != address.made:
            later = self.brokers.directory.later(address)
            if later is not None and later.place != self.host:
                return self._send_on(now_us, routed, address, later, sender)
            # Its sender believes in a post that is gone.
            gone = Discharge(address.subscription_id, address.version, address.made, certain=False)
            return self.brokers.say(now_us, sender, gone)
        made = post.take(now_us, routed.event, routed.serial, address)
        return [*self.send_home(now_us, post, made), *self._troubles(now_us, post)]

    def _send_on(self, now_us: int, routed: Routed, address: Address, entry: Enrol, sender: str) -> list[Does]:
        """The post has gone elsewhere, which its sender had no need to know until now."""
        posts = ((address.subscription_id, entry.made, entry.version),)
        onward = replace(routed, addresses=(replace(address, version=entry.version),))
        return [
            *self.brokers.say(now_us, sender, Whereabouts(entry.place, posts)),
            *self.brokers.say(now_us, entry.place, onward),
        ]

    def _troubles(self, now_us: int, post: Post) -> list[Does]:
        """What has gone wrong in a modulator; that it is off, its consumer must know."""
        notes = post.troubles()
        if all(note.what != "modulator_off" for note in notes):
            return [*notes]
        off = SwitchedOff(post.subscription.subscriber, post.subscription.id, post.made)
        return [*notes, *self.brokers.say(now_us, post.home, off)]

    def send_home(self, now_us: int, post: Post, made: list[Modulated]) -> list[Does]:
        effects: list[Does] = []
        for modulated in made:
            effects += self.brokers.say(now_us, post.home, modulated)
        return effects

    def deliver(self, now_us: int, modulated: Modulated | SwitchedOff, sender: str) -> list[Does]:
        session = self.sessions.get(modulated.client)
        if session is not None and session.post_of(modulated.subscription_id) == modulated.made:
            if isinstance(modulated, Modulated):
                self._make_room(session, modulated.subscription_id)
                return session.send(session.take(modulated))
            session.off[modulated.subscription_id] = None
            return session.tell_off()
        if session is not None or modulated.client not in self.gone:
            return self.brokers.say(now_us, sender, Retire(modulated.subscription_id, modulated.made))
        # A post that moved at the same time as its home may not have heard of it.
        _, to, born = self.gone[modulated.client]
        detour = Detour(modulated.client, 0, (), True, to, born)
        return [*self.brokers.say(now_us, to, modulated), *self.brokers.say(now_us, sender, detour)]

    def _make_room(self, session: HomeSession, subscription_id: str) -> None:
        """The oldest goes, unless the application says which it misses least."""
        window, subscription = session.window, session.wanted.get(subscription_id)
        if subscription is None or len(window.entries) < window.bounds.entries_max:
            return
        discard = discard_of(subscription, self.space, self.params.modulators)
        entries = window.entries.items()
        waiting = [(number, each.event) for number, each in entries if subscription_id in each.subscriptions]
        if discard is not None and waiting:
            window.finish(waiting[least_missed(discard, [event for _, event in waiting])][0])
            window.lost += 1

    # What other brokers are told.

    def _tell_production(self, now_us: int, session: HomeSession, home: str | None) -> list[Does]:
        if not session.produces:
            return []
        produces = Produces(session.client, home, session.born + session.moves)
        self.brokers.directory.produces(produces)
        return self.brokers.say_all(now_us, produces)

    def arrived(self, now_us: int, session: HomeSession) -> list[Does]:
        """A session has come from another home broker. Of two of the same client, the later is right."""
        known = self.sessions.get(session.client)
        if known is not None and known.born > session.born:
            return self.close(now_us, session)
        effects = [] if known is None else self.close(now_us, known)
        self.gone.pop(session.client, None)
        self.sessions[session.client] = session
        effects += self._tell_production(now_us, session, self.host)
        return [*effects, Send(session.client, HomeIs(session.born, session.moves))]

    def introduction(self, leaving: set[str]) -> list[Enrol | Produces]:
        """What a broker that was just met is told: of whatever is here and stays."""
        entries = self.brokers.directory.entries
        known: list[Enrol | Produces] = [
            entries[name] for name in self.posts if name in entries and name not in leaving
        ]
        for session in self.sessions.values():
            if session.produces and not session.departing:
                known.append(Produces(session.client, self.host, session.born + session.moves))
        return known
