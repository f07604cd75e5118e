"""Who looks on while a broker works: told what happens, as it happens (L5).

Nothing that an onlooker does reaches the state machine, and nothing of it is stored: a broker whose log is read again
has none. So a mistake of an onlooker must not reach it either, or the state would be another than what the log makes
again: it looks on behind a guard. Where nobody looks on, that costs one question at each of these places.
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec, Protocol, TypeAlias

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.mqtt.messages import Message
from roamcast.mqtt.messages import Subscription as Asked

PlainPlan: TypeAlias = Sequence[tuple[list[Asked], tuple[str, ...]]]
"""Clients that get every message of a topic, as `Audience.plain` found them."""


class Onlooker(Protocol):
    def here(self, context: Context) -> None:
        """A client has come, or has told where and what it is."""
        ...

    def away(self, client: str) -> None:
        """Its connection is over; its session may wait for it."""
        ...

    def gone(self, client: str, to: str | None) -> None:
        """Its session is over, or `to` is the broker that has it now."""
        ...

    def subscribed(self, wanted: Subscription) -> None: ...
    def withdrawn(self, wanted: Subscription) -> None: ...
    def published(self, client: str, event: Event) -> None: ...
    def published_plainly(self, publisher: Context, message: Message, plan: PlainPlan) -> None:
        """A message of QoS 0 that no event was made of: all of a topic's subscribers get it, and they are here."""
        ...

    def heard(self, peer: str, event: Event) -> None:
        """Before anybody here gets it. What was heard before may be heard again."""
        ...

    def passed_on(self, peer: str, event: Event) -> None:
        """To a neighbour. What was passed on before may be passed on again, when a link is back."""
        ...

    def delivered(self, client: str, event: Event) -> None:
        """Also of a client that is away, if it is of QoS 0: then it is lost."""
        ...


Told = ParamSpec("Told")


class GuardedOnlooker:
    """Tells another, up to its first mistake. It is an `Onlooker` by the names in `TOLD`."""

    def __init__(self, onlooker: Onlooker, failed: Callable[[str, Exception], None]) -> None:
        """`failed` is told once, of what it was not able to take in and why."""
        self.onlooker = onlooker
        self._failed = failed
        self._over = False
        for name in TOLD:
            setattr(self, name, self._guarded(name, getattr(onlooker, name)))

    def _guarded(self, name: str, tell: Callable[Told, None]) -> Callable[Told, None]:
        def told(*args: Told.args, **kwargs: Told.kwargs) -> None:
            try:
                tell(*args, **kwargs)
            except Exception as problem:
                if not self._over:
                    self._over = True
                    self._failed(name, problem)

        return told


TOLD = tuple(name for name, each in vars(Onlooker).items() if callable(each) and not name.startswith("_"))
"""All that an onlooker is told."""
