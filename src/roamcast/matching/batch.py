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
from roamcast.model.scope import is_everywhere
from roamcast.model.space import Space
from roamcast.model.values import Point, Value

Straight: TypeAlias = tuple[float, float, float, float]
"""A circle: its centre and its reach, in straight metres."""

KEPT_EVENTS = 64
REACH_MAX_M = 1e100
"""Of a circle that an event asks with; its square is still a double."""


class Batch(Struct, frozen=True):
    """`modes` and `circles` are by event and locator, `attributes` by event and column of the clauses."""

    channel_begin: Whole
    channels: Whole
    modes: Bytes
    circles: Doubles
    attributes: Doubles


class Batches:
    """Makes batches of events. For small ones the arrays are kept: to make them takes longer than to write them."""

    def __init__(
        self, topics: Topics, locators: Registry[Locator], clauses: Clauses, configuration: KnownConfiguration
    ) -> None:
        self._topics = topics
        self._locators = locators
        self._clauses = clauses
        self._configuration = configuration
        self._made_for = -1
        """How often locators had changed then."""

    def of(self, events: Sequence[Event], now_us: int) -> Batch:
        """Good until the next one is asked for."""
        subjects = [event.subject if event.published_us <= now_us <= event.expires_us else "" for event in events]
        modes, circles = self._arrays(len(events))
        closed = [event for event in events if not (is_everywhere(event.audience) and is_everywhere(event.relevance))]
        common: int | list[int] = SETTLED
        modes.fill(SETTLED | EVERYBODY)
        if closed:
            common = [
                AUDIENCE_MET * is_everywhere(event.audience) | RELEVANCE_OPEN * is_everywhere(event.relevance)
                for event in events
            ]
            modes[: len(events)] = np.array(common, np.uint8)[:, None] | EVERYBODY
        for locator, number in self._locators.numbers.items():
            match locator:
                case Attribute(name):
                    points = [event.attributes.get(name) for event in events]
                    place(points, number, common, modes, circles, self._configuration.space)
                case Publishers(name):
                    points = [event.publisher.value(name) for event in events]
                    place(points, number, common, modes, circles, self._configuration.space)
                case Audience() | Relevance() if closed:
                    for index, event in enumerate(events):
                        mode, circle = circle_of(locator, event, self._configuration)
                        modes[index, number] = modes[index, number] & SETTLED | mode
                        if circle is not None:
                            circles[index, number] = circle
                case Audience() | Relevance():
                    pass
        values = self._clauses.values([event.attributes for event in events])
        return Batch(*self._topics.channels_of_all(subjects), modes, circles, values)

    def _arrays(self, count: int) -> tuple[Bytes, Doubles]:
        """Circles have neither height nor reach where only the place of an event is written."""
        if self._made_for != self._locators.changes:
            self._made_for, self._kept = self._locators.changes, self._made(KEPT_EVENTS)
        return self._kept if count <= KEPT_EVENTS else self._made(count)

    def _made(self, count: int) -> tuple[Bytes, Doubles]:
        width = len(self._locators.keys)
        return np.zeros((count, width), np.uint8), np.zeros((count, width, 4))


def place(
    points: Sequence[Value | None],
    number: int,
    common: int | list[int],
    modes: Bytes,
    circles: Doubles,
    space: Space,
) -> None:
    """Writes where events are for one locator: column by column, since numpy takes as long for one as for a dozen."""
    count = len(points)
    if are_points(points):
        modes[:count, number] = common | CIRCLE if isinstance(common, int) else [each | CIRCLE for each in common]
        if is_flat(space):
            circles[:count, number, :2] = [(point.x, point.y) for point in points]
        else:
            circles[:count, number, :3] = [straight(point, space) for point in points]
        return
    for index, point in enumerate(points):
        if isinstance(point, Point):
            modes[index, number] = modes[index, number] & SETTLED | CIRCLE
            circles[index, number, :3] = straight(point, space)
        else:
            modes[index, number] = modes[index, number] & SETTLED | NOBODY


def are_points(values: Sequence[Value | None]) -> TypeGuard[Sequence[Point]]:
    return {*map(type, values)} == {Point}


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
