"""What nodes of the proximity protocol say to each other, and whether it can be believed to be well formed.

`Announced`, `Wanted` and `Withdrawn` go to the discovery group, `Raised` and `Missed` to a proximity's own group. A
message that is forwarded carries its age, the time it spent at its producer and at forwarders by their own clocks,
so that nobody needs to trust another's clock.
"""

from roamcast.model.event import Announcement, Delivery, Event
from roamcast.model.region import Anchored, Region, check_region
from roamcast.model.space import Space
from roamcast.model.subject import check_pattern
from roamcast.model.values import BadValue, Point, Velocity, check_velocity
from roamcast.node.boundary import Message

ANY_ROUND = 2**53
NUMBER_MAX = 2**60
"""Nobody ever counts so far; up to here numbers can be reckoned with and sent on."""


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
    """An announcement or a wanted region is no more, from this round of its host's beacons on."""

    proximity_id: str
    round: int = ANY_ROUND


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
    toward: Point | None = None
    """Where the producer is thought to be: who is nearer than the last sender repeats this. None: all inside."""
    left_m: float = 0.0
    """How far from there the last sender is."""


MESSAGES: tuple[type[Message], ...] = (Announced, Wanted, Withdrawn, Raised, Missed)


def flaw_in(message: Message, space: Space) -> str | None:
    """What makes a decodable message unusable: a place that is none, a velocity beyond reason, a region elsewhere, a
    number that does not count anything."""
    if isinstance(message, Raised):
        return flaw_in_raised(message, space)
    try:
        match message:
            case Announced(naval, velocity, announcement=announcement, latest=latest, lasting=lasting, age_us=age_us):
                check_motion(naval, velocity, space)
                space.check(announcement.initial_naval)
                if announcement.proximity is None:
                    return "an announcement without a proximity is not for others"
                check_region(announcement.proximity, space)
                check_numbers((latest, *lasting), 0)
                check_numbers((age_us,))
            case Wanted(naval, velocity, subject=subject, region=region, initial_naval=initial, age_us=age_us):
                check_motion(naval, velocity, space)
                space.check(initial)
                check_pattern(subject)
                check_region(region, space)
                check_numbers((age_us,))
            case Missed(position=position, toward=toward):
                space.check(position)
                if toward is not None:
                    space.check(toward)
            case _:
                pass
    except BadValue as flaw:
        return str(flaw)
    return None


def flaw_in_raised(message: Raised, space: Space) -> str | None:
    """The same of the one message that comes often."""
    event = message.event
    try:
        if event.publisher.position is not None:
            space.check(event.publisher.position)
        region = event.audience.region
        if region is not None and type(region) is not Anchored:
            check_region(region, space)
    except BadValue as flaw:
        return str(flaw)
    sequence, replay, age_us = message.sequence, message.replay, message.age_us
    if not (1 <= sequence <= NUMBER_MAX and replay <= NUMBER_MAX and -NUMBER_MAX <= age_us <= NUMBER_MAX):
        return f"number {sequence}, replay {replay}, {age_us} µs old: no event is"
    return None


def check_motion(naval: Point, velocity: Velocity | None, space: Space) -> None:
    space.check(naval)
    if velocity is not None:
        check_velocity(velocity, "beacon")


def check_numbers(numbers: tuple[int, ...], least: int = -NUMBER_MAX) -> None:
    for number in numbers:
        if not least <= number <= NUMBER_MAX:
            raise BadValue(f"{number} is not an event number or a time in microseconds: {least} to {NUMBER_MAX}")
