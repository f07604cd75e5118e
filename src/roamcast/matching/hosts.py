"""The hosts that the engine knows: the configuration K(t) of the model, in columns.

Of most hosts only the position is known, and it lies in two columns. A context that says more (velocity, attributes)
is kept beside them, and its position is still that of the columns, so that many hosts can be moved at once. A host
may be known by name only, because it subscribed: to the model it is absent.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from roamcast.matching.layout import (
    FREE,
    HOST,
    NAMED,
    NONE,
    PLACED,
    PRESENT,
    Doubles,
    Long,
    Records,
    Whole,
    enlarged,
)
from roamcast.matching.metric import around, loosened, reach_of, straight, straight_columns
from roamcast.matching.names import Names
from roamcast.model.context import Configuration, Context
from roamcast.model.places import MovementGraph
from roamcast.model.region import Anchored, Region
from roamcast.model.space import Space
from roamcast.model.values import Point


class Hosts(Mapping[str, Context]):
    """As a mapping: every host with a context, by name."""

    def __init__(self) -> None:
        self.names = Names()
        self.rows: Records = np.zeros(16, HOST)
        self._rich: dict[int, Context] = {}
        """Contexts of which a filter can read more than the name and the position."""
        self._present = 0

    def __getitem__(self, name: str) -> Context:
        number = self.names.find(name)
        if number < 0 or self.rows["state"][number] < PRESENT:
            raise KeyError(name)
        return self.context(number)

    def __iter__(self) -> Iterator[str]:
        for number in np.flatnonzero(self.rows["state"] >= PRESENT):
            yield self.names.name(int(number))

    def __len__(self) -> int:
        return self._present

    def context(self, number: int) -> Context:
        """Of a host that is present."""
        row = self.rows[number]
        position = Point(float(row["x"]), float(row["y"])) if row["state"] == PLACED else None
        rich = self._rich.get(number)
        if rich is None:
            return Context(self.names.name(number), position)
        return rich if rich.position == position else replace(rich, position=position)

    def known(self, number: int) -> Context | None:
        return self.context(number) if self.rows["state"][number] >= PRESENT else None

    def position(self, number: int) -> Point | None:
        row = self.rows[number]
        return Point(float(row["x"]), float(row["y"])) if row["state"] == PLACED else None

    def number(self, name: str) -> int:
        """Of a host by its name, which is entered if it is new."""
        number = self.names.find(name)
        if number >= 0:
            return number
        number = self.names.add(name)
        self.rows = enlarged(self.rows, number + 1)
        self.rows[number] = (0.0, 0.0, NONE, NAMED)
        return number

    def put(self, context: Context) -> int:
        number = self.number(context.host)
        position = context.position
        row = self.rows[number]
        self._present += row["state"] < PRESENT
        row["state"] = PRESENT if position is None else PLACED
        if position is not None:
            row["x"], row["y"] = position.x, position.y
        self.enrich(number, context)
        return number

    def enrich(self, number: int, context: Context) -> None:
        """What else than a position a context says."""
        if context.velocity is not None or context.attributes:
            self._rich[number] = context
        else:
            self._rich.pop(number, None)

    def remove(self, number: int) -> None:
        """Its context; its name stays while it has subscriptions."""
        self._present -= self.rows["state"][number] >= PRESENT
        self.rows["state"][number] = NAMED
        self._rich.pop(number, None)

    def is_present(self, number: int) -> bool:
        return bool(self.rows["state"][number] >= PRESENT)

    def all_placed(self, numbers: Whole) -> bool:
        """Whether these are numbers of hosts with a position."""
        if not len(numbers):
            return True
        in_range = numbers.min() >= 0 and numbers.max() < len(self.rows)
        return bool(in_range and (self.rows["state"][numbers] == PLACED).all())

    def tidy(self, number: int) -> None:
        """Forgets the name if nothing needs it any more."""
        if self.rows["state"][number] == NAMED and self.rows["first"][number] == NONE:
            self.rows["state"][number] = FREE
            self.names.remove(number)


class KnownConfiguration(Configuration):
    """The model's configuration over these columns: the same answers, without looking at every host."""

    def __init__(
        self, space: Space, hosts: Hosts, neighbour_range_m: float | None, graph: MovementGraph | None
    ) -> None:
        super().__init__(space, hosts, neighbour_range_m, graph)
        self.hosts = hosts

    def neighbours(self, host: str) -> list[Context]:
        here = self.contexts[host].position
        if here is None or self.neighbour_range_m is None:
            return []
        close = self.hosts_in(here, loosened(reach_of(self.neighbour_range_m, self.space)))
        found = [self.hosts.context(int(number)) for number in close]
        return [
            other
            for other in found
            if other.host != host
            and other.position is not None
            and self.space.within(here, other.position, self.neighbour_range_m)
        ]

    def hosts_in(self, centre: Point, reach_m: float) -> Long:
        """The numbers of the hosts with a position within a straight distance, and perhaps some more."""
        placed = np.flatnonzero(self.hosts.rows["state"] == PLACED)
        rows = self.hosts.rows[placed]
        x, y, z = straight_columns(rows["x"], rows["y"], self.space)
        at = straight(centre, self.space)
        with np.errstate(over="ignore"):
            near: Doubles = (x - at[0]) ** 2 + (y - at[1]) ** 2 + (z - at[2]) ** 2
            found: Long = placed[near <= loosened(reach_m) ** 2]
        return found

    def hosts_in_region(self, region: Region | None) -> Long:
        """The numbers of the hosts that may be in a region, in their order; without one, of all that are present."""
        if region is None:
            return np.flatnonzero(self.hosts.rows["state"] >= PRESENT)
        if isinstance(region, Anchored):
            anchor = self.contexts.get(region.host)
            if anchor is None or anchor.position is None:
                return np.zeros(0, np.int64)
        circle = around(region, self)
        if circle is None:
            return np.flatnonzero(self.hosts.rows["state"] == PLACED)
        return self.hosts_in(circle.centre, circle.reach_m)
