"""What a broker asks of a store, whichever it is, and which one `data` names in its settings."""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

Segment: TypeAlias = tuple[int, bytes]
"""What the state of a broker has set aside, under a number that nothing else has had."""
POSTGRES = ("postgresql://", "postgres://")


def is_postgres(data: str) -> bool:
    """Whether `data` is a PostgreSQL database and no directory."""
    return data.startswith(POSTGRES)


class Needed(Struct, frozen=True):
    """Which segments a snapshot refers to, of those up to `last`; later ones stay in any case."""

    last: int = 0
    numbers: frozenset[int] = frozenset()

    def drops(self, number: int) -> bool:
        return number <= self.last and number not in self.numbers


class Loaded(Struct, frozen=True):
    """`batches` are those behind the snapshot. They and the segments are read while one goes through them, before the
    next append."""

    snapshot: bytes | None
    batches: Iterator[bytes]
    life: int
    segments: Iterator[Segment] = iter(())


class LogStore(Protocol):
    """Blocking. Methods may be called from any thread, one at a time."""

    synced: bool
    """A commit waits for a disk or a network, so it is made on a thread of its own."""

    @property
    def place(self) -> str:
        """Where it is, for messages; no password is in it."""
        ...

    @property
    def life(self) -> int: ...
    def load(self) -> Loaded: ...
    def append(self, batch: bytes) -> None: ...
    def append_all(self, batches: Sequence[bytes], segments: Sequence[Segment] = ()) -> None:
        """All of them or none, safe when it returns; `StorageFull` when there is no room."""
        ...

    def snapshot(
        self, state: bytes, behind: int = 0, segments: Sequence[Segment] = (), needed: Needed | None = None
    ) -> None:
        """`state` stands from now on for all batches so far but the last `behind`. Segments that are not `needed` any
        more go."""
        ...

    def segment(self, number: int) -> bytes:
        """Raises `DamagedLog`."""
        ...

    def close(self) -> None: ...
