"""Clients that tell where they are as OwnTracks does (docs/PROTOCOL.md, P-21), if the broker's settings ask for it.

A phone publishes to `owntracks/USER/DEVICE`, and also what it could not send an hour ago. So each location goes
through the cleaner of its client: what is old, vague, late or far off is not where the client is now. It is published
like any other message all the same.
"""

import math

from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.fence import ACCURACY_ATTRIBUTE
from roamcast.model.space import Space
from roamcast.movement.clean import Cleaner, Limits
from roamcast.movement.owntracks import BadReport, fix_of
from roamcast.mqtt.messages import Message

OWNTRACKS = "owntracks"
TOPIC_LEVELS = 3
OLD = "old"
LOCATION_REMARK = "location_"
"""Whoever watches is told of a location that was not used by this and why."""


class TrackingParams(Struct, frozen=True, forbid_unknown_fields=True):
    """What is believed of an OwnTracks location."""

    age_s_max: float = 60.0
    """One that was measured longer ago is not where the client is."""
    accuracy_m_max: float = 200.0
    speed_mps_max: float = 300.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: {getattr(self, name)} is not a limit; give a number above 0")

    def limits(self) -> Limits:
        return Limits(
            gap_us=round(self.age_s_max * 1e6),
            speed_mps_max=self.speed_mps_max,
            accuracy_m_max=self.accuracy_m_max,
        )


class BadLocation(ValueError):
    """A location that does not move its client; the message is one word out of few: why."""


class Trackers:
    """One cleaner for each connected client that sends locations."""

    def __init__(self, space: Space, params: TrackingParams) -> None:
        self._space = space
        self._limits = params.limits()
        self._cleaners: dict[str, Cleaner] = {}

    def __len__(self) -> int:
        return len(self._cleaners)

    def forget(self, client: str) -> None:
        self._cleaners.pop(client, None)

    def context(self, message: Message, before: Context, now_us: int) -> Context | None:
        """Where the publisher is after this message; None if it is no location. Raises `BadLocation`."""
        levels = message.topic.split("/")
        if levels[0] != OWNTRACKS or len(levels) != TOPIC_LEVELS or not all(levels):
            return None
        try:
            fix = fix_of(message.payload, now_us)
        except BadReport:
            return None
        if abs(now_us - fix.at_us) > self._limits.gap_us:
            raise BadLocation(OLD)
        cleaner = self._cleaners.setdefault(before.host, Cleaner(self._space, self._limits))
        used = cleaner.add(fix)
        if used is None:
            raise BadLocation(cleaner.verdict.value)
        # What was derived from two fixes that may lie a minute apart is not how it moves now.
        told = fix.speed_mps is not None and fix.heading_deg is not None
        velocity = used.velocity if told else None
        attributes = before.attributes
        if fix.accuracy_m is not None:
            attributes = {**attributes, ACCURACY_ATTRIBUTE: fix.accuracy_m}
        return Context(before.host, used.point, now_us, velocity, attributes=attributes)
