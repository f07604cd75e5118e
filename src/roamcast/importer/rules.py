"""The rules by which fixes become movement; every number has an option of `roamcast import`."""

import math
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from roamcast.importer.fixes import BadImport
from roamcast.movement.clean import Limits

GAP_US = 60_000_000
NEAR_M = 200.0

VelocityRule: TypeAlias = Literal["between", "told", "none"]
"""From the next fix; as the data say; not at all."""


class InGaps(StrEnum):
    """What a host does while nothing is heard of it; `tracks` says what each means."""

    NEAR = "near"
    REST = "rest"
    GONE = "gone"
    UNKNOWN = "unknown"


class Rules(Struct, frozen=True):
    limits: Limits = Limits(gap_us=GAP_US)
    in_gaps: InGaps = InGaps.NEAR
    near_m: float = NEAR_M
    velocity: VelocityRule = "between"

    def __post_init__(self) -> None:
        if not 0 < self.near_m < math.inf:
            raise BadImport(f"--near is {self.near_m:g}; give metres above 0")


def limits_of(gap_s: float, speed_mps_max: float, accuracy_m_max: float) -> Limits:
    for option, value in (("--gap", gap_s), ("--speed-max", speed_mps_max), ("--accuracy-max", accuracy_m_max)):
        if not 0 < value < math.inf:
            raise BadImport(f"{option} is {value:g}; give a finite number above 0")
    return Limits(gap_us=round(gap_s * 1e6), speed_mps_max=speed_mps_max, accuracy_m_max=accuracy_m_max)
