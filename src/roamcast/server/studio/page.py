"""One open page, and what it has not been told yet.

It has no queue. It has how far it has read the rings, and which entities and regions have changed since its last
frame. So a page that reads slowly gets fewer and newer frames, and costs no more memory than the names of those who
changed. Where even these become too many it begins anew, with another `hello`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec
from msgspec import Struct

from roamcast.server.http.users import Who

NAMES_MAX = 20_000
"""Of those who are gone that a page has not been told of."""


class Said(Struct, frozen=True):
    """What a page says."""

    kind: str = ""


_said_decoder = msgspec.json.Decoder(Said)


class Attend(Protocol):
    """Who tells pages."""

    def opened(self, page: "Page") -> bool:
        """False: there are too many."""
        ...

    def closed(self, page: "Page") -> None: ...


class Page:
    """One open page, behind its WebSocket. `who` looks at it, and `host` is where it has come to."""

    def __init__(self, attend: Attend, who: Who, host: str = "") -> None:
        self._attend = attend
        self.who = who
        self.host = host
        self.is_open = False
        self._outgoing: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self.paused = False
        self.fresh = True
        """It has not been told what there is."""
        self.entities: dict[str, None] = {}
        self.gone: dict[str, None] = {}
        self.regions: dict[str, None] = {}
        self.regions_gone: dict[str, None] = {}
        self.events = self.deliveries = self.handovers = 0
        self.told_us = 0
        self.frames = 0
        self.shown: dict[str, None] = {}
        """Clients and regions that it was told of, where it may not see all."""
        self.is_open = attend.opened(self)

    @property
    def reads(self) -> bool:
        """It has taken all that it was told."""
        return not self._outgoing

    def tell(self, frame: bytes) -> None:
        self._outgoing.append(frame)
        self._changed.set()

    async def outgoing(self) -> AsyncIterator[bytes]:
        """To be written, one after the other, until the page is closed."""
        while self.is_open:
            while self._outgoing and self.is_open:
                yield self._outgoing[0]
                self._outgoing.popleft()
            self._changed.clear()
            await self._changed.wait()

    def hear(self, text: str) -> None:
        try:
            said = _said_decoder.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        if said.kind in ("pause", "resume"):
            self.paused = said.kind == "pause"

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._changed.set()
            self._attend.closed(self)

    def changed(self, client: str) -> None:
        self.gone.pop(client, None)
        self.entities[client] = None

    def left(self, client: str) -> None:
        self.entities.pop(client, None)
        self.gone[client] = None
        self._bound()

    def drew(self, name: str) -> None:
        self.regions_gone.pop(name, None)
        self.regions[name] = None

    def wiped(self, name: str) -> None:
        self.regions.pop(name, None)
        self.regions_gone[name] = None
        self._bound()

    def _bound(self) -> None:
        if len(self.gone) + len(self.regions_gone) > NAMES_MAX:
            self.begin_anew()

    def begin_anew(self) -> None:
        self.fresh = True
        for names in (self.entities, self.gone, self.regions, self.regions_gone, self.shown):
            names.clear()

    def shows(self, name: str, may: bool) -> bool:
        """Whether it is told of a client or region, which it may see or not."""
        if may and not self.who.sees_everybody:
            self.shown[name] = None
        return may

    def knew(self, name: str) -> bool:
        """Whether it was told of one that is gone."""
        return self.who.sees_everybody or self.shown.pop(name, self) is None
