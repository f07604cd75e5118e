"""The oracle (P2): what an ideal system delivers, from positions, contexts, events and subscriptions alone.

- `expected.py`: the Spark step; it deals buckets of time to tasks
- `judge.py`: judges one bucket (`bucket.py`). Simple events, with a circle or box that stands still, are joined with
  tracks over a grid in compiled code (`event_side.py`, `grid_join.py`, `kernel.py`); `conditions.py` checks all five
  conditions of whatever is left in numpy. `cells.py` and `boxes.py` limit who is compared
- Columns: `attributes.py`, `scopes.py`, `subjects.py`, `tracks.py` (where everybody is at any time)
- `fences.py`: ideal transitions of fences
"""
