"""Who publishes in the fault tests, and keeps count of what was acknowledged to it.

paho does so at QoS 1. At QoS 2 it is `roamcast.Client`: paho 2.x sends a message that it had released already once
more as a new one when an attempt to connect fails meanwhile, and no broker could tell.
"""

import asyncio
from collections import deque
from typing import Any, Protocol

from roamcast.client import Client
from tests.processes.vendors import connect_paho, end_paho, paho_client

SENT_KEPT_MAX = 200


class Publisher(Protocol):
    name: str
    said: list[int]
    acknowledged: int

    @property
    def settled(self) -> bool: ...
    async def start(self) -> None: ...
    def say(self, padding: str = "") -> None: ...
    async def stop(self) -> None: ...


def publisher(qos: int, port: int) -> Publisher:
    return PahoPublisher("p1", port) if qos == 1 else OwnPublisher("p2", f"mqtt://127.0.0.1:{port}")


class PahoPublisher:
    """At QoS 1.

    What is published between CONNECT and CONNACK paho sends before what it has to send again. That is not the
    broker's doing, so nothing is said from a loss of the connection until everything said before is safe.
    """

    def __init__(self, name: str, port: int) -> None:
        self.name, self.port = name, port
        self.said: list[int] = []
        self.acknowledged = 0
        self.refused: list[int] = []
        """Reason codes of what was not taken."""
        self._client = paho_client(name)
        self._client.on_publish = self._published
        self._client.on_disconnect = self._disconnected
        self._client.on_log = self._logged
        self.sent: deque[str] = deque(maxlen=SENT_KEPT_MAX)
        """What it sent last, and how its connections began and ended, in paho's words."""
        self._losses = 0
        """Of connections; paho counts on a thread of its own."""
        self._caught_up_with = -1

    def _published(self, _client: Any, _data: Any, _packet_id: int, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self.refused.append(reason.value)
        else:
            self.acknowledged += 1

    def _disconnected(self, *_: Any) -> None:
        self._losses += 1
        self.sent.append("disconnected")

    def _logged(self, _client: Any, _data: Any, _level: int, text: str) -> None:
        if text.startswith(("Sending CONNECT", "Sending PUBLISH", "Received CONNACK")):
            self.sent.append(text.partition(", '")[0])

    async def start(self) -> None:
        connect_paho(self._client, self.port)

    @property
    def settled(self) -> bool:
        return self.acknowledged + len(self.refused) >= len(self.said)

    def say(self, padding: str = "") -> None:
        # Read first: a connection that is lost from here on is caught up with before the next one.
        losses = self._losses
        if self._caught_up_with != losses and not (self.settled and self._client.is_connected()):
            return
        self._caught_up_with = losses
        self._client.publish(f"t/{self.name}", f"{self.name} {len(self.said)}{padding}", qos=1)
        self.said.append(len(self.said))

    async def stop(self) -> None:
        await end_paho(self._client)


class OwnPublisher:
    """Goes to whichever of its brokers has it."""

    def __init__(self, name: str, *brokers: str, qos: int = 2, keep_alive_s: int = 30) -> None:
        self.name = name
        self.said: list[int] = []
        self.acknowledged = 0
        self._qos = qos
        self._client = Client(name, brokers, keep_alive_s=keep_alive_s)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self._client.__aenter__()

    @property
    def settled(self) -> bool:
        return self.acknowledged >= len(self.said)

    def say(self, padding: str = "") -> None:
        task = asyncio.get_running_loop().create_task(self._publish(f"{self.name} {len(self.said)}{padding}"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.said.append(len(self.said))

    async def _publish(self, text: str) -> None:
        await self._client.publish(f"t/{self.name}", text.encode(), qos=self._qos)
        self.acknowledged += 1

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self._client.__aexit__(None, None, None)
