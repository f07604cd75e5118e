"""Timers by name, and which is due first; a timer that is set again, or cancelled, costs nothing until it is due."""

from heapq import heapify, heappop, heappush

STALE_MAX = 64


class Timers:
    changed = True
    """Whether another one may be due first since somebody asked."""

    def __init__(self) -> None:
        self._at_us: dict[str, int] = {}
        self._due: list[tuple[int, str]] = []

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "changed"}

    def __len__(self) -> int:
        return len(self._at_us)

    def __contains__(self, name: str) -> bool:
        return name in self._at_us

    def set(self, name: str, at_us: int) -> None:
        self._at_us[name] = at_us
        self.changed = True
        if len(self._due) > 2 * len(self._at_us) + STALE_MAX:
            self._due = [(at, each) for each, at in self._at_us.items()]
            heapify(self._due)
        else:
            heappush(self._due, (at_us, name))

    def cancel(self, name: str) -> None:
        self.changed = True
        self._at_us.pop(name, None)

    def take(self, name: str) -> bool:
        """Whether it was set; it is not any more."""
        self.changed = True
        return self._at_us.pop(name, None) is not None

    def first(self) -> tuple[int, str] | None:
        self.changed = False
        while self._due:
            at_us, name = self._due[0]
            if self._at_us.get(name) == at_us:
                return at_us, name
            heappop(self._due)
        return None
