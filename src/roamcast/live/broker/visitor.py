"""An MQTT client, as the broker of the protocols sees it: the client's side of R3, played by the border for it.

The broker numbers what a client is to get, and keeps it until the client acknowledges a number and all before it. An
MQTT client acknowledges packets. The two meet here: a delivery's packet identifier is made of its number, so that it
is the same after a crash, and at the broker to which the client has gone.
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.mesh.prediction import Status
from roamcast.broker.window import NUMBER_MAX, SPAN_MAX
from roamcast.live.broker.inputs import Will
from roamcast.live.broker.modulating import Modulators
from roamcast.live.broker.properties import MODULATOR, text_of
from roamcast.model.context import Context
from roamcast.model.subscription import Subscription as Wanted
from roamcast.model.values import FOREVER_US
from roamcast.mqtt.messages import Delivery, Message, Subscription
from roamcast.mqtt.packets import PACKET_ID_MAX
from roamcast.mqtt.session import Releasing, Session

RETAINED = "\0retained"
"""Stands first among the subscriptions of a delivery that was there before them."""
SOURCE = "@"
"""Before a client's name where brokers have names too: no broker's name begins so."""


def packet_id_of(number: int) -> int:
    return (number - 1) % PACKET_ID_MAX + 1


class Luggage(Struct, frozen=True, array_like=True):
    """What goes to a client's next broker beside its events."""

    context: Context
    subscriptions: tuple[Subscription, ...]
    received: tuple[int, ...] = ()
    receiving: tuple[int, ...] = ()
    sent_through: int = 0
    modulators: tuple[tuple[str, bytes], ...] = ()
    """By topic filter, what the modulator of the subscription remembers."""
    seen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """By the id of an event that lasts, the topic filters that have had it."""
    user: str | None = None
    ends_us: tuple[tuple[str, int], ...] = ()
    """By topic filter, when a subscription is over; those that never are, are left out."""
    stays: bool = False
    """The session ends with its connection, and so when its client comes to another broker, as it would if the old
    one had noticed before."""
    finished: tuple[int, ...] = ()
    """Numbers of deliveries that are over, behind one that is not: events are kept from the first that is not."""


_encoder = msgspec.msgpack.Encoder()
_luggage_decoder = msgspec.msgpack.Decoder(Luggage)


def put_modulators(modulators: Modulators, luggage: Luggage) -> None:
    for each in luggage.subscriptions:
        modulators.put(each.filter.text, dict(each.user_properties).get(MODULATOR, ""))
    modulators.load(luggage.modulators)


def modulated_on_the_way(data: bytes, modulators: Modulators, modulate: Callable[[Modulators], None]) -> bytes:
    """Luggage after its modulators have worked on the way from one broker to another."""
    luggage = _luggage_decoder.decode(data)
    put_modulators(modulators, luggage)
    modulate(modulators)
    return _encoder.encode(replace(luggage, modulators=modulators.states()))


def check(luggage: Luggage, client: str) -> None:
    """Another broker may be of another version, or mistaken: what it says of one client must not touch others."""
    if luggage.context.host != client:
        raise msgspec.ValidationError(f"the luggage of '{luggage.context.host}'")
    if not all(1 <= each <= PACKET_ID_MAX for each in luggage.received):
        raise msgspec.ValidationError("packet identifiers that are none")
    if not all(0 <= each <= NUMBER_MAX for each in (luggage.sent_through, *luggage.receiving, *luggage.finished)):
        raise msgspec.ValidationError("numbers of deliveries that are none")


class Visitor:
    def __init__(self, session: Session, context: Context, modulators: Modulators) -> None:
        self.client = session.client_id
        self.name = SOURCE + session.client_id
        self.session = session
        self.context = context
        self.modulators = modulators
        self.seen: dict[str, dict[str, None]] = {}
        """By the id of an event that lasts, the topic filters of the subscriptions that have had it."""
        self.connected = False
        self.arrival = 0
        """Of its last connection."""
        self.user: str | None = None
        """Whose session it is."""
        self.epoch = 0
        self.serial = 0
        """Of its last publication."""
        self.last = 0
        """The number of the last delivery."""
        self.acknowledged = 0
        """Everything up to this number is finished."""
        self.unfinished: dict[int, int] = {}
        """By number, how many bytes a delivery takes that is not finished."""
        self.unfinished_bytes = 0
        self.wanted: dict[str, Wanted] = {}
        """Its subscriptions in the model's words, by topic filter."""
        self.asked: dict[str, Subscription] = {}
        """The same in MQTT's words. The session has them too, but those are its connection's to change."""
        self.sizes: dict[str, int] = {}
        """How many bytes each of them takes between brokers."""
        self.received: dict[int, None] = {}
        """Packet identifiers of QoS 2 messages from the client that it has not released."""
        self.awaiting: dict[int, int] = {}
        """By serial, the packet identifier of a publication that the broker has not accepted yet."""
        self.will: Will | None = None
        """What the client left behind, for the case that it goes without a word."""
        self.coming = False
        """It waits for CONNACK: its session is being looked for, or fetched."""
        self.anew = False
        """Its last connection asked for a clean start."""
        self.lost = False
        """Its session could not be fetched."""
        self.status: Status | None = None
        """Where it goes, as its broker was told last, in a mesh."""
        self.next_broker = ""
        """Where it said that it will connect next, in a mesh."""
        self.luggage: bytes | None = None
        """What was unpacked last."""
        self.unaligned = False
        """What it wants by its luggage may differ from what was asked for it so far."""
        self.sent_through = 0
        """Up to which number its last border may have sent deliveries to it."""
        self.receiving: dict[int, None] = {}
        """Numbers of QoS 2 deliveries that it had received there and not completed."""
        self.finished: dict[int, None] = {}
        """Numbers of deliveries that were over there, and come again because an earlier one was not."""

    def packed(self) -> bytes:
        session = self.session
        # Those that its last border told of count too: while it is away, their deliveries stay with the broker.
        receiving = tuple(dict.fromkeys([*(each.token for each in session.releasing.values()), *self.receiving]))
        # What waits for its advertisement ends with the session here: the client must say it again, and be heard.
        waiting = set(self.awaiting.values())
        return _encoder.encode(
            Luggage(
                self.context,
                tuple(self.asked.values()),
                tuple(each for each in self.received if each not in waiting),
                receiving,
                max(self.last, self.sent_through),
                self.modulators.states(),
                tuple((event_id, tuple(names)) for event_id, names in self.seen.items()),
                self.user,
                tuple((text, each.expires_us) for text, each in self.wanted.items() if each.expires_us != FOREVER_US),
                self.connected and not session.expiry_s,
                tuple(dict.fromkeys([*self._finished_early(), *self.finished])),
            )
        )

    def _finished_early(self) -> list[int]:
        first = next(iter(self.unfinished), self.last)
        return [number for number in range(first + 1, self.last + 1) if number not in self.unfinished]

    def belongs_to(self, data: bytes) -> bool:
        """Whether luggage is that of this client's user. Raises `msgspec.MsgspecError` for what is no luggage."""
        return _luggage_decoder.decode(data).user == self.user

    def stays_behind(self, data: bytes) -> bool:
        """Whether this is the luggage of a session that cannot be fetched."""
        return _luggage_decoder.decode(data).stays

    def unpack(self, data: bytes) -> None:
        """Raises `msgspec.MsgspecError` for what is no luggage, or not this client's."""
        luggage = _luggage_decoder.decode(data)
        check(luggage, self.client)
        self.unaligned = True
        self.context = luggage.context
        self.asked = {each.filter.text: each for each in luggage.subscriptions}
        self.session.subscriptions = dict(self.asked)
        self.received = dict.fromkeys(luggage.received)
        self.session.take_over_incoming(luggage.received)
        self.receiving = dict.fromkeys(luggage.receiving)
        self.finished = dict.fromkeys(luggage.finished)
        self.sent_through = luggage.sent_through
        for event_id, names in luggage.seen:
            self.seen.setdefault(event_id, {}).update(dict.fromkeys(names))
        put_modulators(self.modulators, luggage)

    def ends_us(self) -> dict[str, int]:
        """By topic filter, when its subscriptions are over as its last border said; without those that never are."""
        return {} if self.luggage is None else dict(_luggage_decoder.decode(self.luggage).ends_us)

    def forget_subscription(self, name: str) -> None:
        """Another one on the same filter begins anew."""
        self.sizes.pop(name, None)
        self.modulators.put(name, "")
        for names in self.seen.values():
            names.pop(name, None)

    def unseen(self, event_id: str, asked: list[Subscription]) -> list[Subscription]:
        """Those of the subscriptions that have not had an event that lasts; from now on they have."""
        seen = self.seen.setdefault(event_id, {})
        new = [each for each in asked if each.filter.text not in seen]
        seen.update(dict.fromkeys(each.filter.text for each in new))
        return new

    def was_received(self, number: int) -> bool:
        """Whether the client has this QoS 2 delivery from its last border: then only its end is still to come."""
        if number not in self.receiving:
            return False
        del self.receiving[number]
        packet_id = packet_id_of(number)
        self.last = number
        self._begin(number, 0)
        self.session.releasing[packet_id] = Releasing(packet_id, number, safe=True)
        return True

    def was_finished(self, number: int) -> bool:
        """Whether the client has done with this delivery at its last border."""
        if number not in self.finished:
            return False
        del self.finished[number]
        self.last = number
        return True

    def take(self, number: int, delivery: Delivery) -> int | None:
        """A delivery of QoS 1 or 2; None if there is no room for it, and it is dropped."""
        self.last = number
        limits, size = self.session.limits, delivery.message.size_bytes
        first = next(iter(self.unfinished), number)
        # By what is unfinished, not by what waits to be sent: the log knows nothing of sending.
        if number - first >= SPAN_MAX or len(self.unfinished) >= limits.queue_messages_max:
            return None
        if self.unfinished_bytes + size > limits.queue_bytes_max:
            return None
        packet_id = packet_id_of(number)
        if number <= self.sent_through:
            self.session.sent_before(packet_id, delivery)
        else:
            self.session.enqueue(delivery, held=True, packet_id=packet_id)
        self._begin(number, size)
        return packet_id

    def _begin(self, number: int, size: int) -> None:
        self.unfinished[number] = size
        self.unfinished_bytes += size

    def finish(self, number: int) -> int | None:
        """A delivery is over; answers up to which number everything is, if that is news."""
        return self.finish_together((number,))

    def finish_together(self, numbers: Iterable[int]) -> int | None:
        for number in numbers:
            self.unfinished_bytes -= self.unfinished.pop(number, 0)
        finished = next(iter(self.unfinished), self.last + 1) - 1
        if finished <= self.acknowledged:
            return None
        self.acknowledged = finished
        return finished

    def asked_by(self, subscriptions: tuple[str, ...]) -> list[Subscription]:
        """Those of its subscriptions with these ids that are there still."""
        known = self.asked
        return [known[text] for each in subscriptions if each != RETAINED and (text := text_of(each)) in known]


def delivery_of(number: int, message: Message, asked: list[Subscription], retained: bool) -> Delivery:
    """What a client sees of a message: as its subscriptions say, or as it was published if they are gone."""
    if len(asked) == 1 and not (retained or message.retain):
        # Nearly always.
        [only] = asked
        qos = min(message.qos, only.qos)
        return Delivery(number, message, qos, False, () if only.subscription_id is None else (only.subscription_id,))
    granted = max((each.qos for each in asked), default=message.qos)
    retain = retained or (message.retain and any(each.retain_as_published for each in asked))
    ids = tuple(sorted({each.subscription_id for each in asked if each.subscription_id is not None}))
    return Delivery(number, message, min(message.qos, granted), retain, ids)
