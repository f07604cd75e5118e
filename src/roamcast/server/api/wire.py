"""A connection within the process: two transports, of which each gives to the other's protocol what is written."""

import asyncio
from typing import Any


class Wire(asyncio.Transport):
    """One end. `peer` is told as the address of whoever is at the other."""

    other: "Wire"

    def __init__(self, protocol: asyncio.Protocol, peer: str) -> None:
        super().__init__()
        self._protocol = protocol
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._came: list[bytes] = []
        self._reads = True
        self._is_due = False
        self._closing = False
        self._other_closed = False
        self._is_lost = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self.other._arrive(bytes(data))

    def close(self) -> None:
        """What was written before still arrives."""
        if not self._closing:
            self._closing = True
            self.other._hang_up()
            self._loop.call_soon(self._lose)

    def abort(self) -> None:
        self._came.clear()
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._attend()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._peer, 0) if name == "peername" else default

    def _arrive(self, data: bytes) -> None:
        self._came.append(data)
        self._attend()

    def _hang_up(self) -> None:
        self._other_closed = True
        self._attend()

    def _attend(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_due = False
        if not self._reads or self._is_lost:
            return
        if self._came and not self._closing:
            data, self._came = b"".join(self._came), []
            self._protocol.data_received(data)
        if self._other_closed and not self._came:
            self.close()

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(None)


def connect(client: asyncio.Protocol, server: asyncio.Protocol, client_address: str) -> None:
    here, there = Wire(client, ""), Wire(server, client_address)
    here.other, there.other = there, here
    server.connection_made(there)
    client.connection_made(here)
