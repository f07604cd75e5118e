"""Bounded tables whose rows expire: what a host holds of others' events and subscriptions, and of its own (C7).

A row says itself when it ends (`ends_us`, by the holder's clock). A full table makes room by giving up the row that
ends first; it is counted, and `put` tells, so that the node can note it. A `SubjectTable` also finds rows by subject.
"""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from roamcast.model.subject import is_pattern, subject_matches


class Row(Protocol):
    @property
    def ends_us(self) -> int: ...


class SubjectRow(Row, Protocol):
    @property
    def subject(self) -> str: ...


Kept = TypeVar("Kept", bound=Row)
About = TypeVar("About", bound=SubjectRow)


class Table(Generic[Kept]):
    def __init__(self, rows_max: int) -> None:
        self.rows_max = rows_max
        self.dropped = 0
        self.by_key: dict[str, Kept] = {}
        """All rows, oldest first; it is always the same dictionary, and only the table changes it."""
        self._first_end_us = 0
        """No row ends before this: most sweeps look no further."""

    def __len__(self) -> int:
        return len(self.by_key)

    def __contains__(self, key: str) -> bool:
        return key in self.by_key

    def get(self, key: str) -> Kept | None:
        return self.by_key.get(key)

    def put(self, key: str, row: Kept) -> str | None:
        """Keeps a row; answers with the key of the one that had to go, perhaps this very one."""
        evicted = None
        if key not in self.by_key and len(self.by_key) >= self.rows_max:
            evicted = min(self.by_key, key=lambda each: self.by_key[each].ends_us)
            self.dropped += 1
            if self.by_key[evicted].ends_us >= row.ends_us:
                return key
            self.remove(evicted)
        self._first_end_us = min(self._first_end_us, row.ends_us) if self.by_key else row.ends_us
        self.by_key[key] = row
        return evicted

    def remove(self, key: str) -> Kept | None:
        return self.by_key.pop(key, None)

    def rows(self) -> Iterator[Kept]:
        """All rows, oldest first; take a list if rows are put or removed meanwhile."""
        return iter(self.by_key.values())

    def expire(self, now_us: int) -> None:
        """Forgets every row that has ended before now."""
        if not self.by_key or now_us <= self._first_end_us:
            return
        for key in [key for key, row in self.by_key.items() if row.ends_us < now_us]:
            self.remove(key)
        self._first_end_us = min((row.ends_us for row in self.by_key.values()), default=0)


class SubjectTable(Table[About]):
    """Rows with a subject, or with a pattern of subjects. Those of one subject are found oldest first."""

    def __init__(self, rows_max: int) -> None:
        super().__init__(rows_max)
        self._plain: dict[str, dict[str, About]] = {}
        self._wild: dict[str, dict[str, About]] = {}

    def put(self, key: str, row: About) -> str | None:
        known = self.by_key.get(key)
        if known is not None and known.subject != row.subject:
            self.remove(key)
        evicted = super().put(key, row)
        if evicted != key:
            self._groups(row.subject).setdefault(row.subject, {})[key] = row
        return evicted

    def remove(self, key: str) -> About | None:
        row = super().remove(key)
        if row is not None:
            groups = self._groups(row.subject)
            del groups[row.subject][key]
            if not groups[row.subject]:
                del groups[row.subject]
        return row

    def with_subject(self, pattern: str) -> list[About]:
        """The rows whose subject a pattern matches."""
        if not is_pattern(pattern):
            return list(self._plain.get(pattern, {}).values())
        return [
            row
            for subject, group in self._plain.items()
            if subject_matches(pattern, subject)
            for row in group.values()
        ]

    def with_pattern_of(self, subject: str) -> list[About]:
        """The rows whose pattern matches a subject."""
        rows = list(self._plain.get(subject, {}).values())
        for pattern, group in self._wild.items():
            if subject_matches(pattern, subject):
                rows.extend(group.values())
        return rows

    def _groups(self, subject: str) -> dict[str, dict[str, About]]:
        return self._wild if is_pattern(subject) else self._plain
