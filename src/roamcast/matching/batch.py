"""A batch of events as the kernel reads it: their channels, the circles that they ask with, and their values."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np

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
    Long,
    Whole,
)
from roamcast.matching.metric import around, is_flat, straight
from roamcast.matching.registry import Registry
from roamcast.matching.topics import Topics
from roamcast.model.event import Event
from roamcast.model.filter.tree import Attribute, Publishers
from roamcast.model.region import Anchored, Region
from roamcast.model.scope import is_everywhere
from roamcast.model.space import cartesian_m
from roamcast.model.values import Point, Value

Straight: TypeAlias = tuple[float, float, float, float]
"""A circle: its centre and its reach, in straight metres."""

KEPT_EVENTS = 64
REACH_MAX_M = 1e100
"""Of a circle that an event asks with; its square is still a double."""


class Batch(NamedTuple):
    """`modes` and `circles` are by event and locator, `attributes` by event and column of the clauses."""

    channel_begin: Whole
    channels: Whole
    modes: Bytes
    circles: Doubles
    attributes: Doubles
    moments_us: Long
    """At which each of them is asked about."""


class Arrays:
    """Room for so many events. They are written number by number: numpy takes longer to take a list."""

    def __init__(self, events: int, locators: int) -> None:
        self.modes: Bytes = np.zeros((events, locators), np.uint8)
        self.circles: Doubles = np.zeros((events, locators, 4))
        self.mode = self.modes.reshape(-1).data
        self.number = cast("memoryview[float]", self.circles.reshape(-1).data)


class Batches:
    """Makes batches of events. For small ones the arrays are kept: to make them takes longer than to write them."""

    def __init__(
        self, topics: Topics, locators: Registry[Locator], clauses: Clauses, configuration: KnownConfiguration
    ) -> None:
        self._topics = topics
        self._locators = locators
        self._clauses = clauses
        self._configuration = configuration
        self._flat = is_flat(configuration.space)
        self._moments: Long = np.zeros(1, np.int64)
        self._moment = self._moments.data
        self._look()

    def _look(self) -> None:
        """What events are asked for now."""
        self._changes = self._locators.changes
        self._width = len(self._locators.keys)
        self._kept = Arrays(KEPT_EVENTS, self._width)
        self._one = Arrays(1, self._width)
        self._one_is_scoped = True
        self._scopes: list[tuple[int, Audience | Relevance]] = []
        self._places: list[tuple[int, Attribute | Publishers]] = []
        for locator, number in self._locators.numbers.items():
            if isinstance(locator, Audience | Relevance):
                self._scopes.append((number, locator))
            else:
                self._places.append((number, locator))

    def of(self, events: Sequence[Event], moments_us: Sequence[int]) -> Batch:
        """Good until the next one is asked for."""
        if self._changes != self._locators.changes:
            self._look()
        arrays = self._kept if len(events) <= KEPT_EVENTS else Arrays(len(events), self._width)
        arrays.modes.fill(SETTLED | EVERYBODY)
        subjects: list[str] = []
        begin, width = 0, self._width
        for event, moment_us in zip(events, moments_us, strict=True):
            subjects.append(event.subject if event.published_us <= moment_us <= event.expires_us else "")
            common = SETTLED
            if not (is_everywhere(event.audience) and is_everywhere(event.relevance)):
                common = self._write_scopes(event, arrays, begin)
            for number, locator in self._places:
                self._write_place(place_of(event, locator), common, arrays, begin + number)
            begin += width
        values = self._clauses.values([event.attributes for event in events])
        moments = np.array(moments_us, np.int64)
        return Batch(*self._topics.channels_of_all(subjects), arrays.modes, arrays.circles, values, moments)

    def of_one(self, event: Event, now_us: int) -> Batch:
        if self._changes != self._locators.changes:
            self._look()
        arrays, common = self._one, SETTLED
        if self._one_is_scoped:
            self._one_is_scoped = False
            arrays.modes.fill(SETTLED | EVERYBODY)
        if not (is_everywhere(event.audience) and is_everywhere(event.relevance)):
            self._one_is_scoped = True
            common = self._write_scopes(event, arrays, 0)
        for number, locator in self._places:
            self._write_place(place_of(event, locator), common, arrays, number)
        subject = event.subject if event.published_us <= now_us <= event.expires_us else ""
        begin, channels = self._topics.channels_of_all((subject,))
        values = self._clauses.values((event.attributes,))
        self._moment[0] = now_us
        return Batch(begin, channels, arrays.modes, arrays.circles, values, self._moments)

    def _write_scopes(self, event: Event, arrays: Arrays, begin: int) -> int:
        """What the modes of all locators have in common."""
        common = AUDIENCE_MET * is_everywhere(event.audience) | RELEVANCE_OPEN * is_everywhere(event.relevance)
        for number, scope in self._scopes:
            mode, circle = circle_of(scope, event, self._configuration)
            arrays.mode[begin + number] = common | mode
            if circle is not None:
                arrays.circles.reshape(-1, 4)[begin + number] = circle
        return common

    def _write_place(self, point: Value | None, common: int, arrays: Arrays, at: int) -> None:
        if not isinstance(point, Point):
            arrays.mode[at] = common | NOBODY
            return
        arrays.mode[at] = common | CIRCLE
        first, number = 4 * at, arrays.number
        if self._flat:
            number[first], number[first + 1] = point.x, point.y
        else:
            number[first], number[first + 1], number[first + 2] = cartesian_m(point)


def place_of(event: Event, locator: Attribute | Publishers) -> Value | None:
    return (
        event.attributes.get(locator.name) if isinstance(locator, Attribute) else event.publisher.value(locator.name)
    )


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
