"""Bytes that were good once: cut, doubled, flipped, mixed with others, or with numbers in them that are too large."""

from collections.abc import Sequence
from random import Random

STRIKING = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x00",
    b"\xed\xa0\x80",
)
"""Values at the ends of their ranges, and a surrogate in UTF-8."""
GROWTH_BYTES_MAX = 2_000


def spoilt(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Nine of ten times in one to four places."""
    if rng.random() < 0.1:
        return data
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        _spoil(rng, changed, others)
    return bytes(changed)


def _spoil(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.randrange(1, 9))
    match rng.randrange(8):
        case 0 | 1 if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case 2 if at < len(data):
            data[at] = rng.randrange(256)
        case 3:
            data[at:end] = rng.choice(STRIKING)
        case 4:
            del data[at:end]
        case 5 if len(data) < GROWTH_BYTES_MAX:
            data[at:at] = data[at:end] * rng.randrange(1, 5)
        case 6:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        case 7:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            data[at:] = other[start : start + GROWTH_BYTES_MAX]
        case _:
            del data[at:]
