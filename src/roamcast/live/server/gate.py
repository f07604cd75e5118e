"""Who may do what at this broker: the interface that the server asks, and the answer where nothing is configured."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from roamcast.live.mqtt.messages import Message, Subscription
from roamcast.live.mqtt.packets import Connect
from roamcast.live.mqtt.reasons import Reason
from roamcast.model.context import Context

if TYPE_CHECKING:
    from roamcast.live.server.connection import ClientSocket

Refusal: TypeAlias = tuple[Reason, str] | None


class Gate(Protocol):
    def may_open(self, address: str, open_sockets: int, now_us: int) -> bool: ...
    def closed(self, address: str) -> None: ...

    def check(
        self, connect: Connect, transport: asyncio.Transport | None, decided: Callable[[Refusal], None]
    ) -> None:
        """Calls `decided` on the loop: at once, or when a password has been looked at."""
        ...

    def may_publish(self, client: "ClientSocket", message: Message, context: Context, now_us: int) -> Refusal: ...

    def may_subscribe(self, client: "ClientSocket", asked: Subscription, now_us: int) -> Reason | None: ...


class OpenGate(Gate):
    """Everybody may do everything: for a machine of one's own, and tests."""

    def may_open(self, address: str, open_sockets: int, now_us: int) -> bool:
        return True

    def closed(self, address: str) -> None:
        return

    def check(
        self, connect: Connect, transport: asyncio.Transport | None, decided: Callable[[Refusal], None]
    ) -> None:
        decided(None)

    def may_publish(self, client: "ClientSocket", message: Message, context: Context, now_us: int) -> Refusal:
        return None

    def may_subscribe(self, client: "ClientSocket", asked: Subscription, now_us: int) -> Reason | None:
        return None
