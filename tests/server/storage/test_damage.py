"""L8: whatever byte flips on disk, the log says so or gives back what was appended; never anything else."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.server.storage import DamagedLog, Log, StorageError
from roamcast.server.storage.wal import MASK, Sums
from tests.effort import examples

BATCHES = [b"batch %d " % number * (1 + number * 37 % 100) for number in range(60)]
FLIPS = 150


def crashed(directory: Path, checkpointed: bool) -> None:
    """The files of a broker that was killed: all in the write-ahead log, or half of it in the database already."""
    log = Log.open(directory / "running")
    for number, batch in enumerate(BATCHES):
        log.append(batch)
        if checkpointed and number == len(BATCHES) // 2:
            log._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    shutil.copytree(directory / "running", directory / "crashed")
    log.close()


def outcome(directory: Path) -> list[bytes] | None:
    """What the log gives back, or None if it says that it is damaged."""
    try:
        log = Log.open(directory)
    except StorageError:
        return None
    try:
        return list(log.load().batches)
    except DamagedLog:
        return None
    finally:
        log.close()


@pytest.mark.parametrize(("file", "checkpointed"), [("log.sqlite", True), ("log.sqlite-wal", False)])
def test_l8_a_flipped_bit_is_found_or_changes_nothing(tmp_path: Path, file: str, checkpointed: bool) -> None:
    """In the last transaction of the write-ahead log it looks like a broker that died while writing it."""
    seed = 7
    print(f"seed {seed}")
    rng = random.Random(seed)
    crashed(tmp_path, checkpointed)
    assert outcome(shutil.copytree(tmp_path / "crashed", tmp_path / "sound")) == BATCHES
    damaged = tmp_path / "damaged"
    found = 0
    for _ in range(FLIPS):
        shutil.copytree(tmp_path / "crashed", damaged)
        content = bytearray((damaged / file).read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        (damaged / file).write_bytes(content)
        given_out = outcome(damaged)
        assert given_out is None or given_out in (BATCHES, BATCHES[:-1])
        assert given_out != BATCHES[:-1] or file.endswith("-wal")
        found += given_out is None
        shutil.rmtree(damaged)
    assert found > FLIPS / 10


def test_l8_a_write_ahead_log_cut_off_in_its_last_transaction_is_what_a_crash_leaves(tmp_path: Path) -> None:
    crashed(tmp_path, checkpointed=False)
    wal = tmp_path / "crashed" / "log.sqlite-wal"
    wal.write_bytes(wal.read_bytes()[:-100])
    assert outcome(tmp_path / "crashed") == BATCHES[:-1]


def test_a_damaged_write_ahead_log_is_left_as_it_is(tmp_path: Path) -> None:
    crashed(tmp_path, checkpointed=False)
    wal = tmp_path / "crashed" / "log.sqlite-wal"
    content = bytearray(wal.read_bytes())
    content[len(content) // 2] ^= 1
    wal.write_bytes(content)
    assert outcome(tmp_path / "crashed") is None
    assert wal.read_bytes() == content
    assert outcome(tmp_path / "crashed") is None


@examples(100)
@given(
    st.lists(st.integers(0, MASK), min_size=2, max_size=40).filter(lambda words: len(words) % 2 == 0),
    st.tuples(st.integers(0, MASK), st.integers(0, MASK)),
)
def test_the_weighted_checksum_is_the_one_of_the_format(words: list[int], so_far: tuple[int, int]) -> None:
    s, t = so_far
    for even, odd in zip(words[::2], words[1::2], strict=True):
        s = (s + even + t) & MASK
        t = (t + odd + s) & MASK
    assert Sums(len(words)).over(so_far, np.array(words, np.uint32)) == (s, t)
