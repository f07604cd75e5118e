"""Where a modulator should run, by what it does to traffic (O9; section 6 of the paper names it as future work).

A modulator may run on any broker on the way from its producers to its consumer. What goes in travels to that broker,
what comes out travels on from there; the traffic of a place is the bytes a second times the hops that they travel, a
hop over a slow link counting for more. On
one path that means: a modulator that lets less out than came in belongs upstream, next to the producer, one that lets
more out belongs downstream, next to the consumer. With several producers the place lies where their paths have met.

Rates that vary must not send a modulator back and forth: another place has to be better by a margin, and to be the
best one several times in a row (`Opinion`). All of this is pure: the adaptors of the overlay keep the opinion,
measure (`traffic.py`) and move.
"""

from collections.abc import Sequence

from msgspec import Struct

from roamcast.model.values import BadValue


class Place(Struct, frozen=True):
    """A broker that could run the modulator."""

    broker: str
    hops_from: tuple[float, ...]
    """From the broker of each producer to this one, in the order of the rates."""
    hops_to: float
    """From this broker to the consumer's."""


class Flow(Struct, frozen=True):
    """Bytes a second into the modulator, by producer, and out of it."""

    rates_in: tuple[float, ...]
    rate_out: float

    def __post_init__(self) -> None:
        for rate in (*self.rates_in, self.rate_out):
            if not 0 <= rate < float("inf"):
                raise BadValue(f"a rate of {rate} bytes a second; give a number of 0 or more")


class Caution(Struct, frozen=True, forbid_unknown_fields=True):
    """How much better, and how often in a row, another place must be."""

    margin: float = 0.2
    """The part of the present traffic that a move has to save."""
    times: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise BadValue(f"margin is {self.margin}; give 0 or more and less than 1")
        if self.times < 1:
            raise BadValue(f"times is {self.times}; give 1 or more")


class Opinion(Struct, frozen=True):
    """Which place was found better, and how many times in a row."""

    broker: str = ""
    times: int = 0


UNDECIDED = Opinion()
DEFAULT_CAUTION = Caution()


def along(path: Sequence[str], hops: Sequence[float] | None = None) -> list[Place]:
    """The places on the path from the producer's broker to the consumer's; `hops[i]` lie between `path[i]` and the
    next one, one each if nothing is said."""
    steps = list(hops) if hops is not None else [1.0] * (len(path) - 1)
    if len(steps) != max(0, len(path) - 1):
        raise BadValue(f"a path of {len(path)} brokers has {max(0, len(path) - 1)} links, not {len(steps)}")
    return [Place(broker, (sum(steps[:index]),), sum(steps[index:])) for index, broker in enumerate(path)]


def traffic(flow: Flow, place: Place) -> float:
    """Bytes times hops a second, if the modulator ran there."""
    arriving = sum(rate * hops for rate, hops in zip(flow.rates_in, place.hops_from, strict=True))
    return arriving + flow.rate_out * place.hops_to


def best(flow: Flow, places: Sequence[Place]) -> Place:
    """The place with the least traffic; of equals the one nearest to the consumer, then the first named."""
    return min(places, key=lambda place: (traffic(flow, place), place.hops_to))


def better(flow: Flow, places: Sequence[Place], current: str, margin: float) -> str | None:
    """The best place, if it saves enough against the current one. A modulator that has come to stand off the way of
    its events is better off on any place of it."""
    if not places:
        return None
    found = best(flow, places)
    here = next((place for place in places if place.broker == current), None)
    if here is None:
        return found.broker
    saves = traffic(flow, found) < traffic(flow, here) * (1 - margin)
    return found.broker if saves else None


def reconsider(
    opinion: Opinion, flow: Flow, places: Sequence[Place], current: str, caution: Caution = DEFAULT_CAUTION
) -> tuple[Opinion, str | None]:
    """After each interval: the opinion to keep, and where to move the modulator now, if anywhere."""
    found = better(flow, places, current, caution.margin)
    if found is None:
        return UNDECIDED, None
    times = opinion.times + 1 if opinion.broker == found else 1
    if times < caution.times:
        return Opinion(found, times), None
    return UNDECIDED, found
