"""Wishes: what a neighbour or a client asks a broker for, and the table that finds whom an event concerns.

A wish is a subject pattern and a filter over the event alone: a filter that reads its client's own context is bound
to it before it becomes a wish (R7). The table answers one question, which *sources* (neighbours or clients) have a
wish that accepts an event, and keeps equal filters once, however many ask. How filters are found is in
`finding.py`.
"""

from collections.abc import Iterator

from msgspec import Struct

from roamcast.broker.finding import Finder
from roamcast.model.event import Event
from roamcast.model.filter.cover import covers
from roamcast.model.filter.evaluate import compile_filter
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import Filter
from roamcast.model.space import Plane, Space
from roamcast.model.subject import check_pattern, subject_covers
from roamcast.model.topics import TopicTrie


class Wish(Struct, frozen=True, array_like=True, cache_hash=True):
    id: str
    """Of the subscription, or a name that a broker gave to what it asks for on behalf of several."""
    subject: str
    filter: Filter

    def __post_init__(self) -> None:
        check_pattern(self.subject)


def wish_covers(wide: Wish, narrow: Wish, space: Space) -> bool:
    """Whether every event that `narrow` accepts is accepted by `wide`."""
    return subject_covers(wide.subject, narrow.subject) and covers(wide.filter, narrow.filter, space)


class Group:
    """All wishes with one filter under one subject pattern: asked once, whoever they come from."""

    __slots__ = ("accepts", "filter", "sources")

    def __init__(self, filter_: Filter, space: Space) -> None:
        self.filter = filter_
        self.accepts = compile_filter(filter_, space, None)
        self.sources: dict[str, int] = {}
        """How many wishes of each source are in this group."""


class Bucket:
    """The groups under one subject pattern."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.groups: dict[Filter, Group] = {}
        self.finder: Finder[Group] = Finder(flat=isinstance(space, Plane))

    def add(self, source: str, filter_: Filter) -> None:
        group = self.groups.get(filter_)
        if group is None:
            group = self.groups[filter_] = Group(filter_, self.space)
            self.finder.add(filter_, group)
        group.sources[source] = group.sources.get(source, 0) + 1

    def remove(self, source: str, filter_: Filter) -> None:
        group = self.groups[filter_]
        group.sources[source] -= 1
        if group.sources[source] == 0:
            del group.sources[source]
        if not group.sources:
            del self.groups[filter_]
            self.finder.remove(filter_)


class Table:
    """Who wants what: wishes by source, and by subject for the events."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.wishes: dict[str, dict[str, Wish]] = {}
        self._count = 0
        self._buckets: TopicTrie[Bucket] = TopicTrie()

    def __reduce__(self) -> tuple[object, ...]:
        """A copy is made of the wishes alone: compiled filters cannot be copied, and need not be."""
        return (table_of, (self.space, self.wishes))

    def add(self, source: str, wish: Wish) -> None:
        """The source has no wish of this id yet."""
        self.wishes.setdefault(source, {})[wish.id] = wish
        self._count += 1
        bucket = self._buckets.under(wish.subject).get(wish.subject)
        if bucket is None:
            bucket = Bucket(self.space)
            self._buckets.add(wish.subject, wish.subject, bucket)
        bucket.add(source, wish.filter)

    def remove(self, source: str, wish_id: str) -> Wish | None:
        wish = self.wishes.get(source, {}).pop(wish_id, None)
        if wish is None:
            return None
        if not self.wishes[source]:
            del self.wishes[source]
        self._count -= 1
        bucket = self._buckets.under(wish.subject)[wish.subject]
        bucket.remove(source, wish.filter)
        if not bucket.groups:
            self._buckets.remove(wish.subject, wish.subject)
        return wish

    def of(self, source: str) -> list[Wish]:
        return list(self.wishes.get(source, {}).values())

    def concerned(self, event: Event) -> dict[str, None]:
        """The sources with a wish that accepts the event, in a fixed order."""
        if not self._count:
            return {}
        scene = Scene(event.attributes.get, None, event.publisher)
        found: dict[str, None] = {}
        for bucket in self._buckets.matching(event.subject):
            for group in bucket.finder.candidates(event.attributes):
                # A group none of whose sources is new need not be asked.
                if not group.sources.keys() <= found.keys() and group.accepts(scene) is True:
                    found.update(dict.fromkeys(group.sources))
        return found

    def sources_of(self, topic: str) -> Iterator[str]:
        """The sources with a wish for a topic, whatever else it asks for; some more than once."""
        for bucket in self._buckets.matching(topic):
            for group in bucket.groups.values():
                yield from group.sources

    def any_below(self, pattern: str) -> bool:
        """Whether there is a wish for topics that this pattern covers."""
        return next(iter(self._buckets.covered(pattern)), None) is not None

    def __len__(self) -> int:
        return self._count


def table_of(space: Space, wishes: dict[str, dict[str, Wish]]) -> Table:
    table = Table(space)
    for source, its in wishes.items():
        for wish in its.values():
            table.add(source, wish)
    return table
