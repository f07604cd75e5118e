"""A batch of events as the kernel reads it: their channels, the circles that they ask with, and their values."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from roamcast.matching.clauses import Clauses
from roamcast.matching.demands import Audience, ColumnKey, Locator, Relevance
from roamcast.matching.hosts import KnownConfiguration
from roamcast.matching.layout import CIRCLE, EVERYBODY, NOBODY, Bytes, Doubles, Whole
from roamcast.matching.metric import around, straight, straight_columns
from roamcast.matching.registry import Registry
from roamcast.matching.topics import Topics
from roamcast.model.event import Event
from roamcast.model.filter.tree import Attribute, Publishers
from roamcast.model.region import Anchored, Region
from roamcast.model.scope import EVERYWHERE
from roamcast.model.space import Space
from roamcast.model.values import BadValue, Kind, Point, Value

REACH_MAX_M = 1e100
"""Of a circle that an event asks with; its square is still a double."""


class Batch(Struct, frozen=True):
    channel_begin: Whole
    channels: Whole
    modes: Bytes
    circles: Doubles
    attributes: Doubles
    audience_open: NDArray[np.bool_]
    audience_decided: NDArray[np.bool_]
    """Whether an audience's circle is all that the audience says."""
    relevance_open: NDArray[np.bool_]


def batch_of_events(
    events: Sequence[Event],
    now_us: int,
    topics: Topics,
    locators: Registry[Locator],
    clauses: Clauses,
    configuration: KnownConfiguration,
) -> Batch:
    count = len(events)
    modes = np.zeros((count, len(locators.keys)), np.uint8)
    circles = np.zeros((count, len(locators.keys), 4))
    attributes = clauses.blank(count)
    channels: list[int] = []
    begin = [0]
    audience_decided = np.zeros(count, np.bool_)
    asked = list(locators.numbers.items())
    for index, event in enumerate(events):
        if event.published_us <= now_us <= event.expires_us:
            channels += topics.channels_of(event.subject)
        begin.append(len(channels))
        if begin[-1] == begin[-2]:
            continue
        clauses.fill(attributes[index], event.attributes)
        for locator, number in asked:
            mode, decided = circle_of(locator, event, configuration, circles[index, number])
            modes[index, number] = mode
            if decided:
                audience_decided[index] = True
    return Batch(
        np.array(begin, np.int32),
        np.array(channels, np.int32),
        modes,
        circles,
        attributes,
        np.array([event.audience == EVERYWHERE for event in events], np.bool_),
        audience_decided,
        np.array([event.relevance == EVERYWHERE for event in events], np.bool_),
    )


def circle_of(locator: Locator, event: Event, configuration: KnownConfiguration, circle: Doubles) -> tuple[int, bool]:
    """Writes the circle that the event asks a locator with; how it asks, and whether an audience is decided by it."""
    match locator:
        case Audience():
            mode, exact = region_circle(event.audience.region, configuration, circle)
            return mode, exact and event.audience.filter is None
        case Relevance():
            return region_circle(event.relevance.region, configuration, circle)[0], False
        case Attribute(name):
            point: Value | None = event.attributes.get(name)
        case Publishers(name):
            point = event.publisher.value(name)
    if not isinstance(point, Point):
        return NOBODY, False
    circle[:3] = straight(point, configuration.space)
    return CIRCLE, False


def region_circle(region: Region | None, configuration: KnownConfiguration, circle: Doubles) -> tuple[int, bool]:
    if region is None:
        return EVERYBODY, False
    if isinstance(region, Anchored):
        anchor = configuration.contexts.get(region.host)
        if anchor is None or anchor.position is None:
            return NOBODY, False
    found = around(region, configuration)
    if found is None or not found.reach_m <= REACH_MAX_M:
        return EVERYBODY, False
    circle[:3] = straight(found.centre, configuration.space)
    circle[3] = found.reach_m
    return CIRCLE, found.exact


def batch_of_columns(
    subjects: Sequence[str],
    x: ArrayLike,
    y: ArrayLike,
    numbers: Mapping[str, ArrayLike],
    position: str,
    topics: Topics,
    locators: Registry[Locator],
    clauses: Clauses,
    space: Space,
) -> Batch:
    """Of events that bring a position and numbers; a position that is not finite is missing."""
    count = len(subjects)
    at_x, at_y = column(x, count, position), column(y, count, position)
    placed = np.isfinite(at_x) & np.isfinite(at_y)
    at_x, at_y = np.where(placed, at_x, 0.0), np.where(placed, at_y, 0.0)
    modes = np.full((count, len(locators.keys)), NOBODY, np.uint8)
    # Audience and relevance are open.
    modes[:, :2] = EVERYBODY
    circles = np.zeros((count, len(locators.keys), 4))
    number = locators.numbers.get(Attribute(position))
    if number is not None:
        modes[:, number] = np.where(placed, CIRCLE, NOBODY)
        circles[:, number, 0], circles[:, number, 1], circles[:, number, 2] = straight_columns(at_x, at_y, space)
    attributes = clauses.blank(count)
    values: dict[ColumnKey, Doubles] = {
        (name, Kind.NUMBER): column(given, count, name) for name, given in numbers.items()
    }
    for axis, coordinate in (("x", at_x), ("y", at_y)):
        values[position, axis] = np.where(placed, coordinate, math.nan)
    for key, value in values.items():
        if key in clauses.columns.numbers:
            attributes[:, clauses.columns.numbers[key]] = value
    channels: list[int] = []
    begin = [0]
    for subject in subjects:
        channels += topics.channels_of(subject)
        begin.append(len(channels))
    open_ = np.ones(count, np.bool_)
    return Batch(
        np.array(begin, np.int32), np.array(channels, np.int32), modes, circles, attributes, open_, ~open_, open_
    )


def column(given: ArrayLike, count: int, name: str) -> Doubles:
    values = np.array(given, np.float64)
    if values.shape != (count,):
        raise BadValue(f"column '{name}' has the shape {values.shape}; give one value for each of {count} events")
    return values
