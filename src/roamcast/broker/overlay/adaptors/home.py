"""The home broker adaptor (O3; section 2.4, step 2, and figure 6): does a client get another home broker?

1. If one of the two brokers is overloaded, it is the other one.
2. If both are, it is the one with the lighter load.
3. If none is, it is the one on the shorter path, on average over the producers; if they are equal, the present one.

The candidate counts with the load that the client would bring, so that nobody moves to make things worse.

A client that nobody publishes for (it may be a producer itself) goes to the nearer one.
"""

from roamcast.broker.overlay.channel import NearestBroker, SystemEvent
from roamcast.broker.overlay.moves import Why
from roamcast.broker.overlay.services import Services
from roamcast.node.boundary import Does


class HomeBrokerAdaptor:
    interests: tuple[type[SystemEvent], ...] = (NearestBroker,)

    def __init__(self, services: Services) -> None:
        self.services = services

    def process(self, now_us: int, event: SystemEvent) -> list[Does]:
        if not isinstance(event, NearestBroker):
            return []
        self.services.brokers.note_loads((event.candidate,))
        why = self._better_by(event)
        if why is None:
            return []
        return self.services.departing.horizontal(now_us, event.client, event.candidate.broker, why)

    def _better_by(self, event: NearestBroker) -> Why | None:
        """Why the candidate is the better home; None: it is not."""
        params, mine = self.services.params, self.services.monitor.load
        theirs = event.candidate.load + self._brings(event.client)
        overloaded, candidate_overloaded = mine > params.load_max, theirs > params.load_max
        if not params.balance or not (overloaded or candidate_overloaded):
            there = self._path(event, event.candidate.broker, event.candidate.hops)
            return "nearer" if there < self._path(event, self.services.host, event.home_hops) else None
        leaves = theirs < mine if overloaded and candidate_overloaded else overloaded
        return "overload" if leaves else None

    def _brings(self, client: str) -> float:
        clients = self.services.clients
        posts = sum(post.load for post in clients.posts.values() if post.subscription.subscriber == client)
        return posts + clients.sessions[client].load

    def _path(self, event: NearestBroker, broker: str, hops: int) -> float:
        """From a producer to the client, if this broker were its home."""
        session = self.services.clients.sessions[event.client]
        homes = self.services.brokers.directory.homes_of_producers(event.client) if session.wanted else []
        lengths = [self.services.brokers.path_length(home, broker) for home in homes]
        known = [length for length in lengths if length is not None]
        return hops + (sum(known) / len(known) if known else 0.0)
