"""The oracle (P2): what an ideal system delivers, from positions, contexts, events and subscriptions alone.

- `expected.py`: the Spark step; it deals buckets of time to tasks
- `judge.py`: judges one bucket (`bucket.py`); `looks.py` has the five conditions in numpy, `swift.py` and
  `kernel.py` compiled code for buckets with many events (`event_side.py` prepares them), `cells.py` and `boxes.py`
  limit who is looked at
- Columns: `attributes.py`, `scopes.py`, `subjects.py`, `tracks.py` (where everybody is at any time)
- `fences.py`: ideal transitions of fences
"""
