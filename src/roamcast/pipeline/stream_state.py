"""What a share of the stream holds between two batches, and how it is judged: the oracle, as time goes on.

A share has the subscriptions of some hosts, and everybody's moves, attributes and events: whether an event reaches a
subscription depends on where all of them are (C6), and on no other subscription. When time has passed the end of a
bucket, and so nothing of it is missing any more, the bucket is judged by the oracle's own kernel. What can matter no
more is then forgotten: moves and attributes that others have replaced, events and subscriptions that have ended. The
pairs that have matched are remembered as long as their event lasts; an event that is published again under its id
after it has ended counts anew.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.pipeline.oracle.boxes import Rows
from roamcast.pipeline.oracle.bucket import Bucket, World
from roamcast.pipeline.oracle.looks import matches
from roamcast.pipeline.prepare import LIFETIME_US_MAX, ORDER
from roamcast.pipeline.tables import (
    CONTEXTS,
    EVENTS,
    LIVES,
    MOVES,
    PUBLICATIONS,
    STATES,
    SUBSCRIPTIONS,
    TRACKS,
    UNSUBSCRIPTIONS,
)

KINDS = (MOVES, CONTEXTS, PUBLICATIONS, SUBSCRIPTIONS, UNSUBSCRIPTIONS)
KEY = ("host", "incarnation", "sequence")
FOREVER_US = 2**62

Match = tuple[str, str, str, int]
"""Event, subscription, subscriber and when: a row of `expected`."""


class Memory(msgspec.Struct):
    """As it is written down between two batches."""

    next_us: int | None
    tables: dict[str, bytes]
    matched: dict[str, dict[str, None]]
    ends_us: dict[str, int]


class Share:
    def __init__(self, world: World, bucket_us: int) -> None:
        self.world, self.bucket_us = world, bucket_us
        self.next_us: int | None = None
        """Where the next bucket begins; None until the first one."""
        self.tables = {table.name: table.schema.empty_table() for table in KINDS}
        self.matched: dict[str, dict[str, None]] = {}
        """By event the subscriptions that it has matched."""
        self.ends_us: dict[str, int] = {}
        """Of these events."""

    def remembered(self) -> bytes:
        tables = {name: written(table) for name, table in self.tables.items() if len(table)}
        return msgspec.msgpack.encode(Memory(self.next_us, tables, self.matched, self.ends_us))

    def recall(self, data: bytes) -> None:
        memory = msgspec.msgpack.decode(data, type=Memory)
        self.next_us, self.matched, self.ends_us = memory.next_us, memory.matched, memory.ends_us
        self.tables |= {name: read(table) for name, table in memory.tables.items()}

    def add(self, kind: str, rows: Any) -> None:
        """Records in any order; those that are here already count once."""
        every = pa.concat_tables([self.tables[kind], rows.cast(self.tables[kind].schema)])
        keys = zip(*(every[name].to_pylist() for name in KEY), strict=True)
        first = {key: number for number, key in reversed(list(enumerate(keys)))}
        self.tables[kind] = every if len(first) == len(every) else every.take(pa.array(sorted(first.values())))

    def judge(self, until_us: int) -> list[Match]:
        """What matches in all buckets that end by then, each pair when it first does."""
        found: list[Match] = []
        if self.next_us is None:
            times = [int(table["at_us"].to_numpy().min()) for table in self.tables.values() if len(table)]
            if not times or min(times) // self.bucket_us * self.bucket_us + self.bucket_us > until_us:
                return []
            self.next_us = min(times) // self.bucket_us * self.bucket_us
        events, lives = self.events(), self.lives()
        tracks, states = self.held(MOVES.name), self.held(CONTEXTS.name)
        while self.next_us + self.bucket_us <= until_us:
            # The last bucket is not complete by then; up to there, what has no event is passed over.
            last_us = until_us // self.bucket_us * self.bucket_us
            start_us = self.next_us = max(self.next_us, min(self.beginning(events), last_us))
            if start_us + self.bucket_us <= until_us:
                self.next_us = start_us + self.bucket_us
                found += self.judged(start_us, tracks, states, events, lives)
        self.forget(tracks, states, events, lives)
        return found

    def beginning(self, events: Any) -> int:
        """The first bucket from the next one on in which there is an event."""
        assert self.next_us is not None
        begin_us, end_us = (events[name].to_numpy() for name in ("begin_us", "end_us"))
        coming = np.maximum(begin_us[end_us >= self.next_us], self.next_us)
        return int(coming.min()) // self.bucket_us * self.bucket_us if len(coming) else FOREVER_US

    def judged(self, start_us: int, tracks: Any, states: Any, events: Any, lives: Any) -> list[Match]:
        end_us = start_us + self.bucket_us
        parts = [
            during(tracks.filter(tracks["up"]), TRACKS, "from_us", "until_us", start_us, end_us),
            during(states, STATES, "from_us", "until_us", start_us, end_us),
            during(events, EVENTS, "begin_us", "end_us", start_us, end_us),
            during(lives, LIVES, "begin_us", "end_us", start_us, end_us),
        ]
        if not len(parts[2]) or not len(parts[3]):
            return []
        bucket = Bucket(self.world, start_us, end_us, *parts)
        event_ids, life_ids = parts[2]["event_id"].to_pylist(), parts[3]["subscription_id"].to_pylist()
        subscribers, ends_us = parts[3]["subscriber"].to_pylist(), parts[2]["end_us"].to_pylist()
        every = sorted(
            (int(at_us), event_ids[event], life_ids[life], subscribers[life], ends_us[event])
            for some in matches(bucket)
            for event, life, at_us in zip(some.event, some.life, some.at_us, strict=True)
        )
        return [
            (event, life, subscriber, at_us)
            for at_us, event, life, subscriber, ends in every
            if self.is_new(event, life, ends)
        ]

    def is_new(self, event: str, subscription: str, end_us: int) -> bool:
        known = self.matched.setdefault(event, {})
        self.ends_us[event] = max(end_us, self.ends_us.get(event, end_us))
        if subscription in known:
            return False
        known[subscription] = None
        return True

    # What the records say held when, as the jobs of `prepare.py` have it.

    def held(self, kind: str) -> Any:
        """The rows with the time at which the next one of their host replaces them."""
        ordered = self.tables[kind].sort_by([("host", "ascending"), *((name, "ascending") for name in ORDER)])
        host = ordered["host"].combine_chunks().dictionary_encode().indices.to_numpy() if len(ordered) else []
        at_us: Rows = ordered["at_us"].to_numpy()
        until_us = np.full(len(ordered), FOREVER_US)
        if len(ordered):
            until_us[:-1] = np.where(host[1:] == host[:-1], at_us[1:], FOREVER_US)
        return ordered.append_column("from_us", pa.array(at_us)).append_column("until_us", pa.array(until_us))

    def events(self) -> Any:
        table = self.tables[PUBLICATIONS.name]
        at_us: Rows = table["at_us"].to_numpy()
        lasts = lifetimes(table["published_us"].to_pylist(), table["expires_us"].to_pylist())
        return lasting(table, at_us, at_us + lasts)

    def lives(self) -> Any:
        issued, ended = self.tables[SUBSCRIPTIONS.name], self.tables[UNSUBSCRIPTIONS.name]
        moves = self.tables[MOVES.name]
        changes = in_order("subscription_id", issued, ended)
        departures = in_order("host", moves.filter(pc.invert(moves["up"])))
        at_us: Rows = issued["at_us"].to_numpy()
        ends_us = at_us + lifetimes(issued["issued_us"].to_pylist(), issued["expires_us"].to_pylist())
        orders = zip(*(issued[name].to_pylist() for name in ORDER), strict=True)
        of = zip(issued["subscription_id"].to_pylist(), issued["subscriber"].to_pylist(), strict=True)
        for number, (order, (subscription, subscriber)) in enumerate(zip(orders, of, strict=True)):
            for others in (changes[subscription], departures.get(subscriber, [])):
                following = bisect_right(others, order)
                if following < len(others):
                    ends_us[number] = min(ends_us[number], others[following][0] - 1)
        return lasting(issued, at_us, ends_us)

    def forget(self, moves: Any, contexts: Any, events: Any, lives: Any) -> None:
        assert self.next_us is not None
        next_us = self.next_us
        for name, held in ((MOVES.name, moves), (CONTEXTS.name, contexts)):
            left = held.filter(pa.array(held["until_us"].to_numpy() > next_us))
            self.tables[name] = left.select(self.tables[name].column_names)
        unsubscribed = self.tables[UNSUBSCRIPTIONS.name]
        for name, last_us in (
            (PUBLICATIONS.name, events["end_us"]),
            (SUBSCRIPTIONS.name, lives["end_us"]),
            (UNSUBSCRIPTIONS.name, unsubscribed["at_us"]),
        ):
            self.tables[name] = self.tables[name].filter(pa.array(last_us.to_numpy() >= next_us))
        over = [event for event, end_us in self.ends_us.items() if end_us < next_us]
        for event in over:
            del self.ends_us[event], self.matched[event]


def in_order(by: str, *tables: Any) -> dict[str, list[tuple[int, int, int]]]:
    """By a column of names, when something was recorded under each, in order."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for table in tables:
        rows = zip(*(table[name].to_pylist() for name in (by, *ORDER)), strict=True)
        for name, *order in rows:
            found.setdefault(name, []).append((order[0], order[1], order[2]))
    return {name: sorted(orders) for name, orders in found.items()}


def lifetimes(first: Iterable[int], last: Iterable[int]) -> Rows:
    """How long each lasts by its own stamps."""
    found: Rows = np.array([min(b - a, LIFETIME_US_MAX) for a, b in zip(first, last, strict=True)], np.int64)
    return found


def lasting(table: Any, begin_us: Rows, end_us: Rows) -> Any:
    return table.append_column("begin_us", pa.array(begin_us, pa.int64())).append_column(
        "end_us", pa.array(end_us, pa.int64())
    )


def during(rows: Any, table: Any, first: str, last: str, start_us: int, end_us: int) -> Any:
    """The rows that touch the bucket, with the columns of their table; both `begin_us` and `end_us` are included."""
    included = 0 if last == "end_us" else 1
    begins, ends = rows[first].to_numpy(), rows[last].to_numpy() - included
    some = rows.filter(pa.array((begins < end_us) & (ends >= start_us) & (begins <= ends)))
    names = [name for name in table.columns if name not in ("again", "bucket")]
    return some.select(names)


def written(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read(content: bytes) -> Any:
    return pa.ipc.open_stream(content).read_all()
