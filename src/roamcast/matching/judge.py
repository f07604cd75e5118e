"""Checks the remaining conditions on the kernel's candidates with the model's own functions.

What an event's answers have in common is computed once for the event: whether its publisher is in a publication
domain (iv), and which hosts are where it is relevant (iii).
"""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from roamcast.matching.hosts import KnownConfiguration
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter.evaluate import compile_filter
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import EVERYTHING, Filter
from roamcast.model.match import includes, neighbours_of
from roamcast.model.scope import EVERYWHERE, Scope

ContextOf: TypeAlias = Callable[[int], Context | None]
"""By the number of a host."""


class Profile(Struct, frozen=True, cache_hash=True):
    """What a subscription asks that columns cannot decide."""

    rest: Filter
    interest: Scope
    publishers: Scope


NOTHING_MORE = Profile(EVERYTHING, EVERYWHERE, EVERYWHERE)


class Judge:
    """Judges survivors of one event."""

    def __init__(self, event: Event, configuration: KnownConfiguration) -> None:
        self.event = event
        self.configuration = configuration
        self._publishers: dict[Scope, bool] = {}
        self._overlaps: dict[Scope, bool] = {}
        self._relevant: list[str] | None = None

    def accepts(self, profile: Profile, host: int, context_of: ContextOf, audience_decided: bool) -> bool:
        return (
            self._content(profile.rest, host, context_of)
            and self._from_publisher(profile.publishers)
            and (audience_decided or self._for_audience(host))
            and self._overlap(profile.interest)
        )

    def _content(self, rest: Filter, host: int, context_of: ContextOf) -> bool:
        if rest == EVERYTHING:
            return True
        configuration, me = self.configuration, context_of(host)
        neighbours = None if me is None else neighbours_of(me.host, configuration)
        scene = Scene(self.event.attributes.get, me, self.event.publisher, neighbours)
        return compile_filter(rest, configuration.space, configuration.graph)(scene) is True

    def _from_publisher(self, publishers: Scope) -> bool:
        found = self._publishers.get(publishers)
        if found is None:
            found = includes(publishers, self.event.publisher.host, self.configuration)
            self._publishers[publishers] = found
        return found

    def _for_audience(self, host: int) -> bool:
        audience = self.event.audience
        if audience == EVERYWHERE:
            return True
        return includes(audience, self.configuration.hosts.names.name(host), self.configuration)

    def _overlap(self, interest: Scope) -> bool:
        found = self._overlaps.get(interest)
        if found is None:
            found = self._overlaps[interest] = self._share_a_host(interest)
        return found

    def _share_a_host(self, interest: Scope) -> bool:
        configuration, relevance = self.configuration, self.event.relevance
        if interest == EVERYWHERE and relevance == EVERYWHERE:
            return len(configuration.contexts) > 0
        if relevance == EVERYWHERE:
            numbers = configuration.hosts_in_region(interest.region)
            names = (configuration.hosts.names.name(int(number)) for number in numbers)
            return any(includes(interest, name, configuration) for name in names)
        if self._relevant is None:
            numbers = configuration.hosts_in_region(relevance.region)
            names = (configuration.hosts.names.name(int(number)) for number in numbers)
            self._relevant = [name for name in names if includes(relevance, name, configuration)]
        return any(includes(interest, name, configuration) for name in self._relevant)
