"""An MQTT client within the broker's process, for whoever speaks HTTP.

It connects to the broker as others do, but over a wire in memory (`wire.py`): so users, rules, limits, backpressure
and the log are those of MQTT, and nothing has to be decided twice.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from roamcast.client.connection import BrokerConnection
from roamcast.client.packing import not_granted, sendable_bytes
from roamcast.client.session import Arrived, Confirmed, Incoming, Session
from roamcast.mqtt.packets import AnyPacket, Connect, Publish, Subscribe
from roamcast.mqtt.reasons import FAILURE_FROM, BadPacket, Reason
from roamcast.server.api.wire import connect
from roamcast.server.connection import ClientSocket
from roamcast.server.http.users import Who
from roamcast.server.server import BrokerServer

WAITING_MAX = 256
"""Messages that the reader has not had; beyond them the broker sends no more."""


class Turned(Exception):
    """The broker does not do what was asked; the message says why."""

    def __init__(self, reason: Reason, text: str | None) -> None:
        super().__init__(text or reason.name.lower().replace("_", " "))
        self.reason = reason


class InnerClient:
    """`open` it, and `close` it in the end."""

    def __init__(self, server: BrokerServer, who: Who) -> None:
        # Without a password nobody is known by name, whatever the name is.
        username = None if who.password is None else who.identity.user
        asked = Connect("", username=username, password=who.password, receive_max=WAITING_MAX)
        self._server = server
        self._line = BrokerConnection(asked, self._receive)
        self._socket = ClientSocket(server, "http")
        self._address = who.address
        self._session = Session()
        self._confirmations: dict[int, asyncio.Future[Confirmed]] = {}
        self._came: deque[Arrived] = deque()
        self._changed = asyncio.Event()
        self._is_full = False

    @property
    def over(self) -> bool:
        return self._line.over.done()

    @property
    def busy(self) -> bool:
        """Whether somebody waits for the broker's answer."""
        return bool(self._confirmations)

    async def open(self) -> None:
        """Raises `Turned`."""
        connect(self._line, self._socket, self._address)
        self._line.over.add_done_callback(lambda _: self._end())
        answer = await self._line.connack
        if answer is None:
            raise Turned(Reason.SERVER_UNAVAILABLE, (await self._line.over).text)
        if answer.reason >= FAILURE_FROM:
            raise Turned(answer.reason, answer.reason_text)
        self._session.attached(answer)

    def close(self) -> None:
        self._line.leave(ends_session=True)

    async def publish(self, packet: Publish) -> None:
        """Returns when the broker has it for good; raises `Turned`."""
        self._check(replace(packet, packet_id=1 if packet.qos else 0))
        if packet.qos:
            await self._confirmed(lambda: self._session.publish(packet))
        elif not self.over:
            self._line.write([packet])

    async def subscribe(self, packet: Subscribe) -> None:
        """Raises `Turned`."""
        self._check(replace(packet, packet_id=1))
        await self._confirmed(lambda: self._session.request(packet))

    async def next_message(self) -> Arrived | None:
        """None: there will be no more. Whoever has dealt with one says so by `taken`."""
        while not self._came:
            if self.over:
                return None
            self._changed.clear()
            await self._changed.wait()
        arrived = self._came.popleft()
        if self._is_full and len(self._came) < WAITING_MAX // 2:
            self._is_full = False
            self._socket.resume_writing()
        return arrived

    def taken(self, delivery: Incoming | None) -> None:
        if delivery is not None and not self.over:
            self._session.taken(delivery)
            self._line.write(self._session.packets())

    def _check(self, packet: Publish | Subscribe) -> None:
        """Raises `Turned` for what the broker would hang up at: others may share this client."""
        try:
            size = sendable_bytes(packet)
        except BadPacket as problem:
            raise Turned(problem.reason, problem.detail) from None
        granted = self._line.granted
        if isinstance(packet, Publish) and granted is not None:
            why_not = not_granted(packet, size, granted)
            if why_not is not None:
                raise Turned(*why_not)

    async def _confirmed(self, ask: Callable[[], int]) -> None:
        if self.over:
            raise Turned(Reason.SERVER_UNAVAILABLE, self._line.over.result().text)
        confirmation: asyncio.Future[Confirmed] = asyncio.get_running_loop().create_future()
        token = ask()
        self._confirmations[token] = confirmation
        self._line.write(self._session.packets())
        try:
            confirmed = await confirmation
        finally:
            self._confirmations.pop(token, None)
        if confirmed.reason >= FAILURE_FROM:
            raise Turned(confirmed.reason, confirmed.text)

    def _receive(self, packet: AnyPacket) -> None:
        self._session.receive(packet)
        for result in self._session.results():
            match result:
                case Arrived():
                    self._came.append(result)
                    self._changed.set()
                case Confirmed(token):
                    confirmation = self._confirmations.get(token)
                    if confirmation is not None and not confirmation.done():
                        confirmation.set_result(result)
        self._line.write(self._session.packets())
        if len(self._came) >= WAITING_MAX and not self._is_full:
            self._is_full = True
            self._socket.pause_writing()

    def _end(self) -> None:
        over = self._line.over.result()
        for confirmation in self._confirmations.values():
            if not confirmation.done():
                confirmation.set_exception(Turned(over.reason or Reason.SERVER_UNAVAILABLE, over.text))
        self._changed.set()
