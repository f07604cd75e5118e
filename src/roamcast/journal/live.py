"""The journal of a live host: the event loop appends to columns, and a thread writes the segments.

Memory is bounded: while the disk is too slow for `WAITING_SEGMENTS_MAX` segments, further rows are dropped and
counted, and a note in the journal says how many. Sequence numbers have no gap for that.
"""

import asyncio
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

from roamcast.journal.columns import Columns, Prepared
from roamcast.journal.layout import Segment
from roamcast.journal.records import BadJournal, Noted, Run
from roamcast.journal.writer import SEGMENT_ROWS_MAX, Journal

FLUSH_S = 2.0
WAITING_SEGMENTS_MAX = 7
OPENINGS_PER_MS = 1_000_000
RECORDS_DROPPED = "records_dropped"


def opening_of(run: Run) -> int:
    """A client that roams has records of several brokers, who must not give them the same numbers: so an opening is
    numbered by when it was, to the millisecond, and by whose it is."""
    whose = zlib.crc32(run.host.encode()) % OPENINGS_PER_MS
    return run.at_us // 1_000 * OPENINGS_PER_MS + whose


class LiveJournal(Journal):
    """On a running loop. Raises `BadJournal` for a directory that cannot be one."""

    shared = True

    def __init__(self, directory: Path, run: Run, *, segment_rows_max: int = SEGMENT_ROWS_MAX) -> None:
        self.problem: Exception | None = None
        """Why nothing is written any more."""
        self._thread: threading.Thread | None = None
        self._noted = 0
        """Dropped rows that a note tells of."""
        try:
            super().__init__(directory, run, incarnation=opening_of(run), segment_rows_max=segment_rows_max)
        except OSError as problem:
            raise BadJournal(f"{directory}: cannot be a journal's directory: {problem.strerror}") from problem
        self._waiting: SimpleQueue[tuple[Segment, Sequence[Columns | Prepared]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_waiting, name="journal", daemon=True)
        self._thread.start()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(FLUSH_S, self._flush_in_time)

    def _flush_in_time(self) -> None:
        self._timer = self._loop.call_later(FLUSH_S, self._flush_in_time)
        self.flush()

    def _takes(self, at_us: int, rows: int) -> bool:
        takes = super()._takes(at_us, rows)
        if takes and self.dropped > self._noted:
            dropped, self._noted = self.dropped - self._noted, self.dropped
            self.record(Noted(self.host, at_us, RECORDS_DROPPED, str(dropped)))
        return takes

    def _write(self, filled: Sequence[Columns | Prepared]) -> None:
        if self._thread is None:
            super()._write(filled)
        elif self.problem is None and self._waiting.qsize() < WAITING_SEGMENTS_MAX:
            self._waiting.put((self._segment(), filled))
            self._begin_segment(filled)

    def _write_waiting(self) -> None:
        """The thread's work."""
        while (each := self._waiting.get()) is not None:
            if self.problem is None:
                try:
                    self._write_files(*each)
                except Exception as problem:
                    self.problem = problem

    def close(self) -> None:
        """Waits for the disk: the loop has nothing else left to do."""
        self._finish_waiting()
        if self.problem is None:
            super().close()

    def end(self, at_us: int) -> None:
        self._finish_waiting()
        if self.problem is None:
            super().end(at_us)

    def _finish_waiting(self) -> None:
        if self._thread is not None:
            self._timer.cancel()
            self._waiting.put(None)
            self._thread.join()
            self._thread = None
