"""Writes the compact format (`compact_format.py`)."""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from roamcast.model.values import Point
from roamcast.node.compact_format import BASES_MAX, FLOAT, LARGE, VERSION, WORDS

_CLOSE = 1 << 13
"""So many hundredths take two bytes, less than the hundredths of most places do."""
_FAR = 10_000_000

Told: TypeAlias = "bool | int | float | str | bytes | Struct | tuple[Told, ...] | dict[str, Told] | None"


def packed(told: Told) -> bytes:
    packing = _Packing()
    packing.put(told)
    return bytes(packing.out)


def in_parts(value: float, parts: float) -> int | None:
    """How many parts of one a float is, if that gives it back to the last bit."""
    if not abs(value) < 1e9:
        return None
    count = round(value * parts)
    return count if count / parts == value and (count or math.copysign(1, value) > 0) else None


_KNOWN = {word: bytes([0x90 + place]) for place, word in enumerate(WORDS)}
_PREFIX = bytes([VERSION])


class Layout(NamedTuple):
    """How a struct becomes a list."""

    tag: str | None
    names: tuple[str, ...]
    defaults: tuple[object, ...]
    """The last one first."""


@cache
def layout_of(kind: type[Struct]) -> Layout:
    fields = msgspec.structs.fields(kind)
    defaults: list[object] = []
    for field in reversed(fields):
        if field.required:
            break
        factory = field.default_factory
        defaults.append(field.default if factory is msgspec.NODEFAULT else factory())
    tag = kind.__struct_config__.tag
    return Layout(None if tag is None else str(tag), tuple(field.name for field in fields), tuple(defaults))


class _Packing:
    __slots__ = ("floats", "integers", "lists", "open", "out", "text")

    def __init__(self) -> None:
        self.out = bytearray(_PREFIX)
        self.text = bytearray()
        self.lists: dict[bytes, int] = {}
        self.open: list[bytes] = []
        self.floats: list[float] = []
        self.integers: list[int] = []

    def put(self, told: Told) -> None:
        match told:
            case None:
                self.out.append(0xD0)
            case bool():
                self.out.append(0xD2 if told else 0xD1)
            case float():
                self._put_float(told)
            case int():
                self._put_integer(told)
            case str():
                self._put_text(told)
            case Struct():
                self._put_struct(told)
            case tuple():
                if not self._put_again(told):
                    self._put_items(told)
            case dict():
                self.out.append(0xDC)
                self._number(len(told))
                for key, value in told.items():
                    self._put_text(key)
                    self.put(value)
            case bytes():
                self.out.append(0xDA)
                self._number(len(told))
                self.out += told
            case _:
                raise TypeError(f"{type(told).__name__} cannot be sent")

    def _put_struct(self, told: Struct) -> None:
        if type(told) is Point:
            if not self._put_again(told):
                self.out.append(0xDE)
                self._put_float(float(told.x))
                self._put_float(float(told.y))
                self._keep()
            return
        layout = layout_of(type(told))
        items = [getattr(told, name) for name in layout.names]
        left = len(items)
        # What a reader takes for granted at the end of a list is left out.
        for value, default in zip(reversed(items), layout.defaults, strict=False):
            if not (value is default or (type(value) is type(default) and value == default)):
                break
            left -= 1
        del items[left:]
        if layout.tag is not None:
            items.insert(0, layout.tag)
        if not self._put_again(told):
            self._put_items(items)

    def _put_integer(self, value: int) -> None:
        if 0 <= value < 0x40:
            self.out.append(value)
            return
        if not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(f"integer {value} is beyond 64 bits")
        large = abs(value) >= LARGE
        if large and self.integers:
            near = min(range(len(self.integers)), key=lambda place: abs(value - self.integers[place]))
            distance = value - self.integers[near]
            if abs(distance) < abs(value) >> 7:
                self.out.append(0xC0 + near)
                self._signed(distance)
                return
        if large and len(self.integers) < BASES_MAX:
            self.integers.append(value)
        self.out.append(0xD3 if value >= 0 else 0xD4)
        self._number(value if value >= 0 else -1 - value)

    def _put_float(self, value: float) -> None:
        hundredths = in_parts(value, 1e2)
        place, distance = self._nearest(value, _CLOSE if hundredths is not None else _FAR)
        if distance is not None:
            self.out.append(0xB0 + place)
            self._signed(distance)
            return
        ten_millionths = in_parts(value, 1e7) if hundredths is None else None
        if ten_millionths is None and len(self.floats) < BASES_MAX and math.isfinite(value):
            self.floats.append(value)
        if hundredths is not None:
            self.out.append(0xD6)
            self._signed(hundredths)
        elif ten_millionths is not None:
            self.out.append(0xD7)
            self._signed(ten_millionths)
        else:
            self.out.append(0xD5)
            self.out += FLOAT.pack(value)

    def _nearest(self, value: float, distance_max: int) -> tuple[int, int | None]:
        """The first float from which this one is a whole number of hundredths away, if any, and how many."""
        if value and math.isfinite(value):
            for place, base in enumerate(self.floats):
                distance = (value - base) * 100
                if abs(distance) < distance_max and base + round(distance) / 100 == value:
                    return place, round(distance)
        return 0, None

    def _put_text(self, text: str) -> None:
        known = _KNOWN.get(text)
        if known is not None:
            self.out += known
            return
        encoded = text.encode()
        size = len(encoded)
        at = self.text.find(encoded) if size > 3 else -1
        if at >= 0:
            self.out.append(0xD8)
            self._number(at)
            self._number(size)
            return
        if size < 0x20:
            self.out.append(0x50 + size)
        else:
            self.out.append(0xD9)
            self._number(size)
        self.out += encoded
        self.text += encoded

    def _put_again(self, told: "Struct | tuple[Told, ...]") -> bool:
        """A list that was told before. MessagePack tells 1 from 1.0 and from true, which Python takes for equal."""
        written_out = msgspec.msgpack.encode(told)
        place = self.lists.get(written_out)
        if place is None:
            self.open.append(written_out)
            return False
        if place < 0x20:
            self.out.append(0x70 + place)
        else:
            self.out.append(0xDD)
            self._number(place)
        return True

    def _put_items(self, items: "Sequence[Told]") -> None:
        size = len(items)
        if size < 0x10:
            self.out.append(0x40 + size)
        else:
            self.out.append(0xDB)
            self._number(size)
        for item in items:
            self.put(item)
        self._keep()

    def _keep(self) -> None:
        """After what it holds, as the reader counts them too."""
        self.lists[self.open.pop()] = len(self.lists)

    def _number(self, value: int) -> None:
        while value >= 0x80:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def _signed(self, value: int) -> None:
        self._number(value << 1 if value >= 0 else (-value << 1) - 1)
