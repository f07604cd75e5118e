"""Small numbers for keys that are in use. A number is given again once nobody uses its key any more."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Registry(Generic[Key]):
    def __init__(self, keys_max: int | None = None) -> None:
        self.keys_max = keys_max
        self.numbers: dict[Key, int] = {}
        self.keys: list[Key | None] = []
        self.changes = 0
        """How often a key came or went."""
        self._uses: list[int] = []
        self._free: list[int] = []

    def take(self, key: Key) -> int | None:
        """One more use of the key; None where there are as many keys as may be."""
        number = self.numbers.get(key)
        if number is not None:
            self._uses[number] += 1
            return number
        if self.keys_max is not None and len(self.numbers) >= self.keys_max:
            return None
        if self._free:
            number = self._free.pop()
            self.keys[number], self._uses[number] = key, 1
        else:
            number = len(self.keys)
            self.keys.append(key)
            self._uses.append(1)
        self.numbers[key] = number
        self.changes += 1
        return number

    def drop(self, number: int) -> bool:
        """One use less; whether it was the last one."""
        self._uses[number] -= 1
        if self._uses[number]:
            return False
        key = self.keys[number]
        assert key is not None
        del self.numbers[key]
        self.changes += 1
        self.keys[number] = None
        self._free.append(number)
        return True

    def __len__(self) -> int:
        return len(self.numbers)
