"""All that is decided without Python about a subscription, by its slot; `layout.SLOT` says what stands there."""

from typing import Any

import numpy as np

from roamcast.matching.layout import SLOT, Records, enlarged


class Slots:
    def __init__(self) -> None:
        self.rows: Records = np.zeros(16, SLOT)
        self.issued_us_max = -(2**62)
        """Of all that there ever were: from then on nobody waits for the time that it asked at."""

    def write(self, slot: int, row: tuple[Any, ...]) -> None:
        """In the order of the fields, the time that it is issued at first."""
        self.rows = enlarged(self.rows, slot + 1)
        self.rows[slot] = row
        self.issued_us_max = max(self.issued_us_max, row[0])
