"""Clients that come and go: sessions, wills, and where a session is when its client comes here from elsewhere (L3).

A client whose session is here is admitted at once. Of any other its session is looked for
(`broker/memory.py`) and, when it is found, fetched by relocation; CONNACK follows when all of it is here.
A client whose session cannot be looked for in time is sent away to try again: to let it in without its session would
lose what waits for it. One that has said that it would rather begin anew does so at once; its old session ends when
its broker is back. When its session was found and then could not be fetched, that is lost, and it is told so.

One that starts clean wants no session, but the one that it ends must be its own user's, and what it does now must
count as later than what it did there, whatever the clocks say. So that session is looked for too, and not for long.
"""

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from roamcast.broker.border import AWAY
from roamcast.broker.messages import Attach, Remembered
from roamcast.broker.mqtt.effects import Admit, Deny, Dismiss, Remark
from roamcast.broker.mqtt.inputs import Arrived, Left
from roamcast.broker.mqtt.publishing import Publishing
from roamcast.broker.mqtt.subscribing import Subscribing
from roamcast.broker.mqtt.travelling import Travelling
from roamcast.broker.session import Session
from roamcast.broker.transfer import BadTransfer, SessionState, check
from roamcast.broker.window import NUMBER_MAX
from roamcast.mqtt.packets import NEVER_S
from roamcast.mqtt.reasons import Reason

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

OTHERS = "this client id has a session of another user"
ENDED = "the operator of the broker has ended the session"
ANEW_WAIT_US = 2_000_000
"""How long at most a client that starts clean waits for word of the session that it ends."""
Came: TypeAlias = Literal["first", "again", "restarted"]


class Admission:
    def __init__(
        self,
        border: "MqttBorder",
        subscribing: Subscribing,
        publishing: Publishing,
        travelling: Travelling,
        reminder_wait_s: float,
    ) -> None:
        self.border = border
        self.subscribing = subscribing
        self.publishing = publishing
        self.travelling = travelling
        self.reminder_wait_us = round(reminder_wait_s * 1e6)
        self.sought: dict[str, Arrived] = {}
        """By client, who waits for CONNACK while it is asked where its session is."""

    # Coming.

    def arrived(self, given: Arrived) -> None:
        client = given.client
        session, sought = self.border.sessions.get(client), self.sought.get(client)
        known = session if session is not None else sought
        # Other brokers may have a session that is not found here, and may be down.
        owner = self.border.owners.user_of(client) if known is None else known.user
        if owner != given.user and (known is not None or owner is not None):
            self._deny(given, Reason.CLIENT_IDENTIFIER_NOT_VALID, OTHERS)
            return
        if sought is not None and not begins_anew(given):
            self.sought[client] = given
            return
        if sought is not None:
            self._seek_no_more(client)
        if session is not None and session.connected:
            # Its last connection is gone and nobody has said so.
            self.left(Left(client, None, False))
            session = self.border.sessions.get(client)
        if session is not None and session.coming and given.clean_start:
            # It waits for its session, and now wants none. The will that it waited with was never accepted.
            session.coming, session.will = False, None
        if session is not None and session.coming:
            self._arrange(session, given)
        elif session is not None and not (given.clean_start or session.missing):
            self._return(session, given)
        else:
            if session is not None:
                self.end(session)
            self._come(given)

    def _return(self, session: Session, given: Arrived) -> None:
        """Its session is here."""
        self._cancel(session.client)
        self._arrange(session, given)
        # Later than where it asked for its session meanwhile and has left before that was claimed.
        self._attach(session.client, "again", max(session.epoch, session.attachment.asked_us))
        session.coming = True
        self._look_at(session)

    def _come(self, given: Arrived) -> None:
        if given.is_new or not self.border.has_neighbours():
            self._begin(given, "first")
        else:
            self._ask(given)

    def _arrange(self, session: Session, given: Arrived) -> None:
        session.expiry_s, session.will = given.expiry_s, given.will
        session.arrival, session.user = given.arrival, given.user

    def _deny(self, given: Arrived, reason: Reason, text: str) -> None:
        self.border.emit(Deny(given.client, reason, text, given.arrival, given.unreachable == "wait"))

    def _begin(self, given: Arrived, came: Came, known_epoch: int = 0, came_us: int = 0) -> None:
        session = self._attach(given.client, came, known_epoch, None, came_us)
        if session is None:
            self._deny(given, Reason.QUOTA_EXCEEDED, "this broker has as many sessions as it may")
            return
        self._arrange(session, given)
        self.border.owners.began(session)
        if came == "restarted":
            # Another broker may have had a session of it, and does not know how it ended.
            self.border.observation.gone(session.client)
        self.subscribing.groups.left_all(session.client)
        self.subscribing.welcome(session)
        self._admit(session, present=False)

    def _attach(
        self, client: str, came: Came, known_epoch: int, state: SessionState | None = None, came_us: int = 0
    ) -> Session | None:
        """None if the broker has no room for it. `came_us` is when it came, if that was earlier: it may be elsewhere
        again since then."""
        arrow = self.border.broker.handover.arrow_of(client)
        turned = 0 if arrow is None else arrow.claim.epoch
        epoch = max(came_us or self.border.now_us, known_epoch + 1, turned + 1)
        session = self.border.sessions.get(client)
        if session is not None:
            # Wherever it said that it would go, it is here.
            session.next_broker = ""
        self.travelling.attach(client, Attach(epoch, 0, came, None, session=state))
        return self.border.sessions.get(client)

    def _admit(self, session: Session, present: bool) -> None:
        session.connected, session.coming = True, False
        client = session.client
        self.subscribing.audience.connected(client, True)
        self.subscribing.groups.joined(client, session.asked, True)
        lasting = self.publishing.keeping.lasting
        session.seen = {event_id: names for event_id, names in session.seen.items() if event_id in lasting}
        self.border.observation.moved(session.context.at(self.border.now_us, self.border.space), is_fix=False)
        self.travelling.admitted(session)
        self.border.fencing.look_later(session)
        self.border.observation.waited_for(session)
        self.border.emit(Admit(client, session, present, session.arrival, session.window.next_number - 1))

    # Its session is somewhere.

    def _ask(self, given: Arrived) -> None:
        client = given.client
        self.sought[client] = given
        foretold = None if given.clean_start else self.border.broker.handover.foretold(client)
        if foretold is not None:
            self._remembered(Remembered(client, 0, (), True, foretold.epoch, foretold.session))
            return
        wait_us = min(self.reminder_wait_us, ANEW_WAIT_US) if begins_anew(given) else self.reminder_wait_us
        self.border.timers.set(f"reminder:{client}", self.border.now_us + wait_us)
        self.border.finish(self.border.broker.memory.ask(client, self.border.now_us, given.unreachable == "anew"))
        self.look_around()

    def _seek_no_more(self, client: str) -> Arrived | None:
        self.border.timers.cancel(f"reminder:{client}")
        return self.sought.pop(client, None)

    def reminder_over(self, client: str) -> None:
        given = self._seek_no_more(client)
        if given is None:
            return
        if begins_anew(given):
            self._begin(given, "restarted")
        else:
            behind = ", ".join(self.border.broker.memory.unanswered(client)) or "another broker"
            text = f"the session may be at {behind} or behind it, which does not answer; try again"
            self.border.emit(Remark("session_unreachable", f"{client}: {text}"))
            self._deny(given, Reason.SERVER_UNAVAILABLE, text)

    def look_around(self) -> None:
        """What neighbours have said of clients here, or timers."""
        border, memory = self.border, self.border.broker.memory
        answers, memory.answers = memory.answers, {}
        for answer in answers.values():
            self._remembered(answer)
        departed, border.departed = border.departed, []
        for session in departed:
            self._gone(session)
        touched, self.border.linking.touched = self.border.linking.touched, {}
        for client in [*touched, *answers]:
            found = self.border.sessions.get(client)
            if found is not None:
                self._look_at(found)

    def _remembered(self, answer: Remembered) -> None:
        client = answer.client
        given = self._seek_no_more(client)
        if given is None:
            return
        state, anew = answer.session, given.clean_start
        epoch = max(0, min(answer.epoch, NUMBER_MAX))
        if not answer.found or state is None:
            # What cannot be reached learns when it is back that the client has begun anew.
            self._begin(given, "restarted" if answer.found or answer.unsure or anew else "first", epoch)
        elif state.user != given.user:
            self._deny(given, Reason.CLIENT_IDENTIFIER_NOT_VALID, OTHERS)
        elif anew or state.stays or not self._is_possible(client, state):
            self._begin(given, "restarted", epoch, answer.number)
        elif state.interests and self.border.neighbours.router.full():
            # Nothing of it has been claimed yet: the session stays where it is.
            self._deny(given, Reason.QUOTA_EXCEEDED, "this broker has as many subscriptions as it may")
        else:
            self._fetch(given, epoch, state, answer.number)

    def _is_possible(self, client: str, state: SessionState) -> bool:
        try:
            check(state, client)
        except BadTransfer as problem:
            self.border.emit(Remark("bad_transfer", f"{client}: {problem}"))
            return False
        return True

    def _fetch(self, given: Arrived, epoch: int, state: SessionState, came_us: int) -> None:
        self.border.emit(Remark("roamed_in", given.client))
        session = self._attach(given.client, "again", epoch, state, came_us)
        if session is None:
            self._deny(given, Reason.QUOTA_EXCEEDED, "this broker has as many sessions as it may")
            return
        self._arrange(session, given)
        session.coming = True
        self.subscribing.welcome(session)

    def _look_at(self, session: Session) -> None:
        if session.attachment.awaits is not None or session.connected:
            return
        if session.coming and session.missing:
            session.coming, will, session.will = False, session.will, None
            again = Arrived(session.client, True, session.expiry_s, will, False, session.arrival, session.user)
            self.end(session)
            self._come(again)
            return
        if not session.missing:
            # What comes for a client that left before its session was here must find what it wants, too.
            self.subscribing.realign(session)
        if session.coming:
            self._admit(session, present=True)
        else:
            self.border.fencing.look_later(session)

    def _gone(self, session: Session) -> None:
        """Another broker has its session now."""
        client = session.client
        self.subscribing.forget(session)
        self._cancel(client)
        self.border.emit(Remark("roamed_out", client))
        arrow = self.border.broker.handover.arrow_of(client)
        self.border.observation.gone(client, arrow.claim.path[0] if arrow and arrow.claim.path else "")
        if session.connected:
            self.border.emit(Dismiss(client, Reason.SESSION_TAKEN_OVER, "the client is at another broker"))
        elif session.coming:
            text = "the client is at another broker; try again"
            self.border.emit(Deny(client, Reason.SERVER_BUSY, text, session.arrival))

    # Going.

    def left(self, given: Left) -> None:
        self._seek_no_more(given.client)
        session = self.border.sessions.get(given.client)
        if session is None:
            return
        if session.connected:
            window = session.window
            last = window.next_number - 1 if given.sent_through is None else given.sent_through
            window.sent_through = max(window.sent_through, last)
            session.observed_through = window.next_number - 1
        session.connected = session.coming = False
        self.subscribing.audience.connected(session.client, False)
        self.border.observation.disconnected(session.client)
        self.subscribing.groups.joined(session.client, session.asked, False)
        if given.expiry_s is not None:
            session.expiry_s = given.expiry_s
        left_behind = session.will.message.user_properties if session.will and not given.in_order else ()
        before = session.context
        self.travelling.leaves(session, given.said or left_behind)
        if session.context is not before:
            # Its last word was a report: what comes for it while it is away is judged by that.
            self.subscribing.audience.moved(session.context)
            self.border.observation.moved(session.context)
            self.border.walking.moved(session)
            self.border.fencing.moved(session, before, session.context)
        self._away(session)
        if given.in_order:
            session.will = None
        elif session.will is not None and session.will.delay_s:
            self.border.timers.set(f"will:{session.client}", self.border.now_us + session.will.delay_s * 1_000_000)
        else:
            self._publish_will(session)
        if session.expiry_s == 0:
            self.end(session)

    def _away(self, session: Session) -> None:
        session.attachment.attached = False
        if session.expiry_s != NEVER_S:
            ends_us = self.border.now_us + session.expiry_s * 1_000_000
            self.border.timers.set(f"session:{session.client}", ends_us)

    def session_over(self, client: str) -> None:
        session = self.border.sessions.get(client)
        if session is not None and not session.connected:
            self.end(session)

    def ended(self, client: str) -> None:
        """An operator says so."""
        session = self.border.sessions.get(client)
        if session is None:
            return
        if session.connected:
            self.border.emit(Dismiss(client, Reason.ADMINISTRATIVE_ACTION, ENDED))
            self.left(Left(client, 0, False))
            return
        if session.coming:
            self.border.emit(Deny(client, Reason.SERVER_BUSY, ENDED, session.arrival))
        self.end(session)

    def will_due(self, client: str) -> None:
        session = self.border.sessions.get(client)
        if session is not None:
            self._publish_will(session)

    def _publish_will(self, session: Session) -> None:
        will, session.will = session.will, None
        if will is not None:
            self.publishing.publish_will(session, will)

    def _cancel(self, client: str) -> None:
        for kind in ("session", "will", "reminder"):
            self.border.timers.cancel(f"{kind}:{client}")

    def end(self, session: Session) -> None:
        """The session is over: nothing of it stays behind, here or elsewhere."""
        self._publish_will(session)
        self.publishing.announcing.inherit(session)
        self._cancel(session.client)
        self.subscribing.groups.left(session.client, session.asked)
        self.subscribing.forget(session)
        self.border.owners.over(session.client)
        self.border.fencing.anchors.over(session.client)
        session.attachment.attached = False
        self.border.linking.fired(AWAY + session.client)
        self.border.departed.remove(session)
        self.border.observation.gone(session.client)

    def restarted(self) -> None:
        self.border.fencing.tell_all()
        for peer in list(self.border.neighbours.streams.of):
            self.border.linking.changed(peer, up=False)
        for client in list(self.sought):
            self._seek_no_more(client)
        for session in list(self.border.sessions.values()):
            self._tell_again(session)
            if session.connected:
                # Nobody knows what was sent, so everything counts as sent.
                session.window.sent_through = session.window.next_number - 1
            if session.connected or session.coming:
                self.left(Left(session.client, None, False))

    def _tell_again(self, session: Session) -> None:
        """A journal may have begun after the session, and one of a broker that was killed lacks its last moments."""
        now_us, observation = self.border.now_us, self.border.observation
        observation.moved(session.context.at(now_us, self.border.space), is_fix=False)
        for interest in session.subscriptions.values():
            if interest.asked is not None:
                observation.subscribed(interest.asked, replace(interest.wanted, issued_us=now_us))


def begins_anew(given: Arrived) -> bool:
    """Whether it would rather begin anew than wait for a session that cannot be reached."""
    return given.clean_start or given.unreachable == "anew"
