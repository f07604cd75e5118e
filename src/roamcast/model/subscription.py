"""Subscriptions: what is wanted, where, for how long, and from whom."""

from msgspec import Struct

from roamcast.model.filter.tree import EVERYTHING, Filter
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subject import check_pattern
from roamcast.model.values import BadValue


class Subscription(Struct, frozen=True, array_like=True, cache_hash=True):
    """`interest` says where events must be relevant (C4), `publishers` who may have published them (C5).

    `modulator` names a function that a broker applies to each event before it delivers it (O1).
    """

    id: str
    subscriber: str
    subject: str
    """A pattern: `+` and `#` as in MQTT."""
    issued_us: int
    expires_us: int
    filter: Filter = EVERYTHING
    interest: Scope = EVERYWHERE
    publishers: Scope = EVERYWHERE
    modulator: str = ""

    def __post_init__(self) -> None:
        if not self.id or not self.subscriber:
            raise BadValue("a subscription needs an id and a subscriber")
        check_pattern(self.subject)
        if self.expires_us < self.issued_us:
            raise BadValue(
                f"subscription '{self.id}' expires at {self.expires_us} µs, before its start at {self.issued_us} µs"
            )
