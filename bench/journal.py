"""How fast a journal takes transmissions, the most frequent record of a simulation, and deliveries, that of a broker.

CPU time in all. Transmissions: on the hot path alone, and with their segments. Deliveries: of the event loop's thread
for a row, and of the process with the thread that writes them.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from roamcast.journal import Journal, Run
from roamcast.journal.live import LiveJournal
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane

TAKES = "15 s"
RECORDS = 500_000
HOSTS = 200
EVENTS = 50_000
RECEIVERS = 9
ROUNDS = 3


def transmissions_s(segment_rows_max: int, *, with_close: bool) -> float:
    """Seconds for `RECORDS` of them."""
    hosts = [f"host-{number}" for number in range(HOSTS)]
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory), Run("bench", 0, Plane(), seed=1), segment_rows_max=segment_rows_max)
        started = time.process_time()
        for number in range(RECORDS):
            journal.transmitted(number * 100, hosts[number % HOSTS], "beacon", 64 + number % 32, None, None)
        if with_close:
            journal.close()
        return time.process_time() - started


async def deliveries_us() -> tuple[float, float]:
    """Of one row: of the loop's thread, and of the process."""
    hosts = [[f"client-{(number * 7 + place) % HOSTS}" for place in range(RECEIVERS)] for number in range(HOSTS)]
    names = [[f"{host}\0alerts" for host in each] for each in hosts]
    events = [Event(f"b.1.{number}", "alerts", Context("w"), number, number) for number in range(EVENTS)]
    with tempfile.TemporaryDirectory() as directory:
        journal = LiveJournal(Path(directory), Run("bench", 0, Plane()))
        thread_s, process_s = time.thread_time(), time.process_time()
        for number, event in enumerate(events):
            journal.fanned_out(number * 5_000, event, hosts[number % HOSTS], names[number % HOSTS])
        thread_s = time.thread_time() - thread_s
        await asyncio.to_thread(journal.end, EVENTS * 5_000)
        process_s = time.process_time() - process_s
        assert not journal.dropped
    rows = EVENTS * RECEIVERS
    return thread_s / rows * 1e6, process_s / rows * 1e6


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    for what, rows_max, with_close in (
        ("buffered only", RECORDS + 1, False),
        ("with segments", 131_072, True),
    ):
        seconds = min(transmissions_s(rows_max, with_close=with_close) for _ in range(ROUNDS))
        print(f"transmissions, {what}: {RECORDS / seconds:,.0f} records/s, {seconds / RECORDS * 1e6:.2f} µs each")
        figures[f"us_per_transmission_{what.replace(' ', '_')}"] = seconds / RECORDS * 1e6
    loop_us, process_us = map(min, zip(*(asyncio.run(deliveries_us()) for _ in range(ROUNDS)), strict=True))
    print(f"deliveries to {RECEIVERS}: {loop_us:.2f} µs of the loop, {process_us:.2f} µs of the process a row")
    figures["loop_us_per_delivery"], figures["process_us_per_delivery"] = loop_us, process_us
    return figures


if __name__ == "__main__":
    main()
