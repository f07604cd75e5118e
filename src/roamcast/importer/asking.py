"""The options of `roamcast import`, checked; each error names its option."""

from datetime import datetime
from typing import Any, TypeVar, get_args

from msgspec import Struct

from roamcast.importer.fixes import BadImport, Columns, Reading, SpeedUnit, Times, TimeUnit
from roamcast.importer.rules import InGaps, Rules, VelocityRule, limits_of
from roamcast.importer.sources import FORMATS, Format

Word = TypeVar("Word", bound=str)


class Asked(Struct, frozen=True, kw_only=True):
    columns: dict[str, str]
    format: str = ""
    host_name: str = ""
    names: str = ""
    attributes: tuple[str, ...] = ()
    """As `name=column`, or a name that is both."""
    skip_lines: int = 0
    time_unit: str = "auto"
    time_format: str = ""
    timezone: str = ""
    start: str = ""
    speed_unit: str = "mps"
    degrees: bool = False
    gap_s: float = 60.0
    in_gaps: str = "near"
    near_m: float = 200.0
    velocity: str = "between"
    speed_mps_max: float = 100.0
    accuracy_m_max: float = 200.0

    def known_format(self) -> Format | None:
        return chosen("--format", self.format, FORMATS) if self.format else None

    def reading(self) -> Reading:
        """Raises `BadImport`."""
        unit: TimeUnit = chosen("--time-unit", self.time_unit, get_args(TimeUnit))
        speed_unit: SpeedUnit = chosen("--speed-unit", self.speed_unit, get_args(SpeedUnit))
        return Reading(
            columns=Columns(**self.columns),
            times=Times(unit, self.time_format, self.timezone, self._start_us()),
            host_name=self.host_name,
            names=tuple(name.strip() for name in self.names.split(",")) if self.names else (),
            skip_lines=self.skip_lines,
            attributes=dict(attribute_of(each) for each in self.attributes),
            speed_unit=speed_unit,
            geographic=self.degrees,
        )

    def rules(self) -> Rules:
        """Raises `BadImport`."""
        velocity: VelocityRule = chosen("--velocity", self.velocity, get_args(VelocityRule))
        in_gaps = InGaps(chosen("--in-gaps", self.in_gaps, tuple(each.value for each in InGaps)))
        limits = limits_of(self.gap_s, self.speed_mps_max, self.accuracy_m_max)
        return Rules(limits, in_gaps, self.near_m, velocity)

    def _start_us(self) -> int:
        if not self.start:
            return 0
        try:
            start = datetime.fromisoformat(self.start)
        except ValueError:
            raise BadImport(f"--start '{self.start}': give an ISO 8601 time, as 2026-03-01T08:00:00+01:00") from None
        if start.tzinfo is None:
            raise BadImport(f"--start '{self.start}' does not say its time zone; end it with Z or +01:00")
        return round(start.timestamp() * 1e6)


def attribute_of(given: str) -> tuple[str, str]:
    name, _, column = given.partition("=")
    if not name.isidentifier():
        raise BadImport(
            f"--attribute '{given}': '{name}' is not a valid attribute name; give NAME=COLUMN, as kind='Type'"
        )
    return name, column or name


def chosen(option: str, given: str, possible: tuple[Word, ...]) -> Any:
    if given not in possible:
        raise BadImport(f"{option} '{given}' is not known; give one of {', '.join(possible)}")
    return given
