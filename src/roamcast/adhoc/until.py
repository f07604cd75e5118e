"""A bounded memory of what must not be forgotten before its time: each key is kept until it has ended.

What has ended goes first when room is needed. When everything that is kept still lives, what ends soonest goes, since
it can do the least harm; that is counted, and `add` tells, so that the node can note it.
"""


class Until:
    __slots__ = ("_ends_us", "_first_end_us", "forgotten", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.forgotten = 0
        self._ends_us: dict[str, int] = {}
        self._first_end_us = 0
        """Nothing ends before this: most look no further."""

    def __contains__(self, key: str) -> bool:
        return key in self._ends_us

    def __len__(self) -> int:
        return len(self._ends_us)

    def add(self, now_us: int, key: str, ends_us: int) -> str | None:
        """Keeps a key, and one that was known for the longer of the two times; answers with the one that had to be
        forgotten although it has not ended."""
        known_us = self._ends_us.get(key)
        if known_us is not None:
            self._ends_us[key] = max(known_us, ends_us)
            return None
        gone = None
        if len(self._ends_us) >= self.size_max:
            gone = self._make_room(now_us)
        self._first_end_us = min(self._first_end_us, ends_us) if self._ends_us else ends_us
        self._ends_us[key] = ends_us
        return gone

    def _make_room(self, now_us: int) -> str | None:
        if now_us > self._first_end_us:
            self._ends_us = {key: ends_us for key, ends_us in self._ends_us.items() if ends_us >= now_us}
            self._first_end_us = min(self._ends_us.values(), default=0)
            if len(self._ends_us) < self.size_max:
                return None
        soonest = min(self._ends_us, key=self._ends_us.__getitem__)
        del self._ends_us[soonest]
        self.forgotten += 1
        return soonest
