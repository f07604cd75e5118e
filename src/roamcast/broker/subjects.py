"""What stands under subject patterns, found without a look at all of them (R2).

A trie of levels. It answers which of its patterns cover a subject or pattern, which for a subject is the same as to
match it, and which are covered by one; a walk takes as many steps as the pattern has levels, and then one for each
answer. Neither asks more nodes when there are more patterns beside the way. The meaning is that of
`model.subject.subject_covers`: `+` is one level, `#` the rest and the level above it, and neither at the first level
stands for one that begins with `$`.

Patterns that mean the same (`#` and `+/#`) share one place.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from roamcast.model.subject import SAID_LONGER

Found = TypeVar("Found")


class Level(Generic[Found]):
    __slots__ = ("children", "found")

    def __init__(self) -> None:
        self.children: dict[str, Level[Found]] = {}
        self.found: Found | None = None
        """What stands under the pattern that ends here."""

    def all(self) -> Iterator[Found]:
        """Here and below."""
        waiting = [self]
        while waiting:
            level = waiting.pop()
            if level.found is not None:
                yield level.found
            waiting += level.children.values()


class Subjects(Generic[Found]):
    def __init__(self) -> None:
        self._root: Level[Found] = Level()

    def get(self, pattern: str) -> Found | None:
        level: Level[Found] | None = self._root
        for name in levels_of(pattern):
            level = level.children.get(name) if level is not None else None
        return level.found if level is not None else None

    def put(self, pattern: str, found: Found) -> None:
        level = self._root
        for name in levels_of(pattern):
            level = level.children.setdefault(name, Level())
        level.found = found

    def remove(self, pattern: str) -> None:
        names = levels_of(pattern)
        way = [self._root]
        for name in names:
            way.append(way[-1].children[name])
        way[-1].found = None
        for name in reversed(names):
            level = way.pop()
            if level.children or level.found is not None:
                return
            del way[-1].children[name]

    def covering(self, pattern: str) -> Iterator[Found]:
        """Under each pattern that matches whatever this one matches."""
        levels = [self._root]
        for depth, name in enumerate(levels_of(pattern)):
            wild = depth > 0 or not name.startswith("$")
            if wild:
                yield from found_at(levels, "#")
            if name == "#":
                return
            wanted = dict.fromkeys((name, "+") if wild else (name,))
            levels = [level.children[each] for level in levels for each in wanted if each in level.children]
        yield from (level.found for level in levels if level.found is not None)
        yield from found_at(levels, "#")

    def covered(self, pattern: str) -> Iterator[Found]:
        """Under each pattern all of whose subjects this one matches."""
        levels = [self._root]
        for depth, name in enumerate(levels_of(pattern)):
            if name == "#":
                yield from (found for level in levels for found in level.all())
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
        yield from (level.found for level in levels if level.found is not None)


def levels_of(pattern: str) -> list[str]:
    return SAID_LONGER.get(pattern, pattern).split("/")


def found_at(levels: list[Level[Found]], name: str) -> Iterator[Found]:
    for level in levels:
        child = level.children.get(name)
        if child is not None and child.found is not None:
            yield child.found
