"""From a reader's batches to checked fixes: what is no fix is dropped, and counted by why."""

from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.importer.attributes import HostAttributes
from roamcast.importer.fixes import FIX, BadImport, FixRows
from roamcast.importer.times import RELATIVE_MAX_US
from roamcast.model.filter.mask import Flags, Floats
from roamcast.model.space import Earth, Plane
from roamcast.movement.clean import Limits
from roamcast.movement.params import COORDINATE_MAX_M

LATEST_US = 4_102_444_800_000_000
"""The year 2100: a clock that says later is wrong."""


class Drop(StrEnum):
    """Why a row of the data is not in the journal."""

    NO_HOST = "no_host"
    NO_TIME = "no_time"
    NO_POSITION = "no_position"
    OUT_OF_RANGE = "out_of_range"
    NULL_ISLAND = "null_island"
    VAGUE = "vague"
    BAD_CLOCK = "bad_clock"
    REPEATED = "repeated"
    OUTLIER = "outlier"


class Intake:
    def __init__(self, space: Plane | Earth, limits: Limits) -> None:
        self.hosts: list[str] = []
        """By number."""
        self.attributes = HostAttributes()
        self.drops: dict[Drop, int] = dict.fromkeys(Drop, 0)
        self._space = space
        self._limits = limits
        self._numbers: dict[str, int] = {}

    def take(self, batch: Any, where: str) -> FixRows:
        """The fixes of a batch, in its order; `where` names the file in errors."""
        fixes = np.empty(batch.num_rows, FIX)
        fixes["host"] = self._host_numbers(batch["host"])
        fixes["attributes"] = self.attributes.numbers_of(batch, where)
        times = batch["at_us"]
        fixes["at_us"] = pc.fill_null(times, 0).to_numpy(zero_copy_only=False)
        x, y = (floats(batch[name]) for name in ("x", "y"))
        fixes["x"], fixes["y"] = x, y
        speed, heading = floats(batch["speed_mps"]), np.radians(floats(batch["heading_deg"]))
        with np.errstate(invalid="ignore"):
            sane = (speed >= 0) & (speed <= self._limits.speed_mps_max)
            fixes["east_mps"] = np.where(sane, speed * np.sin(heading), np.nan)
            fixes["north_mps"] = np.where(sane, speed * np.cos(heading), np.nan)
            return fixes[self._kept(fixes, times, floats(batch["accuracy_m"]), where)]

    def without_bad_clocks(self, fixes: FixRows, *, absolute: bool) -> FixRows:
        """Where times are times of day, receivers that believe it is 1970 or 2137 are not believed."""
        if not absolute:
            return fixes
        good = (fixes["at_us"] >= RELATIVE_MAX_US) & (fixes["at_us"] < LATEST_US)
        self.drops[Drop.BAD_CLOCK] += len(good) - int(np.count_nonzero(good))
        return fixes if good.all() else fixes[good]

    def _kept(self, fixes: FixRows, times: Any, accuracy_m: Floats, where: str) -> Flags:
        x, y = fixes["x"], fixes["y"]
        known = np.isfinite(x) & np.isfinite(y)
        kept = np.ones(len(fixes), np.bool_)
        for reason, bad in (
            (Drop.NO_HOST, fixes["host"] < 0),
            (Drop.NO_TIME, pc.is_null(times).to_numpy(zero_copy_only=False)),
            (Drop.NO_POSITION, ~known),
            (Drop.OUT_OF_RANGE, self._outside(x, y, known, where)),
            (Drop.NULL_ISLAND, isinstance(self._space, Earth) & (x == 0) & (y == 0)),
            (Drop.VAGUE, (accuracy_m < 0) | (accuracy_m > self._limits.accuracy_m_max)),
        ):
            self.drops[reason] += int(np.count_nonzero(bad & kept))
            kept &= ~bad
        return kept

    def _outside(self, x: Floats, y: Floats, known: Flags, where: str) -> Flags:
        if isinstance(self._space, Plane):
            return known & (np.maximum(np.abs(x), np.abs(y)) > COORDINATE_MAX_M)
        beyond = known & (np.abs(y) > 90)
        outside = beyond | (known & (np.abs(x) > 180))
        if 2 * np.count_nonzero(outside) > np.count_nonzero(known):
            example = int(np.flatnonzero(outside)[0])
            seen = f"{where}: longitude {x[example]:g}, latitude {y[example]:g} is no place on Earth"
            if 2 * np.count_nonzero(beyond & (np.abs(x) <= 90)) > np.count_nonzero(known):
                raise BadImport(f"{seen}; longitude and latitude seem to be swapped: exchange --lon and --lat")
            raise BadImport(f"{seen}; if these are metres, name the columns with --x and --y")
        return outside

    def _host_numbers(self, hosts: Any) -> Any:
        """-1 for a host without a name."""
        encoded = hosts if pa.types.is_dictionary(hosts.type) else hosts.dictionary_encode()
        numbers = [self._number_of(name) for name in encoded.dictionary.cast(pa.string()).to_pylist()]
        by_index = np.array([*numbers, -1], np.int32)
        return by_index[pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)]

    def _number_of(self, name: str | None) -> int:
        if not name or not name.strip():
            return -1
        number = self._numbers.setdefault(name, len(self.hosts))
        if number == len(self.hosts):
            self.hosts.append(name)
        return number


def floats(column: Any) -> Floats:
    """Nulls are not numbers."""
    found: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return found
