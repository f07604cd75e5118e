"""A radio in user space between machines that move: what one's card sends reaches the cards of those in range.

Frames of Ethernet are read from TAP devices and written to those of all machines that are within range at that very
moment, some time later, unless they are lost. It runs in a thread of its own. Only IPv4 and ARP go on the air.
"""

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import Self

from roamcast.model.values import Point

FRAME_BYTES_MAX = 65_536
CARRIED = (b"\x08\x00", b"\x08\x06")
IN_FLIGHT_MAX = 20_000
READ_BATCH = 64


class TapRadio:
    def __init__(
        self,
        cards: dict[str, int],
        where: Callable[[str, int], Point],
        range_m: float,
        *,
        loss: float = 0.0,
        delay_us: int = 1_000,
        seed: int = 1,
        bits_per_s: float = math.inf,
        tap: Callable[[str, str, bytes], None] = lambda sender, receiver, frame: None,
    ) -> None:
        """`where` says where a machine is at a microsecond since 1970. All share a channel of so many bits a second,
        on which one frame follows the other. `tap` is told of every frame that reaches another card, and whose."""
        self.cards = cards
        self.where = where
        self.range_m = range_m
        self.loss = loss
        self.delay_us = delay_us
        self.sent = self.carried = self.lost = self.out_of_range = self.dropped = 0
        self.bits_per_s = bits_per_s
        self.tap = tap
        self._rng = Random(seed)
        self._free_s = 0.0
        """When the channel is free again."""
        self._in_flight = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="radio", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        for name, card in self.cards.items():
            self._loop.add_reader(card, self._read, name, card)
        self._loop.run_forever()
        for card in self.cards.values():
            self._loop.remove_reader(card)
        self._loop.close()

    def _read(self, sender: str, card: int) -> None:
        for _ in range(READ_BATCH):
            try:
                frame = os.read(card, FRAME_BYTES_MAX)
            except (BlockingIOError, OSError):
                return
            if frame[12:14] in CARRIED:
                self._send(sender, frame)

    def _send(self, sender: str, frame: bytes) -> None:
        self.sent += 1
        now_us = time.time_ns() // 1_000
        here = self.where(sender, now_us)
        now_s = self._loop.time()
        self._free_s = max(now_s, self._free_s) + 8 * len(frame) / self.bits_per_s
        arrives_s = self._free_s + self.delay_us / 1e6
        for name, card in self.cards.items():
            if name == sender:
                continue
            there = self.where(name, now_us)
            if (here.x - there.x) ** 2 + (here.y - there.y) ** 2 > self.range_m**2:
                self.out_of_range += 1
            elif self._rng.random() < self.loss:
                self.lost += 1
            elif self._in_flight >= IN_FLIGHT_MAX:
                self.dropped += 1
            else:
                self._in_flight += 1
                self.tap(sender, name, frame)
                self._loop.call_at(arrives_s, self._arrive, card, frame)

    def _arrive(self, card: int, frame: bytes) -> None:
        self._in_flight -= 1
        try:
            os.write(card, frame)
            self.carried += 1
        except OSError:
            self.dropped += 1
