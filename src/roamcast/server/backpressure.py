"""Who is not read from until the disk has caught up: TCP tells those to wait, and memory stays bounded (L8).

A client that says something to be stored while much waits already is not read from until less does. What clients
acknowledge is always heard: it makes room, and there is no more of it than was sent to them. While the disk is full
they are refused what they say instead (`inbound.py`), and links alone are held, whose brokers keep what they said.
"""

from typing import Protocol

from roamcast.server.write_ahead import WriteAhead

WAITING_BYTES_MAX = 16 * 1024 * 1024
"""While more than this waits for the disk, whoever says more is held."""


class Held(Protocol):
    def wait(self, waits: bool) -> None: ...


class Backpressure:
    def __init__(self, write_ahead: WriteAhead, waiting_bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._write_ahead = write_ahead
        self._waiting_bytes_max = waiting_bytes_max
        self.held: dict[Held, None] = {}

    @property
    def crowded(self) -> bool:
        """So much waits that nobody new may come in: to come and to go is to be stored too."""
        return self._write_ahead.waiting_bytes > 2 * self._waiting_bytes_max

    def said(self, who: Held) -> None:
        """It has said something that is to be stored."""
        if self._write_ahead.waiting_bytes > self._waiting_bytes_max and who not in self.held:
            self.held[who] = None
            who.wait(True)

    def forget(self, who: Held) -> None:
        self.held.pop(who, None)

    def release(self) -> None:
        """At the end of a tick."""
        if self.held and self._write_ahead.waiting_bytes <= self._waiting_bytes_max:
            held, self.held = self.held, {}
            for each in held:
                each.wait(False)
