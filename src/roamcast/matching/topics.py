"""Which channels a subject belongs to.

A *channel* is a small number for one subject pattern that somebody subscribes to. A subject without wildcards is
looked up in a dictionary; patterns stand in a trie of their levels, so an event asks as many nodes as its subject has
levels and not every pattern. What was found is remembered until a pattern comes or goes.

The meaning is `model.subject.subject_matches`, which is MQTT's: `+` one level, `#` the rest and the level above it,
and neither at the first level matches a subject that begins with `$`.
"""

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np

from roamcast.matching.layout import Whole
from roamcast.matching.registry import Registry
from roamcast.model.subject import is_pattern

REMEMBERED_MAX = 65_536
ALONE_MAX = 4_096
RAMP: Whole = np.arange(4_097, dtype=np.int32)
"""Where channels begin if each subject has one, for all batches but large ones."""


class Node:
    __slots__ = ("channel", "children", "rest")

    def __init__(self) -> None:
        self.children: dict[str, Node] = {}
        self.channel: int | None = None
        """Of the pattern that ends here."""
        self.rest: int | None = None
        """Of the pattern that goes on with `#`."""


class Topics:
    def __init__(self) -> None:
        self._channels: Registry[str] = Registry()
        self._root = Node()
        self._remembered: dict[str, tuple[int, ...]] = {}
        self._alone: dict[str, tuple[Whole, Whole]] = {}
        """What `channels_of_all` says of one subject."""
        self._only: dict[str, int] = {}
        """The channel of those remembered that have just one, as most have."""

    def __len__(self) -> int:
        return len(self._channels)

    @property
    def channels_end(self) -> int:
        """Every channel's number is below this."""
        return len(self._channels.keys)

    def take(self, pattern: str) -> int:
        """The channel of a pattern, which is used once more."""
        is_new = pattern not in self._channels.numbers
        channel = self._channels.take(pattern)
        assert channel is not None
        if is_new:
            self._forget()
            if is_pattern(pattern):
                self._plant(pattern, channel)
        return channel

    def drop(self, channel: int) -> bool:
        """One use less; whether it was the last one."""
        pattern = self._channels.keys[channel]
        assert pattern is not None
        if not self._channels.drop(channel):
            return False
        self._forget()
        if is_pattern(pattern):
            self._uproot(pattern)
        return True

    def _forget(self) -> None:
        self._remembered.clear()
        self._only.clear()
        self._alone.clear()

    def channels_of(self, subject: str) -> tuple[int, ...]:
        found = self._remembered.get(subject)
        if found is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
                self._only.clear()
            found = self._remembered[subject] = self._found(subject)
            if len(found) == 1:
                self._only[subject] = found[0]
        return found

    def channels_of_one(self, subject: str) -> tuple[Whole, Whole]:
        found = self._alone.get(subject)
        if found is None:
            if len(self._alone) >= ALONE_MAX:
                self._alone.clear()
            found = self._alone[subject] = self.channels_of_all((subject,))
        return found

    def channels_of_all(self, subjects: Sequence[str]) -> tuple[Whole, Whole]:
        """Where each subject's channels begin, and all of them one after the other; an empty subject has none."""
        count = len(subjects)
        try:
            only = np.fromiter(map(self._only.__getitem__, subjects), np.int32, count)
        except KeyError:
            pass
        else:
            return (RAMP[: count + 1] if count < len(RAMP) else np.arange(count + 1, dtype=np.int32)), only
        known = [self.channels_of(subject) for subject in subjects]
        begin = np.fromiter(accumulate(map(len, known), initial=0), np.int32, len(known) + 1)
        return begin, np.fromiter(chain.from_iterable(known), np.int32, int(begin[-1]))

    def _found(self, subject: str) -> tuple[int, ...]:
        channels: list[int] = []
        if not subject:
            return ()
        exact = self._channels.numbers.get(subject)
        if exact is not None and not is_pattern(subject):
            channels.append(exact)
        levels = subject.split("/")
        nodes = [self._root]
        for depth, level in enumerate(levels):
            wild = depth > 0 or not subject.startswith("$")
            if wild:
                channels += [node.rest for node in nodes if node.rest is not None]
            wanted = (level, "+") if wild else (level,)
            nodes = [node.children[each] for node in nodes for each in wanted if each in node.children]
        for node in nodes:
            channels += [each for each in (node.channel, node.rest) if each is not None]
        return tuple(channels)

    def _plant(self, pattern: str, channel: int) -> None:
        node = self._root
        levels = pattern.split("/")
        ends_in_rest = levels[-1] == "#"
        for level in levels[:-1] if ends_in_rest else levels:
            node = node.children.setdefault(level, Node())
        if ends_in_rest:
            node.rest = channel
        else:
            node.channel = channel

    def _uproot(self, pattern: str) -> None:
        levels = pattern.split("/")
        ends_in_rest = levels[-1] == "#"
        if ends_in_rest:
            levels.pop()
        way = [self._root]
        for level in levels:
            way.append(way[-1].children[level])
        if ends_in_rest:
            way[-1].rest = None
        else:
            way[-1].channel = None
        for level in reversed(levels):
            node = way.pop()
            if node.children or node.channel is not None or node.rest is not None:
                return
            del way[-1].children[level]
