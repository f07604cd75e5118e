"""Any number of fixes in order of time, with memory for a few million: sorted runs on disk, merged range by range.

Fixes come in any order. As many as fit are sorted by time and written as one *run*; of each run some times are kept
as a sample. When all are in, quantiles of the samples divide time into ranges of about equal numbers, and each range
is gathered from all runs by binary search. Only what was never spilled stays in memory.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from roamcast.importer.fixes import FIX, FixRows

RUN_ROWS = 2_000_000
RANGE_ROWS = 1_000_000
SAMPLE_EVERY = 512
SAMPLE_FROM_ROWS = 100_000
"""Fewer rows are their own sample."""


class TimeSorted:
    def __init__(self, directory: Path, *, run_rows: int = RUN_ROWS, range_rows: int = RANGE_ROWS) -> None:
        """`directory` is there already, and whoever made it removes it."""
        self._directory = directory
        self._run_rows, self._range_rows = run_rows, range_rows
        self._waiting: list[FixRows] = []
        self._waiting_rows = 0
        self._runs: list[FixRows] = []
        self.rows = 0

    def add(self, fixes: FixRows) -> None:
        self._waiting.append(fixes)
        self._waiting_rows += len(fixes)
        self.rows += len(fixes)
        if self._waiting_rows >= self._run_rows:
            self._spill()

    def first_us(self, not_before_us: int) -> int:
        """The earliest time of all fixes from that time on, of which there must be one."""
        self._close()
        places = [(run["at_us"], int(np.searchsorted(run["at_us"], not_before_us))) for run in self._runs]
        return min(int(times[place]) for times, place in places if place < len(times))

    @property
    def median_us(self) -> int:
        self._close()
        return int(np.median(self._sample()))

    def ranges(self) -> Iterator[FixRows]:
        """The fixes of one stretch of time after the other; equal times are never parted."""
        self._close()
        if not self._runs:
            return
        count = -(-self.rows // self._range_rows)
        inner = np.quantile(self._sample(), np.arange(1, count) / count, method="nearest")
        cuts = [self._cuts(run, np.unique(inner)) for run in self._runs]
        for number in range(len(cuts[0]) - 1):
            pieces = [run[cut[number] : cut[number + 1]] for run, cut in zip(self._runs, cuts, strict=True)]
            yield np.concatenate(pieces)

    def _cuts(self, run: FixRows, inner: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[int]:
        return [0, *np.searchsorted(run["at_us"], inner).tolist(), len(run)]

    def _sample(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        every = SAMPLE_EVERY if self.rows > SAMPLE_FROM_ROWS else 1
        return np.concatenate([run["at_us"][::every] for run in self._runs])

    def _spill(self) -> None:
        path = self._directory / f"run-{len(self._runs):06d}"
        self._sorted().tofile(path)
        self._runs.append(np.memmap(path, FIX, "r"))

    def _close(self) -> None:
        if self._waiting_rows:
            self._runs.append(self._sorted())

    def _sorted(self) -> FixRows:
        run = np.concatenate(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        times = run["at_us"]
        if len(run) and (times[1:] < times[:-1]).any():
            run = run[np.argsort(times, kind="stable")]
        return run
