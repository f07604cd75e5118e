"""A mesh of brokers, one in each grid cell, that forwards events to where a client will be (M).

- `grid.py`: cells, the broker of each, and the tree for subscriptions; `geographic.py` routes around broken brokers
- `prediction.py`: mobility status and Algorithm 1, which chooses the broker to forward to
- `handover.py`: `MeshHandover`, exactly-once delivery while the client changes brokers; `presets.py` chooses among
  `predictive.py` and the baselines `probing.py` and `batch.py`
- `client.py`: `MeshClient`; `identity.py`: event ids; `params.py`: settings
"""
