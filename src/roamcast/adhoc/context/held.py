"""What a host holds of others (C7): events whose region of relevance, and subscriptions whose region of interest, it
is in. All times are by the holder's own clock, reckoned from the age that messages carry.
"""

from typing import TypeAlias

from msgspec.structs import replace

from roamcast.adhoc.context.messages import EventItem, Reach, SubscriptionItem
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.neighbours import in_few
from roamcast.adhoc.tables import SubjectTable
from roamcast.model.context import Context
from roamcast.model.region import Box, Shape, contains
from roamcast.model.scope import EVERYWHERE
from roamcast.model.space import Space
from roamcast.model.values import Point


class Held:
    """What events and subscriptions have in common while they are held."""

    __slots__ = (
        "ends_us",
        "expires_us",
        "instantaneous",
        "issued_us",
        "reach",
        "region",
        "silent_us",
        "told_us",
        "written_us",
    )

    def __init__(
        self,
        item: EventItem | SubscriptionItem,
        lifetime_us: int,
        now_us: int,
        travelled_us: int,
        params: ContextParams,
    ) -> None:
        self.issued_us = now_us - travelled_us - item.age_us
        self.expires_us = self.issued_us + lifetime_us
        self.instantaneous = lifetime_us == 0
        self.reach = item.reach
        self.written_us = now_us - travelled_us
        """When the message was made."""
        self.region = item.region
        self.told_us = now_us - travelled_us - item.reach.age_us
        """When the issuer itself last told it. Silence counts from there, however often others pass it on."""
        self.silent_us = self.told_us + round(params.silent_s * 1e6)
        lingers_us = round(params.linger_ms * 1_000) if self.instantaneous else 0
        self.ends_us = min(self.expires_us + lingers_us, self.silent_us)

    @property
    def issuer(self) -> Context:
        """The issuer as it was when it last told, to be carried forward."""
        return at_time(self.reach.issuer, self.written_us)

    def lives(self, now_us: int) -> bool:
        """Whether it has not expired, and its issuer has not been silent for so long that it must have gone."""
        return (self.instantaneous or now_us <= self.expires_us) and now_us <= self.silent_us

    def reach_now(self, now_us: int, space: Space) -> Reach:
        return replace(self.reach, issuer=in_few(self.issuer.at(now_us, space), space), age_us=now_us - self.told_us)


class HeldEvent(Held):
    __slots__ = ("event",)

    def __init__(self, item: EventItem, now_us: int, travelled_us: int, params: ContextParams) -> None:
        event = item.event
        super().__init__(item, event.expires_us - event.published_us, now_us, travelled_us, params)
        self.event = event

    @property
    def id(self) -> str:
        return self.event.id

    @property
    def subject(self) -> str:
        return self.event.subject

    @property
    def owner(self) -> str:
        """Who published it, whoever brought it here."""
        return self.event.publisher.host

    @property
    def issue_issued_us(self) -> int:
        """By its issuer's clock."""
        return self.event.published_us

    @property
    def grave(self) -> str:
        return f"e/{self.id}/{self.event.published_us}"

    def renewed(self, reach: Reach, age_us: int, region: Shape) -> EventItem:
        return EventItem(self.event, reach, age_us, region)

    def item(self, now_us: int, space: Space) -> EventItem:
        return EventItem(self.event, self.reach_now(now_us, space), now_us - self.issued_us, self.region)


class HeldSubscription(Held):
    __slots__ = ("open_domain", "subscription")

    def __init__(self, item: SubscriptionItem, now_us: int, travelled_us: int, params: ContextParams) -> None:
        subscription = item.subscription
        super().__init__(item, subscription.expires_us - subscription.issued_us, now_us, travelled_us, params)
        self.subscription = subscription
        self.open_domain = subscription.publishers == EVERYWHERE
        """Whether anybody may be the publisher, so that nobody needs to be asked."""

    @property
    def id(self) -> str:
        return self.subscription.id

    @property
    def subject(self) -> str:
        return self.subscription.subject

    @property
    def owner(self) -> str:
        return self.subscription.subscriber

    @property
    def issue_issued_us(self) -> int:
        return self.subscription.issued_us

    def renewed(self, reach: Reach, age_us: int, region: Shape) -> SubscriptionItem:
        return SubscriptionItem(self.subscription, reach, age_us, region)

    @property
    def grave(self) -> str:
        """By what its withdrawal is remembered: one that is issued anew under the same id is another."""
        return f"s/{self.id}/{self.subscription.issued_us}"

    def item(self, now_us: int, space: Space) -> SubscriptionItem:
        return SubscriptionItem(
            self.subscription, self.reach_now(now_us, space), now_us - self.issued_us, self.region
        )


AnyHeld: TypeAlias = HeldEvent | HeldSubscription


def supersedes(row: AnyHeld, known: AnyHeld | None) -> bool:
    """Whether what was told takes the place of what is held: by its version, which each issuer counts for itself.

    Of several gateways that brought the same event, the one that told it last; who published it goes before them.
    """
    if known is None:
        return True
    issuer, before = row.reach.issuer.host, known.reach.issuer.host
    if issuer == before:
        return row.reach.version > known.reach.version
    if row.owner in (issuer, before):
        return row.owner == issuer
    return row.told_us > known.told_us


class Holdings:
    """The event table and the subscription table of one host."""

    def __init__(self, params: ContextParams, space: Space) -> None:
        self.params = params
        self.space = space
        self.events: SubjectTable[HeldEvent] = SubjectTable(params.events_max)
        self.subscriptions: SubjectTable[HeldSubscription] = SubjectTable(params.subscriptions_max)
        self._tables: tuple[dict[str, HeldEvent], dict[str, HeldSubscription]] = (
            self.events.by_key,
            self.subscriptions.by_key,
        )

    def __len__(self) -> int:
        return len(self.events) + len(self.subscriptions)

    def prune(self, now_us: int, position: Point) -> None:
        """Forgets what has ended and what this host has left the region of."""
        space = self.space
        for table in (self.events, self.subscriptions):
            if not table.by_key:
                continue
            table.expire(now_us)
            for row in [each for each in table.rows() if not is_inside(each.region, position, space)]:
                table.remove(row.id)

    def forget(self, row: AnyHeld) -> None:
        """What is held under its id, whichever version."""
        (self.events if isinstance(row, HeldEvent) else self.subscriptions).remove(row.id)

    def just_entered(self, position: Point, previous: Point | None) -> list[AnyHeld]:
        """What is held in regions that a host at `position` has entered since it was at `previous` (C11)."""
        found: list[AnyHeld] = []
        if position == previous:
            return found
        space, y = self.space, position.y
        for rows in self._tables:
            for row in rows.values():
                region = row.region
                # Nearly all regions are boxes, and most neighbours are outside of them.
                if type(region) is Box and (y < region.low.y or y > region.high.y):
                    continue
                if row.instantaneous or not is_inside(region, position, space):
                    continue
                if previous is None or not is_inside(region, previous, space):
                    found.append(row)
        return found


def is_inside(region: Shape, point: Point, space: Space) -> bool:
    """`contains`, and boxes without asking further, since nearly all regions are."""
    if type(region) is Box:
        low, high = region.low, region.high
        if low.x <= high.x:
            return low.x <= point.x <= high.x and low.y <= point.y <= high.y
    return contains(region, point, space)


def by_my_clock(context: Context, now_us: int, travelled_us: int) -> Context:
    """A context that was made when its message was, with that time by the receiver's clock."""
    return at_time(context, now_us - travelled_us)


def at_time(context: Context, at_us: int) -> Context:
    return context if context.at_us == at_us else replace(context, at_us=at_us)
