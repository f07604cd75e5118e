"""The directory (O1): which subscriptions there are and at which broker their modulators run, and where producers
are.

Every broker has one. Who takes in a subscription tells all brokers it knows (`Enrol`), and each newly met one; the
broker where an event is published then knows alone whom the event is for and where to send it, which is what source
routing needs. Of two entries for one subscription that of the later post is right, and of one post the later version.

Where a post has gone is told at once to those who need it for the move (`departing.py`), to the others once a period
by the broker where it is (`Whereabouts`). Meanwhile they send to where it was, and every broker that a post has left
knows where it went: it sends events on, and corrects their sender. Versions grow with every move, so such a way leads
from older news to newer ones and never round in a circle.
"""

from roamcast.broker.border import wish_of
from roamcast.broker.overlay.messages import Address, Discharge, Enrol, Produces
from roamcast.broker.wishes import Table
from roamcast.model.event import Event
from roamcast.model.space import Space

GONE_MAX = 4_096
"""How many posts that are gone, or lost, a broker remembers."""


class Directory:
    def __init__(self, space: Space, wishes_max: int, producers_max: int) -> None:
        self.wishes_max = wishes_max
        self.producers_max = producers_max
        self.entries: dict[str, Enrol] = {}
        self.table = Table(space)
        self.producers: dict[str, Produces] = {}
        self.gone: dict[tuple[str, int], None] = {}
        """Posts that are gone, the longest ago first: news of them from elsewhere may come behind that."""
        self.lost: dict[tuple[str, int], None] = {}
        """Posts that were at a broker when it crashed: a session that comes here may count on them."""

    def enrol(self, entry: Enrol) -> bool:
        """Whether it was taken in; what is older than what is known, or too much, is not."""
        name = entry.subscription.id
        known = self.entries.get(name)
        if known is None and len(self.entries) >= self.wishes_max:
            return False
        if known is not None and (entry.made, entry.version) <= (known.made, known.version):
            # A post that was believed lost may turn up later, in the handoff of a broker that began anew.
            return False
        if (name, entry.made) in self.gone:
            # News that it is gone was here first. An earlier post, whose place it took, is gone as well.
            self._forget(name)
            return False
        if known is None or known.subscription != entry.subscription:
            self.table.remove(name, name)
            self.table.add(name, wish_of(entry.subscription, name))
        self.entries[name] = entry
        return True

    def moved(self, subscription_id: str, made: int, version: int, place: str) -> None:
        """This post of it is, or will be, at another broker."""
        entry = self.entries.get(subscription_id)
        if entry is not None and entry.made == made and entry.version < version:
            self.entries[subscription_id] = Enrol(entry.subscription, place, version, made)

    def lacks(self, subscription_id: str, version: int) -> bool:
        """Whether nothing as late as this version is known of a subscription."""
        entry = self.entries.get(subscription_id)
        return entry is None or entry.version < version

    def later(self, address: Address) -> Enrol | None:
        """Where a post has gone that a broker believes to be somewhere else, if that is known."""
        entry = self.entries.get(address.subscription_id)
        return entry if entry is not None and entry.made == address.made and entry.version > address.version else None

    def discharge(self, discharge: Discharge) -> bool:
        """Whether that was news."""
        name, made = discharge.subscription_id, discharge.made
        if discharge.certain:
            remember(self.gone, (name, made))
        entry = self.entries.get(name)
        if entry is None or entry.version > discharge.version or entry.made != made:
            return False
        self._forget(name)
        return True

    def _forget(self, name: str) -> None:
        if self.entries.pop(name, None) is not None:
            self.table.remove(name, name)

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

    def without(self, broker: str) -> list[Discharge]:
        """Nothing is at this broker any more; answers with what was believed to be."""
        gone = [entry for entry in self.entries.values() if entry.place == broker]
        for entry in gone:
            del self.entries[entry.subscription.id]
            self.table.remove(entry.subscription.id, entry.subscription.id)
            remember(self.lost, (entry.subscription.id, entry.made))
        self.producers = {name: each for name, each in self.producers.items() if each.home != broker}
        return [Discharge(entry.subscription.id, entry.version, entry.made, certain=False) for entry in gone]

    def homes(self) -> list[str]:
        """The home brokers of all producers."""
        return [each.home for each in self.producers.values() if each.home is not None]

    def homes_of_producers(self, but: str) -> list[str]:
        """The home broker of each producer, without one client's own."""
        return [each.home for client, each in self.producers.items() if client != but and each.home is not None]


def remember(posts: dict[tuple[str, int], None], post: tuple[str, int]) -> None:
    posts[post] = None
    if len(posts) > GONE_MAX:
        del posts[next(iter(posts))]
