"""Why a datagram or a message was dropped: one exception, and a count for each reason.

Whoever can reach the network can send anything, at any rate. So what is dropped is counted and no more: there is no
log line for each, and nothing is kept of it but what was wrong with the first of a reason, by which a user may know
what is set wrongly.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

Reason: TypeAlias = Literal[
    "oversized",
    "truncated",
    "not_ours",
    "version",
    "wrong_key",
    "other_space",
    "own",
    "not_joined",
    "broken_seal",
    "replayed",
    "forged",
    "malformed",
    "stranger",
    "crowded",
    "out_of_range",
    "too_long",
    "unattested",
    "unsendable",
    "queue_full",
]
"""Of what arrives: longer than any frame; shorter than its header and seal; other magic bytes; another version;
sealed with another group's key; from nodes that are in another space; sent by this node itself; to a group it is not
in; damaged, or sealed without the group's key; seen before, or too old to tell; a signature or name that is not its
sender's; no message of this protocol; a name that is not on the list; no room for another name; from farther than an
emulated radio reaches. Of what is to be sent: a frame that would be too long; what came without its origin's
signature; what no interface takes; what found the queue full."""

REASONS: tuple[Reason, ...] = get_args(Reason)


class Dropped(Exception):
    """The one error of everything between a datagram and a message."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: Reason = reason
        self.detail = detail


class Drops:
    """How many of each, and what was wrong with the first; `news` tells what changed since it was last asked."""

    def __init__(self) -> None:
        self.counts: dict[Reason, int] = dict.fromkeys(REASONS, 0)
        self.first: dict[Reason, str] = {}
        self._told: dict[Reason, int] = dict(self.counts)

    def count(self, reason: Reason, detail: str = "") -> None:
        if not self.counts[reason]:
            self.first[reason] = detail
        self.counts[reason] += 1

    def news(self, tell: Callable[[Reason, int], None]) -> None:
        for reason, count in self.counts.items():
            more = count - self._told[reason]
            if more:
                self._told[reason] = count
                tell(reason, more)
