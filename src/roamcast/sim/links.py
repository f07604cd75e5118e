"""Wired links between hosts: a delay, first in first out, and up or down.

What is under way on a link when it is cut is lost, and both ends hear of the cut at once as `LinkDown`. A link
carries datagrams in order, whole and once; faults on datagrams belong to the radio.
"""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from roamcast.node.boundary import Message
from roamcast.sim.kernel import Handle, Kernel


class LinkParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A link of the scenario; `jitter_ms` adds up to so much to the delay of each message, order kept."""

    a: str
    b: str
    delay_ms: float = 1.0
    jitter_ms: float = 0.0
    hops: int = 1
    """How many network hops this link stands for; a message on it counts that many transmissions."""

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise ValueError(f"link from '{self.a}' to itself")
        if self.delay_ms < 0 or self.jitter_ms < 0 or self.hops < 1:
            raise ValueError("delay_ms and jitter_ms must not be negative, hops must be at least 1")


class Link:
    __slots__ = ("arrives_us", "params", "under_way", "up")

    def __init__(self, params: LinkParams) -> None:
        self.params = params
        self.up = True
        # By receiver: when the last message arrives, and the handles of those under way.
        self.arrives_us = {params.a: 0, params.b: 0}
        self.under_way: dict[int, Handle] = {}


class Links:
    """All links of a world. `arrived` hands over a message with its sender and receiver, `changed` tells of cuts."""

    def __init__(
        self,
        kernel: Kernel,
        rng: Random,
        arrived: Callable[[str, str, Message], None],
        changed: Callable[[str, str, bool], None],
    ) -> None:
        self.kernel = kernel
        self.rng = rng
        self.arrived = arrived
        self.changed = changed
        self.between: dict[tuple[str, str], Link] = {}
        self.lost = 0
        self._number = 0

    def add(self, params: LinkParams) -> None:
        if (params.a, params.b) in self.between:
            raise ValueError(f"two links between '{params.a}' and '{params.b}'")
        link = Link(params)
        self.between[(params.a, params.b)] = link
        self.between[(params.b, params.a)] = link

    def peers(self, host: str) -> list[str]:
        """Who this host has a link to that is up, in the order in which the links were added."""
        return [b for (a, b), link in self.between.items() if a == host and link.up]

    def send(self, sender: str, receiver: str, message: Message) -> Link | None:
        """Puts a message on the way; answers with the link, or None when there is none that is up."""
        link = self.between.get((sender, receiver))
        if link is None or not link.up:
            return None
        delay_us = round(1_000 * (link.params.delay_ms + link.params.jitter_ms * self.rng.random()))
        arrives_us = max(self.kernel.now_us + delay_us, link.arrives_us[receiver])
        link.arrives_us[receiver] = arrives_us
        self._number += 1
        link.under_way[self._number] = self.kernel.at(
            arrives_us, self._arrive, link, self._number, sender, receiver, message
        )
        return link

    def _arrive(self, link: Link, number: int, sender: str, receiver: str, message: Message) -> None:
        del link.under_way[number]
        self.arrived(sender, receiver, message)

    def cut(self, a: str, b: str) -> None:
        link = self.between[(a, b)]
        if not link.up:
            return
        link.up = False
        self.lost += len(link.under_way)
        for handle in link.under_way.values():
            handle.cancel()
        link.under_way.clear()
        self.changed(a, b, False)

    def heal(self, a: str, b: str) -> None:
        link = self.between[(a, b)]
        if not link.up:
            link.up = True
            self.changed(a, b, True)
