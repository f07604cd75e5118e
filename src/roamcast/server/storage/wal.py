"""A look at SQLite's write-ahead log before SQLite reads it.

SQLite takes the first frame whose checksum is wrong for the end of the log, as it must: a transaction that was being
written when the power went looks like that. A bit that flips in a transaction that was finished long ago looks the
same, and everything from there on would be gone without a word. The two can be told apart: a transaction is synced
before the next one begins, so whatever stands before the last transaction in the file was safe, and must be whole.

A checksum is that of the frame before it, carried on over the words x of this one in pairs:

    s = s + x[i] + t;  t = t + x[i + 1] + s      (mod 2^32)

It is linear, so for pages of one size it is a constant times (s, t) plus a dot product with constant weights, which
numpy takes in a few microseconds where a loop would take a millisecond.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

import struct
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from roamcast.server.storage.errors import DamagedLog

HEADER = struct.Struct(">8I")
FRAME_HEADER = struct.Struct(">6I")
SUMMED_HEADER_BYTES = 8
"""The first two numbers of a frame's header are under its checksum, then comes the page."""
MAGIC = (0x377F0682, 0x377F0683)
"""The second says that checksums are over big-endian words."""
MASK = 0xFFFF_FFFF

Words: TypeAlias = npt.NDArray[np.uint32]


def check_wal(file: Path) -> None:
    """Raises `DamagedLog` if something that was safe is damaged. What SQLite will leave out rightly is no damage."""
    if not file.exists() or file.stat().st_size < HEADER.size + FRAME_HEADER.size:
        return
    with file.open("rb") as wal:
        header = wal.read(HEADER.size)
        numbers = HEADER.unpack(header)
        magic, _, page_bytes, _, salt_1, salt_2, *begin = numbers
        order = ">" if magic == MAGIC[1] else "<"
        # The header is synced before the first frame is written, so a file with frames has a whole one.
        if magic not in MAGIC or Sums(6).over((0, 0), np.frombuffer(header[:24], f"{order}u4")) != tuple(begin):
            raise DamagedLog(file, "the header of the write-ahead log is damaged")
        sums = Sums((SUMMED_HEADER_BYTES + page_bytes) // 4)
        so_far = (begin[0], begin[1])
        whole, number, committed, safe = 0, 0, 0, 0
        while len(frame := wal.read(FRAME_HEADER.size + page_bytes)) == FRAME_HEADER.size + page_bytes:
            number += 1
            _, pages_after_commit, one, two, *wanted = FRAME_HEADER.unpack_from(frame)
            # Frames of an earlier use of the file have other salts.
            if (one, two) != (salt_1, salt_2):
                continue
            safe = committed
            committed = number if pages_after_commit else committed
            if whole == number - 1:
                summed = frame[:SUMMED_HEADER_BYTES] + frame[FRAME_HEADER.size :]
                so_far = sums.over(so_far, np.frombuffer(summed, f"{order}u4"))
                whole += so_far == tuple(wanted)
    if whole < safe:
        raise DamagedLog(file, f"page {whole + 1} of the write-ahead log is damaged, and {safe} were safe")


class Sums:
    """SQLite's checksum over runs of `words` words."""

    def __init__(self, words: int) -> None:
        weights = np.zeros((2, words), np.uint32)
        # Row by row: what s and t at the end take of s, and of t, before the pairs that are still to come.
        s_of, t_of = (1, 0), (0, 1)
        for pair in range(words - 2, -1, -2):
            # x[i] goes into s and through it into t; x[i + 1] into t alone.
            weights[:, pair] = (s_of[0] + s_of[1]) & MASK, (t_of[0] + t_of[1]) & MASK
            weights[:, pair + 1] = s_of[1], t_of[1]
            s_of = ((s_of[0] + s_of[1]) & MASK, (s_of[0] + 2 * s_of[1]) & MASK)
            t_of = ((t_of[0] + t_of[1]) & MASK, (t_of[0] + 2 * t_of[1]) & MASK)
        self._weights = weights
        self._s_of, self._t_of = s_of, t_of

    def over(self, so_far: tuple[int, int], words: Words) -> tuple[int, int]:
        s, t = so_far
        added_s, added_t = (int(np.sum(row * words, dtype=np.uint32)) for row in self._weights)
        return (
            (self._s_of[0] * s + self._s_of[1] * t + added_s) & MASK,
            (self._t_of[0] * s + self._t_of[1] * t + added_t) & MASK,
        )
