"""One open page, and what it has not been told yet.

It has no queue. It has how far it has read the rings, and which entities and regions have changed since its last
frame. So a page that reads slowly gets fewer and newer frames, and costs no more memory than the names of those who
changed. Where even these become too many it begins anew, with another `hello`.
"""

import asyncio
from typing import Protocol, cast

import msgspec
from msgspec import Struct

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


class Page(asyncio.Protocol):
    """One open page, behind its WebSocket."""

    def __init__(self, attend: Attend) -> None:
        self._attend = attend
        self.transport: asyncio.Transport | None = None
        self.reads = True
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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if not self._attend.opened(self):
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            said = _said_decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        if said.kind in ("pause", "resume"):
            self.paused = said.kind == "pause"

    def pause_writing(self) -> None:
        self.reads = False

    def resume_writing(self) -> None:
        self.reads = True

    def connection_lost(self, problem: Exception | None) -> None:
        self.transport = None
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
        for names in (self.entities, self.gone, self.regions, self.regions_gone):
            names.clear()
