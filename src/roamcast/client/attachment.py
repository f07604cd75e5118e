"""Keeps a client connected: connects, follows redirects, and reconnects to the next broker when one is lost.

    away --CONNACK--> attached --lost, sent on, roaming--> away, and so on until the client leaves or nothing can help

A client is out of help when every broker of its list refuses it for good, or when another client has its name.
"""

import asyncio
import ssl as tls
from typing import Protocol

from msgspec.structs import replace

from roamcast.client.broker_list import BrokerList
from roamcast.client.connection import Address, BrokerConnection, Over
from roamcast.client.errors import ClientError, ConnectionRefused, NameTaken, NotConnected
from roamcast.client.session import Result, Session
from roamcast.config_errors import network_reason
from roamcast.mqtt.packets import AnyPacket, ConnAck, Connect
from roamcast.mqtt.reasons import FAILURE_FROM, Reason

BRIEF_S = 1.0
"""A connection that ends sooner is as good as none."""
LEAVING_S = 2.0
FINAL = (
    Reason.UNSUPPORTED_PROTOCOL_VERSION,
    Reason.CLIENT_IDENTIFIER_NOT_VALID,
    Reason.BAD_USER_NAME_OR_PASSWORD,
    Reason.NOT_AUTHORIZED,
    Reason.BANNED,
    Reason.BAD_AUTHENTICATION_METHOD,
)
"""Where it is of no use to ask again."""


class Holder(Protocol):
    """Whom an attachment serves."""

    def result(self, result: Result) -> None: ...
    def session_lost(self) -> None:
        """The broker does not know the session any more; called before anything is said to it."""
        ...

    def failed(self, problem: Exception) -> None:
        """There will be no connection any more."""
        ...


class Attachment:
    def __init__(
        self,
        holder: Holder,
        connect: Connect,
        brokers: BrokerList,
        context: tls.SSLContext | None,
        connect_s: float,
    ) -> None:
        self.session = Session()
        self.line: BrokerConnection | None = None
        self.address: Address | None = None
        self.problem: Exception | None = None
        self.last_problem = "no broker was tried"
        self._holder = holder
        self._connect = connect
        self._brokers = brokers
        self._context = context
        self._connect_s = connect_s
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._refusals: dict[Address, ConnectionRefused] = {}
        self._was_attached = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises `NotConnected`."""
        self._task = asyncio.get_running_loop().create_task(self._keep())
        try:
            async with asyncio.timeout(self._connect_s):
                await self.line_but(None)
        except TimeoutError:
            await self._stop()
            raise NotConnected(f"no broker was reached in {self._connect_s:g} s: {self.last_problem}") from None
        except BaseException:
            await self._stop()
            raise

    def check(self) -> None:
        """Raises what stands in the way of saying anything."""
        if self.problem is not None:
            raise self.problem
        if self._task is None:
            raise ClientError("the client is not connected yet: use it within `async with Client(…) as client:`")

    async def leave(self, ends_session: bool) -> None:
        line = self.line
        if line is not None:
            line.leave(ends_session)
        await self._stop()
        if line is not None:
            await asyncio.wait([line.gone], timeout=LEAVING_S)

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def roam(self, address: Address) -> None:
        self._brokers.go(address)
        line = self.line
        if line is not None:
            line.leave(ends_session=False)
        self._wake.set()
        line = await self.line_but(line)
        while self._brokers.is_asked(address):
            # Another connection was on its way already when this was asked for.
            line.leave(ends_session=False)
            line = await self.line_but(line)
        if self.address != address:
            raise NotConnected(f"{address} was not reached, the client is at {self.address}: {self.last_problem}")

    async def line_but(self, old: BrokerConnection | None) -> BrokerConnection:
        """The connection, once there is one that is not this one."""
        while self.line is None or self.line is old or self.line.over.done():
            if self.problem is not None:
                raise self.problem
            self._changed.clear()
            await self._changed.wait()
        return self.line

    def settle(self) -> None:
        """Sends what the session wants sent, and tells what it has to say."""
        for result in self.session.results():
            self._holder.result(result)
        if self.line is not None:
            self.line.write(self.session.packets())

    # One connection after the other.

    async def _keep(self) -> None:
        try:
            await self._go_on()
        except Exception as problem:
            # Whoever waits for a broker would wait for ever.
            self.fail(problem)
            raise

    async def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self.problem is None:
            await self._rest(self._brokers.pause_s())
            address = self._brokers.next_address()
            line = BrokerConnection(self._connect, self._on_packet)
            connack = await self._open(line, address)
            if connack is None:
                continue
            if connack.reason >= FAILURE_FROM:
                line.close(Over("refused"))
                self._refused(address, connack)
                continue
            begun_s = loop.time()
            self._attach(line, address, connack)
            over = await line.over
            self.line = None
            self.session.detached()
            self._ended(over, address, loop.time() - begun_s)

    async def _rest(self, seconds: float) -> None:
        self._wake.clear()
        if seconds > 0:
            try:
                await asyncio.wait_for(self._wake.wait(), seconds)
            except TimeoutError:
                return

    async def _open(self, line: BrokerConnection, address: Address) -> ConnAck | None:
        answer: ConnAck | None = None
        try:
            answer = await line.open(address, self._context, self._connect_s / 2)
        except (OSError, ValueError) as problem:
            # TimeoutError is an OSError, and says nothing; a ValueError comes of a host name or a certificate.
            self.last_problem = f"{address}: {network_reason(problem)}"
            self._brokers.failed()
        finally:
            if answer is None:
                line.close(Over("given up"))
        return answer

    def _attach(self, line: BrokerConnection, address: Address, connack: ConnAck) -> None:
        self._connect = replace(self._connect, clean_start=False)
        self.line, self.address = line, address
        self._refusals = {}
        if self._was_attached and not connack.session_present:
            self._holder.session_lost()
        self._was_attached = True
        self.session.attached(connack, asyncio.get_running_loop().time())
        self.settle()
        self._changed.set()

    def _on_packet(self, packet: AnyPacket) -> None:
        self.session.receive(packet)
        self.settle()

    def _refused(self, address: Address, connack: ConnAck) -> None:
        refusal = ConnectionRefused(str(address), connack.reason, connack.reason_text)
        self.last_problem = str(refusal)
        self._sent_on(connack.reason, connack.server_reference, address)
        if connack.reason in FINAL:
            self._refusals[address] = refusal
            if all(each in self._refusals for each in self._brokers.addresses):
                self.fail(refusal)

    def _ended(self, over: Over, address: Address, lived_s: float) -> None:
        self.last_problem = f"{address}: {over.text}"
        if lived_s >= BRIEF_S:
            self._brokers.reached()
        if over.reason is Reason.SESSION_TAKEN_OVER:
            self.fail(NameTaken(f"another client has the same name, and {address} serves that one now"))
        elif over.reason is not None:
            self._sent_on(over.reason, over.reference, address)
        elif lived_s < BRIEF_S:
            self._brokers.failed()

    def _sent_on(self, reason: Reason, reference: str | None, address: Address) -> None:
        if reference is not None and reason in (Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED):
            scheme = "mqtts" if address.secure else "mqtt"
            self._brokers.refer(reference, scheme, permanently=reason is Reason.SERVER_MOVED)
        else:
            self._brokers.failed()

    def fail(self, problem: Exception) -> None:
        self.problem = self.problem or problem
        self._holder.failed(problem)
        self._changed.set()
