"""Where events and subscriptions meet (C4, C9): conditions (i) to (iii) at a host that holds both.

If they hold, and the subscription has a publication domain, a matching-request goes to where the publisher can be
reached; without one a matched-event goes to where the subscriber can be reached. Many hosts of the matching area find
the same match: their messages have one id, so geocast lets one through. What this host has told is not told again
until it is refreshed. Only what is about one subject is tried against each other.
"""

from random import Random

from roamcast.adhoc.context.domains import Domains, ToPublisher, ToSubscriber
from roamcast.adhoc.context.held import HeldEvent, HeldSubscription, Holdings
from roamcast.adhoc.context.issued import IssuedTables
from roamcast.adhoc.context.matching import coexist, content_may_match, included
from roamcast.adhoc.context.messages import MatchedEvent, MatchingRequest, Reach
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.context.surroundings import Surroundings
from roamcast.adhoc.geocast import Geocast
from roamcast.adhoc.neighbours import in_few
from roamcast.adhoc.routes import Route
from roamcast.model.values import Point
from roamcast.node.boundary import Does
from roamcast.node.recent import Recent


class Meetings:
    def __init__(
        self,
        params: ContextParams,
        rng: Random,
        around: Surroundings,
        held: Holdings,
        issued: IssuedTables,
        geocast: Geocast,
    ) -> None:
        self.params = params
        self.around = around
        self.host = around.host
        self.space = around.space
        self.held = held
        self.geocast = geocast
        self.domains = Domains(params, rng, around, issued, self.send_matched)
        self.handled = Recent(params.handled_pairs_max)
        """Matches that this host has told."""

    def of_event(self, now_us: int, event: HeldEvent) -> list[Does]:
        """Tries an event against the subscriptions that are held."""
        effects: list[Does] = []
        for subscription in self.held.subscriptions.with_pattern_of(event.subject):
            effects += self._match(now_us, event, subscription)
        return effects

    def of_subscription(self, now_us: int, subscription: HeldSubscription) -> list[Does]:
        """Tries a subscription against the events that are held."""
        effects: list[Does] = []
        for event in self.held.events.with_subject(subscription.subject):
            effects += self._match(now_us, event, subscription)
        return effects

    def of_all(self, now_us: int) -> list[Does]:
        """Tries everything: this host or its surroundings are not what they were."""
        effects: list[Does] = []
        if self.held.events:
            for subscription in list(self.held.subscriptions.rows()):
                effects += self.of_subscription(now_us, subscription)
        return effects

    def _match(self, now_us: int, event: HeldEvent, subscription: HeldSubscription) -> list[Does]:
        """Conditions (i) to (iii), and where to go from there."""
        open_domain = subscription.open_domain
        if not coexist(event, subscription, now_us):
            return []
        key = self._match_key(event, subscription, open_domain)
        if key in self.handled:
            return []
        if not content_may_match(event.event, subscription.subscription, self.space):
            return []
        me, around = self.around.me(now_us), self.around.around(now_us)

        def where(host: str) -> Point | None:
            return self.around.where(now_us, host, event.issuer, subscription.issuer)

        for scope in (event.event.relevance, subscription.subscription.interest):
            if not included(scope, me, around, where, self.space, self.around.graph):
                return []
        self.handled.add(key)
        if open_domain:
            matched = ToSubscriber(event.event, subscription.id, event.issuer, event.issued_us)
            return self.send_matched(now_us, matched, subscription.reach, contended=True)
        return self._send_request(now_us, event, subscription, key)

    def _match_key(self, event: HeldEvent, subscription: HeldSubscription, open_domain: bool) -> str:
        if not self.params.matches_again:
            return f"{'m' if open_domain else 'r'}/{event.id}/{subscription.id}"
        pair = f"{event.id}/{subscription.id}/{subscription.reach.version}"
        return f"m/{pair}" if open_domain else f"r/{pair}.{event.reach.version}"

    def _send_request(self, now_us: int, event: HeldEvent, subscription: HeldSubscription, key: str) -> list[Does]:
        publishers = subscription.subscription.publishers
        reach = subscription.reach_now(now_us, self.space)
        if event.issuer.host == self.host:
            return self.domains.at_publisher(now_us, ToPublisher(event.id, publishers, subscription.id, reach))
        here = self.around.here(now_us)
        assert here is not None
        request = MatchingRequest(
            route=Route(key, event.reach.region, here),
            event=event.id,
            publisher=event.issuer.host,
            publishers=publishers,
            subscription_id=subscription.id,
            reach=reach,
        )
        return self.geocast.send(now_us, request, contended=True)

    def send_matched(self, now_us: int, matched: ToSubscriber, reach: Reach, contended: bool = False) -> list[Does]:
        subscriber = reach.issuer.host
        if subscriber == self.host:
            return self.domains.at_subscriber(now_us, matched)
        here = self.around.here(now_us)
        if here is None:
            return []
        message = MatchedEvent(
            route=Route(self._matched_id(matched, reach), reach.region, here),
            event=matched.event,
            publisher=in_few(matched.publisher.at(now_us, self.space), self.space),
            age_us=now_us - matched.published_us,
            subscriber=subscriber,
            subscription_id=matched.subscription_id,
        )
        return self.geocast.send(now_us, message, contended)

    def _matched_id(self, matched: ToSubscriber, reach: Reach) -> str:
        pair = f"m/{matched.event.id}/{matched.subscription_id}"
        return f"{pair}/{reach.version}" if self.params.matches_again else pair
