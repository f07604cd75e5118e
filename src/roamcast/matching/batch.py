"""A batch of events as the kernel reads it: their channels, the circles that they ask with, and their values."""

from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

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
    SETTLED,
    Bytes,
    Doubles,
    Whole,
)
from roamcast.matching.metric import around, is_flat, straight
from roamcast.matching.registry import Registry
from roamcast.matching.topics import Topics
from roamcast.model.event import Event
from roamcast.model.filter.tree import Attribute, Publishers
from roamcast.model.region import Anchored, Region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Space
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
    begin, channels = topics.channels_of_one(subjects[0]) if len(events) == 1 else topics.channels_of_all(subjects)
    count, width = len(events), len(locators.keys)
    audiences_open = all(is_open(event.audience) for event in events)
    relevances_open = all(is_open(event.relevance) for event in events)
    common: int | list[int] = SETTLED
    modes = np.full((count, width), SETTLED | EVERYBODY, np.uint8)
    if not (audiences_open and relevances_open):
        common = [
            (AUDIENCE_MET if is_open(event.audience) else 0) | (RELEVANCE_OPEN if is_open(event.relevance) else 0)
            for event in events
        ]
        modes[:] = np.array(common, np.uint8)[:, None] | EVERYBODY
    circles = np.zeros((count, width, 4))
    for locator, number in locators.numbers.items():
        match locator:
            case Audience() if audiences_open:
                pass
            case Relevance() if relevances_open:
                pass
            case Attribute(name):
                points = [event.attributes.get(name) for event in events]
                place(points, number, common, modes, circles, configuration.space)
            case Publishers(name):
                points = [event.publisher.value(name) for event in events]
                place(points, number, common, modes, circles, configuration.space)
            case Audience() | Relevance():
                for index, event in enumerate(events):
                    mode, circle = circle_of(locator, event, configuration)
                    modes[index, number] = modes[index, number] & SETTLED | mode
                    if circle is not None:
                        circles[index, number] = circle
    asked = clauses.columns.numbers
    attributes = clauses.values([event.attributes for event in events]) if asked else clauses.blank(count)
    return Batch(begin, channels, modes, circles, attributes)


def place(
    points: Sequence[Value | None],
    number: int,
    common: int | list[int],
    modes: Bytes,
    circles: Doubles,
    space: Space,
) -> None:
    """Writes where events are for one locator: column by column, since numpy takes as long for one as for a dozen."""
    if are_points(points):
        modes[:, number] = common | CIRCLE if isinstance(common, int) else [each | CIRCLE for each in common]
        if not is_flat(space):
            circles[:, number, :3] = [straight(point, space) for point in points]
        elif len(points) == 1:
            circles[0, number, :2] = points[0].x, points[0].y
        else:
            circles[:, number, 0] = [point.x for point in points]
            circles[:, number, 1] = [point.y for point in points]
        return
    for index, point in enumerate(points):
        if isinstance(point, Point):
            modes[index, number] = modes[index, number] & SETTLED | CIRCLE
            circles[index, number, :3] = straight(point, space)
        else:
            modes[index, number] = modes[index, number] & SETTLED | NOBODY


def are_points(values: Sequence[Value | None]) -> TypeGuard[Sequence[Point]]:
    return {*map(type, values)} == {Point}


def is_open(scope: Scope) -> bool:
    """Most are the one constant; what came over a wire is only equal to it."""
    return scope is EVERYWHERE or scope == EVERYWHERE


def circle_of(
    locator: Audience | Relevance, event: Event, configuration: KnownConfiguration
) -> tuple[int, Straight | None]:
    """How the event asks a locator of scopes, and with which circle."""
    if isinstance(locator, Relevance):
        return region_circle(event.relevance.region, configuration)[:2]
    mode, circle, exact = region_circle(event.audience.region, configuration)
    return (mode | AUDIENCE_MET if exact and event.audience.filter is None else mode), circle


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
