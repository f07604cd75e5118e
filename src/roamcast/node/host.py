"""A host: one node, and the only caller of its `handle`.

Every input goes the same way: tell the observers if the application or the location service caused it, give it to the
node, then for each effect tell the observers and have the runtime perform it. Messages and timers skip the first
step. The runtime is the simulator or live; observers are the journal, checkers and the ideal.
"""

from typing import Protocol

from roamcast.node.boundary import (
    Announce,
    Deliver,
    Does,
    Input,
    Moved,
    Node,
    Note,
    Publish,
    Received,
    Start,
    Subscribe,
    TimerFired,
    Unannounce,
    Unsubscribe,
    Withdraw,
)
from roamcast.node.observer import Observer


class Runtime(Protocol):
    def perform(self, host: "Host", effect: Does) -> None: ...


class Host:
    __slots__ = ("clock_offset_us", "id", "node", "observers", "runtime")

    def __init__(
        self,
        host_id: str,
        node: Node,
        runtime: Runtime,
        observers: tuple[Observer, ...] = (),
        clock_offset_us: int = 0,
    ) -> None:
        self.id = host_id
        self.node = node
        self.runtime = runtime
        self.observers = observers
        self.clock_offset_us = clock_offset_us
        """How far the host's own clock is ahead of the runtime's; the node knows only its own."""

    def give(self, now_us: int, given: Input) -> None:
        if self.observers and type(given) is not Received and type(given) is not TimerFired:
            self._journal_input(now_us, given)
        effects = self.node.handle(now_us + self.clock_offset_us, given)
        if effects:
            self._perform(now_us, effects)

    def tell(self, now_us: int, given: Input) -> None:
        """What nothing is journalled of, messages and timers, which are most inputs by far. Of most nothing comes."""
        effects = self.node.handle(now_us + self.clock_offset_us, given)
        if effects:
            self._perform(now_us, effects)

    def _perform(self, now_us: int, effects: list[Does]) -> None:
        for effect in effects:
            # By type: effects are many, and `isinstance` of a msgspec struct is slow where the answer is no.
            if type(effect) is Deliver:
                for observer in self.observers:
                    observer.delivered(now_us, self.id, effect.event, effect.subscription_id)
            elif type(effect) is Note:
                for observer in self.observers:
                    observer.noted(now_us, self.id, effect.what, effect.detail)
            self.runtime.perform(self, effect)

    def _journal_input(self, now_us: int, given: Input) -> None:
        for observer in self.observers:
            match given:
                case Start(context) | Moved(context):
                    observer.moved(now_us, context)
                case Publish(event):
                    observer.published(now_us, self.id, event)
                case Withdraw(event_id):
                    observer.withdrawn(now_us, self.id, event_id)
                case Subscribe(subscription):
                    observer.subscribed(now_us, self.id, subscription)
                case Unsubscribe(subscription_id):
                    observer.unsubscribed(now_us, self.id, subscription_id)
                case Announce(announcement):
                    observer.announced(now_us, self.id, announcement)
                case Unannounce(announcement_id):
                    observer.unannounced(now_us, self.id, announcement_id)
                case _:
                    return
