"""A bounded memory of what was seen lately: the oldest is forgotten first, and how often is counted."""


class Recent:
    __slots__ = ("_seen", "forgotten", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.forgotten = 0
        self._seen: dict[str, None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, key: str) -> bool:
        """Remembers `key`; False when it was known already."""
        if key in self._seen:
            return False
        if len(self._seen) >= self.size_max:
            del self._seen[next(iter(self._seen))]
            self.forgotten += 1
        self._seen[key] = None
        return True
