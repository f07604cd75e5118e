"""Where clients were a while ago: each change with what was before it, so that a moment can be had again.

Why an event was not delivered is asked later, when everybody has moved on. Keeping every client's position for every
event would cost clients times events; keeping what each change replaced costs one entry a change, whoever asks.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import takewhile

from msgspec import Struct

from roamcast.model.context import Context

CHANGES_MAX = 20_000
CHANGES_BYTES_MAX = 16 * 1024 * 1024
CONTEXT_BYTES = 400
"""About what a context takes without its texts."""


class Known(Struct, frozen=True):
    """A client as it is known here."""

    context: Context
    connected: bool


class Change(Struct, frozen=True):
    at_us: int
    client: str
    before: Known | None
    size_bytes: int


class Past:
    def __init__(self) -> None:
        self.now: dict[str, Known] = {}
        """Every client that is here."""
        self.since_us = 0
        """What was before this is not known."""
        self._changes: deque[Change] = deque()
        self._bytes = 0

    def put(self, now_us: int, client: str, after: Known | None) -> None:
        before = self.now.get(client)
        if after is None:
            self.now.pop(client, None)
        else:
            self.now[client] = after
        size = 0 if before is None else size_of(before.context, after)
        self._changes.append(Change(now_us, client, before, size))
        self._bytes += size
        while len(self._changes) > CHANGES_MAX or self._bytes > CHANGES_BYTES_MAX:
            dropped = self._changes.popleft()
            self._bytes -= dropped.size_bytes
            self.since_us = dropped.at_us

    def knows(self, moment_us: int) -> bool:
        return moment_us >= self.since_us

    def at(self, moment_us: int) -> dict[str, Known]:
        """Every client that was here at that moment, as it was known when it ended."""
        found: dict[str, Known | None] = dict(self.now)
        for change in self._later(moment_us):
            found[change.client] = change.before
        return {client: known for client, known in found.items() if known is not None}

    def of(self, client: str) -> Callable[[int], Known | None]:
        """The same of one client, for many moments: its changes are looked for once."""
        changes = [change for change in self._changes if change.client == client]
        times = [change.at_us for change in changes]
        now = self.now.get(client)

        def at(moment_us: int) -> Known | None:
            later = bisect_right(times, moment_us)
            return changes[later].before if later < len(changes) else now

        return at

    def _later(self, moment_us: int) -> Iterator[Change]:
        """The newest first."""
        return takewhile(lambda change: change.at_us > moment_us, reversed(self._changes))


def size_of(context: Context, after: Known | None) -> int:
    """What it holds that nobody else does: most reports leave the attributes as they were."""
    if after is not None and after.context.attributes is context.attributes:
        return CONTEXT_BYTES
    texts = sum(len(value) for value in context.attributes.values() if isinstance(value, str))
    return CONTEXT_BYTES + 100 * len(context.attributes) + texts
