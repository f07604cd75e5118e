"""The record of each subscription that compiled code reads, by its slot; `layout.SLOT` has the fields."""

from typing import Any

import numpy as np

from roamcast.matching.layout import SLOT, Records, enlarged


class Slots:
    def __init__(self) -> None:
        self.rows: Records = np.zeros(16, SLOT)
        self.issued_us_max = -(2**62)
        """Of all that there ever were: from then on nobody waits for the time that it asked at. It never falls: one
        that is issued in the far future has all slots looked at until then."""

    def write(self, slot: int, issued_us: int, rest: tuple[Any, ...]) -> None:
        """In the order of the fields, of which the time that it is issued at is the first."""
        self.rows = enlarged(self.rows, slot + 1)
        self.rows[slot] = (issued_us, *rest)
        self.issued_us_max = max(self.issued_us_max, issued_us)
