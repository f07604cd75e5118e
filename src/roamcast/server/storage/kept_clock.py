"""The anchor of a broker's clock, in a file beside its log.

A restart within one start of the machine goes on with the same anchor, so what is due after an hour is due after an
hour, also if the system clock was set while the broker was stopped. Once the machine has started anew there is
nothing better than the system clock; the moment in the log that is latest is a lower bound.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from roamcast.clock import SteadyClock

FILE = "clock"


class Anchor(Struct, frozen=True):
    boot_id: str
    anchor_us: int


def kept_clock(directory: Path, boot_id: str) -> SteadyClock:
    try:
        known = msgspec.json.decode((directory / FILE).read_bytes(), type=Anchor)
    except (OSError, msgspec.MsgspecError):
        return SteadyClock()
    return SteadyClock(known.anchor_us if boot_id and known.boot_id == boot_id else None)


def keep_clock(directory: Path, boot_id: str, clock: SteadyClock) -> None:
    """Not synced: a power cut starts the machine anew, and then it has no use."""
    part = directory / f"{FILE}.part"
    part.write_bytes(msgspec.json.encode(Anchor(boot_id, clock.anchor_us)))
    part.replace(directory / FILE)
