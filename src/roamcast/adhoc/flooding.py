"""Flooding, the baseline of every comparison: everybody repeats everything once.

Without brokers (`AdhocFlooding`) a publisher broadcasts its event, and each host that hears it for the first time
repeats it after a random delay. Over brokers (`BrokerFlooding`) an event goes over every link but the one it came
from. Either way each host keeps its own subscriptions to itself and decides alone what to deliver.

States: none but the ids seen lately and the host's own subscriptions. Message: `Flooded`, the event with its hops.
Guarantee: each event is delivered at most once to a subscription, and reaches every connected host as long as no
frame is lost and ids are not forgotten. What a host cannot know alone, it does not check: condition (iii) of C6, the
overlap of relevance and interest among third hosts; and condition (iv) is judged by the publisher's context that the
event carries. This is what context-aware publish/subscribe compares itself with (section 4.2).
"""

from abc import ABC, abstractmethod
from typing import Literal

from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import (
    Broadcast,
    Deliver,
    Does,
    Input,
    LinkDown,
    LinkUp,
    Message,
    Moved,
    Note,
    Publish,
    Received,
    Send,
    Start,
    Subscribe,
    Unsubscribe,
)
from roamcast.node.local_match import asks_the_unknown, wanted_here
from roamcast.node.recent import Recent


class Flooded(Message, frozen=True, tag="flooded"):
    event: Event
    hops: int = 1

    @property
    def event_id(self) -> str:
        return self.event.id


MESSAGES: tuple[type[Message], ...] = (Flooded,)
JITTER_MAX_MS = 60_000


class FloodingParams(Struct, frozen=True, forbid_unknown_fields=True):
    over: Literal["air", "links"] = "air"
    forward_jitter_ms: float = 100.0
    """A forwarder waits a random time up to this: the shorter, the more frames collide."""
    hops_max: int = 64
    seen_ids_max: int = 100_000
    subscriptions_max: int = 10_000

    def __post_init__(self) -> None:
        if not 0 <= self.forward_jitter_ms <= JITTER_MAX_MS:
            raise ValueError(f"forward_jitter_ms is {self.forward_jitter_ms}; give 0 to {JITTER_MAX_MS}")
        for name in ("hops_max", "seen_ids_max", "subscriptions_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")


class Flooding(ABC):
    """What both kinds share; `spread` says how an event goes on."""

    def __init__(
        self,
        params: FloodingParams,
        refuses: bool = False,
        space: Space | None = None,
        graph: MovementGraph | None = None,
    ) -> None:
        self.params = params
        self.refuses = refuses
        self.space = space or Plane()
        self.graph = graph
        self.me: Context | None = None
        self.seen = Recent(params.seen_ids_max)
        self.subscriptions: dict[str, Subscription] = {}

    @abstractmethod
    def spread(self, message: Flooded, sender: str | None) -> list[Does]: ...

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Received(Flooded(event, hops), sender):
                if not self.seen.add(event.id):
                    return []
                if self.refuses or hops >= self.params.hops_max:
                    return self.deliver(now_us, event)
                return [*self.deliver(now_us, event), *self.spread(Flooded(event, hops + 1), sender)]
            case Publish(event):
                self.seen.add(event.id)
                return [*self.deliver(now_us, event), *self.spread(Flooded(event), None)]
            case Start(context) | Moved(context):
                self.me = context
            case Subscribe(subscription):
                if len(self.subscriptions) >= self.params.subscriptions_max:
                    return [Note("subscription_refused", subscription.id)]
                unknown = asks_the_unknown(subscription)
                if unknown:
                    return unknown
                self.subscriptions[subscription.id] = subscription
            case Unsubscribe(subscription_id):
                self.subscriptions.pop(subscription_id, None)
            case _:
                pass
        return []

    def deliver(self, now_us: int, event: Event) -> list[Does]:
        if not self.subscriptions or self.me is None:
            return []
        for expired in [each.id for each in self.subscriptions.values() if each.expires_us < now_us]:
            del self.subscriptions[expired]
        wanted = wanted_here(event, self.subscriptions.values(), self.me, now_us, self.space, self.graph)
        return [Deliver(event, subscription.id) for subscription in wanted]


class AdhocFlooding(Flooding):
    def spread(self, message: Flooded, sender: str | None) -> list[Does]:
        jitter_us = 0 if sender is None else round(self.params.forward_jitter_ms * 1_000)
        return [Broadcast(message, jitter_us=jitter_us)]


class BrokerFlooding(Flooding):
    def __init__(
        self,
        params: FloodingParams,
        refuses: bool = False,
        space: Space | None = None,
        graph: MovementGraph | None = None,
    ) -> None:
        super().__init__(params, refuses, space, graph)
        self.peers: dict[str, None] = {}

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case LinkUp(peer):
                self.peers[peer] = None
                return []
            case LinkDown(peer):
                self.peers.pop(peer, None)
                return []
            case _:
                return super().handle(now_us, given)

    def spread(self, message: Flooded, sender: str | None) -> list[Does]:
        return [Send(peer, message) for peer in self.peers if peer != sender]
