"""A batch of events as the kernel reads it: their channels, the circles that they ask with, and their values."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from roamcast.matching.clauses import Clauses
from roamcast.matching.demands import Audience, Locator, Relevance
from roamcast.matching.hosts import KnownConfiguration
from roamcast.matching.layout import (
    AUDIENCE_MET,
    CIRCLE,
    EVERYBODY,
    NOBODY,
    RELEVANCE_OPEN,
    Bytes,
    Doubles,
    Whole,
)
from roamcast.matching.metric import around, straight
from roamcast.matching.registry import Registry
from roamcast.matching.topics import Topics
from roamcast.model.event import Event
from roamcast.model.filter.tree import Attribute, Publishers
from roamcast.model.region import Anchored, Region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.values import Point, Value

Straight: TypeAlias = tuple[float, float, float, float]
"""A circle: its centre and its reach, in straight metres."""

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
    subjects = [event.subject if event.published_us <= now_us <= event.expires_us else "" for event in events]
    begin, channels = topics.channels_of_all(subjects)
    width = len(locators.keys)
    modes = np.zeros((len(events), width), np.uint8)
    circles = np.zeros((len(events), width, 4))
    attributes = clauses.blank(len(events))
    asked = list(locators.numbers.items())
    # Gathered in lists and written at once: single numbers are slow to write into arrays.
    asking: list[int] = []
    at: list[int] = []
    found: list[Straight] = []
    valued: list[int] = []
    values: list[float] = []
    for index, event in enumerate(events):
        common = RELEVANCE_OPEN if is_open(event.relevance) else 0
        if is_open(event.audience):
            common |= AUDIENCE_MET
        row = [NOBODY] * width
        for locator, number in asked if subjects[index] else ():
            mode, circle = circle_of(locator, event, configuration)
            row[number] = common | mode
            if circle is not None:
                at.append(index * width + number)
                found.append(circle)
        asking += row
        clauses.collect(event.attributes, index * attributes.shape[1], valued, values)
    modes.reshape(-1)[:] = asking
    if found:
        circles.reshape(-1, 4)[at] = found
    if values:
        attributes.reshape(-1)[valued] = values
    return Batch(begin, channels, modes, circles, attributes)


def is_open(scope: Scope) -> bool:
    """Most are the one constant; what came over a wire is only equal to it."""
    return scope is EVERYWHERE or scope == EVERYWHERE


def circle_of(locator: Locator, event: Event, configuration: KnownConfiguration) -> tuple[int, Straight | None]:
    """How the event asks a locator, and with which circle."""
    match locator:
        case Audience():
            mode, circle, exact = region_circle(event.audience.region, configuration)
            return (mode | AUDIENCE_MET if exact and event.audience.filter is None else mode), circle
        case Relevance():
            return region_circle(event.relevance.region, configuration)[:2]
        case Attribute(name):
            point: Value | None = event.attributes.get(name)
        case Publishers(name):
            point = event.publisher.value(name)
    if not isinstance(point, Point):
        return NOBODY, None
    return CIRCLE, (*straight(point, configuration.space), 0.0)


def region_circle(region: Region | None, configuration: KnownConfiguration) -> tuple[int, Straight | None, bool]:
    """Also whether the circle is the region."""
    if region is None:
        return EVERYBODY, None, False
    if isinstance(region, Anchored):
        anchor = configuration.contexts.get(region.host)
        if anchor is None or anchor.position is None:
            return NOBODY, None, False
    found = around(region, configuration)
    if found is None or not found.reach_m <= REACH_MAX_M:
        return EVERYBODY, None, False
    return CIRCLE, (*straight(found.centre, configuration.space), found.reach_m), found.exact
