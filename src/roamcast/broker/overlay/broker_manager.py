"""The broker manager (O6; section 3.3): other brokers, how to reach them, and what all of them should know.

Its tables are the paper's four: neighbours (BNT), rows (BTT) and routes (BRT) are in `topology.py`, the loads that
brokers have told of (BIT) are here. Rows that changed leave at this broker's own period; only news of a broker nobody
knew travels at once, so that a network that comes up, or a broker that joins, is known soon. A newcomer, and a
neighbour that could not be reached, gets all rows the next time.
"""

from collections.abc import Callable

from roamcast.broker.overlay.channel import SystemChannel, TopologyChanged
from roamcast.broker.overlay.directory import Directory
from roamcast.broker.overlay.flows import Flows
from roamcast.broker.overlay.messages import Inside, Row, Rows, Whereabouts
from roamcast.broker.overlay.params import OverlayParams, microseconds
from roamcast.broker.overlay.search import Found
from roamcast.broker.overlay.topology import Topology
from roamcast.model.space import Space
from roamcast.node.boundary import Does, Send, SetTimer

NEWS_US = 200_000
"""How long news of unknown brokers are gathered before they go on."""


class BrokerManager:
    def __init__(self, host: str, params: OverlayParams, life: int, channel: SystemChannel, space: Space) -> None:
        self.host = host
        self.params = params
        self.channel = channel
        self.topology = Topology(host, params.brokers_max)
        self.flows = Flows(host, params, life, self.topology)
        self.directory = Directory(space, params.clients.wishes_max, params.clients.sessions_max)
        self.loads: dict[str, float] = {}
        """As they were when these brokers were last found."""
        self.owed: dict[str, None] = {}
        """Who gets all rows the next time, if it is a neighbour then."""
        self.told: dict[str, None] = {}
        """The brokers that were told of what is here, and are told of every change."""
        self.news: dict[str, tuple[int, tuple[str, ...]]] = {}
        """Posts that have come here: since when, and which brokers know."""
        self.take: Callable[[int, Inside, str], list[Does]] = lambda *_: []
        """What the broker does with a message from a broker, which may be itself."""

    # Saying.

    def say(self, now_us: int, broker: str, inside: Inside) -> list[Does]:
        if broker == self.host:
            return self.take(now_us, inside, self.host)
        return self.flows.say(now_us, broker, inside)

    def say_all(self, now_us: int, inside: Inside) -> list[Does]:
        effects: list[Does] = []
        for broker in self.told:
            effects += self.flows.say(now_us, broker, inside)
        return effects

    def spread(self, now_us: int) -> list[Does]:
        """Once a period, tells all that do not know yet of posts that have come here, many at once. One that has gone
        on is the next broker's to tell."""
        period_us = microseconds(self.params.update_period_s)
        if not any(now_us - since_us >= period_us for since_us, _ in self.news.values()):
            return []
        news, self.news = self.news, {}
        entries = self.directory.entries
        here = [(entries[name], informed) for name, (_, informed) in news.items() if name in entries]
        effects: list[Does] = []
        for broker in self.told:
            posts = tuple(
                (entry.subscription.id, entry.made, entry.version)
                for entry, informed in here
                if entry.place == self.host and broker not in informed
            )
            effects += self.flows.say(now_us, broker, Whereabouts(self.host, posts)) if posts else []
        return effects

    # Topology.

    def found(self, now_us: int, found: tuple[Found, ...]) -> None:
        self.note_loads(found)
        self.topology.found(now_us, {each.broker: each.hops for each in found})

    def note_loads(self, found: tuple[Found, ...]) -> None:
        for each in found:
            self.loads[each.broker] = each.load
            if len(self.loads) > self.params.brokers_max:
                del self.loads[next(iter(self.loads))]

    def learn(self, now_us: int, rows: Rows, sender: str) -> list[Does]:
        known = self.topology.rows.keys()
        fresh = [row for row in rows.rows if not self._is_old(row)]
        joined = tuple(row.broker for row in fresh if row.broker not in known)
        news = [row for row in fresh if self.topology.learn(row)]
        joined = tuple(broker for broker in joined if broker in self.topology.rows)
        self._owe((*joined, sender) if rows.asks else joined)
        effects: list[Does] = [SetTimer("news", now_us + NEWS_US)] if joined or rows.asks else []
        return [*effects, *self.channel.publish(now_us, TopologyChanged(joined))] if news else effects

    def _is_old(self, row: Row) -> bool:
        """Whether somebody still tells of a broker that was given up here, and knows nothing newer of it."""
        lost = self.flows.lost.get(row.broker)
        return lost is not None and lost.row is not None and row.number <= lost.row.number

    def _owe(self, brokers: tuple[str, ...]) -> None:
        for broker in brokers:
            if len(self.owed) < self.params.brokers_max:
                self.owed[broker] = None

    def propagate(self) -> list[Does]:
        """Steps 2 and 3 of section 2.3, the sender's side."""
        changed = self.topology.take_changed()
        effects: list[Does] = []
        for neighbour in self.topology.neighbours():
            rows = changed
            if neighbour in self.owed:
                del self.owed[neighbour]
                rows = tuple(self.topology.rows.values())
            asks = neighbour not in self.topology.rows
            if rows or asks:
                effects.append(Send(neighbour, Rows(rows, asks)))
        return effects

    def unreachable(self, now_us: int, broker: str) -> list[Does]:
        if broker not in self.topology.rows and broker not in self.flows.of:
            return []
        self._owe((broker,))
        return self.flows.unreachable(now_us, broker)

    def give_up(self, now_us: int, broker: str) -> None:
        """Everything here goes on as if this broker had never been, until it is heard again."""
        self.flows.give_up(now_us, broker)
        for known in (self.told, self.owed, self.loads):
            known.pop(broker, None)

    def forget_lost(self, now_us: int) -> None:
        """So long after a broker was lost nobody keeps anything for those who were there."""
        age_us = microseconds(self.params.clients.counterpart_age_s_max)
        for broker, lost in self.flows.lost.items():
            if not lost.forgotten and now_us - lost.since_us > age_us:
                lost.forgotten = True
                self.directory.without(broker)

    def path_length(self, one: str, other: str) -> int | None:
        """In hops of the network, by what is known here."""
        return self.topology.distance(one, other)
