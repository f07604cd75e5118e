"""One connection to a broker: CONNECT and CONNACK, packets both ways, and how its end is noticed."""

import asyncio
import ssl as tls
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct

from roamcast.mqtt.decoding import Decoder
from roamcast.mqtt.encoding import encode
from roamcast.mqtt.packets import V5, AnyPacket, ConnAck, Connect, Disconnect, PingReq, PingResp
from roamcast.mqtt.reasons import BadPacket, ProtocolError, Reason

PACKET_BYTES_MAX = 4 * 1024 * 1024
PORTS = {"mqtt": 1883, "mqtts": 8883}
HUNG_UP = "the broker hung up"
LOOKS_A_KEEP_ALIVE = 2
"""How often in a keep-alive period the broker is looked after; it is gone after so many looks without a word."""


class Address(Struct, frozen=True):
    host: str
    port: int
    secure: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.secure else 'mqtt'}://{host}:{self.port}"


def address_of(text: str, scheme: str = "mqtt") -> Address:
    """Of `mqtt://host:port` or `mqtts://host:port`; without a scheme it is the given one."""
    parts = urlsplit(text if "://" in text else f"{scheme}://{text}")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in PORTS or not parts.hostname or port == 0 or parts.path.strip("/"):
        raise ValueError(f"'{text}' is not a broker's address: give mqtt://host:port, or mqtts://host:port for TLS")
    return Address(parts.hostname, port or PORTS[parts.scheme], parts.scheme == "mqtts")


class Over(Struct, frozen=True):
    """Why a connection ended: with the broker's word for it, or without any."""

    text: str
    reason: Reason | None = None
    reference: str | None = None


class BrokerConnection(asyncio.Protocol):
    def __init__(self, connect: Connect, on_packet: Callable[[AnyPacket], None]) -> None:
        loop = asyncio.get_running_loop()
        self.connack: asyncio.Future[ConnAck | None] = loop.create_future()
        """None if the connection ended before."""
        self.over: asyncio.Future[Over] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        """The socket is closed, and all that was to be sent has been, if that was possible."""
        self.writable = asyncio.Event()
        self.granted: ConnAck | None = None
        self._loop = loop
        self._connect = connect
        self._on_packet = on_packet
        self._decoder = Decoder(V5, PACKET_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._heard = 0
        self._heard_before = 0
        self._silent = 0
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, address: Address, context: tls.SSLContext | None, seconds: float) -> ConnAck:
        """Raises `OSError`; a CONNACK that refuses is an answer like another."""
        if address.secure and context is None:
            context = tls.create_default_context()
        async with asyncio.timeout(seconds):
            await self._loop.create_connection(
                lambda: self, address.host, address.port, ssl=context if address.secure else None
            )
            answer = await self.connack
        if answer is None:
            text = (await self.over).text
            if text == HUNG_UP:
                text += " without an answer" + ("" if address.secure else "; if it speaks TLS there, write mqtts://")
            raise ConnectionError(text)
        return answer

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.writable.set()
        self.write([self._connect])

    def data_received(self, data: bytes) -> None:
        self._heard += 1
        self._decoder.feed(data)
        try:
            while not self.over.done():
                packet = self._decoder.next_packet()
                if packet is None:
                    return
                self._take(packet)
        except BadPacket as problem:
            if self.connack.done():
                self.write([Disconnect(problem.reason)])
            self.close(Over(f"the broker said what it may not: {problem}"))

    def connection_lost(self, problem: Exception | None) -> None:
        self.close(Over(str(problem or HUNG_UP)))
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    # Packets.

    def _take(self, packet: AnyPacket) -> None:
        match packet:
            case ConnAck() if not self.connack.done():
                self.granted = packet
                self.connack.set_result(packet)
                keep_alive_s = packet.server_keep_alive_s
                self._watch_every((self._connect.keep_alive_s if keep_alive_s is None else keep_alive_s) / 2)
            case Disconnect(reason, _, text, _, reference) if self.connack.done():
                self.close(Over(text or reason.name.lower(), reason, reference))
            case PingResp():
                return
            case _ if self.connack.done():
                self._on_packet(packet)
            case _:
                raise ProtocolError(f"{type(packet).__name__} before CONNACK")

    def write(self, packets: list[AnyPacket]) -> None:
        """All of a tick in one piece."""
        if self.over.done() or not packets:
            return
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting += [encode(packet, V5) for packet in packets]

    def flush(self) -> None:
        if self._transport is not None and self._waiting:
            self._transport.write(b"".join(self._waiting))
        self._waiting = []

    def leave(self, ends_session: bool) -> None:
        """In order; the session ends here, or stays as long as its expiry says."""
        self.write([Disconnect(session_expiry_s=0 if ends_session else None)])
        self.close(Over("left"))

    def close(self, over: Over) -> None:
        if self.over.done():
            return
        self.flush()
        self.over.set_result(over)
        self.writable.set()
        if not self.connack.done():
            self.connack.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()

    # Silence.

    def _watch_every(self, seconds: float) -> None:
        if seconds > 0:
            self._timer = self._loop.call_later(seconds, self._look, seconds)

    def _look(self, seconds: float) -> None:
        self._silent = self._silent + 1 if self._heard == self._heard_before else 0
        self._heard_before = self._heard
        if self._silent >= LOOKS_A_KEEP_ALIVE:
            self.close(Over("the broker is silent"))
            if self._transport is not None:
                self._transport.abort()
            return
        self.write([PingReq()])
        self._watch_every(seconds)
