"""Wired links between hosts: a delay, first in first out, and up or down.

What is under way on a link when it goes down is lost, and both ends hear of it at once as `LinkDown`. A link carries
messages in order, whole and once; faults on datagrams belong to the radio.

Two parties decide whether a link is up, and neither undoes what the other did: the nodes at its ends open and close
it, faults cut it and heal it. It is up while it is open and no cut holds. Cuts that overlap count: the last one to
heal brings it back.
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
    __slots__ = ("arrives_us", "cuts", "open", "params", "rng", "under_way")

    def __init__(self, params: LinkParams, rng: Random) -> None:
        self.params = params
        self.rng = rng
        self.open = True
        """As the nodes at its ends want it."""
        self.cuts = 0
        """How many faults hold it down."""
        # By receiver: when the last message arrives. By number: who sent what is under way, to whom, and its handle.
        self.arrives_us = {params.a: 0, params.b: 0}
        self.under_way: dict[int, tuple[str, str, Handle]] = {}

    @property
    def up(self) -> bool:
        return self.open and self.cuts == 0


class Links:
    """All links of a world. `arrived` hands over a message with its sender and receiver, `changed` tells of a link
    that came up or went down, and `lost` of each message that never arrives, by its sender and receiver."""

    def __init__(
        self,
        kernel: Kernel,
        rng_of: Callable[[str, str], Random],
        arrived: Callable[[str, str, Message], None],
        changed: Callable[[str, str, bool], None],
        lost: Callable[[str, str], None],
    ) -> None:
        self.kernel = kernel
        self.rng_of = rng_of
        self.arrived = arrived
        self.changed = changed
        self.lost = lost
        self.between: dict[tuple[str, str], Link] = {}
        self._of: dict[str, dict[str, Link]] = {}
        self._number = 0

    def add(self, params: LinkParams) -> None:
        if (params.a, params.b) in self.between:
            raise ValueError(f"two links between '{params.a}' and '{params.b}'")
        link = Link(params, self.rng_of(params.a, params.b))
        for one, other in ((params.a, params.b), (params.b, params.a)):
            self.between[(one, other)] = link
            self._of.setdefault(one, {})[other] = link

    def peers(self, host: str) -> list[str]:
        """Who this host has a link to that is up, in the order in which the links were added."""
        return [peer for peer, link in self._of.get(host, {}).items() if link.up]

    def up(self, a: str, b: str) -> Link | None:
        """The link between two hosts, if there is one and it is up."""
        link = self.between.get((a, b))
        return link if link is not None and link.up else None

    def send(self, link: Link, sender: str, receiver: str, message: Message) -> None:
        """Puts a message on its way over a link that is up."""
        delay_us = round(1_000 * (link.params.delay_ms + link.params.jitter_ms * link.rng.random()))
        arrives_us = max(self.kernel.now_us + delay_us, link.arrives_us[receiver])
        link.arrives_us[receiver] = arrives_us
        self._number += 1
        handle = self.kernel.at(arrives_us, self._arrive, link, self._number, message)
        link.under_way[self._number] = (sender, receiver, handle)

    def _arrive(self, link: Link, number: int, message: Message) -> None:
        sender, receiver, _ = link.under_way.pop(number)
        self.arrived(sender, receiver, message)

    def cut(self, a: str, b: str) -> None:
        """A fault begins."""
        link = self.between[(a, b)]
        was_up = link.up
        link.cuts += 1
        if was_up:
            self._went_down(a, b, link)

    def heal(self, a: str, b: str) -> None:
        """A fault that began with `cut` ends."""
        link = self.between[(a, b)]
        link.cuts -= 1
        if link.up:
            self.changed(a, b, True)

    def close(self, a: str, b: str) -> None:
        """A node wants the link no more."""
        link = self.between[(a, b)]
        was_up, link.open = link.up, False
        if was_up:
            self._went_down(a, b, link)

    def reopen(self, a: str, b: str) -> None:
        """A node wants the link again; a cut that holds it goes on holding it."""
        link = self.between[(a, b)]
        was_up, link.open = link.up, True
        if link.up and not was_up:
            self.changed(a, b, True)

    def drop_all(self, host: str) -> None:
        """One end of these links went down: what is under way to it or from it is lost."""
        for link in self._of.get(host, {}).values():
            self._drop(link)

    def _went_down(self, a: str, b: str, link: Link) -> None:
        self._drop(link)
        self.changed(a, b, False)

    def _drop(self, link: Link) -> None:
        dropped = list(link.under_way.values())
        link.under_way.clear()
        link.arrives_us = dict.fromkeys(link.arrives_us, 0)
        for sender, receiver, handle in dropped:
            handle.cancel()
            self.lost(sender, receiver)
