"""Which patterns match which subjects, for all of a bucket at once.

Patterns lie in a trie by level, so a subject is compared with the patterns that begin as it does and with no others:
twenty thousand of each take seconds, where each with each would take hours. The answers are a bit each.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from roamcast.model.filter.mask import Flags
from roamcast.spark.oracle.boxes import Rows

ONE, REST = "+", "#"


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
        trie = Trie(patterns)
        bits = np.zeros((len(patterns), -(-len(names) // 8)), np.uint8)
        for number, name in enumerate(names):
            bits[trie.matching(name), number >> 3] |= np.uint8(1 << (number & 7))
        numbers = [each.indices.to_numpy().astype(np.int64) for each in (given, wanted)]
        return cls(numbers[0], numbers[1], bits)

    def fit(self, patterns: Rows, subjects: Any) -> Flags:
        """Whether patterns match the subjects beside them, both by number."""
        found: Flags = (self.bits[patterns, subjects >> 3] >> (subjects & 7)) & 1 != 0
        return found


class Node:
    __slots__ = ("children", "here", "rest")

    def __init__(self) -> None:
        self.children: dict[str, Node] = {}
        self.here: int | None = None
        """The pattern that ends here."""
        self.rest: int | None = None
        """The one that ends with `#` after this."""


class Trie:
    def __init__(self, patterns: list[str]) -> None:
        self.root = Node()
        for number, pattern in enumerate(patterns):
            node, levels = self.root, pattern.split("/")
            for level in levels[:-1] if levels[-1] == REST else levels:
                node = node.children.setdefault(level, Node())
            if levels[-1] == REST:
                node.rest = number
            else:
                node.here = number

    def matching(self, subject: str) -> list[int]:
        """The numbers of the patterns that match, as `subject_matches` has it."""
        hidden = subject.startswith("$")
        found: list[int] = []
        nodes = [self.root]
        for depth, level in enumerate(subject.split("/")):
            wild = depth or not hidden
            if wild:
                found += [node.rest for node in nodes if node.rest is not None]
            steps = [level, ONE] if wild and level != ONE else [level]
            nodes = [child for node in nodes for step in steps if (child := node.children.get(step)) is not None]
        for node in nodes:
            found += [number for number in (node.here, node.rest) if number is not None]
        return found
