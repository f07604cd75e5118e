"""Relocation: a client that attaches to another broker gets everything, once, in order (R3; Rebeca, section 4).

When a client attaches to a new broker N, and says up to which number it has everything:

    1. N subscribes for it as for any client, and sends a claim (`Relocate`) after that along the arrow (`arrows.py`),
       or to every neighbour where there is none. N holds what arrives for the client from now on.
    2. The claim arrives at the old broker O behind every event that a broker on the way had sent towards O before the
       claim passed there. Every later one goes to N as well: on each link N's subscription went ahead of the claim.
       O answers with what its counterpart holds beyond the client's number, unsubscribes and forgets.
    3. N delivers the replay first, then what it held without what the replay had brought already, and goes on
       counting where O stopped. What the client has published meanwhile goes out now: it arrives everywhere behind
       what the client had published at O, because on the way between the two it follows the replay.

Guarantee: complete, in sender order, nothing twice, under every routing strategy, while links keep order
(`stream.py`) and buffers are large enough; what a bound costs is counted and told to the client. No broker needs to
know where the client was, and the client need not say goodbye. The junction of section 4 is the broker on the way at
which the claim leaves the new path; nothing special happens there, so nothing can go wrong there when two moves
overlap.

Several attachments at once: a later claim follows the arrows to an earlier new broker that awaits its own replay. Its
session takes in nothing more from that moment (what comes reaches the later broker) and answers when its replay is
complete. So attachments form a queue, each answered by the one before it.
"""

from msgspec.structs import replace

from roamcast.broker.arrows import Arrow, Arrows, back, not_found
from roamcast.broker.border import HOPS_MAX, Border
from roamcast.broker.handover import Handover
from roamcast.broker.messages import Abandon, Attach, BrokerMessage, Farewell, NotFound, Relocate, Replay
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.broker.params import BrokerParams
from roamcast.broker.session import Session, replays
from roamcast.broker.window import NUMBER_MAX
from roamcast.node.boundary import CancelTimer, Does, Note, SetTimer


class Relocation(Handover):
    def __init__(self, host: str, params: BrokerParams, border: Border, neighbours: NeighbourBrokers) -> None:
        self.host = host
        self.params = params
        self.border = border
        self.neighbours = neighbours
        self.arrows = Arrows(host, params.arrows_max)
        self.claimed: dict[str, list[Session]] = {}
        """By client, sessions that were claimed while they await a replay themselves."""

    def adopt(self, params: BrokerParams) -> None:
        self.params = params
        self.arrows.arrows_max = params.arrows_max

    def hear(self, now_us: int, message: BrokerMessage, sender: str) -> list[Does]:
        match message:
            case Relocate():
                return self._claim(message, sender)
            case Replay():
                self.arrows.found(message, sender)
                return self._replayed(message)
            case NotFound():
                return self._missed(message, sender)
            case Farewell():
                return self._farewell(message, sender)
            case Abandon():
                return self._abandon(message, sender)
            case _:
                return [Note("unexpected_message", str(message.__struct_config__.tag))]

    def fired(self, now_us: int, name: str) -> list[Does]:
        kind, rest = name.split(":", 1)
        if kind == "away":
            return self._expire(rest)
        epoch, client = rest.split(":", 1)
        return self._give_up(client, int(epoch))

    # The new broker.

    def attach(self, now_us: int, client: str, attach: Attach) -> list[Does]:
        known = self.arrows.of.get(client)
        if known is not None and attach.epoch <= known.claim.epoch:
            return [Note("stale_attachment", client)]
        if not 0 <= attach.after <= NUMBER_MAX:
            return [Note("bad_attachment", client)]
        claim = Relocate(client, attach.epoch, attach.after, (self.host,), attach.came == "restarted", attach.was_at)
        session = self.border.sessions.get(client)
        if session is not None and not claim.forgets:
            self.arrows.here(claim)
            return self.border.return_to(session, attach)
        if session is not None:
            self.arrows.here(claim)
            return [*self._forget(session), *self.border.open(client, attach)[1]]
        if self.border.full():
            return [Note("session_refused", client)]
        return self._welcome(now_us, claim, attach)

    def _welcome(self, now_us: int, claim: Relocate, attach: Attach) -> list[Does]:
        """A client that was elsewhere, or nowhere, before. Its subscriptions go ahead of the claim on every link."""
        session, effects = self.border.open(claim.client, attach)
        before = self.arrows.here(claim)
        if attach.came == "first":
            return effects
        if not claim.forgets:
            session.attachment.awaits = claim.epoch
            give_up_us = now_us + round(self.params.replay_wait_s_max * 1e6)
            effects.append(SetTimer(replay_timer(claim.client, claim.epoch), give_up_us))
        return [*effects, *self._pass_on(claim, before, None)]

    def _replayed(self, replay: Replay) -> list[Does]:
        if len(replay.path) > 1:
            return self.neighbours.send(back(replay))
        session = self._awaiting(replay.client, replay.epoch)
        if session is None:
            return [Note("late_replay", replay.client)]
        session.replayed(replay)
        effects = self.border.send(session, [(each.number, each.delivery) for each in replay.events])
        if replay.last:
            self.border.took_over(session)
        return [*effects, *self._settle(session)] if replay.last else effects

    def _missed(self, answer: NotFound, sender: str) -> list[Does]:
        final = self.arrows.missed(answer, sender)
        return [] if final is None else self._not_found(final)

    def _not_found(self, answer: NotFound) -> list[Does]:
        if len(answer.path) > 1:
            return self.neighbours.send(back(answer))
        return self._give_up(answer.client, answer.epoch)

    def _give_up(self, client: str, epoch: int) -> list[Does]:
        """The old broker never answered, or nobody had anything for the client."""
        given_up = [each for each in self._waiting(client) if each.attachment.awaits == epoch]
        return self._settle(given_up[0], lost=True) if given_up else []

    def _awaiting(self, client: str, epoch: int) -> Session | None:
        """Who awaits this replay: also a client that left and returned since, for whom we claimed again."""
        for session in self._waiting(client):
            awaits = session.attachment.awaits
            if awaits is not None and awaits <= epoch <= session.epoch:
                return session
        return None

    def _waiting(self, client: str) -> list[Session]:
        session = self.border.sessions.get(client)
        return [*self.claimed.get(client, []), *([session] if session is not None else [])]

    def _unclaim(self, session: Session) -> None:
        if session.attachment.claim is not None:
            others = [each for each in self.claimed.pop(session.client) if each is not session]
            if others:
                self.claimed[session.client] = others

    def _settle(self, session: Session, lost: bool = False) -> list[Does]:
        """Old before new: behind the replay comes what was held, and what the client has published since."""
        effects: list[Does] = []
        if lost and session.attachment.claim is None:
            effects.append(Note("replay_missing", session.client))
            effects += self._abandon(Abandon(session.client, session.epoch), None)
        if lost and session.window.bounds.evicts:
            # A client of the papers takes no number twice, also not one that a broker has given it meanwhile.
            session.window.skip()
        session.missing = session.missing or lost
        if session.attachment.awaits is not None:
            effects.append(CancelTimer(replay_timer(session.client, session.attachment.awaits)))
            self._unclaim(session)
        released = [new for held in session.release() for new in self.border.number(session, *held)]
        if session.attachment.claim is not None:
            return [*effects, *self._answer(session, session.attachment.claim)]
        effects += [*self.border.tell_missing(session), *self.border.send(session, released)]
        return [*effects, *self.border.publish_held(session)]

    # Brokers on the way, and the old broker.

    def _claim(self, given: Relocate, sender: str) -> list[Does]:
        if not given.path or given.path[0] == self.host or given.path[-1] != sender:
            return [Note("bad_claim", given.client)]
        claim = self.arrows.arrived(given)
        known = self.arrows.of.get(claim.client)
        if known is not None and claim.epoch <= known.claim.epoch:
            # Whoever sent an earlier claim here has not heard of the later one.
            correction = replace(known.claim, corrects=True)
            return self.neighbours.send([(sender, correction)]) if claim.epoch < known.claim.epoch else []
        # Not always its sender: after a crash a claim that went on from here may come back.
        before = self.arrows.turn(claim, claim.path[-2])
        session = self.border.sessions.get(claim.client)
        if session is None:
            return self._pass_on(claim, before, sender)
        if claim.forgets:
            return self._forget(session)
        session.attachment.attached = False
        if session.attachment.awaits is None:
            return [*self._answer(session, claim), *self._forget(session)]
        session.attachment.claim = claim
        session.publications.clear()
        self.claimed.setdefault(session.client, []).append(session)
        return self.border.close(session)

    def _pass_on(self, claim: Relocate, before: Arrow | None, sender: str | None) -> list[Does]:
        if before is not None and (before.towards is None or before.towards == sender):
            # The client was last seen here, or where the claim comes from: nobody else has anything.
            return [] if claim.corrects else self._not_found(not_found(claim))
        if before is not None and before.towards in self.neighbours.streams.of:
            return self.neighbours.send([(before.towards, claim)])
        others = [peer for peer in self.neighbours.router.neighbours if peer != sender]
        if claim.corrects:
            return self.neighbours.send([(peer, claim) for peer in others])
        if not others:
            return self._not_found(not_found(claim))
        return self.neighbours.send(self.arrows.search(claim, others))

    def _answer(self, session: Session, claim: Relocate) -> list[Does]:
        effects: list[Does] = []
        self.border.complete(session)
        for replay in replays(session, claim, self.params.replay_events_max, self.border.state_of(session)):
            effects += self.neighbours.send(back(replay))
        return effects

    def _forget(self, session: Session) -> list[Does]:
        effects = self.border.close(session)
        if session.attachment.awaits is not None:
            effects.append(CancelTimer(replay_timer(session.client, session.attachment.awaits)))
        return effects

    def met(self, peer: str) -> list[Does]:
        """A neighbour that has crashed has no arrows any more, and claims may have been lost in it. Both sides tell
        where they saw each client last; of two stories the later is right, and corrects the other as claims do."""
        if peer not in self.neighbours.router.neighbours:
            return []
        arrows = [arrow for arrow in self.arrows.of.values() if arrow.towards != peer]
        return self.neighbours.send([(peer, replace(arrow.claim, corrects=True)) for arrow in arrows])

    # The end.

    def _expire(self, client: str) -> list[Does]:
        """The client stayed away for too long: everything kept for it goes, here and elsewhere."""
        session = self.border.sessions.get(client)
        if session is None or session.attachment.attached:
            return []
        effects = [Note("counterpart_expired", client), *self._forget(session)]
        return [*effects, *self._farewell(Farewell(client, session.epoch), None)]

    def _farewell(self, farewell: Farewell, sender: str | None) -> list[Does]:
        """Goes wherever arrows are, and past a broker that has lost its own: others may lead to it still."""
        had_arrow = self.arrows.forget(farewell.client, farewell.epoch)
        if not (had_arrow or self.neighbours.has_crashed) or farewell.hops >= HOPS_MAX:
            return []
        onward = replace(farewell, hops=farewell.hops + 1)
        return self.neighbours.send([(peer, onward) for peer in self.neighbours.router.neighbours if peer != sender])

    def _abandon(self, abandon: Abandon, sender: str | None) -> list[Does]:
        """A client has begun anew elsewhere: whatever is older would only be found by mistake."""
        client, effects = abandon.client, list[Does]()
        session = self.border.sessions.get(client)
        if session is not None and session.epoch < abandon.epoch:
            effects += self._forget(session)
        for claimed in [each for each in self.claimed.get(client, []) if each.epoch < abandon.epoch]:
            if claimed.attachment.awaits is not None:
                effects.append(CancelTimer(replay_timer(client, claimed.attachment.awaits)))
            self._unclaim(claimed)
        self.arrows.forget(client, abandon.epoch - 1)
        if abandon.hops >= HOPS_MAX:
            return effects
        onward = replace(abandon, hops=abandon.hops + 1)
        others = [peer for peer in self.neighbours.router.neighbours if peer != sender]
        return [*effects, *self.neighbours.send([(peer, onward) for peer in others])]

    def arrow_of(self, client: str) -> Arrow | None:
        return self.arrows.of.get(client)

    def left(self) -> dict[str, int]:
        return {
            "claimed sessions": len(self.claimed),
            "arrows": len(self.arrows.of),
            "searches": len(self.arrows.searches),
        }


def replay_timer(client: str, epoch: int) -> str:
    return f"replay:{epoch}:{client}"
