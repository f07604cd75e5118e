"""How fast a journal takes transmissions, the most frequent record: on the hot path alone, and with its segments."""

import tempfile
import time
from pathlib import Path

from roamcast.journal import Journal, Run, Transmitted
from roamcast.model.space import Plane

TAKES = "13 s"
RECORDS = 500_000
HOSTS = 200


def measured_s(segment_rows_max: int, *, with_close: bool) -> float:
    """Seconds for `RECORDS` transmissions, from making the record to its being in the journal."""
    hosts = [f"host-{number}" for number in range(HOSTS)]
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory), Run("bench", 0, Plane(), seed=1), segment_rows_max=segment_rows_max)
        record = journal.record
        started = time.perf_counter()
        for number in range(RECORDS):
            record(Transmitted(hosts[number % HOSTS], number * 100, "beacon", 64 + number % 32, None, None))
        if with_close:
            journal.close()
        return time.perf_counter() - started


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    for what, rows_max, with_close in (
        ("buffered only", RECORDS + 1, False),
        ("with segments", 131_072, True),
    ):
        seconds = min(measured_s(rows_max, with_close=with_close) for _ in range(3))
        print(f"transmissions, {what}: {RECORDS / seconds:,.0f} records/s, {seconds / RECORDS * 1e6:.2f} µs each")
        figures[f"us_per_transmission_{what.replace(' ', '_')}"] = seconds / RECORDS * 1e6
    return figures


if __name__ == "__main__":
    main()
