"""What a node keeps of one proximity: an entry of the list that `discovery.py` keeps, and what a beacon led to."""

from msgspec import Struct

from roamcast.adhoc.proximity.forwarding import carried_on
from roamcast.adhoc.proximity.groups import group_of
from roamcast.model.context import Context
from roamcast.model.event import EventType
from roamcast.model.region import Anchored, Region
from roamcast.model.space import Space
from roamcast.model.values import Point, Velocity
from roamcast.node.boundary import Does


class Relevant:
    """An entry of the list. `id` is that of the announcement, or of the subscription that wants a region."""

    __slots__ = (
        "anticipated",
        "away",
        "event_type",
        "group",
        "heard_us",
        "id",
        "initial_naval",
        "lasting",
        "latest",
        "local",
        "member",
        "naval",
        "naval_us",
        "period_us",
        "region",
        "round",
        "subject",
        "velocity",
    )

    def __init__(
        self,
        entry_id: str,
        subject: str,
        region: Region,
        initial_naval: Point,
        event_type: EventType | None,
        local: bool,
        period_us: int,
    ) -> None:
        self.id = entry_id
        self.subject = subject
        self.region = region
        self.initial_naval = initial_naval
        self.event_type = event_type
        """None for a region that a consumer wants."""
        self.local = local
        self.period_us = period_us
        """How often its beacons come."""
        self.group = group_of(subject, region, initial_naval)
        self.member = False
        self.naval = initial_naval
        self.velocity: Velocity | None = None
        self.naval_us = 0
        self.heard_us = 0
        self.round = -1
        self.latest = 0
        self.lasting: tuple[int, ...] = ()
        self.away = False
        """Whether this node, a member, was outside at the last beacon."""
        self.anticipated = False
        """Whether its producer has been silent for so long that a partition is likely."""

    @property
    def mobile(self) -> bool:
        return isinstance(self.region, Anchored)

    def is_of(self, subject: str, region: Region, initial_naval: Point, event_type: EventType | None) -> bool:
        return (self.subject, self.region, self.initial_naval, self.event_type) == (
            subject,
            region,
            initial_naval,
            event_type,
        )

    def naval_at(self, now_us: int, space: Space) -> Point:
        return carried_on(self.naval, self.velocity, now_us - self.naval_us, space)

    def naval_from(self, now_us: int, here: Point, space: Space) -> Point:
        """The naval as a node at `here` knows it: its own is where it is itself."""
        return here if self.local else self.naval_at(now_us, space)

    def seen_since(self, raised_us: int, producer: str) -> Context | None:
        """Where a beacon has told the producer of a mobile proximity to be, since it raised an event.

        An event that lasts may be replayed long after its producer has turned or stopped.
        """
        if self.naval_us <= raised_us or self.event_type is None or self.local or not self.mobile:
            return None
        return Context(producer, self.naval, self.naval_us, self.velocity)


class Heard(Struct, frozen=True):
    """What a beacon led to; `entry` is None where this node is not concerned, `inside` is meant strictly."""

    effects: list[Does]
    entry: Relevant | None = None
    inside: bool = False


class Gone(Struct, frozen=True):
    """A withdrawn proximity: beacons up to this round are late ones."""

    round: int
    heard_us: int
    period_us: int
