"""Pre-subscription: brokers that a client may come to next subscribe for it ahead of time (R7; Rebeca, section 6).

A movement graph between brokers says where a client of broker O may turn up. While the client is at O, each such
broker N keeps a *shadow* of it: its subscriptions as wishes, and the last events that they accept. What is in the
shadow the client gets at once when it comes to N, without waiting for O:

    1. O sends `Prepare`. N subscribes, and answers `Prepared` behind its wishes on every link.
    2. `Prepared` arrives at O behind every event that a broker on the way passed to O and not to N. O says with
       `Complete` up to which number the client must have everything: whatever has a later one, N has in its shadow.
    3. The client attaches to N and says up to which number, and how far of each publisher, it has everything. If that
       is enough, N sends what the client lacks of the shadow as `Early`, and so what arrives until the replay has.
    4. Relocation goes on as always, and numbers everything; the client knows by the publishers' serials what it got
       early, and does not deliver it again.

So exactly once and in sender order are relocation's guarantees, and a shadow can only make it faster. If anything is
not as in 3 (other subscriptions, a bounded shadow that lacks something, a client that has attached again since),
nothing is sent early. Shadows end when the client has come, when O no longer has the client, and after a time.

A client that cannot say what it has gets nothing early. What its broker knows of it goes along with `Prepare` instead
(`Prepare.session`), so that N need not ask for it when the client comes (`foretold`, in the place of `memory.py`).

Letters between brokers that are not neighbours find their way over the acyclic graph: towards where a letter from
that broker came from, and everywhere as long as none has.
"""

from collections import deque

from roamcast.broker.arrows import Arrow
from roamcast.broker.border import Border, wish_of
from roamcast.broker.handover import Handover
from roamcast.broker.logical.params import AheadParams
from roamcast.broker.logical.template import NOWHERE, Template
from roamcast.broker.messages import (
    Attach,
    BrokerMessage,
    Complete,
    Letter,
    NotFound,
    Prepare,
    Prepared,
    Release,
    Replay,
)
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.broker.params import BrokerParams
from roamcast.broker.relocation import Relocation
from roamcast.broker.session import Session
from roamcast.broker.wishes import Table
from roamcast.model.event import Event
from roamcast.model.filter.bound import is_bound
from roamcast.model.scope import EVERYWHERE
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import CancelTimer, Does, Note, SetTimer

AHEAD = "ahead "
BROKERS_MAX = 100_000
"""Of so many brokers the direction is remembered; letters to others go everywhere."""


class Shadow:
    """What N has of a client that may come."""

    def __init__(self, origin: str, prepare: Prepare, events_max: int) -> None:
        self.origin = origin
        self.prepare = prepare
        self.events_max = events_max
        self.complete: int | None = None
        """The client must have everything up to this number; whatever comes later is here. None: nobody knows yet."""
        self.events: deque[tuple[Event, int]] = deque()
        self.dropped: dict[str, int] = {}
        """By publisher, the serial of the last event that fell out."""

    def keep(self, event: Event, serial: int) -> None:
        self.events.append((event, serial))
        if len(self.events) > self.events_max:
            gone, gone_serial = self.events.popleft()
            self.dropped[gone.publisher.host] = gone_serial

    def suffices(self, attach: Attach, marks: dict[str, int]) -> bool:
        return (
            attach.came == "again"
            and self.complete is not None
            and attach.after >= self.complete
            and attach.subscriptions == self.prepare.subscriptions
            and all(serial <= marks.get(publisher, 0) for publisher, serial in self.dropped.items())
        )


class Ahead(Handover):
    def __init__(
        self, host: str, params: AheadParams, relocation: Relocation, border: Border, neighbours: NeighbourBrokers
    ) -> None:
        self.host = host
        self.params = params
        self.relocation = relocation
        self.border = border
        self.neighbours = neighbours
        self.shadows: dict[str, Shadow] = {}
        self.prepared: dict[str, Prepare] = {}
        """By client of this broker, what the next brokers were told last."""
        self.towards: dict[str, str] = {}
        """By broker, the neighbour behind which it is."""
        self.table = Table(neighbours.router.space)
        """The shadows' wishes, to find whose an event is."""
        self._tickets = 0
        border.passing = self._passing
        border.tracks_changes = True

    # As a handover.

    def adopt(self, params: BrokerParams) -> None:
        self.params = params.ahead
        self.relocation.adopt(params)

    def foretold(self, client: str) -> Prepare | None:
        """Not where the way to its broker is known to be cut: its session would be waited for in vain. Nor where what
        the client wants depends on the client, which may have reported since."""
        shadow = self.shadows.get(client)
        if shadow is None or shadow.complete is None or shadow.prepare.session is None:
            return None
        if any(depends_on_client(each) for each in shadow.prepare.subscriptions):
            return None
        stream = self.neighbours.streams.of.get(self.towards.get(shadow.origin, ""))
        return shadow.prepare if stream is not None and stream.up else None

    def attach(self, now_us: int, client: str, attach: Attach) -> list[Does]:
        effects = self.relocation.attach(now_us, client, attach)
        self.border.changed[client] = None
        shadow = self.shadows.get(client)
        session = self.border.sessions.get(client)
        if shadow is None or session is None:
            return effects
        marks = dict(attach.marks)
        # A client that has forgotten how far it has some publisher cannot tell what it has got already.
        remembers = len(marks) < self.relocation.params.marks_max
        if session.attachment.awaits is not None and remembers and shadow.suffices(attach, marks):
            session.attachment.early_epoch = attach.epoch
            for event, serial in shadow.events:
                if serial > marks.get(event.publisher.host, 0):
                    effects += self.border.deliver_early(session, event, serial)
        return [*effects, *self._end(client)]

    def hear(self, now_us: int, message: BrokerMessage, sender: str) -> list[Does]:
        if isinstance(message, Letter):
            return self._letter(now_us, message, sender)
        if isinstance(message, Replay | NotFound):
            self.border.changed[message.client] = None
        return self.relocation.hear(now_us, message, sender)

    def fired(self, now_us: int, name: str) -> list[Does]:
        kind, rest = name.split(":", 1)
        if kind == "shadow":
            return [Note("shadow_expired", rest), *self._end(rest)]
        if kind == "replay":
            self.border.changed[rest.split(":", 1)[1]] = None
        return self.relocation.fired(now_us, name)

    def arrow_of(self, client: str) -> Arrow | None:
        return self.relocation.arrow_of(client)

    def met(self, peer: str) -> list[Does]:
        return self.relocation.met(peer)

    def left(self) -> dict[str, int]:
        return {
            **self.relocation.left(),
            "shadows": len(self.shadows),
            "prepared": len(self.prepared),
            "shadows' wishes": len(self.table),
        }

    # The broker that a client is at.

    def follow(self, now_us: int) -> list[Does]:
        """Tells the next brokers whatever has changed of clients here since the last input."""
        changed, self.border.changed = self.border.changed, {}
        effects: list[Does] = []
        for client in changed:
            effects += self._tell(now_us, client, self.border.sessions.get(client))
        return effects

    def _tell(self, now_us: int, client: str, session: Session | None) -> list[Does]:
        told = self.prepared.get(client)
        if session is None:
            if told is None:
                return []
            del self.prepared[client]
            return self._to_next(Release(client))
        subscriptions = tuple(each.wanted for each in session.subscriptions.values())
        state = self.border.known_of(session)
        epoch = 0 if state is None else session.epoch
        if session.attachment.awaits is not None or (
            told is not None and (told.subscriptions, told.epoch) == (subscriptions, epoch)
        ):
            return []
        # The clock goes on counting after a crash that forgot the last ticket, which a shadow may still have.
        self._tickets = max(now_us, self._tickets + 1)
        self.prepared[client] = Prepare(client, self._tickets, subscriptions, epoch, state)
        return self._to_next(self.prepared[client])

    def _to_next(self, body: Prepare | Release) -> list[Does]:
        effects: list[Does] = []
        for broker in self.params.next_brokers.get(self.host, ()):
            effects += self._send(Letter(self.host, broker, body), None)
        return effects

    def _is_prepared(self, prepared: Prepared, sender: str) -> list[Does]:
        session, told = self.border.sessions.get(prepared.client), self.prepared.get(prepared.client)
        if session is None or session.attachment.awaits is not None or told is None or told.ticket != prepared.ticket:
            return []
        complete = Complete(prepared.client, prepared.ticket, session.window.next_number - 1)
        return self._send(Letter(self.host, sender, complete), None)

    # A broker that a client may come to.

    def _prepare(self, now_us: int, prepare: Prepare, origin: str) -> list[Does]:
        client = prepare.client
        if client in self.border.sessions or self.neighbours.router.full():
            return [Note("shadow_refused", client)]
        if client not in self.shadows and len(self.shadows) >= self.params.shadows_max:
            return [Note("shadow_refused", client)]
        before = self.shadows.get(client)
        shadow = self.shadows[client] = Shadow(origin, prepare, self.params.events_max)
        effects: list[Does] = []
        for subscription in prepare.subscriptions:
            effects += self._want(shadow, subscription)
        if before is not None:
            # Its wishes go behind the new ones, and what it has kept stays: the client may lack some of that.
            effects += self._unwant(before)
            shadow.events, shadow.dropped = before.events, before.dropped
        expires_us = now_us + round(self.params.age_s_max * 1e6)
        effects.append(SetTimer(f"shadow:{client}", expires_us))
        return [*effects, *self._send(Letter(self.host, origin, Prepared(client, prepare.ticket)), None)]

    def _want(self, shadow: Shadow, subscription: Subscription) -> list[Does]:
        client, wish_id = shadow.prepare.client, self._wish_id(shadow, subscription)
        source, following = AHEAD + client, self.border.following
        wish = wish_of(subscription, wish_id)
        self.table.add(client, wish)
        if following.follows(subscription.filter):
            # Where the client will be nobody knows here, so it is provided for as one that is away.
            template = Template(wish_id, subscription.subject, subscription.filter, NOWHERE, away=True)
            return self.neighbours.send(following.hold(source, template))
        return self.neighbours.send(self.neighbours.router.want(source, wish))

    def _unwant(self, shadow: Shadow) -> list[Does]:
        client = shadow.prepare.client
        source = AHEAD + client
        effects: list[Does] = []
        for subscription in shadow.prepare.subscriptions:
            wish_id = self._wish_id(shadow, subscription)
            self.table.remove(client, wish_id)
            effects += self.neighbours.send(self.neighbours.router.unwant(source, wish_id))
            effects += self.neighbours.send(self.border.following.release(source, wish_id))
        return effects

    def _wish_id(self, shadow: Shadow, subscription: Subscription) -> str:
        """No other broker gives it this name, nor this one for another ticket."""
        return f"{subscription.id} {shadow.prepare.ticket} {shadow.origin}>{self.host}"

    def _end(self, client: str) -> list[Does]:
        shadow = self.shadows.get(client)
        if shadow is None:
            return []
        effects = self._unwant(shadow)
        del self.shadows[client]
        return [CancelTimer(f"shadow:{client}"), *effects]

    def _passing(self, event: Event, serial: int) -> None:
        for client in self.table.concerned(event):
            shadow = self.shadows[client]
            if shadow.prepare.session is None:
                shadow.keep(event, serial)

    # Letters.

    def _letter(self, now_us: int, letter: Letter, sender: str) -> list[Does]:
        if letter.origin in self.towards or len(self.towards) < BROKERS_MAX:
            self.towards[letter.origin] = sender
        if letter.target != self.host:
            return self._send(letter, sender)
        body, shadow = letter.body, self.shadows.get(letter.body.client)
        match body:
            case Prepare():
                return self._prepare(now_us, body, letter.origin)
            case Prepared():
                return self._is_prepared(body, letter.origin)
            case Complete(_, ticket, number):
                if shadow is not None and shadow.origin == letter.origin and shadow.prepare.ticket == ticket:
                    shadow.complete = number
                return []
            case Release(client):
                return self._end(client) if shadow is not None and shadow.origin == letter.origin else []

    def _send(self, letter: Letter, sender: str | None) -> list[Does]:
        known = self.towards.get(letter.target)
        neighbours = self.neighbours.router.neighbours
        peers = [known] if known in neighbours else [peer for peer in neighbours if peer != sender]
        return self.neighbours.send([(peer, letter) for peer in peers if peer is not None and peer != sender])


def depends_on_client(wanted: Subscription) -> bool:
    return not is_bound(wanted.filter) or wanted.interest != EVERYWHERE
