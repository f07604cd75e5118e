"""Clients that come and go: sessions, wills, and where a session is when its client comes here from elsewhere (L3).

A client whose session is here is admitted at once. Of any other its session is looked for
(`broker/memory.py`) and, when it is found, fetched by relocation; CONNACK follows when all of it is here.
A client whose session cannot be looked for in time is sent away to try again: to let it in without its session would
lose what waits for it. When its session was found and then could not be fetched, that is lost, and it is told so.

One that starts clean wants no session, but the one that it ends must be its own user's, and what it does now must
count as later than what it did there, whatever the clocks say. So that session is looked for too, and not for long.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from roamcast.broker.messages import Attach, Remind, Reminded
from roamcast.broker.window import NUMBER_MAX
from roamcast.live.broker.effects import Admit, Deny, Dismiss, Remark
from roamcast.live.broker.inputs import Arrived, Left
from roamcast.live.broker.properties import text_of
from roamcast.live.broker.publishing import Publishing
from roamcast.live.broker.station import AWAY, Station
from roamcast.live.broker.subscribing import Subscribing
from roamcast.live.broker.travelling import Travelling
from roamcast.live.broker.visitor import Visitor
from roamcast.model.context import Context
from roamcast.model.subscription import Subscription
from roamcast.mqtt.packets import NEVER_S
from roamcast.mqtt.reasons import Reason
from roamcast.mqtt.session import Session, SessionLimits
from roamcast.node.boundary import LinkDown, TimerFired

OTHERS = "this client id has a session of another user"
ANEW_WAIT_US = 2_000_000
"""How long at most a client that starts clean waits for word of the session that it ends."""
Came: TypeAlias = Literal["first", "again", "restarted"]


class Admission:
    def __init__(
        self,
        station: Station,
        subscribing: Subscribing,
        publishing: Publishing,
        limits: SessionLimits,
        travelling: Travelling,
        reminder_wait_s: float,
    ) -> None:
        self.station = station
        self.subscribing = subscribing
        self.publishing = publishing
        self.travelling = travelling
        self.limits = limits
        self.reminder_wait_us = round(reminder_wait_s * 1e6)

    # Coming.

    def arrived(self, given: Arrived) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is not None and visitor.user != given.user:
            self._deny(given.client, given.arrival, Reason.CLIENT_IDENTIFIER_NOT_VALID, OTHERS)
            return
        if visitor is not None and visitor.connected:
            # Its last connection is gone and nobody has said so.
            self.left(Left(given.client, None, False))
            visitor = self.station.visitors.get(given.client)
        if visitor is not None and visitor.coming and given.clean_start:
            self._come_no_more(visitor)
            visitor = self.station.visitors.get(given.client)
        if visitor is not None and visitor.coming:
            self._arrange(visitor, given)
            return
        if visitor is not None and (given.clean_start or visitor.lost):
            self.end(visitor)
            visitor = None
        if visitor is not None:
            self._cancel(visitor)
            self._arrange(visitor, given)
            self._attach(visitor, "again", visitor.wanted.values())
            visitor.coming = True
            self._look_at(visitor)
            return
        session = Session(given.client, given.expiry_s, self.limits)
        visitor = Visitor(session, Context(given.client), self.station.modulators())
        self.station.visitors[given.client] = visitor
        self._arrange(visitor, given)
        if given.is_new or not self.station.has_neighbours():
            self._begin(visitor, "first")
        else:
            self._ask(visitor)

    def _come_no_more(self, visitor: Visitor) -> None:
        """It waits for its session, and now wants none. The will that it waited with was never accepted."""
        visitor.coming, visitor.will = False, None
        if visitor.epoch == 0:
            self._cancel(visitor)
            del self.station.visitors[visitor.client]

    def _arrange(self, visitor: Visitor, given: Arrived) -> None:
        visitor.session.expiry_s = given.expiry_s
        visitor.will = given.will
        visitor.arrival, visitor.user = given.arrival, given.user
        visitor.anew = given.clean_start

    def _deny(self, client: str, arrival: int, reason: Reason, text: str) -> None:
        self.station.emit(Deny(client, reason, text, arrival))

    def _drop(self, visitor: Visitor, reason: Reason, text: str) -> None:
        """It was never let in, so nothing of it is anywhere but here."""
        self._cancel(visitor)
        self.subscribing.forget(visitor)
        self.station.visitors.pop(visitor.client, None)
        self._deny(visitor.client, visitor.arrival, reason, text)

    def _begin(self, visitor: Visitor, came: Came) -> None:
        self._attach(visitor, came, ())
        if visitor.name not in self.station.broker.border.sessions:
            self._drop(visitor, Reason.QUOTA_EXCEEDED, "this broker has as many sessions as it may")
            return
        if came == "restarted":
            # Another broker may have had a session of it, and does not know how it ended.
            self.station.observation.gone(visitor.client)
        self.subscribing.groups.left_all(visitor.client)
        self.subscribing.welcome(visitor)
        self._admit(visitor, present=False)

    def _attach(self, visitor: Visitor, came: Came, wanted: Iterable[Subscription]) -> None:
        arrow = self.station.broker.handover.arrow_of(visitor.name)
        known = 0 if arrow is None else arrow.claim.epoch
        visitor.epoch = max(self.station.now_us, visitor.epoch + 1, known + 1)
        # Wherever it said that it would go, it is here.
        visitor.next_broker = ""
        self.travelling.attach(visitor, Attach(visitor.epoch, visitor.acknowledged, came, tuple(wanted)))

    def _admit(self, visitor: Visitor, present: bool) -> None:
        visitor.connected, visitor.coming = True, False
        self.subscribing.audience.connected(visitor.client, True)
        self.subscribing.groups.joined(visitor.client, visitor.asked.values(), True)
        lasting = self.publishing.keeping.lasting
        visitor.seen = {event_id: names for event_id, names in visitor.seen.items() if event_id in lasting}
        self.station.observation.moved(visitor.context.at(self.station.now_us, self.station.space))
        self.travelling.admitted(visitor)
        self.station.emit(Admit(visitor.client, visitor.session, present, visitor.arrival))

    # Its session is somewhere.

    def _ask(self, visitor: Visitor) -> None:
        visitor.coming = True
        foretold = None if visitor.anew else self.station.broker.handover.foretold(visitor.name)
        if foretold is not None:
            known = Reminded(0, True, foretold.epoch, foretold.subscriptions, foretold.luggage)
            self._reminded(visitor, known)
            return
        wait_us = min(self.reminder_wait_us, ANEW_WAIT_US) if visitor.anew else self.reminder_wait_us
        self.station.timers.set(f"reminder:{visitor.client}", self.station.now_us + wait_us)
        self.station.tell_broker(visitor, Remind(self.station.now_us))
        self.look_around()

    def reminder_over(self, client: str) -> None:
        visitor = self.station.visitors.get(client)
        if visitor is None or not visitor.coming or visitor.epoch:
            return
        if visitor.anew:
            self._begin(visitor, "restarted")
        else:
            text = "a broker that may have the session cannot be reached; try again"
            self._drop(visitor, Reason.SERVER_UNAVAILABLE, text)

    def look_around(self) -> None:
        """What neighbours have said of clients here, or timers."""
        reminded, self.station.reminded = self.station.reminded, {}
        for client, answer in reminded.items():
            visitor = self.station.visitors.get(client)
            if visitor is not None and visitor.coming and visitor.epoch == 0:
                self._reminded(visitor, answer)
        touched, self.station.touched = self.station.touched, {}
        for client in [*touched, *reminded]:
            visitor = self.station.visitors.get(client)
            if visitor is not None and visitor.epoch:
                self._look_at(visitor)

    def _reminded(self, visitor: Visitor, answer: Reminded) -> None:
        self.station.timers.cancel(f"reminder:{visitor.client}")
        if answer.subscriptions and not visitor.anew and self.station.broker.neighbours.router.full():
            # Nothing of it has been claimed yet: the session stays where it is.
            self._drop(visitor, Reason.QUOTA_EXCEEDED, "this broker has as many subscriptions as it may")
            return
        visitor.epoch = max(0, min(answer.epoch, NUMBER_MAX))
        if not answer.found or answer.luggage is None:
            visitor.coming = False
            self._begin(visitor, "restarted" if answer.found or visitor.anew else "first")
            return
        try:
            if not visitor.belongs_to(answer.luggage):
                self._drop(visitor, Reason.CLIENT_IDENTIFIER_NOT_VALID, OTHERS)
                return
            if visitor.anew or visitor.stays_behind(answer.luggage):
                self._begin(visitor, "restarted")
                return
            visitor.unpack(answer.luggage)
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            self.station.emit(Remark("bad_luggage", f"{visitor.client}: {problem}"))
            self._begin(visitor, "restarted")
            return
        visitor.wanted = {text_of(each.id): each for each in answer.subscriptions}
        self.station.emit(Remark("roamed_in", visitor.client))
        self._attach(visitor, "again", answer.subscriptions)
        if visitor.name not in self.station.broker.border.sessions:
            self._drop(visitor, Reason.QUOTA_EXCEEDED, "this broker has as many sessions as it may")
            return
        self.subscribing.welcome(visitor)

    def _look_at(self, visitor: Visitor) -> None:
        session = self.station.broker.border.sessions.get(visitor.name)
        if session is None:
            self._gone(visitor)
        elif visitor.coming and session.attachment.awaits is None:
            expiry_s = visitor.session.expiry_s
            self.station.unpack(visitor)
            if not visitor.lost:
                self.subscribing.realign(visitor)
                self._admit(visitor, present=True)
                return
            will = visitor.will
            visitor.coming, visitor.will = False, None
            self.end(visitor)
            self.arrived(Arrived(visitor.client, True, expiry_s, will, False, visitor.arrival, visitor.user))
        elif session.attachment.awaits is None and not visitor.connected:
            # It left before its session was here: what comes for it meanwhile must find what it wants.
            self.station.unpack(visitor)
            if visitor.unaligned and not visitor.lost:
                self.subscribing.realign(visitor)

    def _gone(self, visitor: Visitor) -> None:
        """Another broker has its session now."""
        self.subscribing.forget(visitor)
        self._cancel(visitor)
        del self.station.visitors[visitor.client]
        self.station.emit(Remark("roamed_out", visitor.client))
        arrow = self.station.broker.handover.arrow_of(visitor.name)
        self.station.observation.gone(visitor.client, arrow.claim.path[0] if arrow and arrow.claim.path else "")
        if visitor.connected:
            self.station.emit(Dismiss(visitor.client, Reason.SESSION_TAKEN_OVER, "the client is at another broker"))
        elif visitor.coming:
            text = "the client is at another broker; try again"
            self._deny(visitor.client, visitor.arrival, Reason.SERVER_BUSY, text)

    # Going.

    def left(self, given: Left) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is None:
            return
        if visitor.coming and visitor.epoch == 0:
            self.station.timers.cancel(f"reminder:{visitor.client}")
            del self.station.visitors[given.client]
            return
        visitor.connected = visitor.coming = False
        self.subscribing.audience.connected(visitor.client, False)
        self.station.observation.disconnected(visitor.client)
        self.subscribing.groups.joined(visitor.client, visitor.asked.values(), False)
        if given.expiry_s is not None:
            visitor.session.expiry_s = given.expiry_s
        left_behind = visitor.will.message.user_properties if visitor.will and not given.in_order else ()
        before = visitor.context
        self.travelling.leaves(visitor, given.said or left_behind)
        if visitor.context is not before:
            # Its last word was a report: what comes for it while it is away is judged by that.
            self.subscribing.audience.moved(visitor.context)
            self.station.observation.moved(visitor.context)
        self._away(visitor)
        if given.in_order:
            visitor.will = None
        elif visitor.will is not None and visitor.will.delay_s:
            self.station.timers.set(f"will:{visitor.client}", self.station.now_us + visitor.will.delay_s * 1_000_000)
        else:
            self._publish_will(visitor)
        if visitor.session.expiry_s == 0:
            self.end(visitor)

    def _away(self, visitor: Visitor) -> None:
        if visitor.session.detached_us is None:
            visitor.session.detach(self.station.now_us)
        self.station.give(LinkDown(visitor.name))
        if visitor.session.expiry_s != NEVER_S:
            ends_us = self.station.now_us + visitor.session.expiry_s * 1_000_000
            self.station.timers.set(f"session:{visitor.client}", ends_us)

    def session_over(self, client: str) -> None:
        visitor = self.station.visitors.get(client)
        if visitor is not None and not visitor.connected:
            self.end(visitor)

    def will_due(self, client: str) -> None:
        visitor = self.station.visitors.get(client)
        if visitor is not None:
            self._publish_will(visitor)

    def _publish_will(self, visitor: Visitor) -> None:
        will, visitor.will = visitor.will, None
        if will is not None:
            self.publishing.publish_will(visitor, will)

    def _cancel(self, visitor: Visitor) -> None:
        for kind in ("session", "will", "reminder"):
            self.station.timers.cancel(f"{kind}:{visitor.client}")

    def end(self, visitor: Visitor) -> None:
        """The session is over: nothing of it stays behind, here or elsewhere."""
        self._publish_will(visitor)
        self.publishing.announcing.inherit(visitor)
        self._cancel(visitor)
        self.subscribing.groups.left(visitor.client, visitor.asked.values())
        self.subscribing.forget(visitor)
        self.station.give(LinkDown(visitor.name))
        self.station.give(TimerFired(AWAY + visitor.name))
        self.station.visitors.pop(visitor.client, None)
        self.station.observation.gone(visitor.client)

    def restarted(self) -> None:
        for peer in list(self.station.broker.neighbours.streams.of):
            self.station.link(peer, up=False)
        for visitor in list(self.station.visitors.values()):
            if visitor.coming and visitor.epoch == 0:
                self._cancel(visitor)
                del self.station.visitors[visitor.client]
                continue
            self._tell_observers(visitor)
            visitor.session.recovered(self.station.now_us, visitor.received)
            visitor.session.subscriptions = dict(visitor.asked)
            if visitor.connected or visitor.coming:
                self.left(Left(visitor.client, None, False))

    def _tell_observers(self, visitor: Visitor) -> None:
        """A journal may have begun after the session, and one of a broker that was killed lacks its last moments."""
        now_us, observation = self.station.now_us, self.station.observation
        observation.moved(visitor.context.at(now_us, self.station.space))
        for text, asked in visitor.asked.items():
            if text in visitor.wanted:
                observation.subscribed(asked, replace(visitor.wanted[text], issued_us=now_us))
