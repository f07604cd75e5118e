"""The air: who hears a broadcast, and when it is lost.

`UnitDisk` is the textbook's radio: everybody in range hears everything after its airtime. `SharedMedium` is a
802.11 broadcast channel in a page: a sender waits while it senses the medium busy, backs off a random number of
slots, cannot hear while it sends, and two frames that overlap at a receiver are both lost there. So loss grows with
load. Two such senders that start within the blind time of each other's carrier sense collide. The constants are
802.11b's at 11 Mbit/s, where this model and ns-3 lose the same share of frames.

Both take an emulated range TR: beyond it a frame is not heard, however near the machines are (STEAM, section 5).
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol, TypeAlias

from msgspec import Struct

from roamcast.node.boundary import Broadcast, Received
from roamcast.sim.kernel import Kernel
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

    def __post_init__(self) -> None:
        check_radio(self.range_m, self.bits_per_second)


class SharedMediumParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="shared-medium"):
    range_m: float
    bits_per_second: float = 11e6
    queue_frames_max: int = QUEUE_FRAMES_MAX

    def __post_init__(self) -> None:
        check_radio(self.range_m, self.bits_per_second)


RadioParams: TypeAlias = UnitDiskParams | SharedMediumParams


def check_radio(range_m: float, bits_per_second: float) -> None:
    if not range_m > 0:
        raise ValueError(f"range_m is {range_m}; a radio needs a range above 0")
    if not bits_per_second > 0:
        raise ValueError(f"bits_per_second is {bits_per_second}; give a rate above 0")


class Frame:
    """One transmission on its way: who sent it and who could hear it. `spoiled` grows as others collide with it."""

    __slots__ = ("bytes", "end_us", "hearers", "received", "said", "sender", "spoiled", "start_us")

    def __init__(self, sender: int, said: Broadcast, size_bytes: int) -> None:
        self.sender = sender
        self.received: Received | None = None
        """What every hearer is given: made once, by whoever hands it out."""
        self.said = said
        self.bytes = size_bytes
        self.start_us = 0
        self.end_us = 0
        self.hearers: list[int] = []
        self.spoiled: set[int] = set()


Heard: TypeAlias = Callable[[Frame, int], None]
"""Called with a frame and the host that heard it whole."""
Sent: TypeAlias = Callable[[Frame], None]
"""Called when a frame goes on the air."""
Dropped: TypeAlias = Callable[[int, str], None]
"""Called with a host and a reason when a frame never makes it to the air."""


class Radio(Protocol):
    def broadcast(self, sender: int, said: Broadcast, size_bytes: int) -> None: ...


def airtime_us(size_bytes: int, bits_per_second: float) -> int:
    return PREAMBLE_US + round(8 * size_bytes * 1e6 / bits_per_second)


class UnitDisk:
    def __init__(
        self, params: UnitDiskParams, kernel: Kernel, whereabouts: Whereabouts, sent: Sent, heard: Heard
    ) -> None:
        self.params = params
        self.kernel = kernel
        self.whereabouts = whereabouts
        self.sent = sent
        self.heard = heard

    def broadcast(self, sender: int, said: Broadcast, size_bytes: int) -> None:
        frame = Frame(sender, said, size_bytes)
        frame.start_us = self.kernel.now_us
        frame.end_us = frame.start_us + airtime_us(size_bytes, self.params.bits_per_second)
        frame.hearers = self.whereabouts.in_range(sender, frame.start_us)
        self.sent(frame)
        self.kernel.at(frame.end_us, self._finish, frame)

    def _finish(self, frame: Frame) -> None:
        for hearer in frame.hearers:
            self.heard(frame, hearer)


class Station:
    """What one host's network card knows of the medium."""

    __slots__ = (
        "busy_until_us",
        "hearing",
        "latest_start_us",
        "latest_until_us",
        "queue",
        "sending_until_us",
        "waiting",
    )

    def __init__(self) -> None:
        self.queue: deque[Frame] = deque()
        self.waiting = False
        self.sending_until_us = 0
        self.hearing: Frame | None = None
        """The frame that ends last of those arriving now."""
        self.busy_until_us = 0
        """Until when the medium is busy, as far as frames go that were sensed already."""
        self.latest_start_us = -BLIND_US
        self.latest_until_us = 0
        """The frame that began last: not sensed for the first `BLIND_US`."""

    def enqueue(self, frame: Frame) -> None:
        """Behind all frames of the same or a higher priority."""
        place = len(self.queue)
        while place > 0 and self.queue[place - 1].said.priority < frame.said.priority:
            place -= 1
        self.queue.insert(place, frame)

    def senses_busy_until(self, now_us: int) -> int:
        if now_us - self.latest_start_us >= BLIND_US:
            return max(self.busy_until_us, self.latest_until_us)
        return self.busy_until_us


class SharedMedium:
    def __init__(
        self,
        params: SharedMediumParams,
        kernel: Kernel,
        whereabouts: Whereabouts,
        rng: Random,
        sent: Sent,
        heard: Heard,
        dropped: Dropped,
    ) -> None:
        self.params = params
        self.kernel = kernel
        self.whereabouts = whereabouts
        self.rng = rng
        self.sent = sent
        self.heard = heard
        self.dropped = dropped
        self.stations = [Station() for _ in whereabouts.tracks]

    def broadcast(self, sender: int, said: Broadcast, size_bytes: int) -> None:
        station = self.stations[sender]
        station.enqueue(Frame(sender, said, size_bytes))
        if len(station.queue) > self.params.queue_frames_max:
            station.queue.pop()
            self.dropped(sender, "radio_queue_full")
        if not station.waiting:
            self._wait_for_turn(sender)

    def _wait_for_turn(self, sender: int) -> None:
        """An idle medium is taken after DIFS; a busy one after DIFS and a random backoff from its end."""
        station = self.stations[sender]
        station.waiting = True
        now_us = self.kernel.now_us
        busy_until_us = max(station.senses_busy_until(now_us), station.sending_until_us)
        start_us = now_us + DIFS_US
        if busy_until_us > now_us:
            start_us = busy_until_us + DIFS_US + self.rng.randint(0, CONTENTION_SLOTS) * SLOT_US
        self.kernel.at(start_us, self._try_to_send, sender)

    def _try_to_send(self, sender: int) -> None:
        station = self.stations[sender]
        now_us = self.kernel.now_us
        if max(station.senses_busy_until(now_us), station.sending_until_us) > now_us:
            self._wait_for_turn(sender)
            return
        frame = station.queue.popleft()
        frame.start_us = now_us
        frame.end_us = now_us + airtime_us(frame.bytes, self.params.bits_per_second)
        frame.hearers = self.whereabouts.in_range(sender, now_us)
        station.sending_until_us = frame.end_us
        if station.hearing is not None and station.hearing.end_us > now_us:
            station.hearing.spoiled.add(sender)
        for hearer in frame.hearers:
            self._arrives(frame, hearer)
        self.sent(frame)
        self.kernel.at(frame.end_us, self._finish, frame)

    def _arrives(self, frame: Frame, hearer: int) -> None:
        station = self.stations[hearer]
        if station.sending_until_us > frame.start_us:
            frame.spoiled.add(hearer)
        other = station.hearing
        if other is not None and other.end_us > frame.start_us:
            other.spoiled.add(hearer)
            frame.spoiled.add(hearer)
            if frame.end_us > other.end_us:
                station.hearing = frame
        else:
            station.hearing = frame
        station.busy_until_us = max(station.busy_until_us, station.latest_until_us)
        station.latest_start_us = frame.start_us
        station.latest_until_us = frame.end_us

    def _finish(self, frame: Frame) -> None:
        station = self.stations[frame.sender]
        station.waiting = False
        if station.queue:
            self._wait_for_turn(frame.sender)
        spoiled = frame.spoiled
        for hearer in frame.hearers:
            if hearer not in spoiled:
                self.heard(frame, hearer)
