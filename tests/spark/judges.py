"""A small world as the tables of the buckets that the oracle judges, to test that without Spark."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import structs

from roamcast.journal import Published, Record, Subscribed
from roamcast.model.filter import parse_text
from roamcast.model.filter.tree import EVERYTHING
from roamcast.model.region import Anchored, Box, Circle, Region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.spark.oracle.cells import in_cell
from roamcast.spark.oracle.expected import pair_rows
from roamcast.spark.oracle.judge import Judge
from roamcast.spark.settings import Settings
from tests.spark.buckets import clipped, tables_of
from tests.spark.worlds import PERIOD_US, RANGE_M, Small, small_world


def settings_for(world: Small, buckets: int) -> Settings:
    start_us = min(record.at_us for record in world.records) // PERIOD_US * PERIOD_US
    width_us = -(-(world.end_us + 1 - start_us) // buckets // PERIOD_US) * PERIOD_US
    borders = tuple(range(start_us, world.end_us + 1 + width_us, width_us))
    return Settings(world.space, RANGE_M, world.graph, borders, world.end_us, PERIOD_US)


def once_only(table: Any) -> Any:
    """The table with every id there once."""
    number = table.column_names.index("again")
    return table.set_column(number, "again", pa.array(np.zeros(len(table), np.bool_)))


def judges_of(world: Small, settings: Settings, side: int = 1) -> Iterator[Judge]:
    """A judge for each bucket, or each cell of it, in which there is something to judge."""
    tracks, states, events, lives = tables_of(world)
    for start_us, stop_us in pairwise(settings.borders):
        cut = [clipped(table, start_us, stop_us) for table in (tracks, states, once_only(events), once_only(lives))]
        if not len(cut[2]) or not len(cut[3]):
            continue
        if side == 1:
            yield Judge(settings, start_us, stop_us, *cut)
            continue
        coded = cut[0].set_column(0, "host", cut[0]["host"].dictionary_encode())
        for cell in range(side * side):
            chosen = in_cell(cell, side, coded, cut[2], cut[3], settings.space, start_us, stop_us)
            if all(map(len, chosen)):
                yield Judge(settings, start_us, stop_us, coded, cut[1], *chosen)


def found_by_judges(world: Small, buckets: int = 1, side: int = 1, **changes: Any) -> dict[tuple[str, str], int]:
    """(event, subscription) → when the oracle says that it is delivered."""
    settings = replace(settings_for(world, buckets), **changes)
    found: dict[tuple[str, str], int] = {}
    for judge in judges_of(world, settings, side):
        for event, life, at_us in judge.matches():
            for row in pair_rows(judge.side.events, judge.side.lives, event, life, at_us).to_pylist():
                key = row["event_id"], row["subscription_id"]
                found[key] = min(found.get(key, row["at_us"]), row["at_us"])
    return found


def aimed_world(seed: int) -> Small:
    """A world of events with circles and boxes for an audience, of the kind that the compiled kernel is made for."""
    world = small_world(seed, space=Plane())
    rng = random.Random(f"aimed/{seed}")
    hosts = sorted({record.host for record in world.records})
    return replace(world, records=[aimed(record, rng, hosts) for record in world.records])


def aimed(record: Record, rng: random.Random, hosts: list[str]) -> Record:
    def shape() -> Circle | Box:
        x, y, size = (float(rng.randrange(low, high, 10)) for low, high in ((0, 200), (0, 200), (20, 200)))
        return Circle(Point(x, y), size) if rng.random() < 0.6 else Box(Point(x, y), Point(x + size, y + size))

    def around() -> Anchored:
        near = Point(float(rng.randrange(-20, 60, 10)), 0.0)
        drawn = Circle(near, float(rng.randrange(20, 200, 10)))
        return Anchored(rng.choice((drawn, Box(Point(-80.0, -90.0), Point(70.0, 110.0)))), rng.choice(hosts), near)

    def scope(share: float, filter_: str) -> Scope:
        return (
            EVERYWHERE
            if rng.random() < share
            else Scope(shape() if rng.random() < 0.7 else None, parse_text(filter_) if rng.random() < 0.2 else None)
        )

    if isinstance(record, Published):
        event = record.event
        at_once = rng.random() < 0.6
        region: Region = around() if at_once and rng.random() < 0.6 else shape()
        ends_us = event.published_us if at_once else event.expires_us
        audience = Scope(region, parse_text("limit > 1") if rng.random() < 0.1 else None)
        relevance = scope(0.6, "limit > 1")
        return structs.replace(
            record, event=structs.replace(event, expires_us=ends_us, audience=audience, relevance=relevance)
        )
    if isinstance(record, Subscribed):
        content = rng.choice(
            (EVERYTHING, parse_text("level >= 2"), parse_text("publisher.limit > 1"), parse_text("level < me.limit"))
        )
        wanted = structs.replace(
            record.subscription,
            subject="#",
            filter=content,
            interest=scope(0.7, "limit > 2"),
            publishers=scope(0.6, "limit <= 2"),
        )
        return structs.replace(record, subscription=wanted)
    return record
