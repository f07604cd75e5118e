"""The matching engine: one event, or a batch, against a million subscriptions whose subscribers move.

`Engine` (`engine.py`) gives the same answers as `model.match`, which is its specification. Columns in memory and a
kernel compiled by numba decide what they can; the model decides the rest. `FenceIndex` (`fences.py`) does the same
for fences: it finds those a move can concern.

- Subscriptions: `demands.py` splits one into conditions on columns and a rest for the model, `clauses.py` stores the
  conditions, `topics.py` the subjects, `slots.py` the record of each; `names.py` and `registry.py` number them
- Places: `pool.py` (grids of cells), `hosts.py` (who is where), `metric.py` (metres in which distance is straight)
- Searching: `batch.py` and `columns.py` (events as arrays), `kernel.py` (numba), `compiled.py` (loads it on first
  use), `finding.py` and `judge.py` (from candidates to `Matches`)
- What Python and the kernel share in memory: `layout.py`, `table.py`
- Fences: `fences.py`, `anchored_fences.py` (those that move), `fence_kernel.py`, `fence_layout.py`
"""

from roamcast.matching.engine import Engine
from roamcast.matching.finding import Matches

__all__ = ["Engine", "Matches"]
