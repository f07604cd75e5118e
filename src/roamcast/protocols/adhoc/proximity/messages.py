"""What nodes of the proximity protocol say to each other, and whether it can be believed to be well formed.

`Announced`, `Wanted` and `Withdrawn` go to the discovery group, `Raised` and `Missed` to a proximity's own group. A
message that is forwarded carries its age, the time it spent at its producer and at forwarders by their own clocks,
so that nobody needs to trust another's clock.
"""

from roamcast.model.event import Announcement, Delivery, Event
from roamcast.model.region import Region, check_region
from roamcast.model.space import Space
from roamcast.model.subject import check_pattern
from roamcast.model.values import BadValue, Point, Velocity, check_velocity
from roamcast.node.boundary import Message


class Beacon(Message, frozen=True):
    """What announcements of either side share: where the naval is, how it moves, and whether to forward."""

    naval: Point
    velocity: Velocity | None
    at_us: int
    """When it was said, by the clock of who said it."""
    round: int
    """Counts the beacons of one node: each is forwarded once, and an older one changes nothing."""
    forward: bool
    age_us: int


class Announced(Beacon, frozen=True, tag="announced"):
    """A producer's proximity is here (4.5.2). `latest` is the number of its latest event; `lasting` are those that
    have not expired, which a newcomer may ask for."""

    announcement: Announcement
    latest: int = 0
    lasting: tuple[int, ...] = ()

    @property
    def proximity_id(self) -> str:
        return self.announcement.id


class Wanted(Beacon, frozen=True, tag="wanted"):
    """A consumer wants events of a subject from producers in a region (S14)."""

    subscription_id: str
    consumer: str
    subject: str
    region: Region
    initial_naval: Point

    @property
    def proximity_id(self) -> str:
        return self.subscription_id


class Withdrawn(Message, frozen=True, tag="withdrawn"):
    """An announcement or a wanted region is no more."""

    proximity_id: str


class Raised(Message, frozen=True, tag="raised"):
    """An event, number `sequence` of its stream, for the members of a proximity."""

    event: Event
    proximity_id: str
    stream: str
    sequence: int
    forward: bool = False
    age_us: int = 0
    delivery: Delivery = Delivery()
    replay: int = 0
    """0 for the first time; each replay has a number of its own and is forwarded anew."""

    @property
    def event_id(self) -> str:
        return self.event.id


class Missed(Message, frozen=True, tag="missed"):
    """A consumer at `position` asks the producer of a stream for what it lacks (S11)."""

    asker: str
    number: int
    proximity_id: str
    stream: str
    sequences: tuple[int, ...]
    position: Point
    forward: bool = False


MESSAGES: tuple[type[Message], ...] = (Announced, Wanted, Withdrawn, Raised, Missed)


def flaw_in(message: Message, space: Space) -> str | None:
    """What makes a decodable message unusable: a place that is none, a velocity beyond reason, a region elsewhere."""
    try:
        match message:
            case Announced(naval, velocity, announcement=announcement):
                check_motion(naval, velocity, space)
                space.check(announcement.initial_naval)
                if announcement.proximity is None:
                    return "an announcement without a proximity is not for others"
                check_region(announcement.proximity, space)
            case Wanted(naval, velocity, subject=subject, region=region, initial_naval=initial):
                check_motion(naval, velocity, space)
                space.check(initial)
                check_pattern(subject)
                check_region(region, space)
            case Raised(event):
                if event.publisher.position is not None:
                    space.check(event.publisher.position)
            case Missed(position=position):
                space.check(position)
            case _:
                pass
    except BadValue as flaw:
        return str(flaw)
    return None


def check_motion(naval: Point, velocity: Velocity | None, space: Space) -> None:
    space.check(naval)
    if velocity is not None:
        check_velocity(velocity, "beacon")
