"""Templates: a subscription that depends on its client, as it travels from broker to broker (R4, R5).

A template is the subscription's filter as the client wrote it, what the client is like now, and how long news of the
client take from it to the broker that holds the template and events take back. Each broker puts in what it must
expect of the client when an event that it passes on now arrives there (`reach.py`).
"""

from msgspec import Struct

from roamcast.model.filter.tree import STEPS_MAX, Filter
from roamcast.model.subject import check_pattern
from roamcast.model.values import INTEGER_LIMIT, BadValue, check_value

DURATION_US_MAX = 3_600_000_000
"""No link takes longer than an hour, and nobody who stays longer than that needs more than one step."""


def check_duration(what: str, duration_us: int) -> None:
    if not 0 <= duration_us <= DURATION_US_MAX:
        raise BadValue(f"template: a {what} of {duration_us} us; at most {DURATION_US_MAX}")


class State(Struct, frozen=True, array_like=True):
    """What a client says of itself to its border broker, as far as its subscriptions read it."""

    place: str | None = None
    residence_us: int = 0
    """How long it stays at a place; 0: it has not moved yet."""
    access_us: int = 0
    """How long a word to the broker and back takes."""
    values: tuple[tuple[str, float, float], ...] = ()
    """By attribute, the cell of its grid in which it is: from, to."""

    # What comes over the wire is checked here, so that binding a filter to it cannot fail.
    def __post_init__(self) -> None:
        if self.place is not None:
            check_value("place", self.place)
        check_duration("residence", self.residence_us)
        check_duration("access", self.access_us)
        for name, low, high in self.values:
            if not -INTEGER_LIMIT <= low <= high <= INTEGER_LIMIT:
                raise BadValue(f"state: '{name}' is from {low} to {high}")


NOWHERE = State()


class Template(Struct, frozen=True, array_like=True):
    id: str
    subject: str
    filter: Filter
    state: State
    delay_us: int = 0
    """To the client and back, from the broker that gets this."""
    away: bool = False
    """The client is not attached, and nobody knows how it changes meanwhile."""
    since_us: int = 0
    """When its border learned the state, where that judges an event by what held when it was published; 0: the client
    judges when it arrives."""

    def __post_init__(self) -> None:
        check_pattern(self.subject)
        check_duration("delay", self.delay_us)


def steps_ahead(delay_us: int, residence_us: int) -> int:
    """Rebeca, section 5.3: whenever the sum of the delays passes another multiple of the residence time, one step
    more; at least one, so that the next place is always provided for."""
    return min(STEPS_MAX, max(1, delay_us // residence_us)) if residence_us else 1
