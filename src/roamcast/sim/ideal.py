"""What an ideal system would deliver: one that knows every host's context at once (C12's yardstick).

Every pair of an event and a subscription is looked at when the younger of the two appears, and then, while both
live, once a period, because hosts move and attributes change. An instantaneous event or subscription is looked at
once only. The members of each scope are computed once per instant, which is all that sets this apart from calling
`matches` for each pair; a test holds the two against each other.
"""

from roamcast.model.context import Configuration
from roamcast.model.event import Event
from roamcast.model.match import includes, lifetime_validity, standard_matching
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subscription import Subscription
from roamcast.sim.observers import SilentObserver
from roamcast.sim.world import World

PERIOD_US = 1_000_000


class Ideal(SilentObserver):
    def __init__(self) -> None:
        self.world: World | None = None
        self.expected: dict[tuple[str, str], int] = {}
        """(event, subscription) → when the ideal system would have delivered it."""
        self.events: dict[str, Event] = {}
        self.subscriptions: dict[str, Subscription] = {}

    def watch(self, world: World) -> None:
        self.world = world
        world.kernel.at(PERIOD_US, self._tick)

    def published(self, now_us: int, host: str, event: Event) -> None:
        self.events[event.id] = event
        self._look([event], list(self.subscriptions.values()))

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self.subscriptions[subscription.id] = subscription
        self._look(list(self.events.values()), [subscription])

    def unsubscribed(self, now_us: int, host: str, subscription_id: str) -> None:
        self.subscriptions.pop(subscription_id, None)

    def _tick(self) -> None:
        assert self.world is not None
        now_us = self.world.kernel.now_us
        self.events = {key: each for key, each in self.events.items() if each.expires_us >= now_us}
        self.subscriptions = {key: each for key, each in self.subscriptions.items() if each.expires_us >= now_us}
        self._look(list(self.events.values()), list(self.subscriptions.values()))
        self.world.kernel.at(now_us + PERIOD_US, self._tick)

    def _look(self, events: list[Event], subscriptions: list[Subscription]) -> None:
        if self.world is None or not events or not subscriptions:
            return
        now_us = self.world.kernel.now_us
        instant = Instantly(self.world.configuration())
        for event in events:
            for subscription in subscriptions:
                pair = (event.id, subscription.id)
                if pair not in self.expected and instant.matches(event, subscription, now_us):
                    self.expected[pair] = now_us


class Instantly:
    """The five conditions against one configuration, each scope's members found once."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._members: dict[Scope, frozenset[str]] = {}

    def matches(self, event: Event, subscription: Subscription, now_us: int) -> bool:
        return (
            lifetime_validity(event, subscription, now_us)
            and includes(subscription.publishers, event.publisher.host, self.configuration)
            and includes(event.audience, subscription.subscriber, self.configuration)
            and standard_matching(event, subscription, self.configuration)
            and self._share_a_host(event.relevance, subscription.interest)
        )

    def _share_a_host(self, relevance: Scope, interest: Scope) -> bool:
        return not self.members(relevance).isdisjoint(self.members(interest))

    def members(self, scope: Scope) -> frozenset[str]:
        if scope == EVERYWHERE:
            return frozenset(self.configuration.contexts)
        known = self._members.get(scope)
        if known is None:
            known = frozenset(
                host for host in self.configuration.contexts if includes(scope, host, self.configuration)
            )
            self._members[scope] = known
        return known
