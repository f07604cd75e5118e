"""Cells of a crowded bucket: a moment in which so much happens that time cannot be cut any finer.

A cell has the subscriptions whose subscribers are there, and the events that may be for one of them. Each
subscription is in one cell, so each pair is judged once. Every cell knows all hosts, since conditions may be about
third ones. Cells hold about as many subscribers each: columns by quantiles from west to east, and each of these cut
again from south to north.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.model.space import Space
from roamcast.spark.oracle.attributes import one_array
from roamcast.spark.oracle.boxes import Boxes, Rows, around, overlap
from roamcast.spark.oracle.bucket import Hosts, integers, pairs
from roamcast.spark.oracle.scopes import Filters, scopes_of
from roamcast.spark.oracle.tracks import Stretches, Tracks


def in_cell(
    cell: int, side: int, tracks: Any, events: Any, lives: Any, space: Space, start_us: int, stop_us: int
) -> tuple[Any, Any]:
    """The events and the lives of a cell, out of `side` times `side`."""
    anchors = pc.struct_field(one_array(events["audience"]), ["region", "anchor"])
    hosts = Hosts([lives["subscriber"], anchors])
    boxes = boxes_of(hosts, tracks, space, start_us, stop_us)
    subscriber = hosts.numbers(lives["subscriber"])
    wanting = np.unique(subscriber)
    here = np.zeros(len(hosts), np.bool_)
    here[wanting] = cells_of(boxes.take(wanting), side) == cell
    audience = scopes_of(events["audience"], Filters(), hosts.numbers).regions.boxes(boxes, space)
    near = overlap(audience, around(boxes.take(np.flatnonzero(here))))
    # Whoever is nowhere is in no audience that is a region, but in one without.
    near |= np.isinf(audience.west) & (audience.west < 0)
    return events.filter(pa.array(near)), lives.filter(pa.array(here[subscriber]))


def boxes_of(hosts: Hosts, tracks: Any, space: Space, start_us: int, stop_us: int) -> Boxes:
    """Around where each host is in the bucket."""
    column = tracks["host"].combine_chunks()
    number = hosts.numbers(column.dictionary.cast(pa.string()))[column.indices.to_numpy(zero_copy_only=False)]
    rows = np.flatnonzero(number >= 0)
    rows = rows[np.argsort(number[rows], kind="stable")]
    some = tracks.take(pa.array(rows))
    stretches = Stretches.of(number[rows], integers(some["from_us"]), integers(some["until_us"]), start_us, stop_us)
    position, velocity = pairs(some["x"], some["y"]), pairs(some["velocity_east"], some["velocity_north"])
    return Tracks(stretches, position, velocity, space).boxes(len(hosts))


def cells_of(boxes: Boxes, side: int) -> Rows:
    """The cell of each box, by its middle; of those that are nowhere the first."""
    filled = boxes.filled
    x, y = (
        np.where(filled, np.where(filled, low, 0.0) + np.where(filled, high, 0.0), -np.inf)
        for low, high in ((boxes.west, boxes.east), (boxes.south, boxes.north))
    )
    count = len(x)
    column = np.empty(count, np.int64)
    column[np.argsort(x, kind="stable")] = np.arange(count) * side // max(1, count)
    order = np.lexsort((y, column))
    sizes = np.bincount(column, minlength=side)
    nth = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    row = np.empty(count, np.int64)
    row[order] = nth * side // np.maximum(1, np.repeat(sizes, sizes))
    found: Rows = column * side + row
    return found
