"""What changes a broker's lasting state: the inputs of `Core`, as they are logged.

Each is logged with its time before anything that it brings about is performed. Read again in their order they make
the same state again, for `Core` depends on nothing else. Messages of QoS 0 are not among them, nor those of
QoS 1 that only sessions get which end with their connections: they change nothing that lasts.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from msgspec import Struct

from roamcast.model.context import Context
from roamcast.mqtt.messages import Message, Subscription, WillMessage
from roamcast.mqtt.packets import Pairs
from roamcast.mqtt.reasons import Reason


class Given(Struct, frozen=True, array_like=True, gc=False):
    """Base of all."""


class Arrived(Given, frozen=True, tag="arrived", gc=False):
    """A client connected and may. `expiry_s` is how long its session outlives its connection."""

    client: str
    clean_start: bool
    expiry_s: int
    will: WillMessage | None = None
    is_new: bool = False
    """Its name was made up for it, so nobody can know it."""
    arrival: int = 0
    """Which of the client's connections waits for the answer."""
    user: str | None = None
    """Who it is, where that was found out: a session is its user's."""
    unreachable: str = ""
    """What it wants when a broker that may have its session is not reached: `anew`, to begin anew at once; `wait`, to
    be told what is waited for; empty, to come again until it is known."""


class Left(Given, frozen=True, tag="left", gc=False):
    """Its connection is over. `in_order`: it took its will back; else that is published after its delay, unless the
    client is back before."""

    client: str
    expiry_s: int | None
    """None: as was agreed when it came."""
    in_order: bool
    said: Pairs = ()
    """User properties of its last word that tell where it goes."""
    sent_through: int | None = None
    """The last delivery that may have been sent to it; None: any may."""


class Asked(Given, frozen=True, tag="asked", gc=False):
    """A SUBSCRIBE; `refused` says, by topic filter, what the rules forbid."""

    client: str
    packet_id: int
    subscriptions: tuple[Subscription, ...]
    refused: dict[str, Reason] = {}


class Withdrew(Given, frozen=True, tag="withdrew", gc=False):
    client: str
    packet_id: int
    filters: tuple[str, ...]


class Forbidden(Given, frozen=True, tag="forbidden", gc=False):
    """Subscriptions, and perhaps a will, that the rules allowed once and allow no longer: they end, and so does what
    waits for these subscriptions alone and was not sent yet."""

    client: str
    filters: tuple[str, ...]
    sent_through: int
    """The last delivery that may have been sent."""
    will: bool = False
    """Its will is forbidden too."""


class Overspent(Given, frozen=True, tag="overspent", gc=False):
    """The modulator of a subscription takes more of the processor than its client may have."""

    client: str
    filter: str


class Published(Given, frozen=True, tag="published", gc=False):
    """QoS 1 or 2, or QoS 0 to be retained (with packet id 0)."""

    client: str
    packet_id: int
    message: Message


class PublishedTogether(Given, frozen=True, tag="published_together", gc=False):
    """Plain messages of QoS 1 to one topic, in the order in which they came."""

    client: str
    topic: str
    packet_ids: tuple[int, ...]
    payloads: tuple[bytes, ...]


class PublishedByMany(Given, frozen=True, tag="published_by_many", gc=False):
    """The same of several clients, or to several topics, as they came in one tick."""

    rows: tuple[PublishedTogether, ...]


class Released(Given, frozen=True, tag="released", gc=False):
    """PUBREL: the client will not send this QoS 2 message again."""

    client: str
    packet_id: int


class Received(Given, frozen=True, tag="received", gc=False):
    """PUBREC: the client has the QoS 2 delivery of this number."""

    client: str
    number: int


class Finished(Given, frozen=True, tag="finished", gc=False):
    """PUBACK, PUBCOMP, and deliveries that will not happen: by client, the numbers of all that ended in a tick."""

    rows: tuple[tuple[str, tuple[int, ...]], ...]


class Reported(Given, frozen=True, tag="reported", gc=False):
    """Where and what a client is."""

    context: Context


class ReportedTogether(Given, frozen=True, tag="reported_together", gc=False):
    """The last reports of several clients, since anything else was given."""

    contexts: tuple[Context, ...]


class Heard(Given, frozen=True, tag="heard", gc=False):
    """A message of a neighbouring broker, as bytes of the link."""

    peer: str
    data: bytes


class LinkChanged(Given, frozen=True, tag="link", gc=False):
    peer: str
    up: bool


class Fired(Given, frozen=True, tag="fired", gc=False):
    timer: str


class Fetched(Given, frozen=True, tag="fetched", gc=False):
    """Messages for a neighbour that were set aside are at hand: the number says which."""

    peer: str
    number: int


class Ended(Given, frozen=True, tag="ended", gc=False):
    """An operator ends a session, whether its client is here or away."""

    client: str


class GoOn(Given, frozen=True, tag="go_on", gc=False):
    """The last portion of retained messages for a client's subscriptions was sent (`giving.py`)."""

    client: str


class Announced(Given, frozen=True, tag="announced", gc=False):
    """A message of QoS 0 is published to a topic, which other brokers must hear of first (R1)."""

    topic: str


class Restarted(Given, frozen=True, tag="restarted", gc=False):
    """The broker was killed or stopped: every connection and every link is gone."""


AnyGiven: TypeAlias = (
    Arrived
    | GoOn
    | Left
    | Asked
    | Withdrew
    | Forbidden
    | Overspent
    | Published
    | PublishedTogether
    | PublishedByMany
    | Released
    | Received
    | Finished
    | Reported
    | ReportedTogether
    | Heard
    | LinkChanged
    | Fired
    | Announced
    | Restarted
    | Fetched
    | Ended
)


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """One input in the log."""

    now_us: int
    given: AnyGiven


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Entry])


def encode_batch(entries: list[Entry]) -> bytes:
    return _encoder.encode(entries)


def decode_batch(data: bytes) -> Iterator[Entry]:
    """Raises `msgspec.MsgspecError` for bytes that are no batch."""
    yield from _decoder.decode(data)
