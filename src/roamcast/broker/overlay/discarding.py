"""Which of the events that wait for a consumer to discard, when no more may wait (O7; section 2.3).

The paper has applications provide the function. Here it comes with the subscription's modulator: one that has a
method `discard` is given the events that wait, the oldest first, and answers with the index of the one that its
consumer misses least. Without it the bounds of sessions decide.
"""

from collections.abc import Callable, Sequence

from roamcast.broker.modulators.interface import BadModulator
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.make import made
from roamcast.broker.modulators.spec import spec_from_text
from roamcast.model.event import Event
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription

Discard = Callable[[Sequence[Event]], int]


def discard_of(subscription: Subscription, space: Space, limits: Limits) -> Discard | None:
    if not subscription.modulator:
        return None
    try:
        return getattr(made(spec_from_text(subscription.modulator), space, limits), "discard", None)
    except BadModulator:
        return None


def least_missed(discard: Discard, waiting: Sequence[Event]) -> int:
    """What cannot be used as an answer means the oldest."""
    try:
        chosen = discard(waiting)
        return chosen if 0 <= chosen < len(waiting) else 0
    except Exception:  # trusted code has bugs too, and one consumer's must not stop a broker
        return 0
