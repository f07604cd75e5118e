"""Recovery of missed events (S11): producers number and cache what they raise, consumers notice gaps and ask.

The events of one announcement in one proximity are a *stream*, numbered from 1. At the producer an `Outbox` keeps the
latest events of a stream: lasting ones until they expire, instantaneous ones for the recovery window. At a consumer a
`Reception` knows which numbers it is owed: all that came after it joined, and of the earlier ones those that still
last, which is how somebody who enters a proximity gets what still holds there. What is owed and does not come is
asked for, a few times and then no more. Section 4.3 leaves the means open: "consumers recover missed events by
requesting a retransmission; a producer may forward the events it has cached depending on their persistence level".

Nothing is signed, so a number may be forged. One that is far from all before it is believed when a second one is near
it (`Reception.believes`): a single frame moves nothing, and what several have moved, the true stream moves back.
"""

import math
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from roamcast.adhoc.proximity.messages import Raised
from roamcast.model.event import Delivery, Event
from roamcast.model.values import Point


def of_use_us(event: Event, delivery: Delivery) -> int | None:
    """For how long after its publication an event is of use; None for an instantaneous one without a validity."""
    # Of an instantaneous event both are the same.
    lifetime_us = event.expires_us - event.published_us or None
    if delivery.validity_us is None or lifetime_us is None:
        return lifetime_us if delivery.validity_us is None else delivery.validity_us
    return min(lifetime_us, delivery.validity_us)


class Kept:
    """An event in an outbox; times are by the producer's clock."""

    __slots__ = ("message", "raised_us", "replayed_us", "turn", "use_us")

    def __init__(self, message: Raised, raised_us: int, turn: int) -> None:
        self.message = message
        self.raised_us = raised_us
        self.turn = turn
        """Its number among all that this host raised: it may have another one in each stream."""
        self.replayed_us: int | None = None
        self.use_us = of_use_us(message.event, message.delivery)


class Outbox:
    def __init__(self, stream: str, proximity_id: str, events_max: int, window_us: int) -> None:
        self.stream = stream
        self.proximity_id = proximity_id
        self.window_us = window_us
        self.latest = 0
        self.replays = 0
        self.events_max = events_max
        self.kept: deque[Kept] = deque()

    def number(self, now_us: int, event: Event, forward: bool, delivery: Delivery, turn: int = 0) -> Raised:
        """The message for a new event, kept from now on."""
        self.latest += 1
        age_us = now_us - event.published_us if now_us > event.published_us else 0
        message = Raised(event, self.proximity_id, self.stream, self.latest, forward, age_us, delivery)
        self.kept.append(Kept(message, now_us - age_us, turn))
        if len(self.kept) > self.events_max:
            self._make_room(now_us)
        return message

    def _make_room(self, now_us: int) -> None:
        if self.kept[0].use_us is None:
            self.kept.popleft()
            return
        self.prune(now_us)
        if len(self.kept) > self.events_max:
            self._evict()

    def _evict(self) -> None:
        """The oldest momentary event goes first: one that lasts is still owed to whoever enters."""
        for place, kept in enumerate(self.kept):
            if kept.message.event.instantaneous:
                del self.kept[place]
                return
        self.kept.popleft()

    def withdraw(self, event_id: str) -> bool:
        """Takes an event that lasts out, so that nobody gets it any more; False if it is not here."""
        for place, kept in enumerate(self.kept):
            if kept.message.event.id == event_id and not kept.message.event.instantaneous:
                del self.kept[place]
                return True
        return False

    def prune(self, now_us: int) -> None:
        while self.kept and not self.is_alive(self.kept[0], now_us):
            self.kept.popleft()

    def is_alive(self, kept: Kept, now_us: int) -> bool:
        return now_us - kept.raised_us <= (self.window_us if kept.use_us is None else kept.use_us)

    def lasting(self, now_us: int) -> tuple[int, ...]:
        self.prune(now_us)
        return tuple(
            kept.message.sequence
            for kept in self.kept
            if not kept.message.event.instantaneous and self.is_alive(kept, now_us)
        )

    def alive(self, now_us: int) -> list[Kept]:
        self.prune(now_us)
        return [kept for kept in self.kept if self.is_alive(kept, now_us)]

    def replay(self, now_us: int, sequences: tuple[int, ...], forward: bool, pause_us: int) -> list[Raised]:
        """What is asked for and still alive; what was replayed a moment ago is on its way to this asker too."""
        asked = dict.fromkeys(sequences)
        found = []
        for kept in self.alive(now_us):
            if kept.message.sequence not in asked:
                continue
            if kept.replayed_us is not None and now_us - kept.replayed_us < pause_us:
                continue
            kept.replayed_us = now_us
            self.replays += 1
            age_us = now_us - kept.raised_us
            found.append(replace(kept.message, age_us=age_us, replay=self.replays, forward=forward))
        return found


class Outboxes:
    """The streams of one producer, by announcement and proximity: for its own proximity the two are the same, and
    there is one more for each consumer's. Of the latter there are at most `wanted_max`."""

    def __init__(self, events_max: int, window_us: int, wanted_max: int) -> None:
        self.events_max = events_max
        self.window_us = window_us
        self.wanted_max = wanted_max
        self.by_key: dict[tuple[str, str], Outbox] = {}
        self.by_stream: dict[str, Outbox] = {}
        self.wanted: dict[tuple[str, str], Outbox] = {}
        """Those to consumers' regions, the first opened first."""
        self._opened = 0

    def open(self, announcement_id: str, proximity_id: str) -> tuple[Outbox, str | None]:
        """The outbox, and the stream that was closed to make room for it, if one was."""
        key = (announcement_id, proximity_id)
        found = self.by_key.get(key)
        if found is not None:
            return found, None
        stream, closed = announcement_id, None
        if proximity_id != announcement_id:
            if len(self.wanted) >= self.wanted_max:
                closed = self._close(next(iter(self.wanted)))
            # A stream to a consumer ends with its want. Should that return, numbers begin anew in another stream.
            self._opened += 1
            stream = f"{announcement_id}/{self._opened}"
        found = Outbox(stream, proximity_id, self.events_max, self.window_us)
        self.by_key[key] = self.by_stream[stream] = found
        if proximity_id != announcement_id:
            self.wanted[key] = found
        return found, closed

    def close_announcement(self, announcement_id: str) -> None:
        for key in [key for key in self.by_key if key[0] == announcement_id]:
            self._close(key)

    def close_wanted(self, proximity_id: str) -> None:
        """A consumer's region is gone; the streams of own proximities end with their announcements only."""
        for key in [key for key in self.wanted if key[1] == proximity_id]:
            self._close(key)

    def _close(self, key: tuple[str, str]) -> str:
        stream = self.by_key.pop(key).stream
        del self.by_stream[stream]
        self.wanted.pop(key, None)
        return stream


class Reception:
    """One stream at one consumer."""

    __slots__ = (
        "asked",
        "beacons",
        "doubted",
        "floor",
        "given_up",
        "had",
        "lasting",
        "latest",
        "proximity_id",
        "revived",
        "solid",
        "source",
        "subject",
        "waiting",
        "window",
        "yielded",
    )

    def __init__(self, proximity_id: str, floor: int, window: int, subject: str = "") -> None:
        self.proximity_id = proximity_id
        self.subject = subject
        self.window = window
        self.lasting: tuple[int, ...] = ()
        """Numbers at or below the floor that are owed too, because they still last."""
        self.beacons = 0
        self.source: Point | None = None
        """Where the producer was when it raised what came last."""
        self.yielded = False
        """Whether the last asking was left to somebody else."""
        self.waiting = False
        """Whether a timer runs that will ask for what is missing then."""
        self._restart(floor)

    def _restart(self, floor: int) -> None:
        self.floor = floor
        """Everything above this number is owed."""
        self.latest = floor
        self.solid = floor
        """Nothing between the floor and this number is missing."""
        self.doubted: int | None = None
        """A number far from all before it, which nothing has confirmed yet."""
        self.had: dict[int, None] = {}
        self.asked: dict[int, int] = {}
        self.given_up: dict[int, float] = {}
        """What is not asked for any more, and how many beacons must have come until it is, once."""
        self.revived: dict[int, int] = {}

    def believes(self, number: int, floor: int) -> bool:
        """Whether a number can be of this stream. What is far below and confirmed begins it anew, above `floor`."""
        far = 4 * self.window
        if -far <= number - self.latest <= far:
            self.doubted = None
            return True
        if self.doubted is None or abs(number - self.doubted) > far:
            self.doubted = number
            return False
        if number < self.latest:
            self._restart(min(floor, self.doubted))
        self.doubted = None
        return True

    def told(self, latest: int, lasting: tuple[int, ...], changed: bool = False) -> None:
        """A beacon's word on what there is. What was given up is worth asking for again after a change: this node is
        back in the proximity, or the producer back in reach."""
        if self.believes(latest, latest):
            self.latest = max(self.latest, latest)
        self.lasting = lasting
        self.beacons += 1
        for sequence in lasting:
            due = self.given_up.get(sequence)
            if due is None or (not changed and self.beacons < due):
                continue
            del self.given_up[sequence]
            self.solid = max(self.floor, min(self.solid, sequence - 1))
            if changed:
                self.asked.pop(sequence, None)
                self.revived.pop(sequence, None)
            else:
                self.asked[sequence] -= 1
                self.revived[sequence] = self.revived.get(sequence, 0) + 1
        self._slide()

    def skip_to(self, latest: int) -> None:
        """Nothing up to this number is owed: it was raised for others, before this node was inside."""
        self.lasting = ()
        if self.believes(latest, latest):
            self.floor = max(self.floor, latest)
            self.latest = max(self.latest, latest)
            self._slide()

    def take(self, sequence: int) -> bool:
        """Marks an event as received; False when it was before."""
        if sequence in self.had:
            return False
        if sequence > self.latest:
            self.latest = sequence
        self.had[sequence] = None
        if sequence in self.asked:
            del self.asked[sequence]
            self.given_up.pop(sequence, None)
            self.revived.pop(sequence, None)
        self._slide()
        return True

    def again(self) -> None:
        """A new subscription has seen nothing yet: what still lasts is owed to it."""
        for sequence in self.lasting:
            self.had.pop(sequence, None)
        if self.lasting:
            self.solid = max(self.floor, min(self.solid, self.lasting[0] - 1))

    def is_owed(self, sequence: int) -> bool:
        return sequence > self.floor or sequence in self.lasting

    def missing(self) -> list[int]:
        if self.solid >= self.latest and not self.lasting:
            return []
        numbers = [*(each for each in self.lasting if each <= self.floor), *range(self.solid + 1, self.latest + 1)]
        return [each for each in numbers if each not in self.had and each not in self.given_up]

    def ask(self, asks_max: int) -> tuple[tuple[int, ...], int, bool]:
        """The numbers to ask for now, how many were given up for the first time, and whether it is the last asking
        for one of them.

        A number is asked for `asks_max` times in a row. One that lasts is asked for as often again in all, each time
        after twice as many beacons that still name it.
        """
        wanted, given_up, is_last = [], 0, False
        for sequence in self.missing():
            times = self.asked.get(sequence, 0)
            if times >= asks_max:
                revived = self.revived.get(sequence, 0)
                self.given_up[sequence] = self.beacons + 2**revived if revived < asks_max else math.inf
                given_up += revived == 0
            else:
                self.asked[sequence] = times + 1
                is_last = is_last or times + 1 == asks_max
                wanted.append(sequence)
        self._slide()
        return tuple(wanted), given_up, is_last

    def _slide(self) -> None:
        """Nothing is owed that no producer caches any more."""
        if self.floor < self.latest - self.window:
            self.floor = self.latest - self.window
        if self.solid < self.floor:
            self.solid = self.floor
        while self.solid + 1 in self.had or self.solid + 1 in self.given_up:
            self.solid += 1
        many = 2 * self.window
        if len(self.had) > many:
            self.had = dict.fromkeys(self._recent(self.had))
        if len(self.asked) > many or len(self.given_up) > many:
            self.asked = {each: self.asked[each] for each in self._recent(self.asked)}
            self.given_up = {each: self.given_up[each] for each in self._recent(self.given_up)}
            self.revived = {each: self.revived[each] for each in self._recent(self.revived)}

    def _recent(self, numbers: Iterable[int]) -> list[int]:
        """Those that may still matter; one that lasts does, however old, or it would be asked for anew."""
        oldest, lasting = self.latest - self.window, dict.fromkeys(self.lasting)
        return [each for each in numbers if each > oldest or each in lasting]
