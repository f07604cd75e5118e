"""How many bytes go into a modulator and come out of it, by interval (O9)."""

from msgspec import Struct


class Measured(Struct, frozen=True):
    """Of one interval: what `placement.py` decides by."""

    seconds: float
    bytes_in: int
    bytes_out: int

    @property
    def rate_in(self) -> float:
        """Bytes a second."""
        return self.bytes_in / self.seconds

    @property
    def rate_out(self) -> float:
        return self.bytes_out / self.seconds


class Meter:
    """Counts since it was last read."""

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self._since_us: int | None = None

    def came(self, length: int) -> None:
        self.bytes_in += length

    def went(self, length: int) -> None:
        self.bytes_out += length

    def read(self, now_us: int) -> Measured | None:
        """The interval since the last reading, which begins anew; None the first time, and if no time has passed."""
        since_us = self._since_us
        if since_us is not None and now_us == since_us:
            return None
        measured: Measured | None = None
        if since_us is not None and now_us > since_us:
            measured = Measured((now_us - since_us) / 1e6, self.bytes_in, self.bytes_out)
        self._since_us, self.bytes_in, self.bytes_out = now_us, 0, 0
        return measured
