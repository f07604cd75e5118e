"""A client in a mesh: it says where it is going whenever that changes, and takes events from any broker (M2, M5).

It reports (attaches, with its mobility status) to the broker in whose cell it is

    when it comes, and whenever its mobility status has changed;
    when it is back in the cell of its serving broker;
    when it has something to publish, or to subscribe to, and its serving broker is elsewhere, or did not confirm it;
    when a forwarded event leaves a gap: something did not find it;
    when its trip should have ended some time ago, and it is not with its serving broker, or that one waits for it.

Whatever it meant to say while it had no link, or nobody confirmed, it says on its next link. Between reports the
brokers it passes get no word from it, but now and then what it has, for its serving broker to forget.
"""

from msgspec.structs import replace

from roamcast.broker.client import Client
from roamcast.broker.mesh.prediction import TRIP_S_MAX, Status, status_of
from roamcast.broker.messages import Ack, Attach, Has, Lost, Numbered, Poll, Sub, Subscribed, Unsub, Welcomed
from roamcast.broker.params import BrokerParams
from roamcast.model.places import MovementGraph
from roamcast.model.space import Space
from roamcast.node.boundary import (
    Does,
    Input,
    LinkDown,
    LinkUp,
    Message,
    Moved,
    Publish,
    Send,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)

HAS_EVERY = 16
"""How many forwarded events may arrive before the serving broker is told."""


class MeshClient(Client):
    """`broker` is the serving broker while the client is in its cell, `serving` is its name wherever that is."""

    def __init__(
        self, host: str, params: BrokerParams, space: Space | None = None, graph: MovementGraph | None = None
    ) -> None:
        super().__init__(host, params, space, graph)
        self.serving: str | None = None
        self.was_at = ""
        """The broker that last had all of its session: there, or where that leads, a later broker finds it."""
        self.status: Status | None = None
        """As it was last reported."""
        self.due = True
        """Whether something is to be reported, or was and nobody confirmed."""
        self.asked = 0
        """The number of its last `Sub` or `Unsub`."""
        self.confirmed = 0
        """Up to which of them its broker has confirmed."""
        self.since = 0
        """Events numbered under earlier attachments than this one are from a life it has forgotten."""
        self.came_us = 0
        """When it came to the broker of its newest link."""
        self.gap_at = -1
        """The last number it had when it reported a gap on this link."""

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case LinkUp(peer):
                self.links[peer] = None
                self.came_us = now_us
                self.gap_at = -1
                return self._report_to(now_us, peer) if self._unheard() or peer == self.serving else []
            case LinkDown(peer):
                return self._unlinked(now_us, peer)
            case Start():
                return [*super().handle(now_us, given), *self._probe_later(now_us)]
            case Moved():
                return [*super().handle(now_us, given), *self._moved(now_us)]
            case Publish() | Subscribe() | Unsubscribe():
                effects = super().handle(now_us, given)
                return effects if self.broker is not None else [*effects, *self._report_now(now_us)]
            case TimerFired("report"):
                return [] if self.broker is not None and not self._held_back() else self._report_now(now_us)
            case TimerFired("poll"):
                return [*self._poll(), *self._probe_later(now_us)]
            case _:
                return super().handle(now_us, given)

    # Reports.

    def _moved(self, now_us: int) -> list[Does]:
        now = self._status(now_us)
        if now is None or (self.status is not None and now.same_trip(self.status)):
            return []
        return self._report_now(now_us)

    def _held_back(self) -> bool:
        """Whether its broker keeps events back until it hears that the trip is over."""
        return self.params.handover == "batch" and self.status is not None and self.status.speed_mps > 0

    def _unheard(self) -> bool:
        """Whether it has said something that nobody confirmed."""
        return self.due or bool(self.pending) or self.asked > self.confirmed

    def _report_now(self, now_us: int) -> list[Does]:
        self.due = True
        return self._report_to(now_us, next(reversed(self.links))) if self.links else []

    def _report_to(self, now_us: int, broker: str) -> list[Does]:
        effects = self._attach(now_us, broker)
        self.since = self.since or self.epoch
        self.serving = broker
        # A report has all subscriptions in it, and is confirmed itself.
        self.confirmed = self.asked
        self.status = self._status(now_us)
        self.due = True
        return [*effects, self._report_later(now_us)]

    def _report_later(self, now_us: int) -> Does:
        travel_s = 0.0 if self.status is None else min(self.status.travel_s(self.space), TRIP_S_MAX)
        return SetTimer("report", now_us + round((travel_s + self.params.mesh.report_s) * 1e6))

    def _ask(self, message: Sub | Unsub) -> list[Does]:
        if self.broker is None:
            return []
        self.asked += 1
        return super()._ask(replace(message, number=self.asked))

    def _told(self, now_us: int, attach: Attach) -> Attach:
        return replace(attach, status=self._status(now_us), was_at=self.was_at)

    def _status(self, now_us: int) -> Status | None:
        status = status_of(self.me, now_us, self.space)
        if status is None or not self.links:
            return status
        return replace(status, stayed_us=now_us - self.came_us)

    def _unlinked(self, now_us: int, peer: str) -> list[Does]:
        self.links.pop(peer, None)
        if peer != self.broker:
            return []
        self.broker = None
        if self._unheard() and self.links:
            return self._report_now(now_us)
        return [self._report_later(now_us)]

    # Events.

    def _hear(self, now_us: int, message: Message, sender: str) -> list[Does]:
        match message:
            case Welcomed(epoch, settled):
                if epoch == self.epoch:
                    self.due = False
                    self.was_at = sender if settled else self.was_at
                return []
            case Subscribed(number):
                self.confirmed = max(self.confirmed, number)
                return []
            case Lost(None) if sender == self.broker:
                # Numbers begin anew, so those of earlier attachments mean nothing any more.
                self.since = self.epoch
                return super()._hear(now_us, message, sender)
            case _:
                return super()._hear(now_us, message, sender)

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        if numbered.epoch == 0:
            return super()._take(now_us, numbered, sender)
        if numbered.epoch < self.since:
            return []
        if numbered.number > self.last + 1:
            return self._gap(now_us)
        if numbered.number <= self.last:
            return []
        effects = [each for each in super()._take(now_us, numbered, sender) if not acknowledges(each)]
        if self.last % HAS_EVERY == 0 and self.serving is not None and sender in self.links:
            effects.append(Send(sender, Has(self.serving, self.epoch, self.last)))
        return effects

    def _gap(self, now_us: int) -> list[Does]:
        """Whoever asks anyway need not report, and once is enough."""
        if self.params.handover == "probing" or self.gap_at == self.last:
            return []
        self.gap_at = self.last
        return self._report_now(now_us)

    # Probing (M8).

    def _probe_later(self, now_us: int) -> list[Does]:
        if self.params.handover != "probing":
            return []
        return [SetTimer("poll", now_us + round(self.params.mesh.probe_s * 1e6))]

    def _poll(self) -> list[Does]:
        if self.serving is None or not self.links:
            return []
        return [Send(next(reversed(self.links)), Poll(self.serving, self.epoch, self.last))]


def acknowledges(effect: Does) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, Ack)
