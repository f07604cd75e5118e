"""The broker network as one broker sees it (O2; section 2.3): topology table, links, routes.

Each broker owns one row: the neighbours that its own search found. Two brokers are linked if one of them found the
other. A row with a higher number replaces the one that is known, and is marked as changed: it leaves for the
neighbours at this broker's own next period. Routes are shortest paths over the links, by hops as they were when the
links were found, and of paths equally long those that take the least time to carry a byte: each broker tells what its
own link carries, and a link between two carries what the slower one does. They are computed anew when they are needed
after a change.
"""

from heapq import heappop, heappush
from itertools import pairwise

from roamcast.broker.overlay.messages import LINK_KBPS, Row


class Topology:
    def __init__(self, host: str, brokers_max: int) -> None:
        self.host = host
        self.brokers_max = brokers_max
        self.kbps = LINK_KBPS
        """What this broker's own link carries."""
        self.rows: dict[str, Row] = {host: Row(host, 0)}
        self.changed: dict[str, None] = {}
        """Whose rows have changed since the last period."""
        self.avoided: dict[str, int] = {}
        """Neighbours that could not be reached, and until when no path begins with them."""
        self._links: dict[str, dict[str, int]] | None = None
        self._paths: dict[str, tuple[str, ...]] | None = None

    # Rows.

    def found(self, now_us: int, neighbours: dict[str, int]) -> bool:
        """This broker's own search: whether its row has changed."""
        mine = self.rows[self.host]
        listed = tuple(sorted(neighbours.items()))
        if listed == mine.neighbours and self.kbps == mine.kbps and mine.number:
            return False
        # The clock goes on counting after a crash that forgot the last number.
        self._set(Row(self.host, max(now_us, mine.number + 1), listed, self.kbps))
        return True

    def learn(self, row: Row) -> bool:
        """Whether the row is news."""
        known = self.rows.get(row.broker)
        if row.broker == self.host or (known is not None and row.number <= known.number):
            return False
        if known is None and len(self.rows) >= self.brokers_max:
            return False
        self._set(row)
        return True

    def _set(self, row: Row) -> None:
        self.rows[row.broker] = row
        self.changed[row.broker] = None
        self._links = self._paths = None

    def forget(self, broker: str) -> Row | None:
        """A broker that is gone; its row, if it had one."""
        self.changed.pop(broker, None)
        self.avoided.pop(broker, None)
        self._links = self._paths = None
        return self.rows.pop(broker, None)

    def take_changed(self) -> tuple[Row, ...]:
        """What has changed since the last period; from now on nothing has."""
        rows = tuple(self.rows[broker] for broker in self.changed)
        self.changed.clear()
        return rows

    def known(self) -> list[str]:
        """The other brokers, in the order in which they were heard of."""
        return [broker for broker in self.rows if broker != self.host]

    # Links and routes.

    def links(self) -> dict[str, dict[str, int]]:
        if self._links is None:
            self._links = {}
            for row in self.rows.values():
                for neighbour, hops in row.neighbours:
                    self._link(row.broker, neighbour, hops)
        return self._links

    def _link(self, one: str, other: str, hops: int) -> None:
        assert self._links is not None
        for here, there in ((one, other), (other, one)):
            ways = self._links.setdefault(here, {})
            ways[there] = min(hops, ways.get(there, hops))

    def neighbours(self) -> list[str]:
        return list(self.links().get(self.host, {}))

    def avoid(self, neighbour: str, until_us: int) -> None:
        self.avoided[neighbour] = until_us
        self._paths = None

    def forgive(self, now_us: int) -> None:
        """Neighbours that could not be reached are tried again."""
        over = [broker for broker, until_us in self.avoided.items() if until_us <= now_us]
        for broker in over:
            del self.avoided[broker]
            self._paths = None

    def path(self, to: str) -> tuple[str, ...] | None:
        """From this broker to `to`, both included."""
        if self._paths is None:
            self._paths = self.paths_from(self.host, self.avoided)
        return self._paths.get(to)

    def paths_from(self, source: str, avoided: dict[str, int] | None = None) -> dict[str, tuple[str, ...]]:
        """The shortest path to every broker that can be reached, not beginning with one of those to avoid."""
        links = self.links()
        done: dict[str, tuple[str, ...]] = {}
        # Of paths equally long the fastest, then the one with fewer brokers, then the first by name.
        heap: list[tuple[int, float, int, tuple[str, ...]]] = [(0, 0.0, 0, (source,))]
        while heap:
            hops, time, steps, path = heappop(heap)
            here = path[-1]
            if here in done:
                continue
            done[here] = path
            for there, far in links.get(here, {}).items():
                if there not in done and not (here == source and avoided and there in avoided):
                    slow = time + far * self.slowness(here, there)
                    heappush(heap, (hops + far, slow, steps + 1, (*path, there)))
        return done

    def hops(self, path: tuple[str, ...]) -> int:
        """How long a path is, by what is known of its links."""
        links = self.links()
        return sum(links[here][there] for here, there in pairwise(path))

    def slowness(self, one: str, other: str) -> float:
        """How long a hop between two brokers takes to carry a byte, against one that nothing is said of."""
        told = (self.rows[each].kbps for each in (one, other) if each in self.rows)
        return LINK_KBPS / min(told, default=LINK_KBPS)

    def effort(self, path: tuple[str, ...]) -> float:
        """How long a path takes to carry a byte, in hops that nothing is said of."""
        links = self.links()
        return sum(links[here][there] * self.slowness(here, there) for here, there in pairwise(path))

    def distance(self, one: str, other: str) -> int | None:
        if one == other:
            return 0
        # Links have no direction, so a path from here serves both ways.
        if other == self.host:
            one, other = other, one
        path = self.path(other) if one == self.host else self.paths_from(one).get(other)
        return None if path is None else self.hops(path)
