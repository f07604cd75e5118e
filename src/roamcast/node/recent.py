"""A bounded set of recently seen ids that drops the oldest first and counts the drops."""


class Recent:
    __slots__ = ("forgotten", "keys", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.forgotten = 0
        self.keys: dict[str, None] = {}
        """Oldest first; it is always the same dictionary, and only this memory changes it."""

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: str) -> bool:
        """Remembers `key`; False when it was known already."""
        if key in self.keys:
            return False
        if len(self.keys) >= self.size_max:
            del self.keys[next(iter(self.keys))]
            self.forgotten += 1
        self.keys[key] = None
        return True
