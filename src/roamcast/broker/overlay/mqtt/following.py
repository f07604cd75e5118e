"""A session follows its MQTT client to another broker of an overlay (L3, O4).

    N  the client comes to it, and N has found out who has its session (`seeking.py`): O
    N  claims it from O
    O  takes the client out of the overlay as it is, sends it to N with its deliveries that are not finished and its
       publications that nobody has accepted, and forgets it
    N  puts all of that in its place, and answers the client

To the overlay the client has moved, as in the paper: it attaches to its home broker again, from where it is now, and
says up to which number it has everything. It looks for a nearer broker, and its home broker decides whether session
and modulators follow it in the eight steps of section 2.4. What was said to it at O meanwhile comes again.

A process that has not all of a session yet when another claims it has that one ask again, and where it has gone since
it was found it is sought again.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from roamcast.broker.border import AWAY
from roamcast.broker.handover import Handover
from roamcast.broker.messages import Attach, BrokerMessage, Replay
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.overlay.mqtt.between import Carried, Claim, Found, Withheld
from roamcast.broker.overlay.mqtt.seeking import TIMER as SEEK
from roamcast.broker.overlay.mqtt.seeking import Seeking
from roamcast.broker.overlay.params import microseconds
from roamcast.broker.params import BrokerParams
from roamcast.broker.relocation import replay_timer
from roamcast.broker.session import Session, in_pieces
from roamcast.model.event import Event
from roamcast.node.boundary import CancelTimer, Does, Note, SetTimer

if TYPE_CHECKING:
    from roamcast.broker.overlay.mqtt.guests import Guests

RECLAIM = "reclaim:"
RECLAIM_US = 200_000
TRIES_MAX = 3


class Claimed(Struct):
    holder: str
    tries: int = 0
    """How often the session was not where it was said to be."""


class Following(Handover):
    def __init__(self, guests: "Guests", seeking: Seeking, params: BrokerParams) -> None:
        self.guests = guests
        self.border = guests.border
        self.seeking = seeking
        self.params = params
        self.claims: dict[str, Claimed] = {}
        """By client, whose session is on its way here."""
        self.pending: dict[str, dict[int, Event]] = {}
        """What has come of their publications, by serial."""

    def adopt(self, params: BrokerParams) -> None:
        self.params = params

    def hear(self, now_us: int, message: BrokerMessage, sender: str) -> list[Does]:
        return [Note("unexpected_message", message.kind)]

    def left(self) -> dict[str, int]:
        return {"claims": len(self.claims)}

    # The new broker.

    def attach(self, now_us: int, client: str, attach: Attach) -> list[Does]:
        session = self.border.sessions.get(client)
        if session is not None:
            return self.border.return_to(session, attach)
        if self.border.full():
            return [Note("session_refused", client)]
        session, effects = self.border.open(client, attach)
        holder = self.seeking.holders.pop(client, None)
        if holder is None or attach.came == "first":
            return effects
        if attach.came == "again":
            session.attachment.awaits = attach.epoch
            self.claims[client] = Claimed(holder)
            effects.append(self._patience(client, attach.epoch))
        self._claim(holder, Claim(client, attach.epoch, attach.came == "restarted"))
        return effects

    def _claim(self, holder: str, claim: Claim) -> None:
        self.guests.mail.say(holder, claim)
        # It has just answered, whatever may have waited for it until now.
        self.guests.mail.hasten(holder)

    def found(self, client: str, found: Found | None) -> None:
        """It was not where it had been found first."""
        session, claimed = self.border.sessions.get(client), self.claims[client]
        if session is None or session.attachment.awaits is None:
            return
        if found is None:
            self._give_up(session)
            return
        self.border.perform([CancelTimer(replay_timer(client, session.attachment.awaits))])
        session.epoch = session.attachment.awaits = max(self.border.now_us, session.epoch, found.epoch + 1)
        self.border.perform([self._patience(client, session.epoch)])
        claimed.holder = found.broker
        self._claim(found.broker, Claim(client, session.epoch))

    def _patience(self, client: str, epoch: int) -> SetTimer:
        """The old broker has forgotten the session when it sends it: for as long as that may be on its way it is
        waited for."""
        overlay = self.guests.params
        wait_s = max(self.params.replay_wait_s_max, overlay.give_up_s + overlay.resend_s_max)
        return SetTimer(replay_timer(client, epoch), self.border.now_us + microseconds(wait_s))

    def carried(self, part: Carried) -> None:
        session = self._awaiting(part.client, part.epoch)
        if session is None:
            self.border.emit(Remark("late_replay", part.client))
            return
        if part.pending is not None:
            serial, event = part.pending
            self.pending.setdefault(part.client, {})[serial] = event
        session.replayed(Replay(part.client, part.epoch, (), part.events, session=part.session))
        if part.session is None:
            self.border.perform([self._patience(part.client, part.epoch)])
            return
        self.border.took_over(session)
        pending = self.pending.get(part.client, {})
        self._settle(session)
        if part.guest is not None:
            self.guests.adopt(session, part.guest, pending)

    def withheld(self, now_us: int, answer: Withheld) -> None:
        session = self._awaiting(answer.client, answer.epoch)
        if session is None:
            return
        claimed = self.claims[answer.client]
        if answer.soon:
            self.border.timers.set(f"{RECLAIM}{answer.epoch}:{answer.client}", now_us + RECLAIM_US)
        elif claimed.tries < TRIES_MAX:
            claimed.tries += 1
            self.seeking.ask(answer.client, 0)
        else:
            self._give_up(session)

    def _awaiting(self, client: str, epoch: int) -> Session | None:
        session = self.border.sessions.get(client)
        return session if session is not None and session.attachment.awaits == epoch else None

    def _give_up(self, session: Session) -> None:
        session.missing = True
        self._settle(session)

    def _settle(self, session: Session) -> None:
        client, awaits = session.client, session.attachment.awaits
        if awaits is not None:
            self.border.perform([CancelTimer(replay_timer(client, awaits))])
            self.border.timers.cancel(f"{RECLAIM}{awaits}:{client}")
        session.attachment.awaits = None
        self.claims.pop(client, None)
        self.pending.pop(client, None)
        self.border.linking.touched[client] = None

    # The old one.

    def claimed(self, claim: Claim, sender: str) -> None:
        session = self.border.sessions.get(claim.client)
        if session is None or session.epoch >= claim.epoch:
            if not claim.forgets:
                self.guests.mail.say(sender, Withheld(claim.client, claim.epoch, False))
            return
        if not claim.forgets and session.attachment.awaits is not None:
            self.guests.mail.say(sender, Withheld(claim.client, claim.epoch, True))
            return
        if not claim.forgets:
            self._carry(session, claim, sender)
        self.border.perform(self._forget(session))

    def _carry(self, session: Session, claim: Claim, to: str) -> None:
        client, epoch = claim.client, claim.epoch
        self.border.complete(session)
        guest, pending = self.guests.release(session, to)
        for events in in_pieces(session.lacking(0), self.params.replay_events_max):
            self.guests.mail.say(to, Carried(client, epoch, events))
        for each in pending.items():
            self.guests.mail.say(to, Carried(client, epoch, pending=each))
        state = self.border.state_of(session)
        self.guests.mail.say(to, Carried(client, epoch, session=state, guest=guest))
        self.seeking.let_go(client, Found(to, epoch, state))

    def _forget(self, session: Session) -> list[Does]:
        if session.attachment.awaits is not None:
            self._settle(session)
        return self.border.close(session)

    # Timers.

    def fired(self, now_us: int, name: str) -> list[Does]:
        kind, _, rest = name.partition(":")
        if name.startswith(SEEK):
            self.seeking.again(rest)
            return []
        if name.startswith(AWAY):
            session = self.border.sessions.get(rest)
            return [] if session is None or session.attachment.attached else self._forget(session)
        epoch, _, client = rest.partition(":")
        session = self._awaiting(client, int(epoch))
        if session is None:
            return []
        if kind == "replay":
            self._give_up(session)
        elif client in self.claims:
            self.guests.mail.say(self.claims[client].holder, Claim(client, int(epoch)))
        return []
