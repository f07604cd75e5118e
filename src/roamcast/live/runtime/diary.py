"""The journal of a live host: written by a thread of its own, some time after the fact.

The loop only appends to a list.
"""

import threading
import zlib
from pathlib import Path

from roamcast.journal.records import Noted, Record, Run, UnwritableRecord
from roamcast.journal.writer import Journal

FLUSH_S = 2.0
WAITING_RECORDS_MAX = 1_000_000
OPENINGS_PER_MS = 1_000_000


def opening_of(run: Run) -> int:
    """A client that roams has records of several brokers, who must not give them the same numbers: so an opening is
    numbered by when it was, to the millisecond, and by whose it is."""
    whose = zlib.crc32(run.host.encode()) % OPENINGS_PER_MS
    return run.at_us // 1_000 * OPENINGS_PER_MS + whose


class Diary:
    """A journal that a thread writes. `record` is for the loop."""

    def __init__(self, directory: Path, run: Run) -> None:
        self._journal = Journal(directory, run, incarnation=opening_of(run))
        self._waiting: list[Record] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.lost = 0
        """Records that found no room: the disk is too slow."""
        self.problem: Exception | None = None
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()

    def record(self, record: Record) -> None:
        with self._lock:
            if len(self._waiting) < WAITING_RECORDS_MAX:
                self._waiting.append(record)
            else:
                self.lost += 1

    def flush(self) -> None:
        """The thread does so by itself."""

    def _write(self) -> None:
        stopping = False
        while not stopping and self.problem is None:
            stopping = self._stop.wait(FLUSH_S)
            with self._lock:
                records, self._waiting = self._waiting, []
            try:
                for record in records:
                    self._write_one(record)
                self._journal.flush()
            except Exception as problem:
                self.problem = problem

    def _write_one(self, record: Record) -> None:
        """What a client asks for must not stop the journal, even if it cannot be written."""
        try:
            self._journal.record(record)
        except UnwritableRecord as problem:
            self._journal.record(Noted(record.host, record.at_us, "unwritable_record", str(problem)))

    def end(self, at_us: int) -> None:
        """Stopped in order: the journal says so."""
        self._stop.set()
        self._thread.join()
        if self.problem is None:
            self._journal.end(at_us)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        if self.problem is None:
            self._journal.close()
