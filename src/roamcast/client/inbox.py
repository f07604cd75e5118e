"""Events that wait for the application, and which of them it has taken."""

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from roamcast.client.session import Incoming
from roamcast.model.values import Value


class ClientEvent(Struct, frozen=True):
    """An event as it came from a broker.

    `attributes` are those of a payload that is a JSON object. `subscriptions` are the ids of this client's
    subscriptions that it came for, `id` is what its publisher calls it, if that says so.
    """

    subject: str
    attributes: dict[str, Value]
    payload: bytes
    subscriptions: tuple[int, ...] = ()
    id: str | None = None
    qos: int = 0
    retained: bool = False
    expiry_s: int | None = None
    """How long it is still of use."""
    properties: tuple[tuple[str, str], ...] = ()


class Handed:
    """One event on its way to everybody who wants it; `done` is called when all of them have had it."""

    __slots__ = ("delivery", "event", "left")

    def __init__(self, event: ClientEvent, delivery: Incoming | None) -> None:
        self.event = event
        self.delivery = delivery
        self.left = 0


class Inbox:
    """Events in their order, for one reader. An event counts as had when its reader asks for the next one."""

    def __init__(self, had: Callable[[Handed], None]) -> None:
        self._had = had
        self._waiting: deque[Handed] = deque()
        self._current: Handed | None = None
        self._changed = asyncio.Event()
        self._problem: Exception | None = None
        self._over = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, handed: Handed) -> None:
        handed.left += 1
        self._waiting.append(handed)
        self._changed.set()

    def move(self, subscription: int, to: "Inbox", is_left: Callable[[ClientEvent], bool]) -> None:
        """Gives what is for one subscription to its own inbox; what others want as well stays here too."""
        staying: deque[Handed] = deque()
        for handed in self._waiting:
            if subscription in handed.event.subscriptions:
                to.put(handed)
            if is_left(handed.event):
                staying.append(handed)
            else:
                handed.left -= 1
        self._waiting = staying

    def end(self, problem: Exception | None = None) -> None:
        """Nothing more comes; what is here can still be had."""
        if not self._over:
            self._over, self._problem = True, problem
        self._changed.set()

    def finish(self) -> None:
        """The reader has had what it got."""
        current, self._current = self._current, None
        if current is not None:
            current.left -= 1
            if current.left == 0:
                self._had(current)

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> ClientEvent:
        self.finish()
        while not self._waiting:
            if self._problem is not None:
                raise self._problem
            if self._over:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        self._current = self._waiting.popleft()
        return self._current.event
