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
        assert given_out is None or given_out == BATCHES
        found += given_out is None
        shutil.rmtree(damaged)
    assert found > FLIPS / 10


def test_l8_a_transaction_that_was_never_safe_may_be_missing(tmp_path: Path) -> None:
    """As a crash leaves it: the last transaction is cut off, and its number was not written."""
    crashed(tmp_path, checkpointed=False)
    wal, high_water = tmp_path / "crashed" / "log.sqlite-wal", tmp_path / "crashed" / "high-water"
    wal.write_bytes(wal.read_bytes()[:-100])
    high_water.write_bytes(b"%020d\n" % (len(BATCHES) - 1))
    assert outcome(tmp_path / "crashed") == BATCHES[:-1]


@pytest.mark.parametrize("kept", [None, 0, 0.5, 0.99])
@pytest.mark.parametrize("checkpointed", [True, False])
def test_l8_a_write_ahead_log_that_was_removed_or_cut_off_is_noticed(
    tmp_path: Path, kept: float | None, checkpointed: bool
) -> None:
    crashed(tmp_path, checkpointed)
    wal = tmp_path / "crashed" / "log.sqlite-wal"
    if kept is None:
        wal.unlink()
    else:
        wal.write_bytes(wal.read_bytes()[: round(kept * wal.stat().st_size)])
    with pytest.raises(DamagedLog, match=r"were safe: its write-ahead log was removed or cut off.*high-water"):
        Log.open(tmp_path / "crashed")


def test_a_log_that_is_whole_may_lack_its_high_water_mark(tmp_path: Path) -> None:
    crashed(tmp_path, checkpointed=True)
    (tmp_path / "crashed" / "high-water").unlink()
    assert outcome(tmp_path / "crashed") == BATCHES


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
