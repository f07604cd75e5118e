"""The matching engine: one event, or a batch, against a million subscriptions whose subscribers move.

`Engine` (`engine.py`) gives the same answers as `model.match`, which is its specification. Columns in memory and a
kernel compiled by numba decide what they can; the model decides the rest. `FenceIndex` (`fences.py`) does the same
for fences: it finds those a move can concern.

- What a subscription needs: `demands.py`, `clauses.py`, `topics.py`, `names.py`
- Where entries lie: `pool.py` (grids of cells), `hosts.py`, `slots.py`, `layout.py`, `table.py`, `registry.py`,
  `metric.py`
- Searching: `batch.py` and `columns.py` (events as arrays), `kernel.py` and `compiled.py` (numba), `finding.py` and
  `judge.py` (candidates to `Matches`)
- Fences: `fences.py`, `fence_kernel.py`, `fence_layout.py`
"""

from roamcast.matching.engine import Engine
from roamcast.matching.finding import Matches

__all__ = ["Engine", "Matches"]
