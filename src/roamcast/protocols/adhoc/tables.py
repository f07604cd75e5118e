"""Bounded tables whose rows expire: what a host holds of others' events and subscriptions, and of its own (C7).

A row says itself when it ends (`ends_us`, by the holder's clock). A full table makes room by giving up the row that
ends first; it is counted, and `put` tells, so that the node can note it.
"""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Row(Protocol):
    @property
    def ends_us(self) -> int: ...


Kept = TypeVar("Kept", bound=Row)


class Table(Generic[Kept]):
    def __init__(self, rows_max: int) -> None:
        self.rows_max = rows_max
        self.dropped = 0
        self._rows: dict[str, Kept] = {}
        self._first_end_us = 0
        """No row ends before this: most sweeps look no further."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def get(self, key: str) -> Kept | None:
        return self._rows.get(key)

    def put(self, key: str, row: Kept) -> str | None:
        """Keeps a row; answers with the key of the one that had to go, perhaps this very one."""
        evicted = None
        if key not in self._rows and len(self._rows) >= self.rows_max:
            evicted = min(self._rows, key=lambda each: self._rows[each].ends_us)
            self.dropped += 1
            if self._rows[evicted].ends_us >= row.ends_us:
                return key
            del self._rows[evicted]
        self._first_end_us = min(self._first_end_us, row.ends_us) if self._rows else row.ends_us
        self._rows[key] = row
        return evicted

    def remove(self, key: str) -> Kept | None:
        return self._rows.pop(key, None)

    def rows(self) -> Iterator[Kept]:
        """All rows, oldest first; take a list if rows are put or removed meanwhile."""
        return iter(self._rows.values())

    def expire(self, now_us: int) -> None:
        """Forgets every row that has ended before now."""
        if not self._rows or now_us <= self._first_end_us:
            return
        self._rows = {key: row for key, row in self._rows.items() if row.ends_us >= now_us}
        self._first_end_us = min((row.ends_us for row in self._rows.values()), default=0)
