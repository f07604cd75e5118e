"""A cache of what was used last, bounded in count and bytes.

Two generations: when the younger one is full it becomes the older one, and the older one before it is dropped. What
is looked up in the older one comes into the younger one. So there is no order to keep up, and nothing to search.
"""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class GenerationalCache(Generic[K, V]):
    __slots__ = ("_bytes", "_bytes_max", "_entries_max", "_older", "_younger")

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        """Each generation has half of it at most, but always room for one entry."""
        self._entries_max = entries_max // 2
        self._bytes_max = bytes_max // 2
        self._younger: dict[K, tuple[V, int]] = {}
        self._older: dict[K, tuple[V, int]] = {}
        self._bytes = 0
        """Of the younger one."""

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def get(self, key: K) -> V | None:
        entry = self._younger.get(key)
        if entry is not None:
            return entry[0]
        entry = self._older.pop(key, None)
        if entry is None:
            return None
        self.put(key, *entry)
        return entry[0]

    def put(self, key: K, value: V, size_bytes: int) -> None:
        if len(self._younger) >= self._entries_max or self._bytes + size_bytes > self._bytes_max:
            self._older, self._younger, self._bytes = self._younger, {}, 0
        self._younger[key] = (value, size_bytes)
        self._bytes += size_bytes

    def clear(self) -> None:
        self._younger, self._older, self._bytes = {}, {}, 0
