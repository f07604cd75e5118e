"""One bucket of time with all that is known of it: the hosts, their tracks and states, the events and subscriptions.

Everything is in columns, hosts and filters are numbers. Two questions are answered for very many rows at once, in the
words of `model.match`: which of them `includes` a host, and which filter `accepts` an event for its reader.
"""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.model.filter.evaluate import mean_of
from roamcast.model.filter.mask import Column, Columns, Flags, Floats, Pairs, Scalars, Texts, mask, within
from roamcast.model.filter.tree import (
    TRUE,
    AtMyLoc,
    Attribute,
    Closing,
    Filter,
    Mine,
    Near,
    Neighbours,
    Predicate,
    Publishers,
    atoms,
    terms,
)
from roamcast.model.places import MovementGraph
from roamcast.model.space import Space
from roamcast.spark.oracle.attributes import Attributes, all_taken, one_array, taken
from roamcast.spark.oracle.boxes import Boxes, Rows, grown, overlapping, spread
from roamcast.spark.oracle.scopes import NO_FILTER, Filters, Scopes, scopes_of
from roamcast.spark.oracle.tracks import NOBODY, Stands, Stretches, Tracks, runs_of

Aggregates = Mapping[Neighbours, Column]


@dataclass(frozen=True)
class World:
    """What all buckets of a journal share."""

    space: Space
    neighbour_range_m: float
    graph: MovementGraph | None
    period_us: int
    """How far apart the checks of what lasts are."""


@dataclass(frozen=True)
class Reads:
    """What a filter reads, by name."""

    attributes: tuple[str, ...]
    mine: tuple[str, ...]
    publishers: tuple[str, ...]
    neighbours: tuple[Neighbours, ...]


@lru_cache(maxsize=65_536)
def reads_of(filter_: Filter) -> Reads:
    asked = [term for atom in atoms(filter_.root) for term in terms(atom)]
    mine = [term.name for term in asked if isinstance(term, Mine)]
    for atom in atoms(filter_.root):
        mine += ["position"] if isinstance(atom, Near | Closing) else ["place"] if isinstance(atom, AtMyLoc) else []
    return Reads(
        tuple(dict.fromkeys(term.name for term in asked if isinstance(term, Attribute))),
        tuple(dict.fromkeys(mine)),
        tuple(dict.fromkeys(term.name for term in asked if isinstance(term, Publishers))),
        tuple(dict.fromkeys(term.asked for term in asked if isinstance(term, Neighbours))),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    ids: Any
    begin_us: Rows
    end_us: Rows
    subject: Any
    publisher: Rows
    attributes: Attributes
    publisher_attributes: Attributes
    publisher_position: Pairs
    publisher_velocity: Pairs
    relevance: Scopes
    audience: Scopes

    def __len__(self) -> int:
        return len(self.begin_us)


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """Subscriptions, each from when it is issued until it ends."""

    ids: Any
    begin_us: Rows
    end_us: Rows
    subject: Any
    subscriber: Rows
    filter: Rows
    interest: Scopes
    publishers: Scopes

    def __len__(self) -> int:
        return len(self.begin_us)


class Hosts:
    """The names of all hosts of a bucket in order, so that a host's number is also the rank of its name."""

    def __init__(self, columns: Iterable[Any]) -> None:
        every = pa.concat_arrays([one_array(column).unique().cast(pa.string()) for column in columns])
        # Arrow sorts texts by their bytes in UTF-8, which is how Python sorts them, too.
        self.names = every.unique().drop_null().sort()

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(self.names.to_pylist()) or ("",)

    def numbers(self, column: Any) -> Rows:
        found = pc.index_in(one_array(column), value_set=self.names).fill_null(NOBODY)
        numbers: Rows = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers


class Bucket:
    """From the four tables of one bucket, sorted by host and time where they have hosts."""

    def __init__(
        self, world: World, start_us: int, end_us: int, tracks: Any, states: Any, events: Any, lives: Any
    ) -> None:
        """`end_us` is exclusive."""
        self.world = world
        self.start_us, self.end_us = start_us, end_us
        self.filters = Filters()
        scopes = [events["relevance"], events["audience"], lives["interest"], lives["publishers"]]
        anchors = [pc.struct_field(one_array(column), ["region", "anchor"]) for column in scopes]
        publisher = pc.struct_field(one_array(events["publisher"]), "host")
        self.hosts = Hosts([tracks["host"], states["host"], publisher, lives["subscriber"], *anchors])
        self.tracks = self._tracks(tracks)
        self._states = self._stretches(states)
        self._state_attributes = Attributes(states["attributes"].take(pa.array(self._order_of(states))))
        self.events = self._events(events)
        self.lives = self._lives(lives)
        self.host_boxes: Boxes = self.tracks.boxes(len(self.hosts))
        self._near: tuple[Rows, Rows] | None = None

    def _order_of(self, table: Any) -> Rows:
        host = self.hosts.numbers(table["host"])
        return np.lexsort((integers(table["from_us"]), host))

    def _stretches(self, table: Any) -> Stretches:
        order = self._order_of(table)
        host = self.hosts.numbers(table["host"])[order]
        from_us, until_us = integers(table["from_us"])[order], integers(table["until_us"])[order]
        return Stretches.of(host, from_us, until_us, self.start_us, self.end_us)

    def _tracks(self, table: Any) -> Tracks:
        order = self._order_of(table)
        position = pairs(table["x"], table["y"], order)
        velocity = pairs(table["velocity_east"], table["velocity_north"], order)
        return Tracks(self._stretches(table), position, velocity, self.world.space)

    def _events(self, table: Any) -> Events:
        publisher = one_array(table["publisher"])
        part = {field.name: pc.struct_field(publisher, field.name) for field in publisher.type}
        return Events(
            one_array(table["event_id"]),
            integers(table["begin_us"]),
            integers(table["end_us"]),
            one_array(table["subject"]),
            self.hosts.numbers(part["host"]),
            Attributes(table["attributes"]),
            Attributes(part["attributes"]),
            pairs(part["x"], part["y"]),
            pairs(part["velocity_east"], part["velocity_north"]),
            scopes_of(table["relevance"], self.filters, self.hosts.numbers),
            scopes_of(table["audience"], self.filters, self.hosts.numbers),
        )

    def _lives(self, table: Any) -> Lives:
        return Lives(
            one_array(table["subscription_id"]),
            integers(table["begin_us"]),
            integers(table["end_us"]),
            one_array(table["subject"]),
            self.hosts.numbers(table["subscriber"]),
            self.filters.numbers(table["filter"]),
            scopes_of(table["interest"], self.filters, self.hosts.numbers),
            scopes_of(table["publishers"], self.filters, self.hosts.numbers),
        )

    def during(self, start_us: int, end_us: int) -> "Bucket":
        """A part of this bucket, in which nobody comes far; `end_us` is exclusive."""
        part = copy(self)
        part.start_us, part.end_us = start_us, end_us
        part.tracks = self.tracks.during(start_us, end_us)
        part.host_boxes = part.tracks.boxes(len(self.hosts))
        part._near = None
        return part

    # What the definition of matching asks.

    def includes(self, scopes: Scopes, rows: Rows, hosts: Rows, times_us: Rows) -> Flags:
        """`match.includes`: whether each host is in the context that the scope beside it specifies."""
        found = scopes.open[rows]
        asked = np.flatnonzero(~found)
        if not len(asked):
            return found
        stands = self.tracks.at(hosts[asked], times_us[asked])
        within_region = scopes.regions.contain(rows[asked], stands.position, times_us[asked], self.tracks)
        fits = stands.present & within_region
        filtered = np.flatnonzero(fits & (scopes.filter[rows[asked]] != NO_FILTER))
        if len(filtered):
            left = asked[filtered]
            fits[filtered] = self._scope_accepts(scopes.filter[rows[left]], hosts[left], times_us[left])
        found[asked] = fits
        return found

    def _scope_accepts(self, filters: Rows, hosts: Rows, times_us: Rows) -> Flags:
        first, counts = runs_of(filters, hosts, times_us)
        return np.repeat(self._accepts_hosts(filters[first], hosts[first], times_us[first]), counts)

    def _accepts_hosts(self, filters: Rows, hosts: Rows, times_us: Rows) -> Flags:
        found = np.zeros(len(filters), np.bool_)
        for number in np.unique(filters):
            some = np.flatnonzero(filters == number)
            filter_ = self.filters.all[number]
            reads = reads_of(filter_)
            stands = self.tracks.at(hosts[some], times_us[some])
            names = tuple(dict.fromkeys((*reads.attributes, *reads.mine)))
            mine = self._of_hosts(names, hosts[some], times_us[some], stands)
            around = self._aggregates(reads, hosts[some], times_us[some], stands)
            columns = Columns(len(some), mine, mine, {}, stands.velocity, None, around)
            found[some] = mask(filter_, columns, self.world.space, self.world.graph)
        return found

    def accepts(self, events: Rows, lives: Rows, times_us: Rows) -> Flags:
        """The second half of `match.standard_matching`: the subscription's filter, as its subscriber reads it."""
        filters = self.lives.filter[lives]
        found = np.zeros(len(filters), np.bool_)
        for number in np.unique(filters):
            some = np.flatnonzero(filters == number)
            filter_ = self.filters.all[number]
            columns = self._scenes(
                reads_of(filter_), events[some], self.lives.subscriber[lives[some]], times_us[some]
            )
            found[some] = mask(filter_, columns, self.world.space, self.world.graph)
        return found

    def _scenes(self, reads: Reads, events: Rows, readers: Rows, times_us: Rows) -> Columns:
        stands = self.tracks.at(readers, times_us) if reads.mine or reads.neighbours else self._nobody(len(events))
        of = self.events
        publisher = dict(all_taken(of.publisher_attributes, reads.publishers, events))
        if "host" in reads.publishers:
            publisher["host"] = self._names(of.publisher[events], np.ones(len(events), np.bool_))
        where = Pairs(of.publisher_position.x, of.publisher_position.y, of.publisher_position.valid)
        if "position" in reads.publishers:
            publisher["position"] = taken(Column(position=where), events)
        speed = of.publisher_velocity
        return Columns(
            len(events),
            all_taken(of.attributes, reads.attributes, events),
            self._of_hosts(reads.mine, readers, times_us, stands),
            publisher,
            stands.velocity,
            Pairs(speed.x[events], speed.y[events], speed.valid[events]),
            self._aggregates(reads, readers, times_us, stands),
        )

    def _nobody(self, count: int) -> Stands:
        nothing = Pairs(np.zeros(count), np.zeros(count), np.zeros(count, np.bool_))
        return Stands(nothing.valid, nothing, nothing)

    def _of_hosts(self, names: tuple[str, ...], hosts: Rows, times_us: Rows, stands: Stands) -> dict[str, Column]:
        """What `Context.value` answers, for hosts that are there."""
        others = tuple(name for name in names if name not in ("position", "host"))
        rows = np.where(stands.present, self._states.at(hosts, times_us), -1) if others else hosts
        found = dict(all_taken(self._state_attributes, others, rows))
        if "position" in names:
            found["position"] = Column(position=stands.position)
        if "host" in names:
            found["host"] = self._names(hosts, stands.present)
        return found

    def _names(self, hosts: Rows, known: Flags) -> Column:
        return Column(text=Texts(np.maximum(hosts, 0), self.hosts.words, known & (hosts >= 0)))

    # Relational properties (C2).

    def _aggregates(self, reads: Reads, hosts: Rows, times_us: Rows, stands: Stands) -> Aggregates:
        if not reads.neighbours:
            return {}
        asked, other = self._neighbours(hosts, times_us, stands)
        found: dict[Neighbours, Column] = {}
        for term in reads.neighbours:
            fitting = self._fitting(term.where, hosts, asked, other, times_us)
            rows, others = asked[fitting], other[fitting]
            if term.aggregate == "count":
                counts = np.bincount(rows, minlength=len(hosts)).astype(np.float64)
                found[term] = Column(number=Scalars(counts, stands.present))
            else:
                values, known = self._numbers_of(term.name, rows, others, times_us)
                found[term] = aggregated(term.aggregate, known, values, len(hosts))
        return found

    def _fitting(self, where: Predicate, hosts: Rows, asked: Rows, other: Rows, times_us: Rows) -> Flags:
        """Of pairs of a question and a neighbour, those for which a condition on the neighbour is true."""
        if where == TRUE:
            return np.ones(len(asked), np.bool_)
        filter_, readers, at_us = Filter(where), hosts[asked], times_us[asked]
        reads, mine, theirs = reads_of(filter_), self.tracks.at(readers, at_us), self.tracks.at(other, at_us)
        attributes = self._of_hosts(reads.attributes, other, at_us, theirs)
        me = self._of_hosts(reads.mine, readers, at_us, mine)
        columns = Columns(len(asked), attributes, me, {}, mine.velocity)
        return mask(filter_, columns, self.world.space, self.world.graph)

    def _neighbours(self, hosts: Rows, times_us: Rows, stands: Stands) -> tuple[Rows, Rows]:
        """For each question the hosts within range, as pairs of its row and a host, ordered by row."""
        first, others = self._near_hosts()
        counts = (first[hosts + 1] - first[hosts]) * stands.position.valid
        asked, nth = spread(counts)
        other = others[first[hosts[asked]] + nth]
        there = self.tracks.at(other, times_us[asked]).position
        here = Pairs(stands.position.x[asked], stands.position.y[asked], stands.position.valid[asked])
        close = there.valid & within(here, there, self.world.neighbour_range_m, self.world.space)
        return asked[close], other[close]

    def _near_hosts(self) -> tuple[Rows, Rows]:
        """For each host those who may come into its range in this bucket: where its list begins, and all lists."""
        if self._near is None:
            count = len(self.hosts)
            reach = grown(self.host_boxes, np.full(count, self.world.neighbour_range_m), self.world.space)
            self._near = listed(overlapping(reach, self.host_boxes), count, but_oneself=True)
        return self._near

    def _numbers_of(self, name: str, asked: Rows, other: Rows, times_us: Rows) -> tuple[Floats, Rows]:
        rows = self._states.at(other, times_us[asked])
        number = taken(self._state_attributes.column(name), rows).number
        if number is None:
            return np.zeros(0), asked[:0]
        return number.values[number.valid], asked[number.valid]


def listed(pairs_: Iterable[tuple[Rows, Rows]], count: int, *, but_oneself: bool = False) -> tuple[Rows, Rows]:
    """Pairs as one list for each left row: where each begins (and the last ends), and the right rows."""
    chunks = list(pairs_)
    left = np.concatenate([np.zeros(0, np.int64), *(each[0] for each in chunks)])
    right = np.concatenate([np.zeros(0, np.int64), *(each[1] for each in chunks)])
    if but_oneself:
        left, right = left[left != right], right[left != right]
    order = np.argsort(left, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(left, minlength=count))]).astype(np.int64)
    return first, right[order]


def aggregated(aggregate: str, rows: Rows, values: Floats, count: int) -> Column:
    """`evaluate.aggregate_of` over values whose rows ascend; a row without values has no aggregate."""
    found, known = np.zeros(count), np.zeros(count, np.bool_)
    if not len(rows):
        return Column()
    first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    which = rows[first]
    known[which] = True
    match aggregate:
        case "min":
            found[which] = np.minimum.reduceat(values, first)
        case "max":
            found[which] = np.maximum.reduceat(values, first)
        case _:
            # The definition rounds a mean once, at the end; so does this.
            found[which] = [mean_of(each.tolist()) for each in np.split(values, first[1:])]
    return Column(number=Scalars(found, known))


def integers(column: Any) -> Rows:
    found: Rows = one_array(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def pairs(x: Any, y: Any, order: Rows | None = None) -> Pairs:
    """Two columns that are null together."""
    one, other = one_array(x), one_array(y)
    known = one.is_valid().to_numpy(zero_copy_only=False)
    xs = np.array(one.fill_null(math.nan).to_numpy(zero_copy_only=False), np.float64)
    ys = np.array(other.fill_null(math.nan).to_numpy(zero_copy_only=False), np.float64)
    xs[~known], ys[~known] = 0.0, 0.0
    return Pairs(xs, ys, known) if order is None else Pairs(xs[order], ys[order], known[order])
