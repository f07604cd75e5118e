"""What stands under topic patterns, found without a look at all of them (R2).

A trie of levels, for wishes of clients and of neighbouring brokers alike. It says which of its patterns match a
topic, which cover a pattern, and which are covered by one; a walk takes as many steps as the pattern has levels, and
then one for each answer. Patterns beside the way cost nothing. The meaning is that of `model.subject`: `+` is one
level, `#` the rest and the level above it, and neither at the first level stands for one that begins with `$`.

An entry has a key of its own below its pattern, and takes the place of an earlier one with the same pattern and key.
Nothing recurses, so a topic of 65,535 levels is only slow. Answers for topics are remembered until an entry changes.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from roamcast.model.subject import SAID_LONGER

REMEMBERED_MAX = 65_536
"""Answers that are remembered, each with what was found: a topic that many want counts as often."""
REMEMBERED_CHARS_MAX = 256
"""Longer topics are looked up each time, so that nobody can fill the memory with them."""
Found = TypeVar("Found")


class Level(Generic[Found]):
    __slots__ = ("children", "entries")

    def __init__(self) -> None:
        self.children: dict[str, Level[Found]] = {}
        self.entries: dict[Hashable, Found] = {}
        """Under the pattern that ends here."""

    def below(self) -> Iterator[Found]:
        """Here and further down."""
        waiting = [self]
        while waiting:
            level = waiting.pop()
            yield from level.entries.values()
            waiting += level.children.values()


class TopicTrie(Generic[Found]):
    def __init__(self, entries: Iterable[tuple[str, Hashable, Found]] = ()) -> None:
        self._root: Level[Found] = Level()
        self._size = 0
        self._remembered: dict[str, tuple[Found, ...]] = {}
        self._remembered_size = 0
        for pattern, key, found in entries:
            self.add(pattern, key, found)

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[object, ...]:
        """Flat: a pattern of very many levels must not be a stack of as many."""
        return (TopicTrie, (list(self._all()),))

    def _all(self) -> Iterator[tuple[str, Hashable, Found]]:
        waiting: list[tuple[str, Level[Found]]] = [("", self._root)]
        while waiting:
            above, level = waiting.pop()
            for key, found in level.entries.items():
                yield above[1:], key, found
            waiting += [(f"{above}/{name}", child) for name, child in reversed(level.children.items())]

    def add(self, pattern: str, key: Hashable, found: Found) -> None:
        level = self._root
        for name in levels_of(pattern):
            following = level.children.get(name)
            if following is None:
                following = level.children[name] = Level()
            level = following
        self._size += key not in level.entries
        level.entries[key] = found
        self._forget_answers()

    def remove(self, pattern: str, key: Hashable) -> Found | None:
        """What was there."""
        names, way = levels_of(pattern), [self._root]
        for name in names:
            following = way[-1].children.get(name)
            if following is None:
                return None
            way.append(following)
        if key not in way[-1].entries:
            return None
        removed = way[-1].entries.pop(key)
        self._size -= 1
        self._forget_answers()
        for name in reversed(names):
            level = way.pop()
            if level.children or level.entries:
                break
            del way[-1].children[name]
        return removed

    def under(self, pattern: str) -> Mapping[Hashable, Found]:
        """By key, what stands under this very pattern, or one that means the same."""
        level = self._root
        for name in levels_of(pattern):
            following = level.children.get(name)
            if following is None:
                return {}
            level = following
        return level.entries

    def matching(self, topic: str) -> tuple[Found, ...]:
        """Under each pattern that matches a topic, in a fixed order."""
        found = self._remembered.get(topic)
        if found is None:
            found = tuple(self.covering(topic))
            if len(topic) <= REMEMBERED_CHARS_MAX:
                if self._remembered_size >= REMEMBERED_MAX:
                    self._forget_answers()
                self._remembered[topic] = found
                self._remembered_size += 1 + len(found)
        return found

    def _forget_answers(self) -> None:
        self._remembered.clear()
        self._remembered_size = 0

    def covering(self, pattern: str) -> Iterator[Found]:
        """Under each pattern that matches whatever this one matches."""
        levels = [self._root]
        for depth, name in enumerate(levels_of(pattern)):
            wild = depth > 0 or not name.startswith("$")
            if wild:
                yield from entries_at(levels, "#")
            if name == "#":
                return
            wanted = (name,) if not wild or name == "+" else (name, "+")
            levels = [level.children[each] for level in levels for each in wanted if each in level.children]
        for level in levels:
            yield from level.entries.values()
        yield from entries_at(levels, "#")

    def covered(self, pattern: str) -> Iterator[Found]:
        """Under each pattern all of whose topics this one matches."""
        levels = [self._root]
        for depth, name in enumerate(levels_of(pattern)):
            if name == "#":
                for level in levels:
                    yield from level.below()
                return
            if name == "+":
                levels = [
                    child
                    for level in levels
                    for each, child in level.children.items()
                    if each != "#" and (depth > 0 or not each.startswith("$"))
                ]
            else:
                levels = [level.children[name] for level in levels if name in level.children]
        for level in levels:
            yield from level.entries.values()


def levels_of(pattern: str) -> list[str]:
    """Patterns that mean the same (`#` and `+/#`) share one place."""
    return SAID_LONGER.get(pattern, pattern).split("/")


def entries_at(levels: list[Level[Found]], name: str) -> Iterator[Found]:
    for level in levels:
        child = level.children.get(name)
        if child is not None:
            yield from child.entries.values()
