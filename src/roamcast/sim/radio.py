"""The air: who hears a broadcast, and when it is lost.

`UnitDisk` is the textbook's radio: everybody in range hears everything after its airtime, and a sender sends one
frame after the other. `SharedMedium` is a 802.11 broadcast channel in a page. A sender takes an idle medium after
DIFS. When it finds the medium busy, and always after a frame of its own, it draws a number of slots and counts them
down while the medium is idle; somebody else's frame stops the countdown, which goes on DIFS after it. A sender cannot
hear while it sends, and two frames that overlap at a receiver are both lost there, so loss grows with load. Two
senders that start within the blind time of each other's carrier sense collide. The constants are 802.11b's at 11
Mbit/s, where the share of a flood's frames that arrive is about that of ns-3 (docs/decisions/0004 has the figures).

Both take an emulated range TR: beyond it a frame is not heard, however near the machines are (STEAM, section 5).
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol, TypeAlias

from msgspec import Struct

from roamcast.node.boundary import Broadcast
from roamcast.sim.kernel import Handle, Kernel
from roamcast.sim.whereabouts import Whereabouts

PREAMBLE_US = 192
DIFS_US = 50
SLOT_US = 20
CONTENTION_SLOTS = 31
BLIND_US = 15
QUEUE_FRAMES_MAX = 1_000


class UnitDiskParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="unit-disk"):
    range_m: float
    bits_per_second: float = 11e6
    queue_frames_max: int = QUEUE_FRAMES_MAX

    def __post_init__(self) -> None:
        check_radio(self.range_m, self.bits_per_second, self.queue_frames_max)


class SharedMediumParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="shared-medium"):
    range_m: float
    bits_per_second: float = 11e6
    queue_frames_max: int = QUEUE_FRAMES_MAX

    def __post_init__(self) -> None:
        check_radio(self.range_m, self.bits_per_second, self.queue_frames_max)


RadioParams: TypeAlias = UnitDiskParams | SharedMediumParams


def check_radio(range_m: float, bits_per_second: float, queue_frames_max: int) -> None:
    if not range_m > 0:
        raise ValueError(f"range_m is {range_m}; a radio needs a range above 0")
    if not bits_per_second > 0:
        raise ValueError(f"bits_per_second is {bits_per_second}; give a rate above 0")
    if queue_frames_max < 1:
        raise ValueError(f"queue_frames_max is {queue_frames_max}; give at least 1")


class Frame:
    """One transmission on its way: who sent it and who could hear it. `spoiled` grows as others collide with it."""

    __slots__ = ("bytes", "end_us", "hearers", "said", "sender", "spoiled", "start_us")

    def __init__(self, sender: int, said: Broadcast, size_bytes: int) -> None:
        self.sender = sender
        self.said = said
        self.bytes = size_bytes
        self.start_us = 0
        self.end_us = 0
        self.hearers: list[int] = []
        self.spoiled: set[int] = set()


Heard: TypeAlias = Callable[[Frame, list[int]], None]
"""Called with a frame and the hosts that heard it whole."""
Sent: TypeAlias = Callable[[Frame], None]
"""Called when a frame goes on the air."""
Dropped: TypeAlias = Callable[[int, str], None]
"""Called with a host and a reason when a frame never makes it to the air."""


class Radio(Protocol):
    def broadcast(self, sender: int, said: Broadcast, size_bytes: int) -> None: ...

    def silence(self, sender: int) -> None:
        """The host went down: what waits in its card is never sent."""


def airtime_us(size_bytes: int, bits_per_second: float) -> int:
    return PREAMBLE_US + round(8 * size_bytes * 1e6 / bits_per_second)


def enqueue(queue: deque[Frame], frame: Frame) -> None:
    """Behind all frames of the same or a higher priority."""
    place = len(queue)
    while place > 0 and queue[place - 1].said.priority < frame.said.priority:
        place -= 1
    queue.insert(place, frame)


class UnitDisk:
    """Nobody waits for anybody else, but a host has one card: its next frame starts when the last one is off the
    air, so a short frame never overtakes a long one that was sent before."""

    def __init__(
        self,
        params: UnitDiskParams,
        kernel: Kernel,
        whereabouts: Whereabouts,
        sent: Sent,
        heard: Heard,
        dropped: Dropped,
    ) -> None:
        self.params = params
        self.kernel = kernel
        self.whereabouts = whereabouts
        self.sent = sent
        self.heard = heard
        self.dropped = dropped
        self.queues: dict[int, deque[Frame]] = {}
        """For each host that has a frame on the air, those that wait for its end."""

    def broadcast(self, sender: int, said: Broadcast, size_bytes: int) -> None:
        frame = Frame(sender, said, size_bytes)
        queue = self.queues.get(sender)
        if queue is None:
            self.queues[sender] = deque()
            self._send(frame)
            return
        enqueue(queue, frame)
        if len(queue) > self.params.queue_frames_max:
            queue.pop()
            self.dropped(sender, "radio_queue_full")

    def silence(self, sender: int) -> None:
        """Forgets what waits to be sent; what is on the air already is heard."""
        queue = self.queues.get(sender)
        if queue is not None:
            queue.clear()

    def _send(self, frame: Frame) -> None:
        frame.start_us = self.kernel.now_us
        frame.end_us = frame.start_us + airtime_us(frame.bytes, self.params.bits_per_second)
        frame.hearers = self.whereabouts.in_range(frame.sender, frame.start_us)
        self.sent(frame)
        self.kernel.at(frame.end_us, self._finish, frame)

    def _finish(self, frame: Frame) -> None:
        self.heard(frame, frame.hearers)
        queue = self.queues[frame.sender]
        if queue:
            self._send(queue.popleft())
        else:
            del self.queues[frame.sender]


class Station:
    """What one host's network card knows of the medium, and how long it still has to wait for its turn.

    The countdown is two times: `counts_from_us`, when its slots begin to run down, and `due_us`, when they have. A
    frame that is sensed before then moves both behind its end. They run on while nothing is queued, which is the
    backoff that follows every frame of one's own.
    """

    __slots__ = (
        "busy_until_us",
        "counts_from_us",
        "drawn",
        "due_us",
        "hearing",
        "queue",
        "rng",
        "sending_until_us",
        "turn",
    )

    def __init__(self) -> None:
        self.rng: Random | None = None
        self.queue: deque[Frame] = deque()
        self.turn: Handle | None = None
        """What looks, at `due_us` or before, whether the first frame of the queue can go."""
        self.counts_from_us = 0
        self.due_us = 0
        self.drawn = True
        """Whether a number of slots was drawn: an idle medium is taken without."""
        self.sending_until_us = 0
        self.hearing: Frame | None = None
        """The frame that ends last of those arriving now."""
        self.busy_until_us = 0
        """When the last of all frames that are on the air here ends, its own among them."""

    def take_at_once(self, now_us: int) -> None:
        """The medium is idle: it only has to stay so for DIFS."""
        self.drawn = False
        self.counts_from_us = self.due_us = now_us + DIFS_US

    def count_down(self, slots: int) -> None:
        """From DIFS after the medium falls idle."""
        self.drawn = True
        self.counts_from_us = self.busy_until_us + DIFS_US
        self.due_us = self.counts_from_us + slots * SLOT_US

    def slots_left(self, now_us: int) -> int:
        from_us = max(self.counts_from_us, now_us)
        return -((from_us - self.due_us) // SLOT_US)


class SharedMedium:
    """`rng_of` makes the generator of a host's backoff, when that host first draws one."""

    def __init__(
        self,
        params: SharedMediumParams,
        kernel: Kernel,
        whereabouts: Whereabouts,
        rng_of: Callable[[int], Random],
        sent: Sent,
        heard: Heard,
        dropped: Dropped,
    ) -> None:
        self.params = params
        self.kernel = kernel
        self.whereabouts = whereabouts
        self.rng_of = rng_of
        self.sent = sent
        self.heard = heard
        self.dropped = dropped
        self.stations = [Station() for _ in whereabouts.tracks]

    def broadcast(self, sender: int, said: Broadcast, size_bytes: int) -> None:
        station = self.stations[sender]
        enqueue(station.queue, Frame(sender, said, size_bytes))
        if len(station.queue) > self.params.queue_frames_max:
            station.queue.pop()
            self.dropped(sender, "radio_queue_full")
        now_us = self.kernel.now_us
        if station.turn is not None or station.sending_until_us > now_us or not station.queue:
            return
        if station.due_us <= now_us:
            if station.busy_until_us > now_us:
                station.count_down(self._draw(sender))
            else:
                station.take_at_once(now_us)
        station.turn = self.kernel.at(station.due_us, self._try_to_send, sender)

    def silence(self, sender: int) -> None:
        """Forgets what waits to be sent; what is on the air already is heard."""
        station = self.stations[sender]
        station.queue.clear()
        if station.turn is not None:
            station.turn.cancel()
            station.turn = None

    def _draw(self, sender: int) -> int:
        station = self.stations[sender]
        if station.rng is None:
            station.rng = self.rng_of(sender)
        return station.rng.randint(0, CONTENTION_SLOTS)

    def _try_to_send(self, sender: int) -> None:
        station = self.stations[sender]
        now_us = self.kernel.now_us
        if station.due_us > now_us:
            # Others were on the air in the meantime.
            station.turn = self.kernel.at(station.due_us, self._try_to_send, sender)
            return
        station.turn = None
        frame = station.queue.popleft()
        frame.start_us = now_us
        frame.end_us = now_us + airtime_us(frame.bytes, self.params.bits_per_second)
        frame.hearers = self.whereabouts.in_range(sender, now_us)
        station.sending_until_us = frame.end_us
        station.busy_until_us = max(station.busy_until_us, frame.end_us)
        station.count_down(self._draw(sender))
        if station.hearing is not None and station.hearing.end_us > now_us:
            station.hearing.spoiled.add(sender)
        self._reach(frame)
        self.sent(frame)
        self.kernel.at(frame.end_us, self._finish, frame)

    def _reach(self, frame: Frame) -> None:
        """The frame begins to arrive at all who are in range."""
        stations, spoiled = self.stations, frame.spoiled
        start_us, end_us = frame.start_us, frame.end_us
        sensed_us = start_us + BLIND_US
        for hearer in frame.hearers:
            station = stations[hearer]
            if station.sending_until_us > start_us:
                spoiled.add(hearer)
            other = station.hearing
            if other is None or other.end_us <= start_us:
                station.hearing = frame
            else:
                other.spoiled.add(hearer)
                spoiled.add(hearer)
                if end_us > other.end_us:
                    station.hearing = frame
            if end_us > station.busy_until_us:
                station.busy_until_us = end_us
            # Whose turn comes before it can sense this frame sends into it.
            if station.due_us >= sensed_us:
                station.count_down(station.slots_left(start_us) if station.drawn else self._draw(hearer))

    def _finish(self, frame: Frame) -> None:
        station = self.stations[frame.sender]
        if station.queue and station.turn is None:
            station.turn = self.kernel.at(station.due_us, self._try_to_send, frame.sender)
        spoiled = frame.spoiled
        if spoiled:
            self.heard(frame, [hearer for hearer in frame.hearers if hearer not in spoiled])
        else:
            self.heard(frame, frame.hearers)


def make_radio(
    params: RadioParams,
    kernel: Kernel,
    whereabouts: Whereabouts,
    rng_of: Callable[[int], Random],
    sent: Sent,
    heard: Heard,
    dropped: Dropped,
) -> Radio:
    if isinstance(params, SharedMediumParams):
        return SharedMedium(params, kernel, whereabouts, rng_of, sent, heard, dropped)
    return UnitDisk(params, kernel, whereabouts, sent, heard, dropped)
