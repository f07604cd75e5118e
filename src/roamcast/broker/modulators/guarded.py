"""What a broker holds of every modulator: within its limits, its failures counted, its traffic measured.

An event that fails is dropped and counted by its reason in `problems`; so is what a modulator does beyond its limits.
After `failures_in_row_max` of them in a row the modulator is `off`: it drops every event from then on, and counts
that too. The broker asks for the `news` of both, and notes it. Nothing that a modulator does reaches the broker as an
exception.
"""

import msgspec
from msgspec import Struct

from roamcast.broker.modulators.declarative import DeclarativeModulator
from roamcast.broker.modulators.interface import Failed, Modulator
from roamcast.broker.modulators.limits import ENCODE, Limits, checked_length
from roamcast.broker.modulators.traffic import Meter
from roamcast.model.event import Event


class GuardedState(Struct, frozen=True, array_like=True):
    """The state of a guarded modulator: a move to another broker is no pardon."""

    inner: bytes
    failures_in_row: int = 0
    off: bool = False


READ_STATE = msgspec.msgpack.Decoder(GuardedState)


class Guarded:
    def __init__(self, inner: Modulator, limits: Limits) -> None:
        self.inner = inner
        self.limits = limits
        self.problems: dict[str, int] = {}
        self.off = False
        self.meter = Meter()
        self._failures_in_row = 0
        self._news: list[str] = []
        """Reasons that nobody has asked for yet."""
        self._just_off = False

    def take(self, event: Event, now_us: int) -> list[Event]:
        self.meter.came(len(ENCODE(event)))
        if self.off:
            # That it is off was news once; that it stays so is none.
            self._count("off", is_news=False)
            return []
        try:
            events = self.inner.take(event, now_us)
            length = checked_length(events, self.limits)
        except Failed as failure:
            return self._failed(failure.reason)
        except Exception:  # trusted code has bugs too, and one consumer's must not stop a broker
            return self._failed("exception")
        self._failures_in_row = 0
        self.meter.went(length)
        return events

    @property
    def is_stateless(self) -> bool:
        """Whether what it makes of an event depends on no other event."""
        if isinstance(self.inner, DeclarativeModulator):
            return self.inner.spec.sampling is None and self.inner.spec.window is None
        return False

    def state(self) -> bytes:
        try:
            inner = self.inner.state()
            if len(inner) > self.limits.state_bytes_max:
                raise Failed("state", f"{len(inner)} bytes")
        except Exception:  # as above
            self._count("state")
            inner = b""
        return ENCODE(GuardedState(inner, self._failures_in_row, self.off))

    def load(self, state: bytes) -> None:
        """A state that cannot be read is counted, and the modulator begins anew."""
        try:
            moved = READ_STATE.decode(state)
            self._failures_in_row, self.off = max(0, moved.failures_in_row), moved.off
            if moved.inner:
                self.inner.load(moved.inner)
        except Exception:  # as above; bytes of another broker besides
            self._count("state")

    def _failed(self, reason: str) -> list[Event]:
        self._count(reason)
        self._failures_in_row += 1
        self.off = self._just_off = self._failures_in_row >= self.limits.failures_in_row_max
        return []

    def switch_off(self) -> None:
        self.off = True

    def news(self) -> list[str]:
        """The reasons of what has failed since this was last asked, each once."""
        news, self._news = self._news, []
        return news

    def switched_off(self) -> bool:
        """Whether it has been switched off since this was last asked."""
        switched, self._just_off = self._just_off, False
        return switched

    def _count(self, reason: str, is_news: bool = True) -> None:
        self.problems[reason] = self.problems.get(reason, 0) + 1
        if is_news and reason not in self._news:
            self._news.append(reason)
