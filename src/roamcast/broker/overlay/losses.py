"""What a broker does when another one has crashed, or is gone: what is lost is made anew, and clients are told (O7).

Posts that were at that broker are made anew at the home brokers of their clients. Posts here that worked for clients
of that broker are no longer needed. Events that waited for it are counted as missed.
"""

from roamcast.broker.overlay.broker_manager import BrokerManager
from roamcast.broker.overlay.client_manager import ClientManager
from roamcast.broker.overlay.messages import Address, Discharge, Routed
from roamcast.broker.overlay.sessions import HomeSession
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Does, Note

NO_POST = (0, 0)


class Losses:
    def __init__(self, brokers: BrokerManager, clients: ClientManager) -> None:
        self.brokers = brokers
        self.clients = clients

    def recover(self, now_us: int, broker: str) -> list[Does]:
        """A broker has crashed, or is gone, and posts of clients of this one with it: they are made anew, here."""
        gone = self.clients.gone
        self.clients.gone = {client: each for client, each in gone.items() if each[1] != broker}
        effects: list[Does] = []
        for session in self.clients.sessions.values():
            effects += self._lose_posts(now_us, session, self.clients.places(session).get(broker, []))
        return effects

    def _lose_posts(self, now_us: int, session: HomeSession, lost: list[Subscription]) -> list[Does]:
        if not session.departing:
            return self.renew(now_us, session, lost)
        # Its next home broker makes them anew.
        session.expected.update({each.id: NO_POST for each in lost})
        return []

    def complete(self, now_us: int, client: str) -> list[Does]:
        """A session has come. A broker with posts of it may have crashed while it was on its way."""
        session, known_lost = self.clients.sessions.get(client), self.brokers.directory.lost
        if session is None:
            return []
        posts = {name: session.post_of(name) for name in session.wanted}
        lost = [session.wanted[name] for name, made in posts.items() if not made or (name, made) in known_lost]
        return self.renew(now_us, session, lost)

    def renew(self, now_us: int, session: HomeSession, lost: list[Subscription]) -> list[Does]:
        """New posts for these subscriptions; what the old ones had is lost, and the client is told."""
        effects: list[Does] = []
        for subscription in lost:
            effects += self.clients.unsubscribe(now_us, session, subscription.id)
            effects += self.clients.subscribe(now_us, session, subscription)
        session.missing = session.missing or bool(lost)
        return [*effects, *session.tell_missing()]

    def bereave(self, now_us: int, broker: str) -> list[Does]:
        """A broker is given up: what waits for it is lost, and posts here of its clients have nobody to work for."""
        effects = self.orphan(now_us, broker)
        flow = self.brokers.flows.of.get(broker)
        routed = [] if flow is None else [each.inside for each in flow.waiting if isinstance(each.inside, Routed)]
        # Backwards, so that the chain ends behind what has arrived.
        for each in reversed(routed):
            session = self.clients.sessions.get(each.event.publisher.host)
            for address in each.addresses if session is not None else ():
                self._count_missed(session, address)
            effects.append(Note("event_refused", each.event.id))
        return effects

    def orphan(self, now_us: int, broker: str) -> list[Does]:
        """The sessions of a broker are lost: posts here that work for them are no longer needed."""
        effects: list[Does] = []
        for name, post in list(self.clients.posts.items()):
            if post.home == broker:
                effects += self.clients.retire(now_us, name, post.made)
        return effects

    def _count_missed(self, session: HomeSession | None, address: Address) -> None:
        name = address.subscription_id
        if session is not None and session.chain.get(name, (0, 0))[0] == address.made:
            session.chain[name] = (address.made, address.after)
            session.missed[name] = session.missed.get(name, 0) + address.missed + 1

    def discharged(self, now_us: int, discharge: Discharge) -> list[Does]:
        """A post is gone. If a client here still wants it, it was lost with a broker, and is made anew."""
        name, made = discharge.subscription_id, discharge.made
        if not self.brokers.directory.discharge(discharge):
            return []
        return self.lose(now_us, name, made)

    def lose(self, now_us: int, subscription_id: str, made: int) -> list[Does]:
        """A post that no broker has."""
        effects: list[Does] = []
        for session in self.clients.sessions.values():
            if session.post_of(subscription_id) == made:
                effects += self._lose_posts(now_us, session, [session.wanted[subscription_id]])
        return effects
