"""A client at a broker: what its session is, and where that is on its way from broker to broker (R3).

What a session *is* travels with its client (`transfer.py`): epoch, user, subscriptions, context, the window of
deliveries that are not finished, QoS 2 identifiers, what its modulators remember. Where it is does not, and is its
`Attachment`:

    attached     the client has a link to this broker;
    away         it has none: deliveries wait in the window until it returns, or another broker claims them;
    awaiting     (attached or away) what the client's last broker kept has not come yet. Until it has, nothing new is
                 numbered, and nothing that the client publishes goes out: old comes before new for everybody;
    claimed      (awaiting, and away) a later broker has claimed it meanwhile. It takes in nothing more, and passes on
                 what it awaits. A client can have several of these at one broker, and a session beside them.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from roamcast.broker.logical.template import NOWHERE, State
from roamcast.broker.mesh.prediction import Status, Trip
from roamcast.broker.messages import Numbered, Pub, Relocate, Replay
from roamcast.broker.modulators.running import Modulators
from roamcast.broker.transfer import FenceStay, Interest, SessionState
from roamcast.broker.window import Delivery, Window
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.mqtt.messages import Subscription as Asked
from roamcast.mqtt.messages import WillMessage

PIECE_BYTES_MAX = 256 * 1024
"""Of one message with several events: a quarter of what a message may have."""


class Attachment:
    asked_us: int = 0
    """When the client came to another broker that has asked for its session, by that broker's clock."""

    def __init__(self) -> None:
        self.attached = True
        self.awaits: int | None = None
        """The epoch of the claim whose replay is awaited."""
        self.held: deque[tuple[Event, int, tuple[str, ...]]] = deque()
        """What came here while the replay was awaited, with its serial and the subscriptions it is for."""
        self.held_bytes = 0
        """Of their bodies, where the border bounds them."""
        self.claim: Relocate | None = None
        """The claim of a later broker, answered when the replay is complete."""
        self.early_epoch: int | None = None
        """The attachment in which the client gets events before the replay is complete (R7)."""
        self.trip: Trip | None = None
        """Where the client said it goes (M5)."""
        self.quiet = False
        """Whether new events wait here until the client asks for them, or is somewhere else (M8)."""
        self.apart: dict[int, Numbered] = {}
        """What has come of a replay whose events travel apart, by number."""
        self.sent_ahead: dict[int, Numbered] = {}
        """What was sent here before its client came, by number; how much of it counts is for the replay to say."""
        self.replay: Replay | None = None
        """The last message of that replay, if it came before all of its events."""
        self.told: SessionState | None = None
        """What the last broker said of the session, as the replay brought it."""


class Session:
    def __init__(self, client: str, epoch: int, window: Window, modulators: Modulators) -> None:
        self.client = client
        self.epoch = epoch
        self.window = window
        self.attachment = Attachment()
        self.user: str | None = None
        self.context = Context(client)
        self.client_state: State = NOWHERE
        """What its subscriptions depend on, as the client said last."""
        self.stated_us = 0
        """When it did, where events are judged by what held when they were published."""
        self.residence_us = 0
        """How long it stayed at a place, as its last broker measured."""
        self.subscriptions: dict[str, Interest] = {}
        """By name; `put` and `drop` change it."""
        self.subscriptions_bytes = 0
        """What they take between brokers."""
        self.wishes: dict[str, str] = {}
        """By subscription, the id of the wish that stands for it."""
        self.modulators = modulators
        """Of its subscriptions, where it has any."""
        self.seen: dict[str, dict[str, None]] = {}
        """By the id of an event that lasts, the names of the subscriptions that have had it."""
        self.announced: dict[str, None] = {}
        """The subjects that are advertised for the client."""
        self.published = 0
        """The serial of the client's last publication that was accepted."""
        self.publications: list[Pub] = []
        """What it has published and could not go out yet."""
        self.refused = False
        """Whether a publication found no room: the client must send it, and all behind it, again."""
        self.missing = False
        """Whether what an earlier broker kept never came, and the client was not told yet."""
        self.received: dict[int, None] = {}
        """Packet identifiers of QoS 2 messages from the client that it has not released."""
        self.unaccepted: dict[int, int] = {}
        """By serial, the packet identifier of a publication that is not acknowledged yet."""
        self.serial = 0
        """Of its last publication by MQTT."""
        self.expiry_s = 0
        """How long it outlives its connection."""
        self.will: WillMessage | None = None
        """What the client left behind, for the case that it goes without a word."""
        self.connected = False
        """By MQTT: CONNACK was sent, or is about to be."""
        self.coming = False
        """Its client waits for CONNACK until all of the session is here."""
        self.arrival = 0
        """Of its last connection."""
        self.observed_through = 0
        """The last delivery that observers were told of, while it is away: they are told when its client is back."""
        self.status: Status | None = None
        """Where it goes, as its broker was told last, in a mesh."""
        self.next_broker = ""
        """Where it said that it will connect next, in a mesh."""
        self.came_us = 0
        """When it connected here, in a mesh."""
        self.fence_stays: dict[str, FenceStay] = {}
        """By the name of a fence that its client is in, or may be."""
        self.fences_known = -1
        """Which fences there were here when it was last looked where its client is (`mqtt/fencing.py`)."""
        self.fixed_us = 0
        """When its last place was taken in, here or elsewhere."""

    @property
    def ends_with_connection(self) -> bool:
        return self.connected and not self.expiry_s

    def hold(self, event: Event, serial: int, subscriptions: tuple[str, ...]) -> None:
        """Bounded as the window is: the oldest goes, and is counted."""
        held = self.attachment.held
        held.append((event, serial, subscriptions))
        if len(held) > self.window.bounds.entries_max:
            held.popleft()
            self.window.lost += 1

    def replayed(self, replay: Replay) -> None:
        """Takes over what the old broker had."""
        for each in replay.events:
            self.window.keep(each.number, each.delivery)
        state = replay.session
        if state is not None:
            self.window.take_over(state.window)
            self.missing = self.missing or state.missing
            self.published = max(self.published, state.published)
            self.attachment.told = state

    def state(self) -> SessionState:
        """As it goes to the next broker."""
        told = self.attachment.told
        if self.attachment.claim is not None and told is not None:
            # Its client has gone on before it was here as a whole: what was said of it goes on too.
            modulators = self.modulators.states() if len(self.modulators) else told.modulators
            window, missing = self.window.state(), self.missing
            return replace(told, window=window, missing=missing, modulators=modulators, seen=self._seen())
        # What waits for its advertisement ends with the session here: the client must say it again, and be heard.
        waiting = set(self.unaccepted.values())
        return SessionState(
            self.epoch,
            self.published,
            self.missing,
            self.window.state(self.window.next_number - 1 if self.connected else 0),
            self.user,
            self.context,
            tuple(self.subscriptions.values()),
            tuple(each for each in self.received if each not in waiting),
            self.modulators.states(),
            self._seen(),
            self.ends_with_connection,
            self.window.next_number - 1 if self.connected else self.observed_through,
            self.client_state.residence_us or self.residence_us,
            tuple(self.fence_stays.items()),
            self.fixed_us,
        )

    def _seen(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((event_id, tuple(names)) for event_id, names in self.seen.items())

    def take_over(self, state: SessionState) -> None:
        """What was known of it elsewhere, but for its window and its subscriptions."""
        if state.context is not None:
            self.context = state.context
        self.observed_through = state.observed_through
        self.residence_us = state.residence_us
        self.fence_stays = dict(state.fence_stays)
        self.fixed_us = state.fixed_us
        self.received.clear()
        self.received.update(dict.fromkeys(state.received))
        for event_id, names in state.seen:
            self.seen.setdefault(event_id, {}).update(dict.fromkeys(names))
        for each in state.interests:
            self.modulators.put(each.name, each.wanted.modulator)
        self.modulators.load(state.modulators)

    def unseen(self, event_id: str, asked: list[Asked]) -> list[Asked]:
        """Those of the subscriptions that have not had an event that lasts; from now on they have."""
        seen = self.seen.setdefault(event_id, {})
        new = [each for each in asked if each.filter.text not in seen]
        seen.update(dict.fromkeys(each.filter.text for each in new))
        return new

    def put(self, interest: Interest) -> None:
        name = interest.name
        before = self.subscriptions.get(name)
        self.subscriptions[name] = interest
        self.subscriptions_bytes += interest.size_bytes - (0 if before is None else before.size_bytes)

    def drop(self, name: str) -> bool:
        """False if there is no such subscription."""
        interest = self.subscriptions.pop(name, None)
        if interest is None:
            return False
        self.subscriptions_bytes -= interest.size_bytes
        return True

    def forget_subscription(self, name: str) -> None:
        """Another one of the same name begins anew."""
        self.modulators.put(name, "")
        for names in self.seen.values():
            names.pop(name, None)

    @property
    def asked(self) -> list[Asked]:
        """Its subscriptions as MQTT has them."""
        return [each.asked for each in self.subscriptions.values() if each.asked is not None]

    def release(self) -> list[tuple[Event, int, tuple[str, ...]]]:
        """The replay is complete: what was held is to be numbered behind it, without what the old broker had."""
        attachment = self.attachment
        attachment.awaits = None
        new = [each for each in attachment.held if self.window.is_new(each[0].publisher.host, each[1])]
        attachment.held.clear()
        attachment.held_bytes = 0
        return new

    def lacking(self, after: int) -> list[Numbered]:
        """What the client, or its next broker, has not got that has everything up to a number. A session that ends
        with its connection keeps nothing: how much waits in it is not logged, and so must decide nothing that is."""
        if self.ends_with_connection:
            return []
        return numbered(self.window.after(after))


def numbered(deliveries: Iterable[tuple[int, Delivery]], epoch: int = 0) -> list[Numbered]:
    return [Numbered(number, delivery, epoch) for number, delivery in deliveries]


def replays(session: Session, claim: Relocate, events_max: int, state: SessionState) -> Iterator[Replay]:
    """The answer to a claim, in pieces of at most `events_max` events and so many bytes."""
    pieces = list(in_pieces(session.lacking(claim.after), events_max))
    for number, piece in enumerate(pieces, start=1):
        last = number == len(pieces)
        yield Replay(
            client=session.client,
            epoch=claim.epoch,
            path=claim.path,
            events=piece,
            last=last,
            session=state if last else None,
        )


def in_pieces(events: list[Numbered], events_max: int) -> Iterator[tuple[Numbered, ...]]:
    """At least one, if only an empty one."""
    piece: list[Numbered] = []
    size = 0
    for event in events:
        event_bytes = len(msgspec.msgpack.encode(event))
        if piece and (len(piece) >= events_max or size + event_bytes > PIECE_BYTES_MAX):
            yield tuple(piece)
            piece, size = [], 0
        piece.append(event)
        size += event_bytes
    yield tuple(piece)
