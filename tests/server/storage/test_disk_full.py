"""L8: a disk that is full refuses what it cannot hold, keeps what it has, and works again when there is room."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roamcast.server.storage import Log, StorageFull, StorageSettings

NO_QUOTA = StorageSettings(bytes_max=1 << 40, free_bytes_min=0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a small disk; the limit on file sizes is tested in any case")
    yield mount
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


def fill(log: Log) -> list[bytes]:
    batches = [b"%d " % number + b"x" * 20_000 for number in range(1_000)]
    for number, batch in enumerate(batches):
        try:
            log.append(batch)
        except StorageFull:
            return batches[:number]
    return batches


def test_l8_a_full_disk_keeps_what_was_safe_and_takes_more_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"b" * 400_000)
    log = Log.open(small_disk / "data", NO_QUOTA)
    stored = fill(log)
    assert 0 < len(stored) < 50
    with pytest.raises(StorageFull, match="not written"):
        log.append(b"x" * 300_000)
    assert list(log.load().batches) == stored
    ballast.unlink()
    log.append(b"after")
    log.close()
    log = Log.open(small_disk / "data", NO_QUOTA)
    assert list(log.load().batches) == [*stored, b"after"]
    log.close()


LIMITED = """
import resource, signal, sys
from pathlib import Path
from roamcast.server.storage import Log, StorageSettings, StorageFull
log = Log.open(Path(sys.argv[1]), StorageSettings(free_bytes_min=0))
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
stored = 0
try:
    while stored < 1_000:
        log.append(b"%d " % stored + b"x" * 20_000)
        stored += 1
except StorageFull as problem:
    assert "not written" in str(problem), problem
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append(b"after")
print(stored)
"""


def test_l8_an_error_of_the_disk_is_storage_full_and_passes_with_its_cause(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    stored = int(run.stdout)
    assert 0 < stored < 1_000
    log = Log.open(tmp_path / "data")
    batches = list(log.load().batches)
    assert [batch.partition(b" ")[0] for batch in batches] == [
        *(b"%d" % number for number in range(stored)),
        b"after",
    ]
    log.close()
