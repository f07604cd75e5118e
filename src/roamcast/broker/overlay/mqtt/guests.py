"""Hosts of an overlay in one broker process: its broker, and a client of the paper for each MQTT client (O1, O3, O4).

    MQTT client  <--session-->  Guest (OverlayClient)  <-->  OverlayBroker, here or elsewhere

A guest finds the broker of its process first, and has it as its home until the adaptors decide otherwise; modulators
of its subscriptions work in posts, wherever those are put. What is delivered to it goes into the MQTT session. A
message is acknowledged when the home broker has accepted it.

A guest begins with the first thing that its client wants or publishes, and ends with its session. It goes with the
session when that follows its client to another process (`following.py`), and keeps its home broker. What the two say
then goes from broker to broker, which keeps its order: of two publications the later one may not be accepted first.
A guest that has published something which nobody has accepted yet lingers after its session, until somebody has, or
for `LINGER_US`.

Nothing of it is logged: what a process has ends with it.
"""

from collections import deque
from functools import partial
from random import Random

import msgspec
from msgspec.structs import replace

from roamcast.broker.modulators.running import MADE_OF
from roamcast.broker.mqtt.effects import Acknowledge, Grant, Hand, Remark
from roamcast.broker.mqtt.events import Events, plain
from roamcast.broker.mqtt.mqtt_border import MqttBorder
from roamcast.broker.mqtt.properties import subscription_id, text_of
from roamcast.broker.mqtt.wishes import ids_of
from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.client import OverlayClient
from roamcast.broker.overlay.discarding import discard_of, least_missed
from roamcast.broker.overlay.gauge import LiveGauge
from roamcast.broker.overlay.messages import ClientAddress, Leave, NotHome, Search
from roamcast.broker.overlay.monitor import TIMER as LOAD
from roamcast.broker.overlay.mqtt.between import (
    Accompanying,
    Seek,
    Sought,
)
from roamcast.broker.overlay.mqtt.following import Following
from roamcast.broker.overlay.mqtt.mail import Mail
from roamcast.broker.overlay.mqtt.seeking import Seeking
from roamcast.broker.overlay.mqtt.underlay import Borne, Underlay, Unreached, guest_name, is_guest
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.session import Session
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.messages import Message
from roamcast.mqtt.reasons import Reason
from roamcast.node import boundary
from roamcast.node.boundary import (
    Broadcast,
    CancelTimer,
    Deliver,
    Does,
    Input,
    LinkDown,
    Moved,
    Note,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from roamcast.node.codec import BadMessage, Codec

LINK_CODEC = Codec((Borne, Unreached, Seek, Sought), 4 * 1_048_576)
TIMER = "overlay:"
SIGN = "\0"
"""Between host and timer: no name can hold it."""
QOS_MAX = 2
LINGER_US = 60_000_000
LINGER = "linger"
SEARCHED = TimerFired("ring")


class Guest:
    """A client of the paper, played for an MQTT client."""

    def __init__(self, client: str, node: OverlayClient, since_us: int) -> None:
        self.client = client
        self.node = node
        self.since_us = since_us
        """When it came to this process: later than when it came to any before."""
        self.grants: list[Grant] = []
        """Answers to its SUBSCRIBEs, which wait for a home broker."""
        self.leaving = False


class Guests:
    def __init__(
        self, border: MqttBorder, events: Events, params: OverlayParams, life: int, gauge: LiveGauge
    ) -> None:
        self.border = border
        self.events = events
        self.params = params
        self.random = Random(f"{border.host} {life}")
        self.underlay = Underlay(border.host, border.emit, self._arrived, self._unreached)
        self.gauge = gauge
        self.broker = OverlayBroker(border.host, params, self.random, border.space, gauge)
        gauge.queued = self.broker.brokers.flows.left
        self.seeking = Seeking(self, border, border.neighbours)
        self.mail = Mail(self)
        self.following = Following(self, self.seeking, params.clients)
        self.guests: dict[str, Guest] = {}
        """By the name that they have in the overlay."""
        self.settled = False
        """Whether the first search for neighbours is over."""
        self._waiting: deque[tuple[str, Input]] = deque()
        self._giving = False
        self._begun = False

    # Inputs of nodes, one after the other.

    def begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.give(self.border.host, Start(self.border.context_of(self.border.host)))

    def give(self, host: str, given: Input) -> None:
        self._waiting.append((host, given))
        if self._giving:
            return
        self._giving = True
        try:
            while self._waiting:
                self._handle(*self._waiting.popleft())
                self.mail.read()
        finally:
            self._giving = False

    def later(self, host: str, given: Input) -> None:
        """When everything is done that came before."""
        self._waiting.append((host, given))

    def _handle(self, host: str, given: Input) -> None:
        guest = self.guests.get(host)
        node = self.broker if host == self.border.host else None if guest is None else guest.node
        if node is None:
            return
        for effect in self.gauge.serve(client_of(host, given), partial(node.handle, self.border.now_us, given)):
            self.perform(host, effect)
        if guest is not None:
            self._look_after(host, guest)
        elif not self.settled and given == SEARCHED:
            self._look_around()

    def _look_around(self) -> None:
        """Is it known who else is there? A link that came up during the search needs another one."""
        searches, neighbours = self.broker.searching.reach, self.broker.brokers.topology.neighbours()
        if not searches and (neighbours or not self.underlay.up):
            self.settled = True
            self.seeking.settled()

    def perform(self, host: str, effect: Does) -> None:
        match effect:
            case Send(to, message) if to == self.border.host or to in self.guests:
                self._waiting.append((to, Received(message, host, None, 1)))
            case Send(to, message) if is_guest(host):
                self.mail.from_guest(host, self.guests[host].since_us, to, message)
            case Send(to, message) if is_guest(to):
                self.mail.to_guest(to, message)
            case Send(to, message):
                self.underlay.send(to, message)
            case Broadcast(Search() as search):
                # A client is heard by the broker that it is connected to, and that one by its neighbours.
                if host == self.border.host:
                    self.underlay.broadcast(search)
                else:
                    self._waiting.append((self.border.host, Received(search, host, None, 1)))
            case SetTimer(name, at_us):
                self.border.timers.set(f"{TIMER}{host}{SIGN}{name}", at_us)
            case CancelTimer(name):
                self.border.timers.cancel(f"{TIMER}{host}{SIGN}{name}")
            case Deliver(event, name):
                self._deliver(host, event, name)
            case Note(what, detail):
                self.border.emit(Remark(what, detail))
                if what == "broker_given_up":
                    self._lose_home(detail)
            case _:
                self.border.emit(Remark("unexpected_effect", type(effect).__name__))

    def fired(self, rest: str) -> None:
        host, _, name = rest.partition(SIGN)
        if name == LINGER:
            self._end(host)
        else:
            self.give(host, TimerFired(name))
            if name == LOAD and host == self.border.host:
                self.give(host, self.gauge.measured(self.border.now_us))

    # Other processes, over links.

    def link(self, peer: str, is_up: bool) -> None:
        self.underlay.link(peer, is_up)
        if not is_up:
            self.seeking.unlinked(peer)

    def heard(self, peer: str, data: bytes) -> None:
        try:
            message = LINK_CODEC.decode(data)
        except BadMessage as problem:
            self.border.emit(Remark("bad_link_message", f"{peer}: {problem}"))
            return
        match message:
            case Borne() | Unreached():
                self.underlay.heard(peer, message)
            case Seek():
                self.seeking.asked(message, peer)
            case Sought():
                self.seeking.answered(message, peer)

    def _arrived(self, message: boundary.Message, sender: str, hops: int) -> None:
        self.give(self.border.host, Received(message, sender, None, hops))

    def _unreached(self, to: str) -> None:
        self.give(self.border.host, LinkDown(to))

    def _lose_home(self, broker: str) -> None:
        for name, guest in self.guests.items():
            if guest.node.home == broker:
                self._waiting.append((name, Received(NotHome(), broker)))

    # MQTT clients.

    def name_of(self, session: Session) -> str:
        return guest_name(session.client)

    def _guest(self, session: Session) -> str:
        """The client's guest; it begins if there is none."""
        name = self.name_of(session)
        known = self.guests.get(name)
        if known is not None:
            known.leaving = False
            self.border.timers.cancel(f"{TIMER}{name}{SIGN}{LINGER}")
            return name
        self._come(name, session, 0)
        # An earlier session of the same name may be somewhere still. It looks for a broker at once.
        self.give(name, Start(replace(session.context, host=name), restarted=True))
        self.give(name, TimerFired("discover"))
        return name

    def _come(self, name: str, session: Session, before_us: int) -> Guest:
        node = OverlayClient(name, self.params, self.random, self.border.space)
        before_us = max(before_us, self.mail.is_here(name))
        guest = self.guests[name] = Guest(session.client, node, max(self.border.now_us, before_us + 1))
        return guest

    def release(self, session: Session, to: str) -> tuple[Accompanying | None, dict[int, Event]]:
        """The guest goes to another process; with its publications that nobody has accepted."""
        name = self.name_of(session)
        guest = self.guests.pop(name, None)
        if guest is None:
            return None, {}
        self._stop(name)
        self.mail.remember(name, ClientAddress(to, guest.since_us + 1))
        self.give(self.border.host, LinkDown(name))
        unaccepted = tuple((serial, each, each in session.received) for serial, each in session.unaccepted.items())
        return Accompanying(guest.node.state(), guest.since_us, unaccepted), dict(guest.node.customer.pending)

    def adopt(self, session: Session, came: Accompanying, pending: dict[int, Event]) -> None:
        """A guest has come from another process, with its session."""
        name = self.name_of(session)
        guest = self._come(name, session, came.since_us)
        for serial, packet_id, is_qos_2 in came.unaccepted:
            session.unaccepted[serial] = packet_id
            if is_qos_2:
                session.received[packet_id] = None
        start = Start(replace(session.context, host=name))
        for effect in guest.node.resume(self.border.now_us, start, came.state, pending):
            self.perform(name, effect)

    def subscribe(self, session: Session, subscription: Subscription) -> None:
        self.give(self._guest(session), Subscribe(subscription))

    def unsubscribe(self, session: Session, text: str) -> None:
        name = self.name_of(session)
        self.give(name, Unsubscribe(subscription_id(name, text)))

    def grant(self, session: Session, grant: Grant) -> None:
        """SUBACK comes when somebody serves the client."""
        guest = self.guests.get(self.name_of(session))
        if guest is None or guest.node.customer.broker is not None:
            self.border.emit(grant)
        else:
            guest.grants.append(grant)

    def moved(self, session: Session) -> None:
        name = self.name_of(session)
        self.give(name, Moved(replace(session.context, host=name)))

    def publish(self, session: Session, event: Event, packet_id: int) -> bool:
        """Whether there was room for it."""
        name = self._guest(session)
        guest = self.guests[name]
        customer = guest.node.customer
        before = customer.published
        self.give(name, Publish(event))
        if customer.published == before:
            return False
        if packet_id:
            session.unaccepted[customer.published] = packet_id
            self._look_after(name, guest)
        return True

    def leaves(self, session: Session) -> None:
        """The session is over."""
        name = self.name_of(session)
        guest = self.guests.get(name)
        if guest is None:
            return
        guest.leaving = True
        guest.grants.clear()
        for each in list(guest.node.customer.subscriptions):
            self.give(name, Unsubscribe(each))
        self.border.timers.set(f"{TIMER}{name}{SIGN}{LINGER}", self.border.now_us + LINGER_US)
        self._look_after(name, guest)

    def _look_after(self, name: str, guest: Guest) -> None:
        customer = guest.node.customer
        session = None if guest.leaving else self.border.sessions.get(guest.client)
        if session is not None and session.unaccepted:
            for serial in [each for each in session.unaccepted if each not in customer.pending]:
                self.border.emit(Acknowledge(guest.client, session.unaccepted.pop(serial), Reason.SUCCESS))
        if guest.grants and customer.broker is not None:
            grants, guest.grants = guest.grants, []
            for grant in grants:
                self.border.emit(grant)
        if guest.leaving and not customer.pending:
            self._end(name)

    def _end(self, name: str) -> None:
        guest = self.guests.get(name)
        if guest is None:
            return
        for _ in guest.node.customer.pending:
            self.border.emit(Remark("publication_dropped", guest.client))
        if guest.node.home is not None:
            # To its home broker it is one that has begun anew elsewhere.
            self.perform(name, Send(guest.node.home, Leave(guest.node.born + 1)))
        del self.guests[name]
        self._stop(name)

    def _stop(self, name: str) -> None:
        for timer in ("discover", "tend", "ring", LINGER):
            self.border.timers.cancel(f"{TIMER}{name}{SIGN}{timer}")

    # What they get.

    def _deliver(self, host: str, event: Event, name: str) -> None:
        guest, text = self.guests.get(host), text_of(name)
        session = None if guest is None else self.border.sessions.get(guest.client)
        interest = None if session is None else session.subscriptions.get(text)
        asked = None if interest is None else interest.asked
        if guest is None or session is None or asked is None:
            return
        if asked.no_local and event.publisher.host == host:
            return
        if event.body is None:
            event = with_message(event, name)
        message = self.events.message_of(event)
        if message is None:
            self.border.emit(Remark("delivery_dropped", session.client))
        elif min(message.qos, asked.qos) == 0:
            retain = message.retain and asked.retain_as_published
            self.border.emit(Hand((session.client,), batch_of(message), retain, ids_of([asked])))
        else:
            self._make_room(session, guest.node.customer.subscriptions.get(name), text, message.size_bytes)
            self.border.finish(self.border.give(session, event, 0, (text,)))

    def _make_room(self, session: Session, wanted: Subscription | None, text: str, size_bytes: int) -> None:
        """In a full session the new one goes, unless the application says which it misses least. What may have been
        sent stays: its client may have it."""
        window = session.window
        if wanted is None or session.connected or window.has_room(size_bytes):
            return
        discard = discard_of(wanted, self.border.space, self.params.modulators)
        entries = window.after(window.sent_through)
        waiting = [(number, each.event) for number, each in entries if text in each.subscriptions]
        while discard is not None and waiting and not window.has_room(size_bytes):
            number, _ = waiting.pop(least_missed(discard, [event for _, event in waiting]))
            window.finish(number)
            self.border.emit(Remark("delivery_dropped", session.client))


def client_of(host: str, given: Input) -> str | None:
    """For whom a node works when it is given this; None: for nobody in particular."""
    if is_guest(host):
        return host
    return given.sender if isinstance(given, Received) and is_guest(given.sender) else None


def with_message(event: Event, name: str) -> Event:
    """What a modulator has changed has lost its message on the way, and gets one that says the same."""
    payload = msgspec.json.encode({each: plain(value) for each, value in event.attributes.items()})
    expires_us = None if event.instantaneous else event.expires_us
    message = msgspec.msgpack.encode(Message(event.subject, payload, QOS_MAX, expires_us=expires_us))
    return replace(event, id=f"{event.id}{MADE_OF}{name}", body=message)
