"""A gate before a routing strategy: only wishes that may bring something are asked of a neighbour (R1).

With advertisements a broker knows which subjects are published on which side. A wish that overlaps none of a
neighbour's is withheld from it, and asked for when one is advertised there.
"""

from collections.abc import Iterable

from roamcast.broker.routing import NOTHING, Asking, Change, Key, without_the_vain
from roamcast.broker.wishes import Wish
from roamcast.model.subject import subjects_overlap


class AskAdvertised:
    def __init__(self, inner: Asking) -> None:
        self.inner = inner
        self.subjects: dict[str, None] = {}
        """What the neighbour advertises."""
        self.passed: dict[Key, Wish] = {}
        self.withheld: dict[Key, Wish] = {}

    def leads(self, subject: str) -> bool:
        """Whether something that a wish for these subjects wants may come from the neighbour."""
        return any(subjects_overlap(subject, each) for each in self.subjects)

    def add(self, source: str, wish: Wish) -> Change:
        if not self.leads(wish.subject):
            self.withheld[source, wish.id] = wish
            return NOTHING
        self.passed[source, wish.id] = wish
        return self.inner.add(source, wish)

    def remove(self, source: str, wish_id: str) -> Change:
        if self.withheld.pop((source, wish_id), None) is not None:
            return NOTHING
        del self.passed[source, wish_id]
        return self.inner.remove(source, wish_id)

    def advertise(self, subject: str) -> Change:
        self.subjects[subject] = None
        wanted = [(key, wish) for key, wish in self.withheld.items() if self.leads(wish.subject)]
        for key, _ in wanted:
            self.passed[key] = self.withheld.pop(key)
        return together([self.inner.add(source, wish) for (source, _), wish in wanted])

    def unadvertise(self, subject: str) -> Change:
        self.subjects.pop(subject, None)
        vain = [key for key, wish in self.passed.items() if not self.leads(wish.subject)]
        for key in vain:
            self.withheld[key] = self.passed.pop(key)
        return together([self.inner.remove(source, wish_id) for source, wish_id in vain])

    def asked(self) -> list[Wish]:
        return self.inner.asked()


def together(changes: Iterable[Change]) -> Change:
    ask: list[Wish] = []
    withdraw: list[str] = []
    for change in changes:
        ask += change.ask
        withdraw += change.withdraw
    return without_the_vain(ask, withdraw)
