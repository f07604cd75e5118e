"""Who of a broker's own clients gets an event: subscriptions of clients that move, and whom a shared one falls to.

The five conditions of C6 hold for whoever is in the answer, as far as this broker knows the hosts concerned: its own
clients by their last report, the publisher by what the event says of it.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from roamcast.live.mqtt.messages import Subscription as Asked
from roamcast.live.mqtt.topics import FilterTree
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.match import matches
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription


class Entry(Struct, frozen=True):
    client: str
    asked: Asked
    wanted: Subscription


class Audience:
    def __init__(self, space: Space) -> None:
        self.space = space
        self.contexts: dict[str, Context] = {}
        self._tree: FilterTree[Entry] = FilterTree()
        self._turns: dict[tuple[str, str], int] = {}
        """By group and pattern of a shared subscription, how many messages it has had."""

    def __len__(self) -> int:
        return len(self._tree)

    def warm_up(self) -> None:
        """Has compiled what is to be fast, before the first event comes."""

    def subscribe(self, client: str, asked: Asked, wanted: Subscription) -> None:
        self._tree.add(asked.filter.pattern, key_of(client, asked.filter.text), Entry(client, asked, wanted))

    def unsubscribe(self, client: str, asked: Asked) -> None:
        self._tree.remove(asked.filter.pattern, key_of(client, asked.filter.text))

    def moved(self, context: Context) -> None:
        self.contexts[context.host] = context

    def forget(self, client: str) -> None:
        self.contexts.pop(client, None)

    def of(self, event: Event, now_us: int) -> list[tuple[str, list[Asked]]]:
        """Clients, in the order of their names, with those of their subscriptions that want the event."""
        found: dict[str, list[Asked]] = {}
        shared: dict[tuple[str, str], list[Entry]] = {}
        for entry in self._tree.match(event.subject):
            if entry.asked.no_local and entry.client == event.publisher.host:
                continue
            if not self.wants(event, entry.wanted, now_us):
                continue
            group = entry.asked.filter.group
            if group is None:
                found.setdefault(entry.client, []).append(entry.asked)
            else:
                shared.setdefault((group, entry.asked.filter.pattern), []).append(entry)
        for key, members in shared.items():
            chosen = self._turn(key, sorted(members, key=client_of))
            found.setdefault(chosen.client, []).append(chosen.asked)
        return sorted(found.items())

    def wants(self, event: Event, wanted: Subscription, now_us: int) -> bool:
        moment_us = event.published_us if event.instantaneous else now_us
        return matches(event, wanted, self._configuration(event.publisher, now_us), moment_us)

    def wants_retained(self, event: Event, wanted: Subscription, now_us: int) -> bool:
        """As if it were published now."""
        return self.wants(replace(event, published_us=now_us, expires_us=now_us), wanted, now_us)

    def _configuration(self, publisher: Context, now_us: int) -> Configuration:
        return Configuration(self.space, Carried(self.contexts, publisher, now_us, self.space), None)

    def _turn(self, key: tuple[str, str], members: list[Entry]) -> Entry:
        turn = self._turns.get(key, 0)
        self._turns[key] = turn + 1
        return members[turn % len(members)]


class Carried(Mapping[str, Context]):
    """Contexts carried forward to now, when they are asked for."""

    def __init__(self, known: dict[str, Context], publisher: Context, now_us: int, space: Space) -> None:
        self.known = known
        self.publisher = publisher
        self.now_us = now_us
        self.space = space

    def __getitem__(self, host: str) -> Context:
        context = self.known.get(host)
        if context is None:
            if host != self.publisher.host:
                raise KeyError(host)
            context = self.publisher
        return context.at(self.now_us, self.space)

    def __iter__(self) -> Iterator[str]:
        yield from self.known
        if self.publisher.host not in self.known:
            yield self.publisher.host

    def __len__(self) -> int:
        return len(self.known) + (self.publisher.host not in self.known)


def key_of(client: str, text: str) -> str:
    return f"{client}\0{text}"


def client_of(entry: Entry) -> str:
    return entry.client
