"""Which patterns match which subjects, for all of a bucket at once.

Patterns lie in the broker's trie, so a subject is compared with the patterns that begin as it does and no others:
twenty thousand of each take seconds, where each with each would take hours. The answers are a bit each.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from roamcast.model.filter.mask import Flags
from roamcast.model.topics import TopicTrie
from roamcast.spark.oracle.boxes import Rows


@dataclass(frozen=True, slots=True, eq=False)
class Subjects:
    """The number of each event's subject and of each subscription's pattern, and which patterns match which."""

    given: Rows
    wanted: Rows
    bits: Any
    """By pattern and eighth of the subjects, a bit for each."""

    @classmethod
    def of(cls, subjects: Any, wishes: Any) -> "Subjects":
        given, wanted = subjects.dictionary_encode(), wishes.dictionary_encode()
        names, patterns = given.dictionary.to_pylist(), wanted.dictionary.to_pylist()
        trie = TopicTrie((pattern, number, number) for number, pattern in enumerate(patterns))
        bits = np.zeros((len(patterns), -(-len(names) // 8)), np.uint8)
        for number, name in enumerate(names):
            bits[list(trie.covering(name)), number >> 3] |= np.uint8(1 << (number & 7))
        numbers = [each.indices.to_numpy().astype(np.int64) for each in (given, wanted)]
        return cls(numbers[0], numbers[1], bits)

    def fit(self, patterns: Rows, subjects: Any) -> Flags:
        """Whether patterns match the subjects beside them, both by number."""
        found: Flags = (self.bits[patterns, subjects >> 3] >> (subjects & 7)) & 1 != 0
        return found
