"""L8: a broker that is killed in the middle has lost nothing of what it said was safe."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from roamcast.server.storage import Log
from tests.server.storage import writer

KILLS = 5
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_l8_everything_told_to_be_safe_is_there_after_sigkill_at_random_points(seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    directory = tmp_path / "data"
    count = 0
    for kill in range(1, KILLS + 1):
        command = [sys.executable, "-m", writer.__name__, str(directory), str(seed * 100 + kill)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(rng.randrange(1, 300))]
            process.kill()
            lines += process.stdout.readlines()
        told = [int(line) for line in lines if line.endswith(b"\n")]
        assert told == sorted(told)
        assert told[0] > count
        log = Log.open(directory)
        count = writer.count_in(log)
        assert count >= told[-1]
        assert log.life == kill + 1
        log.close()


def test_the_count_notices_a_missing_batch(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    log.append_all([writer.body_of(1), writer.body_of(3)])
    with pytest.raises(AssertionError, match="after 1 came b'3:"):
        writer.count_in(log)
    log.close()
