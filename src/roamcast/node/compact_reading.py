"""Reads the compact format (`compact_format.py`), with bounds on everything that input can make grow."""

import math
from typing import TypeAlias

from roamcast.node.codec import MESSAGE_BYTES_MAX
from roamcast.node.compact_format import BASES_MAX, DEPTH_MAX, FLOAT, LARGE, NODES_MAX, POINT_TAG, WORDS

Plain: TypeAlias = "bool | int | float | str | bytes | list[Plain] | dict[str, Plain] | None"


def unpacked(data: bytes) -> Plain:
    """Raises `ValueError`, `LookupError` or struct's error for what `packed` never wrote."""
    reading = _Unpacking(data)
    plain = reading.take(0)
    if reading.at != len(data):
        raise ValueError(f"{len(data) - reading.at} bytes too many")
    return plain


class _Unpacking:
    __slots__ = ("at", "chars", "data", "floats", "integers", "lists", "nodes", "text")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 1
        self.text = bytearray()
        self.lists: list[tuple[list[Plain], int]] = []
        """Each with how many nodes it has, written out."""
        self.floats: list[float] = []
        self.integers: list[int] = []
        self.nodes = 0
        self.chars = 0

    def take(self, depth: int) -> Plain:
        self._count(1)
        tag = self._byte()
        if tag < 0x40:
            return tag
        if tag < 0x50:
            return self._list(tag - 0x40, depth)
        if tag < 0x70:
            return self._text(tag - 0x50)
        if tag < 0x90:
            return self._again(tag - 0x70)
        if tag < 0xB0:
            return WORDS[tag - 0x90]
        if tag < 0xC0:
            return self.floats[tag - 0xB0] + self._signed() / 100
        if tag < 0xD0:
            return self.integers[tag - 0xC0] + self._signed()
        return self._rare(tag, depth)

    def _rare(self, tag: int, depth: int) -> Plain:
        match tag:
            case 0xD0:
                return None
            case 0xD1 | 0xD2:
                return tag == 0xD2
            case 0xD3:
                return self._integer(self._number())
            case 0xD4:
                return self._integer(-1 - self._number())
            case 0xD5:
                return self._float(FLOAT.unpack(self._bytes(FLOAT.size))[0])
            case 0xD6:
                return self._float(self._signed() / 1e2)
            case 0xD7:
                return self._signed() / 1e7
            case 0xD8:
                return self._part(self._number(), self._number())
            case 0xD9:
                return self._text(self._number())
            case 0xDA:
                return self._bytes(self._number())
            case 0xDB:
                return self._list(self._number(), depth)
            case 0xDC:
                return self._map(self._number(), depth)
            case 0xDD:
                return self._again(self._number())
            case 0xDE:
                return self._point(depth)
            case _:
                raise ValueError(f"nothing begins with {tag:#x}")

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > NODES_MAX:
            raise ValueError(f"more than {NODES_MAX} nodes")

    def _byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def _bytes(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError("ends too early")
        return self.data[start : self.at]

    def _number(self) -> int:
        value = shift = 0
        while (part := self._byte()) >= 0x80:
            value |= (part & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number beyond 64 bits")
        return value | part << shift

    def _signed(self) -> int:
        value = self._number()
        return -(value + 1 >> 1) if value & 1 else value >> 1

    def _integer(self, value: int) -> int:
        if abs(value) >= LARGE and len(self.integers) < BASES_MAX:
            self.integers.append(value)
        return value

    def _float(self, value: float) -> float:
        if math.isfinite(value) and len(self.floats) < BASES_MAX:
            self.floats.append(value)
        return value

    def _text(self, size: int) -> str:
        encoded = self._bytes(size)
        self.text += encoded
        return self._decoded(encoded)

    def _part(self, start: int, size: int) -> str:
        if start + size > len(self.text):
            raise ValueError("a part of what was not said")
        return self._decoded(bytes(self.text[start : start + size]))

    def _decoded(self, encoded: bytes) -> str:
        self.chars += len(encoded)
        if self.chars > MESSAGE_BYTES_MAX:
            raise ValueError(f"more than {MESSAGE_BYTES_MAX} characters")
        return encoded.decode()

    def _again(self, place: int) -> Plain:
        found, nodes = self.lists[place]
        self._count(nodes)
        return found

    def _list(self, size: int, depth: int) -> Plain:
        nodes_before = self.nodes - 1
        self._check(size, depth)
        return self._keep([self.take(depth + 1) for _ in range(size)], nodes_before)

    def _point(self, depth: int) -> Plain:
        nodes_before = self.nodes - 1
        self._check(2, depth)
        x, y = self.take(depth + 1), self.take(depth + 1)
        if not (is_number(x) and is_number(y)):
            raise ValueError("a point without numbers")
        return self._keep([POINT_TAG, x, y], nodes_before)

    def _map(self, size: int, depth: int) -> Plain:
        self._check(size, depth)
        found: dict[str, Plain] = {}
        for _ in range(size):
            key = self.take(depth + 1)
            if not isinstance(key, str) or key in found:
                raise ValueError("a map without a key, or with one twice")
            found[key] = self.take(depth + 1)
        return found

    def _check(self, size: int, depth: int) -> None:
        if size > len(self.data) or depth >= DEPTH_MAX:
            raise ValueError(f"{size} items at depth {depth}")

    def _keep(self, items: list[Plain], nodes_before: int) -> list[Plain]:
        self.lists.append((items, self.nodes - nodes_before))
        return items


def is_number(value: Plain) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
