"""Who may do what at this broker: the interface that the server asks, and the answer where nothing is configured."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from roamcast.model.context import Context
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.packets import Connect
from roamcast.mqtt.reasons import Reason

if TYPE_CHECKING:
    from roamcast.server.connection import ClientSocket

Refusal: TypeAlias = tuple[Reason, str] | None


class Gate(Protocol):
    def may_open(self, client: "ClientSocket", now_us: int) -> str | None:
        """None: yes; else why not."""
        return None

    def closed(self, client: "ClientSocket") -> None:
        return

    def check(
        self, client: "ClientSocket", connect: Connect, now_us: int, decided: Callable[[Refusal], None]
    ) -> None:
        """Calls `decided` on the loop: at once, or when a password has been looked at."""
        decided(None)

    def user_of(self, client: "ClientSocket") -> str | None:
        """Who a client is, where that was found out."""
        return None

    def may_publish(self, client: "ClientSocket", message: Message, context: Context, now_us: int) -> Refusal:
        return None

    def may_publish_anywhere(self, client: "ClientSocket", topic: str) -> bool:
        """Whether it may publish to a topic wherever it is; if not, what it says is asked about one by one."""
        return True

    def may_subscribe(self, client: "ClientSocket", asked: Subscription, now_us: int) -> Reason | None:
        return None

    def pace_us(
        self, client: "ClientSocket", messages_bytes: int | None, filters: int, now_us: int, messages: int = 1
    ) -> int:
        """For how long not to read from a client that has published messages, or sent so many topic filters."""
        return 0

    def close(self) -> None:
        return


class OpenGate(Gate):
    """Everybody may do everything: for a machine of one's own, and tests."""
