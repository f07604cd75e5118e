"""A column of times, in any of the forms that files have, as microseconds.

Numbers are told apart by their size unless a unit is given: between 1973 and 5138 the seconds, milliseconds,
microseconds and nanoseconds since 1970 have sizes that no other of them has. Smaller numbers are seconds since a
start. Text is ISO 8601 or of a given format. A time that does not say its zone needs one given: guessing would shift
every position by hours and nobody would see it.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.importer.fixes import BadImport, Times

RELATIVE_MAX_US = 100_000_000_000_000
"""Earlier than March 1973: no time of day, but a time since the start of something."""
US_PER_UNIT = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
SIZES = ((1e11, "s"), (1e14, "ms"), (1e17, "us"))
UNIT_OF_SUFFIX = {"_s": "s", "_ms": "ms", "_us": "us", "_ns": "ns"}
DOUBLE_DIGITS = 15
"""A longer integer is not exact as a double."""
ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")


class TimeColumn:
    """The times of one file: the unit is found in its first batch and holds for all of it."""

    def __init__(self, name: str, times: Times, where: str) -> None:
        self._name, self._times, self._where = name, times, where
        self._unit = self._unit_of_name() if times.unit == "auto" else times.unit

    def to_us(self, given: Any) -> Any:
        """An Arrow array of 64-bit microseconds since 1970, or since a start."""
        type_ = given.type
        if pa.types.is_dictionary(type_):
            given, type_ = given.cast(type_.value_type), type_.value_type
        if pa.types.is_timestamp(type_):
            found = self._of_timestamps(given)
        elif pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
            found = self._of_numbers(given)
        elif pa.types.is_string(type_) or pa.types.is_large_string(type_):
            found = self._of_text(given)
        else:
            raise self._bad(f"is {type_}, not a time; name another one with --time")
        return found if not self._times.start_us else pc.add(found, self._times.start_us)

    def _of_text(self, given: Any) -> Any:
        if self._times.format:
            return self._of_timestamps(self._parsed(given))
        for number in (pa.int64(), pa.float64()):
            try:
                return self._of_numbers(given.cast(number))
            except pa.ArrowInvalid:
                continue
        first = next((text.as_py() for text in given if text.is_valid), "")
        zoned = ZONE.search(first) and (":" in first or "T" in first)
        try:
            # Nanoseconds, because Arrow refuses more digits than the unit has.
            return self._of_timestamps(given.cast(pa.timestamp("ns", "UTC" if zoned else None)))
        except pa.ArrowInvalid as problem:
            raise self._bad(
                f"holds times like '{first:.40}', not all of them ISO 8601 ({problem}); "
                "give their form, for example --time-format '%d/%m/%Y %H:%M:%S'"
            ) from None

    def _parsed(self, given: Any) -> Any:
        try:
            return pc.strptime(given, format=self._times.format, unit="us")
        except pa.ArrowInvalid as problem:
            raise self._bad(f"is not of the form of --time-format '{self._times.format}' ({problem})") from None

    def _of_timestamps(self, given: Any) -> Any:
        if given.type.tz is None:
            if not self._times.timezone:
                raise self._bad("does not say its time zone; give it, for example --timezone UTC or Europe/Helsinki")
            try:
                given = pc.assume_timezone(given, self._times.timezone, ambiguous="earliest", nonexistent="latest")
            except pa.ArrowInvalid:
                raise BadImport(
                    f"--timezone '{self._times.timezone}' is not known; give one like UTC or Europe/Helsinki"
                ) from None
        return given.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())

    def _of_numbers(self, given: Any) -> Any:
        if not self._unit:
            self._unit = unit_by_size(given)
        factor = US_PER_UNIT[self._unit]
        if pa.types.is_integer(given.type):
            whole = given.cast(pa.int64())
            return pc.divide(whole, 1_000) if factor < 1 else pc.multiply(whole, int(factor))
        scaled = pc.round(pc.multiply(given.cast(pa.float64()), factor))
        finite = pc.is_finite(scaled)
        return pc.if_else(finite, scaled, None).cast(pa.int64(), safe=False)

    def _unit_of_name(self) -> str:
        return next((unit for suffix, unit in UNIT_OF_SUFFIX.items() if self._name.lower().endswith(suffix)), "")

    def _bad(self, problem: str) -> BadImport:
        return BadImport(f"{self._where}, column '{self._name}': {problem}")


def type_of_text(example: str, times: Times) -> Any:
    """The Arrow type to parse such a column as; parsing as it is read costs a third of doing it later."""
    text = example.strip()
    if times.format or not text:
        return pa.string()
    if re.fullmatch(r"[+-]?\d+", text) and len(text) > DOUBLE_DIGITS:
        return pa.int64()
    if re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", text):
        return pa.float64()
    if re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d", text):
        return pa.timestamp("ns", "UTC" if ZONE.search(text) else None)
    return pa.string()


def unit_by_size(numbers: Any) -> str:
    values = np.abs(pc.drop_null(numbers).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    typical = float(np.median(values)) if len(values) else 0.0
    return next((unit for limit, unit in SIZES if typical < limit), "ns")
