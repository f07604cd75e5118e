"""L6: what a broker needs only for some of its clients is not loaded before one of them comes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
STARTED = """
import asyncio, sys
from roamcast.server.running import RunningBroker
from roamcast.server.settings import settings_from

async def main() -> None:
    listener = {"host": "127.0.0.1", "port": 0}
    broker = RunningBroker(settings_from({"name": "b", "data": sys.argv[1], "listeners": [listener]}))
    await broker.start()
    print(*{name.partition(".")[0] for name in sys.modules})
    await broker.stop()

asyncio.run(main())
"""


def test_a_started_broker_has_not_loaded_large_libraries(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTED, str(tmp_path / "data")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "msgspec" in loaded
    assert {"numba", "pandas", "pyarrow", "scipy", "shapely", "wasmtime"} & set(loaded) == set()
