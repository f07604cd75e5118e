"""Which events cross a gateway, and when: a state machine without I/O (L9).

An event crosses a gateway once, in one direction: from the side where the gateway first met it to the other. It
keeps its id on both sides, and the gateway remembers the ids of what it met on either (`remembered_max`). So what it
carried itself, what another one carried, and what comes around a loop ends here, whatever the order:

| met | before | done |
|---|---|---|
| in the area, where it began | never | published at a broker |
| in the area, brought by a gateway | never | nothing: the brokers have it |
| at a broker | never | raised in the area, by the event's own scopes |
| on either side | on either side | nothing |

So n gateways carry an event at most n times, and everything that they connect is reached. That nobody gets an event
twice is then a matter of one area, or of one tree of brokers: nodes and brokers know an event by its id too.

Where the protocol has announcements, the gateway announces a subject before its first event (S3), as the type that
the user gave, else the one known in the area, else the one it had where it began, else the one it seems to be; and
waits `settle_us` until others have joined. Events wait meanwhile in their order, at most `waiting_max` of them.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from roamcast.gateway.parcel import Parcel
from roamcast.model.event import BadEvent, ContentType, EventType
from roamcast.model.values import Instant, Point, Value
from roamcast.node.recent import Recent


class CrossingParams(Struct, frozen=True):
    remembered_max: int = 20_000
    """Ids of events; one that is forgotten may cross again."""
    waiting_max: int = 1_000
    """Events of all subjects that wait for others to join."""
    subjects_max: int = 1_000
    settle_us: int = 1_500_000


class FromArea(Struct, frozen=True):
    parcel: Parcel
    brought: bool = False
    """Whether another gateway raised it here."""


class FromBrokers(Struct, frozen=True):
    parcel: Parcel


class Woken(Struct, frozen=True):
    """The time of a `Wake` has come."""


Given: TypeAlias = FromArea | FromBrokers | Woken


class Publish(Struct, frozen=True):
    parcel: Parcel


class Announce(Struct, frozen=True):
    event_type: EventType


class Raise(Struct, frozen=True):
    parcel: Parcel


class Wake(Struct, frozen=True):
    at_us: int


class Drop(Struct, frozen=True):
    reason: str
    event_id: str
    why: str = ""
    """What does not fit, where the reason alone leaves that open."""


Act: TypeAlias = Publish | Announce | Raise | Wake | Drop


class Crossing:
    def __init__(
        self,
        params: CrossingParams | None = None,
        *,
        announces: bool = True,
        types: Sequence[EventType] = (),
        known_type: Callable[[str], EventType | None] = lambda _: None,
    ) -> None:
        """`announces` says whether the protocol of the area has announcements; `types` are what the user says of
        subjects, `known_type` is what the area says."""
        self.params = params or CrossingParams()
        self.announces = announces
        self.known_type = known_type
        self.met = Recent(self.params.remembered_max)
        self._given_types = {each.subject: each for each in types}
        self._announced: dict[str, tuple[EventType, int]] = {}
        """By subject: as what, and when those who want it have joined."""
        self._waiting: list[Parcel] = []

    def begin(self, now_us: int) -> list[Act]:
        """Announces what the user gave types for, so that the first event need not wait."""
        if not self.announces:
            return []
        return [act for each in self._given_types.values() for act in self._announce(now_us, each)]

    def handle(self, now_us: int, given: Given) -> list[Act]:
        match given:
            case FromArea(parcel, brought):
                return [Publish(parcel)] if self.met.add(parcel.event.id) and not brought else []
            case FromBrokers(parcel):
                return self._enter(now_us, parcel) if self.met.add(parcel.event.id) else []
            case Woken():
                return self._release(now_us)

    def _enter(self, now_us: int, parcel: Parcel) -> list[Act]:
        event = parcel.event
        if not event.instantaneous and event.expires_us < now_us:
            return [Drop("expired", event.id)]
        if not self.announces:
            return [Raise(parcel)]
        acts: list[Act] = []
        known = self._announced.get(event.subject)
        event_type = self._type_of(parcel) if known is None else known[0]
        try:
            fitting = fitted(parcel, event_type)
        except BadEvent as problem:
            return [Drop("type_mismatch", event.id, str(problem))]
        if known is None:
            if len(self._announced) >= self.params.subjects_max:
                return [Drop("too_many_subjects", event.id)]
            acts = self._announce(now_us, event_type)
        if now_us >= self._announced[event.subject][1]:
            return [*acts, Raise(fitting)]
        if len(self._waiting) >= self.params.waiting_max:
            return [*acts, Drop("too_many_wait", event.id)]
        self._waiting.append(fitting)
        return acts

    def _announce(self, now_us: int, event_type: EventType) -> list[Act]:
        ready_us = now_us + self.params.settle_us
        self._announced[event_type.subject] = (event_type, ready_us)
        return [Announce(event_type), Wake(ready_us)]

    def _release(self, now_us: int) -> list[Act]:
        ready = [each for each in self._waiting if self._announced[each.event.subject][1] <= now_us]
        self._waiting = [each for each in self._waiting if self._announced[each.event.subject][1] > now_us]
        # Timers are coarser than the clock: one that comes a moment early must not be the last.
        next_us = min((self._announced[each.event.subject][1] for each in self._waiting), default=None)
        return [*(Raise(each) for each in ready), *([] if next_us is None else [Wake(next_us)])]

    def _type_of(self, parcel: Parcel) -> EventType:
        subject = parcel.event.subject
        return (
            self._given_types.get(subject)
            or self.known_type(subject)
            or parcel.event_type
            or EventType(subject, {name: apparent(value) for name, value in parcel.event.attributes.items()})
        )


def fitted(parcel: Parcel, event_type: EventType) -> Parcel:
    """The parcel as an event of a type; an event that tells no position has its publisher's, as at brokers. Raises
    `BadEvent` if it is none of it."""
    event = parcel.event
    attributes = dict(event.attributes)
    here = event.publisher.position
    if here is not None and event_type.content.get("position") is ContentType.POSITION:
        attributes.setdefault("position", here)
    event_type.check(attributes)
    return parcel if attributes == event.attributes else replace(parcel, event=replace(event, attributes=attributes))


def apparent(value: Value) -> ContentType:
    """A number may have a fraction the next time."""
    match value:
        case bool():
            return ContentType.BOOLEAN
        case int() | float():
            return ContentType.DOUBLE
        case str():
            return ContentType.STRING
        case Instant():
            return ContentType.TIME
        case Point():
            return ContentType.POSITION
