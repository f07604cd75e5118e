"""A batch of events as the kernel reads it: their channels, the circles that they ask with, and their values."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from roamcast.matching.clauses import Clauses
from roamcast.matching.demands import Audience, Locator, Relevance
from roamcast.matching.hosts import KnownConfiguration
from roamcast.matching.layout import (
    AUDIENCE_MET,
    CIRCLE,
    EVERYBODY,
    NOBODY,
    RELEVANCE_OPEN,
    SETTLED,
    Bytes,
    Doubles,
    Whole,
)
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
    """`modes` and `circles` are by event and locator, `attributes` by event and column of the clauses."""

    channel_begin: Whole
    channels: Whole
    modes: Bytes
    circles: Doubles
    attributes: Doubles


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
    subjects = [event.subject if event.published_us <= now_us <= event.expires_us else "" for event in events]
    begin, channels = topics.channels_of_all(subjects)
    asked = list(locators.numbers.items())
    for index, event in enumerate(events):
        if begin[index] == begin[index + 1]:
            continue
        clauses.fill(attributes[index], event.attributes)
        common = RELEVANCE_OPEN if event.relevance == EVERYWHERE else 0
        if event.audience == EVERYWHERE:
            common |= AUDIENCE_MET
        for locator, number in asked:
            modes[index, number] = common | circle_of(locator, event, configuration, circles[index, number])
    return Batch(begin, channels, modes, circles, attributes)


def circle_of(locator: Locator, event: Event, configuration: KnownConfiguration, circle: Doubles) -> int:
    """Writes the circle that the event asks a locator with; how it asks."""
    match locator:
        case Audience():
            mode, exact = region_circle(event.audience.region, configuration, circle)
            return mode | AUDIENCE_MET if exact and event.audience.filter is None else mode
        case Relevance():
            return region_circle(event.relevance.region, configuration, circle)[0]
        case Attribute(name):
            point: Value | None = event.attributes.get(name)
        case Publishers(name):
            point = event.publisher.value(name)
    if not isinstance(point, Point):
        return NOBODY
    circle[:3] = straight(point, configuration.space)
    return CIRCLE


def region_circle(region: Region | None, configuration: KnownConfiguration, circle: Doubles) -> tuple[int, bool]:
    """Also whether the circle is the region."""
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
    placed = np.isfinite(at_x + at_y)
    asks: int | NDArray[np.uint8] = SETTLED | CIRCLE
    if not placed.all():
        at_x, at_y = np.where(placed, at_x, math.nan), np.where(placed, at_y, math.nan)
        asks = np.where(placed, SETTLED | CIRCLE, NOBODY).astype(np.uint8)
    modes = np.zeros((count, len(locators.keys)), np.uint8)
    # Audience and relevance are open.
    modes[:, :2] = SETTLED | EVERYBODY
    circles = np.zeros((count, len(locators.keys), 4))
    number = locators.numbers.get(Attribute(position))
    if number is not None:
        modes[:, number] = asks
        circles[:, number, 0], circles[:, number, 1], circles[:, number, 2] = straight_columns(at_x, at_y, space)
    attributes = clauses.blank(count)
    known = clauses.columns.numbers
    for name, given in numbers.items():
        if (name, Kind.NUMBER) in known:
            attributes[:, known[name, Kind.NUMBER]] = column(given, count, name)
    for axis, coordinate in (("x", at_x), ("y", at_y)):
        if (position, axis) in known:
            attributes[:, known[position, axis]] = coordinate
    return Batch(*topics.channels_of_all(subjects), modes, circles, attributes)


def column(given: ArrayLike, count: int, name: str) -> Doubles:
    values = np.asarray(given, np.float64)
    if values.shape != (count,):
        raise BadValue(f"column '{name}' has the shape {values.shape}; give one value for each of {count} events")
    return values
