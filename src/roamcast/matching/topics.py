"""Which channels a subject belongs to.

A *channel* is a small number for one subject pattern that somebody subscribes to. Which patterns match a subject is
asked of a trie (`model/topics.py`); what was found is remembered until a pattern comes or goes.
"""

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np

from roamcast.matching.layout import Whole
from roamcast.matching.registry import Registry
from roamcast.model.topics import TopicTrie

ALONE_MAX = 4_096
ONLY_MAX = 65_536
RAMP: Whole = np.arange(4_097, dtype=np.int32)
"""Where channels begin if each subject has one, for all batches but large ones."""


class Topics:
    def __init__(self) -> None:
        self._channels: Registry[str] = Registry()
        self._trie: TopicTrie[int] = TopicTrie()
        self._alone: dict[str, tuple[Whole, Whole]] = {}
        """What `channels_of_all` says of one subject."""
        self._only: dict[str, int] = {}
        """The channel of those remembered that have just one, as most have."""

    def __len__(self) -> int:
        return len(self._channels)

    def take(self, pattern: str) -> int:
        """The channel of a pattern, which is used once more."""
        is_new = pattern not in self._channels.numbers
        channel = self._channels.take(pattern)
        assert channel is not None
        if is_new:
            self._forget()
            self._trie.add(pattern, pattern, channel)
        return channel

    def drop(self, channel: int) -> bool:
        """One use less; whether it was the last one."""
        pattern = self._channels.keys[channel]
        assert pattern is not None
        if not self._channels.drop(channel):
            return False
        self._forget()
        self._trie.remove(pattern, pattern)
        return True

    def _forget(self) -> None:
        self._only.clear()
        self._alone.clear()

    def channels_of(self, subject: str) -> tuple[int, ...]:
        found = self._trie.matching(subject) if subject else ()
        if len(found) == 1:
            if len(self._only) >= ONLY_MAX:
                self._only.clear()
            self._only[subject] = found[0]
        return found

    def channels_of_all(self, subjects: Sequence[str]) -> tuple[Whole, Whole]:
        """Where each subject's channels begin, and all of them one after the other; an empty subject has none."""
        if len(subjects) != 1:
            return self._channels_of_many(subjects)
        found = self._alone.get(subjects[0])
        if found is None:
            if len(self._alone) >= ALONE_MAX:
                self._alone.clear()
            found = self._alone[subjects[0]] = self._channels_of_many(subjects)
        return found

    def _channels_of_many(self, subjects: Sequence[str]) -> tuple[Whole, Whole]:
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
