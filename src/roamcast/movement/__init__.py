"""Where a host is: simulated movement, recorded traces, and live sources of positions behind one interface (L4, S10).

    async with aclosing(positions(source("gpsd:localhost"), Cleaner(Earth()))) as found:
        async for fix in found:
            ...  # the newest position, or None while there is none

- Sources: `fix.py` is the interface (`Fix`, `Source`), `choosing.py` makes one from a line of text with
  `options.py`; `fixed.py`, `gpsd.py` with `gpsd_reports.py`, `recorded.py`, `walking.py`; `owntracks.py` reads its
  reports
- Using them: `clean.py` drops impossible fixes, `following.py` yields the newest, `dead_reckoning.py` says which are
  worth telling a broker, `waiting.py` explains why there is no position yet
- Models for the simulator: `legs.py` is the interface, `models.py` lists them; `waypoint.py`, `grid.py`, `road.py`,
  `streets.py`, `static.py`, and `traces.py`; `params.py` has what their parameters share
- `trace_formats.py`: GPX, SUMO floating-car data, CSV, BonnMotion
"""

from typing import TYPE_CHECKING

from roamcast.movement.clean import Cleaner, Limits, Reason
from roamcast.movement.fix import BadSource, Fix, Source
from roamcast.movement.following import positions
from roamcast.on_demand import on_demand

if TYPE_CHECKING:
    from roamcast.movement.choosing import source

__all__ = ["BadSource", "Cleaner", "Fix", "Limits", "Reason", "Source", "positions", "source"]

__getattr__ = on_demand("roamcast.movement", {"choosing": ("source",)})
