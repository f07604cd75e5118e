"""A bucket judged: its events against its subscriptions, with where everybody is.

Simple events (`event_side.py`) go to the compiled kernel; what it cannot settle, and all other events, go to
`conditions.py`, which reads the bucket as a whole. A question that has one answer for an event, whether its publisher
is in a publication domain at the one moment of the event, is asked once for the event and not for each of its pairs.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.model.filter.mask import Flags
from roamcast.spark.oracle.attributes import one_array
from roamcast.spark.oracle.boxes import Rows
from roamcast.spark.oracle.bucket import Bucket, World, integers, pairs, reads_of
from roamcast.spark.oracle.conditions import Conditions, matches
from roamcast.spark.oracle.event_side import event_side
from roamcast.spark.oracle.grid_join import ASK, Found, SimpleEvents, Ways, pairs_in_grid, placed
from roamcast.spark.oracle.kernel import available
from roamcast.spark.oracle.scopes import FIXED
from roamcast.spark.oracle.tracks import Stretches, Tracks
from roamcast.spark.settings import Settings

DOMAIN_ANSWERS_MAX = 2_000_000
"""Of publication domains and events in a bucket; beyond that each pair is asked about."""

Pairs = tuple[Rows, Rows, Rows]
"""Events, subscriptions and when they match."""


class Judge:
    """Of one bucket, from its four tables; `stop_us` is exclusive."""

    def __init__(
        self,
        settings: Settings,
        start_us: int,
        stop_us: int,
        tracks: Any,
        states: Any,
        events: Any,
        lives: Any,
    ) -> None:
        self.settings, self.start_us, self.stop_us = settings, start_us, stop_us
        self.tracks, self.states = tracks, states
        self.side = event_side(events, lives, settings)
        self.world = World(settings.space, settings.neighbour_range_m, settings.graph, settings.period_us)
        every = np.arange(len(self.side.events))
        compiled = self.side["event_simple"] & (available() and settings.compiled)
        self.simple, self.others = every[compiled], every[~compiled]

    @cached_property
    def hosts(self) -> Rows:
        """Of each track, by the event side's numbers."""
        return self.side.numbers_of(self.tracks["host"])

    def matches(self) -> Iterator[Pairs]:
        """Some pairs at a time, each once."""
        return (some for some in self._matches() if len(some[0]))

    def _matches(self) -> Iterator[Pairs]:
        found = self.found() if len(self.simple) else None
        if found is not None:
            yield found.event, found.life, found.at_us
        if len(self.others) or (found is not None and len(found.asked_event)):
            yield from self.checked(found)

    # What the kernel finds.

    def found(self) -> Found:
        table = self.tracks
        position, velocity = pairs(table["x"], table["y"]), pairs(table["velocity_east"], table["velocity_north"])
        columns = (
            self.hosts,
            integers(table["from_us"]),
            integers(table["until_us"]),
            position.x,
            position.y,
            velocity.x,
            velocity.y,
        )
        rows = np.flatnonzero((self.hosts >= 0) & position.valid)
        ways = Ways(*(columns if len(rows) == len(self.hosts) else (column[rows] for column in columns)))
        return pairs_in_grid(
            self.side, self.simple_events(), ways, self.start_us, self.stop_us, self.settings.period_us
        )

    def simple_events(self) -> SimpleEvents:
        audience, relevance = (self.side.outlines[name].take(self.simple) for name in ("audience", "relevance"))
        anchors = np.concatenate([audience.anchor, relevance.anchor])
        tracks = self.tracks_of(np.unique(anchors[anchors != FIXED]))
        times_us = self.side["event_begin_us"][self.simple]
        return SimpleEvents(
            self.simple, *placed(audience, times_us, tracks), *placed(relevance, times_us, tracks), self.domains()
        )

    def tracks_of(self, hosts: Rows) -> Tracks:
        """The ways of a few hosts, in order."""
        wanted = np.zeros(len(self.side.hosts) + 1, np.bool_)
        wanted[hosts[hosts >= 0]] = True
        rows = np.flatnonzero(wanted[self.hosts])
        some = self.tracks.take(pa.array(rows))
        host, from_us = self.hosts[rows], integers(some["from_us"])
        order = np.lexsort((from_us, host))
        until_us = integers(some["until_us"])[order]
        stretches = Stretches.of(host[order], from_us[order], until_us, self.start_us, self.stop_us)
        position = pairs(some["x"], some["y"], order)
        velocity = pairs(some["velocity_east"], some["velocity_north"], order)
        return Tracks(stretches, position, velocity, self.settings.space)

    def domains(self) -> Any:
        """For each domain and event, whether the publisher is in it; `ASK` where the event lasts."""
        side, events = self.side, self.simple
        count = len(side["domain_life"])
        found = np.full((count, len(events)), ASK, np.int8)
        found[0] = 1
        at_once = np.flatnonzero(side["event_begin_us"][events] == side["event_end_us"][events])
        asked = (count - 1) * len(at_once)
        if not 0 < asked <= DOMAIN_ANSWERS_MAX:
            return found
        bucket = self.bucket(events[at_once], side["domain_life"][1:], few=True)
        scope, event = np.repeat(np.arange(count - 1), len(at_once)), np.tile(np.arange(len(at_once)), count - 1)
        times_us = bucket.events.begin_us[event]
        holds = bucket.includes(bucket.lives.publishers, scope, bucket.events.publisher[event], times_us)
        found[1:, at_once] = holds.reshape(count - 1, len(at_once))
        return found

    # What only the whole bucket tells.

    def bucket(self, events: Rows, lives: Rows, *, few: bool = False) -> Bucket:
        """`few`: with no more hosts than the questions about these publishers need."""
        given, wanted = self.side.events.take(pa.array(events)), self.side.lives.take(pa.array(lives))
        tracks, states = self.tracks, self.states
        bucket = Bucket(
            self.world, self.start_us, self.stop_us, tracks.slice(0, 0), states.slice(0, 0), given, wanted
        )
        if few and not any(reads_of(filter_).neighbours for filter_ in bucket.filters.all):
            # These are the hosts that the events and subscriptions themselves name.
            tracks, states = (
                table.filter(pc.is_in(table["host"].cast(pa.string()), value_set=bucket.hosts.names))
                for table in (tracks, states)
            )
        plain = tracks.set_column(0, "host", tracks["host"].cast(pa.string()))
        return Bucket(self.world, self.start_us, self.stop_us, plain, states, given, wanted)

    def checked(self, found: Found | None) -> Iterator[Pairs]:
        side = self.side
        asked = found.asked_event if found is not None else np.zeros(0, np.int64)
        asked_life = found.asked_life if found is not None else np.zeros(0, np.int64)
        events = np.union1d(self.others, asked)
        alive = (side["life_begin_us"] < self.stop_us) & (side["life_end_us"] >= self.start_us)
        lives = np.flatnonzero(alive) if len(self.others) else np.unique(asked_life)
        if not len(lives):
            return
        bucket = self.bucket(events, lives)
        for some in matches(bucket, np.searchsorted(events, self.others)):
            yield events[some.event], lives[some.life], some.at_us
        if len(asked):
            for some in Conditions(bucket).settled(
                np.searchsorted(events, asked), np.searchsorted(lives, asked_life)
            ):
                yield events[some.event], lives[some.life], some.at_us

    def final(self, event: Rows, life: Rows) -> Flags:
        """Which pairs can match in no other bucket, and have ids that are there once."""
        side = self.side
        begin_us = np.maximum(side["event_begin_us"][event], side["life_begin_us"][life])
        end_us = np.minimum(side["event_end_us"][event], side["life_end_us"][life])
        again = [one_array(table["again"]).to_numpy(zero_copy_only=False) for table in (side.events, side.lives)]
        found: Flags = (begin_us >= self.start_us) & (end_us < self.stop_us) & ~again[0][event] & ~again[1][life]
        return found
