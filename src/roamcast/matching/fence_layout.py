"""What the columns of fences look like in memory.

A *row* is a fence's region, as the space counts: of a circle its centre and radius, of a box its edges; of a polygon
where its corners lie. `rule` is a number of a `FenceRule`, which fences share. A *slot* is what the grid must know.
"""

import numpy as np

CIRCLE_FENCE, BOX, POLYGON = 0, 1, 2

ROW = np.dtype(
    [
        ("a", "f8"),
        ("b", "f8"),
        ("c", "f8"),
        ("d", "f8"),
        ("rule", "i4"),
        ("corners", "i4"),
        ("count", "i4"),
        ("kind", "i4"),
    ]
)
WAY_NUMBERS = 8
"""How many halves of eight bytes come before `rule`."""

FENCE_SLOT = np.dtype([("expires_us", "i8"), ("entry", "i4"), ("group", "i4"), ("clause", "i4"), ("profile", "i4")])
"""Those fields of `layout.SLOT` that the grid (`pool.py`) reads and writes."""

LOOSE_M = 0.01
"""How much farther is looked than a way reaches: far more than coordinates within 10⁹ m are rounded by."""
WIDE_DEGREES = 90.0
"""On Earth what is wider is in no cells, nor what comes near a pole."""
POLEWARD_DEGREES = 85.0
