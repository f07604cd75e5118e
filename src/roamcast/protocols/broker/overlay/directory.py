"""The directory (O1): which subscriptions there are and at which broker their modulators run, and where producers
are.

Every broker has one. Who takes in a subscription, or a modulator, tells all brokers it knows (`Enrol`), and each
newly met one; the broker where an event is published then knows alone whom the event is for and where to send it,
which is what source routing needs. Two entries for one subscription: the later version is right.
"""

from roamcast.model.event import Event
from roamcast.model.space import Space
from roamcast.protocols.broker.border import wish_of
from roamcast.protocols.broker.overlay.messages import Enrol, Produces
from roamcast.protocols.broker.wishes import Table


class Directory:
    def __init__(self, space: Space, wishes_max: int, producers_max: int) -> None:
        self.wishes_max = wishes_max
        self.producers_max = producers_max
        self.entries: dict[str, Enrol] = {}
        self.table = Table(space)
        self.producers: dict[str, Produces] = {}

    def enrol(self, entry: Enrol) -> bool:
        """Whether it was taken in; what is older than what is known, or too much, is not."""
        name = entry.subscription.id
        known = self.entries.get(name)
        if known is None and len(self.entries) >= self.wishes_max:
            return False
        if known is not None and entry.version <= known.version:
            return False
        if known is None or known.subscription != entry.subscription:
            self.table.remove(name, name)
            self.table.add(name, wish_of(entry.subscription, name))
        self.entries[name] = entry
        return True

    def moved(self, subscription_id: str, made: int, place: str) -> None:
        """This post of it is, or will be, at another broker."""
        entry = self.entries.get(subscription_id)
        if entry is not None and entry.made == made:
            self.entries[subscription_id] = Enrol(entry.subscription, place, entry.version + 1, entry.made)

    def discharge(self, subscription_id: str, version: int, made: int) -> None:
        entry = self.entries.get(subscription_id)
        if entry is not None and entry.version <= version and entry.made == made:
            del self.entries[subscription_id]
            self.table.remove(subscription_id, subscription_id)

    def concerned(self, event: Event) -> list[Enrol]:
        """Whom the event is for."""
        return [self.entries[name] for name in self.table.concerned(event)]

    def produces(self, producer: Produces) -> None:
        known = self.producers.get(producer.client)
        if known is not None and producer.epoch < known.epoch:
            return
        self.producers.pop(producer.client, None)
        if producer.home is not None:
            self.producers[producer.client] = producer
        if len(self.producers) > self.producers_max:
            # They only serve to choose places; the one heard of longest ago is missed least.
            del self.producers[next(iter(self.producers))]

    def without(self, broker: str) -> None:
        """Nothing is at this broker any more."""
        for name in [name for name, entry in self.entries.items() if entry.place == broker]:
            del self.entries[name]
            self.table.remove(name, name)
        self.producers = {name: each for name, each in self.producers.items() if each.home != broker}

    def homes_of_producers(self, but: str) -> list[str]:
        """The home broker of each producer, without one client's own."""
        return [each.home for client, each in self.producers.items() if client != but and each.home is not None]
