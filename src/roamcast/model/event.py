"""Events, their types, and the announcements that promise them (S1 to S3)."""

from enum import StrEnum
from typing import Literal as Choice

from msgspec import Struct, field

from roamcast.model.context import Context
from roamcast.model.region import Region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subject import SHORT_CHARS_MAX, check_any_subject, check_short_subject, check_subject
from roamcast.model.values import BadValue, Instant, Point, Value, check_attributes, check_point

CONTENT_ATTRIBUTES_MAX = 256
PERIOD_MIN_US = 1_000
"""Of announcements."""


class BadEvent(BadValue):
    """An event that does not fit its type, or a second structure for a known subject."""


class ContentType(StrEnum):
    INTEGER = "integer"
    DOUBLE = "double"
    STRING = "string"
    BOOLEAN = "boolean"
    TIME = "time"
    POSITION = "position"


FITTING: dict[str, tuple[type, ...]] = {
    ContentType.INTEGER: (int,),
    ContentType.DOUBLE: (float, int),
    ContentType.STRING: (str,),
    ContentType.BOOLEAN: (bool,),
    ContentType.TIME: (Instant,),
    ContentType.POSITION: (Point,),
}
"""The types of values that are plainly of a content type; `fits` decides about others."""


class Delivery(Struct, frozen=True, array_like=True):
    """STEAM's attribute list: how events of a type want to be delivered (S1, S14)."""

    validity_us: int | None = None
    """How long an event stays of use; None: as long as its expiry says."""
    priority: int = 0
    """Higher goes first."""
    deadline_us: int | None = None
    """An event not delivered so long after publication is dropped instead."""
    order: Choice["none", "sender"] = "none"

    def __post_init__(self) -> None:
        if self.validity_us is None and self.deadline_us is None:
            return
        for name, value in (("validity_us", self.validity_us), ("deadline_us", self.deadline_us)):
            if value is not None and value < 0:
                raise BadEvent(f"{name} is {value}; give 0 µs or more")


class EventType(Struct, frozen=True, array_like=True):
    """A subject, the names and types of its content, and how it is delivered."""

    subject: str
    content: dict[str, ContentType] = field(default_factory=dict)
    delivery: Delivery = Delivery()

    def __post_init__(self) -> None:
        check_subject(self.subject)
        for name, content_type in self.content.items():
            if not isinstance(content_type, ContentType):
                raise BadEvent(f"'{self.subject}': the type of '{name}' is a ContentType, not {content_type!r}")

    def check(self, attributes: dict[str, Value]) -> None:
        """Raises `BadEvent` unless the attributes are exactly this type's content."""
        content = self.content
        if len(attributes) == len(content):
            # Every event is asked this at each end, and of nearly all it is true.
            for name, value in attributes.items():
                if name not in content or type(value) not in FITTING[content[name]]:
                    break
            else:
                return
        self._complain(attributes)

    def _complain(self, attributes: dict[str, Value]) -> None:
        for name, content_type in self.content.items():
            if name not in attributes:
                raise BadEvent(f"'{self.subject}': attribute '{name}' ({content_type.value}) is missing")
            if not fits(attributes[name], content_type):
                found = type(attributes[name]).__name__
                raise BadEvent(f"'{self.subject}': attribute '{name}' must be {content_type.value}, not {found}")
        unknown = [name for name in attributes if name not in self.content]
        if unknown:
            raise BadEvent(
                f"'{self.subject}' has no attribute '{unknown[0]}'; it has {', '.join(self.content) or 'none'}"
            )


class Vocabulary:
    """The event types an application agreed on: one structure for each subject (S1)."""

    def __init__(self) -> None:
        self.types: dict[str, EventType] = {}

    def add(self, event_type: EventType) -> None:
        known = self.types.setdefault(event_type.subject, event_type)
        if known != event_type:
            raise BadEvent(
                f"'{event_type.subject}' is already known with another structure: {difference(known, event_type)}"
            )

    def check(self, subject: str, attributes: dict[str, Value]) -> None:
        if subject not in self.types:
            known = ", ".join(sorted(self.types)) or "none"
            raise BadEvent(f"no event type with subject '{subject}' was announced; known subjects: {known}")
        self.types[subject].check(attributes)


class Event(Struct, frozen=True, array_like=True, gc=False):
    """Something that happened: what, when, where, until when it matters, and to whom.

    `relevance` says where the event matters (C4), `audience` who may receive it (C5; for STEAM, who is inside the
    proximity). `publisher` is the publisher's context when it published; conditions (iv) and (v) do not use it,
    they look at the configuration when matching occurs.
    """

    id: str
    subject: str
    publisher: Context
    published_us: int
    expires_us: int
    attributes: dict[str, Value] = field(default_factory=dict)
    relevance: Scope = EVERYWHERE
    audience: Scope = EVERYWHERE
    body: bytes | None = None
    """What the publisher said in a form of its own, for subscribers that read that; no filter looks into it."""

    def __post_init__(self) -> None:
        if not self.id:
            raise BadEvent("an event needs an id")
        # As `check_subject` does it, written out: this is asked of every event at both ends.
        if len(self.subject) <= SHORT_CHARS_MAX:
            check_short_subject(self.subject)
        else:
            check_any_subject(self.subject)
        if len(self.attributes) > CONTENT_ATTRIBUTES_MAX:
            raise BadEvent(f"event with {len(self.attributes)} attributes; at most {CONTENT_ATTRIBUTES_MAX}")
        check_attributes(self.attributes)
        if self.expires_us < self.published_us:
            raise BadEvent(
                f"event '{self.id}' expires at {self.expires_us} µs, before it is published at {self.published_us} µs"
            )

    @property
    def instantaneous(self) -> bool:
        return self.expires_us == self.published_us


class Announcement(Struct, frozen=True, array_like=True):
    """A producer's promise of events of a type within a proximity, until it is withdrawn (S3).

    `initial_naval` names a mobile proximity for its whole life: groups are identified by where it was announced
    (S7), not by where it is now.
    """

    id: str
    event_type: EventType
    producer: str
    proximity: Region | None
    """None: the events go to whom their own scopes say, or where consumers want them (S14)."""
    initial_naval: Point
    period_us: int | None = None
    """How often it is repeated (4.5.2); None: as often as the protocol's parameters say."""

    def __post_init__(self) -> None:
        if not self.id or not self.producer:
            raise BadEvent("an announcement needs an id and a producer")
        if self.period_us is not None and self.period_us < PERIOD_MIN_US:
            raise BadEvent(f"announcement '{self.id}' every {self.period_us} µs; give {PERIOD_MIN_US} or more")
        check_point(self.initial_naval, f"announcement '{self.id}'")


def fits(value: Value, content_type: ContentType) -> bool:
    match content_type:
        case ContentType.BOOLEAN:
            return isinstance(value, bool)
        case ContentType.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool)
        case ContentType.DOUBLE:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ContentType.STRING:
            return isinstance(value, str)
        case ContentType.TIME:
            return isinstance(value, Instant)
        case ContentType.POSITION:
            return isinstance(value, Point)


def difference(known: EventType, other: EventType) -> str:
    for name in sorted({*known.content, *other.content}):
        before, after = known.content.get(name), other.content.get(name)
        if before != after:
            return f"attribute '{name}' was {before or 'absent'} and is now {after or 'absent'}"
    return "its delivery attributes (validity, priority, deadline, order) differ"
