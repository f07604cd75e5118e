"""The tables of a bucket made straight from a small world, to test the oracle's kernel without Spark."""

from itertools import pairwise
from typing import Any

import pyarrow as pa

from roamcast.journal import ContextChange, Move, Published, Subscribed
from roamcast.journal.plain import plain_attributes, plain_context, plain_filter, plain_scope
from roamcast.spark.oracle.bucket import Bucket, World
from roamcast.spark.oracle.conditions import matches
from roamcast.spark.tables import EVENTS, LIVES, STATES, TRACKS
from tests.spark.worlds import PERIOD_US, RANGE_M, Small, end_of


def found_by_kernel(world: Small, buckets: int = 1) -> dict[tuple[str, str], int]:
    """(event, subscription) → when the oracle's kernel says it is delivered, over so many buckets of time."""
    start_us = min(record.at_us for record in world.records) // PERIOD_US * PERIOD_US
    width_us = -(-(world.end_us + 1 - start_us) // buckets // PERIOD_US) * PERIOD_US
    shared = World(world.space, RANGE_M, world.graph, PERIOD_US)
    found: dict[tuple[str, str], int] = {}
    tables = tables_of(world)
    for begin_us in range(start_us, world.end_us + 1, width_us):
        end_us = begin_us + width_us
        cut = [clipped(table, begin_us, end_us) for table in tables]
        bucket = Bucket(shared, begin_us, end_us, *cut)
        for some in matches(bucket):
            for event, life, at_us in zip(some.event, some.life, some.at_us, strict=True):
                key = (bucket.events.ids[int(event)].as_py(), bucket.lives.ids[int(life)].as_py())
                found[key] = min(found.get(key, int(at_us)), int(at_us))
    return found


def clipped(table: Any, begin_us: int, end_us: int) -> Any:
    first, last = ("from_us", "until_us") if "from_us" in table.column_names else ("begin_us", "end_us")
    inclusive = 0 if last == "end_us" else 1
    rows = [
        row
        for row in table.to_pylist()
        if row[first] < end_us and row[last] - inclusive >= begin_us and row[first] <= row[last] - inclusive
    ]
    return pa.Table.from_pylist(rows, schema=table.schema)


def tables_of(world: Small) -> tuple[Any, Any, Any, Any]:
    return tracks_of(world), states_of(world), events_of(world), lives_of(world)


def tracks_of(world: Small) -> Any:
    rows: list[dict[str, Any]] = []
    for host in dict.fromkeys(record.host for record in world.records):
        moves = [r for r in world.records if isinstance(r, Move) and r.host == host]
        times = [*(r.at_us for r in moves), world.end_us + 1]
        for move, (_, until_us) in zip(moves, pairwise(times), strict=True):
            if not move.up:
                continue
            row: dict[str, Any] = {"host": host, "from_us": move.at_us, "until_us": until_us}
            if move.position is not None:
                row |= {"x": move.position.x, "y": move.position.y}
            if move.velocity is not None:
                row |= {"velocity_east": move.velocity.east, "velocity_north": move.velocity.north}
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=TRACKS.schema)


def states_of(world: Small) -> Any:
    rows = []
    for host in dict.fromkeys(record.host for record in world.records):
        changes = [r for r in world.records if isinstance(r, ContextChange) and r.host == host]
        times = [*(r.at_us for r in changes), world.end_us + 1]
        for change, (from_us, until_us) in zip(changes, pairwise(times), strict=True):
            attributes = plain_attributes(change.attributes)
            rows.append({"host": host, "from_us": from_us, "until_us": until_us, "attributes": attributes})
    return pa.Table.from_pylist(rows, schema=STATES.schema)


def events_of(world: Small) -> Any:
    rows = []
    for record in world.records:
        if isinstance(record, Published):
            event = record.event
            lifetime_us = event.expires_us - event.published_us
            rows.append(
                {
                    "event_id": event.id,
                    "subject": event.subject,
                    "publisher": plain_context(event.publisher),
                    "begin_us": record.at_us,
                    "end_us": min(record.at_us + lifetime_us, world.end_us),
                    "attributes": plain_attributes(event.attributes),
                    "relevance": plain_scope(event.relevance),
                    "audience": plain_scope(event.audience),
                }
            )
    return pa.Table.from_pylist(rows, schema=EVENTS.schema)


def lives_of(world: Small) -> Any:
    rows = []
    for record in world.records:
        if isinstance(record, Subscribed):
            wanted = record.subscription
            last_us = min(wanted.expires_us, end_of(wanted, record.at_us, world) - 1, world.end_us)
            rows.append(
                {
                    "subscription_id": wanted.id,
                    "subscriber": wanted.subscriber,
                    "subject": wanted.subject,
                    "begin_us": record.at_us,
                    "end_us": last_us,
                    "filter": plain_filter(wanted.filter),
                    "interest": plain_scope(wanted.interest),
                    "publishers": plain_scope(wanted.publishers),
                }
            )
    return pa.Table.from_pylist(rows, schema=LIVES.schema)
