"""What a broker can go on from: stored state of this version or of one before, made with settings of the same kind.

A snapshot begins with a line that says its version, so that one of another is known as such before it is read. What
leads from one version to the next is in `upgrades.py`, for the last two at least where they were released. Of the
settings for protocols, bounds may differ from one start to the next; how brokers route and hand clients over is in
everything that is stored, and stays. Nothing here writes: what is refused is left as it is.
"""

import pickle
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from roamcast.broker.mqtt.upgrades import reaches
from roamcast.broker.params import BOUNDS, BrokerParams

STATE_VERSION = 17
MAGIC = b"roamcast state "
LINE_BYTES_MAX = 64
FREE = (*BOUNDS, "logical.movement", "logical.residence_s", "mesh.movement")
"""Keys below `protocol` that may change."""
NEXT_BROKERS = "ahead.next_brokers"
TO_A_PEER = "when a broker stops, its sessions go to a peer that is up and has `clients`"
OTHER_VERSION = (
    "Nothing was changed. Start it with the roamcast that wrote it; to go on with this one, give it an empty data "
    f"directory after the other has stopped ({TO_A_PEER})"
)


class BadState(ValueError):
    """What was stored is not what this broker can go on from; the message says why, and what to do."""

    def __init__(self, why: str, remedy: str = OTHER_VERSION) -> None:
        super().__init__(f"{why}. {remedy}")


def dumped(state: object) -> bytes:
    return MAGIC + b"%d\n" % STATE_VERSION + pickle.dumps(state, protocol=5)


def version_of(data: bytes) -> str:
    """Empty if it is no state."""
    first, line, _ = data[:LINE_BYTES_MAX].partition(b"\n")
    return first.removeprefix(MAGIC).decode(errors="replace") if line and first.startswith(MAGIC) else ""


def is_current(data: bytes) -> bool:
    return version_of(data) == str(STATE_VERSION)


def loaded(data: bytes) -> tuple[object, int]:
    """With its version; raises `BadState`. The bytes are this broker's own, from a directory that is its own."""
    version = version_of(data)
    if not version.isdecimal() or not reaches(int(version), STATE_VERSION):
        said = f"of version {version[:20]}" if version else "of a version before 3, or no state"
        oldest = min(each for each in range(STATE_VERSION + 1) if reaches(each, STATE_VERSION))
        raise BadState(f"the stored state is {said}; this broker reads {oldest} to {STATE_VERSION}")
    state = data.partition(b"\n")[2]
    try:
        return pickle.loads(state), int(version)
    except Exception as problem:
        raise BadState(f"the stored state cannot be read: {problem}") from problem


def check_same_kind(before: BrokerParams, after: BrokerParams) -> None:
    """Raises `BadState` that names the first setting which cannot change, and both values."""
    for key, known, given in differing(before, after):
        # Other brokers may come next; whether any do is in the state itself.
        if key not in FREE and not (key == NEXT_BROKERS and known and given):
            raise BadState(
                f"protocol.{key}: the data was made with {told(known)}, and the settings say {told(given)}",
                f"Give {told(known)} again, or another data directory ({TO_A_PEER})",
            )


def differing(before: object, after: object, key: str = "") -> Iterator[tuple[str, object, object]]:
    if isinstance(before, Struct) and isinstance(after, Struct) and type(before) is type(after):
        for name in before.__struct_fields__:
            inner = f"{key}.{name}" if key else name
            yield from differing(getattr(before, name), getattr(after, name), inner)
    elif before != after:
        yield key, before, after


def told(value: object) -> str:
    return msgspec.json.encode(value).decode()
