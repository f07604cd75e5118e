"""The network under an overlay, made of the links between broker processes (O1).

An overlay takes for granted that any host can send to any other. Here hosts are brokers, and what connects them are
the links of the settings, in any shape. So each process passes on what is for others (`Borne`), the way that a search
of the other side came last: searches go everywhere again and again, and the latest is right. What cannot be passed on
comes back as `Unreached`, also for whatever was on its way over a link that went down; the broker that sent it hears
`LinkDown`, as of any host that cannot be reached.

Clients that a process plays for MQTT clients are called `@client id`; no name of a broker begins so. What they say
goes from broker to broker (`guests.py`).
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.mqtt.effects import AnyEffect, Remark, Tell
from roamcast.broker.overlay.messages import MESSAGES, Search
from roamcast.node.boundary import Message
from roamcast.node.codec import BadMessage, Codec

SOURCE = "@"
"""Before a client's name where brokers have names too: no broker's name begins so."""
HOPS_MAX = 64
WAYS_MAX = 10_000
"""Of so many brokers the way is remembered, and of so many pairs that something is passed on between them."""
BORNE_BYTES_MAX = 4_000_000
CODEC = Codec(MESSAGES, BORNE_BYTES_MAX)


class Borne(Message, frozen=True, tag="borne"):
    """Something from one broker to another, passed on by processes between them; a search has no goal."""

    origin: str
    to: str
    hops: int
    data: bytes


class Unreached(Message, frozen=True, tag="unreached"):
    """What `to` sent to `origin` did not arrive."""

    origin: str
    to: str


class Way(Struct, frozen=True):
    peer: str
    number: int
    """Of the search that came this way: they count by the clock of who searches."""
    hops: int


def guest_name(client: str) -> str:
    return f"{SOURCE}{client}"


def is_guest(host: str) -> bool:
    return host.startswith(SOURCE)


class Underlay:
    def __init__(
        self,
        host: str,
        emit: Callable[[AnyEffect], None],
        arrived: Callable[[Message, str, int], None],
        unreached: Callable[[str], None],
    ) -> None:
        """`arrived` is told message, sender and hops, and `unreached` whom the broker here cannot reach."""
        self.host = host
        self.emit = emit
        self.arrived = arrived
        self.unreached = unreached
        self.up: dict[str, None] = {}
        self.ways: dict[str, Way] = {}
        """By broker, the neighbour to send to."""
        self.passed: dict[str, dict[tuple[str, str], None]] = {}
        """By neighbour, between whom something went over its link."""

    # Of the broker here.

    def send(self, to: str, message: Message) -> None:
        try:
            borne = Borne(self.host, to, 1, CODEC.encode(message))
        except BadMessage as problem:
            self.emit(Remark("unsendable", f"{to}: {problem}"))
            return
        if not self._pass(borne):
            self.unreached(to)

    def broadcast(self, search: Search) -> None:
        """To every neighbour: whoever has heard it already passes it over."""
        data = CODEC.encode(search)
        for peer in self.up:
            self.emit(Tell(peer, Borne(search.origin, "", search.travelled + 1, data)))

    # Links.

    def link(self, peer: str, is_up: bool) -> None:
        if is_up:
            self.up[peer] = None
            return
        self.up.pop(peer, None)
        self.ways = {broker: way for broker, way in self.ways.items() if way.peer != peer}
        for sender, to in self.passed.pop(peer, {}):
            self._tell_unreached(sender, to)

    def heard(self, peer: str, message: Borne | Unreached) -> None:
        if isinstance(message, Unreached):
            self._tell_unreached(message.to, message.origin)
            return
        try:
            inside = CODEC.decode(message.data)
        except BadMessage as problem:
            self.emit(Remark("bad_link_message", f"{peer}: {problem}"))
            return
        if isinstance(inside, Search):
            self._learn(inside.origin, Way(peer, inside.number, inside.travelled))
            self.arrived(inside, inside.origin, inside.travelled + 1)
            return
        # Who has sent something this way can be answered the same way, as long as nothing better is known.
        self._learn(message.origin, Way(peer, 0, message.hops))
        if message.to == self.host:
            self.arrived(inside, message.origin, message.hops)
        elif not self._pass(replace(message, hops=message.hops + 1)):
            self._tell_unreached(message.origin, message.to)

    def _learn(self, broker: str, way: Way) -> None:
        known = self.ways.get(broker)
        if broker == self.host or is_guest(broker) or (known is None and len(self.ways) >= WAYS_MAX):
            return
        if known is None or way.number > known.number or (way.number == known.number and way.hops < known.hops):
            self.ways[broker] = way

    def _towards(self, broker: str) -> str:
        way = self.ways.get(broker)
        return way.peer if way is not None else broker

    def _pass(self, borne: Borne) -> bool:
        peer = self._towards(borne.to)
        if peer not in self.up or borne.hops > HOPS_MAX:
            return False
        pairs = self.passed.setdefault(peer, {})
        pairs.pop((borne.origin, borne.to), None)
        pairs[borne.origin, borne.to] = None
        if len(pairs) > WAYS_MAX:
            del pairs[next(iter(pairs))]
        self.emit(Tell(peer, borne))
        return True

    def _tell_unreached(self, sender: str, to: str) -> None:
        """Whoever sent something that did not arrive."""
        if sender == self.host:
            self.unreached(to)
            return
        peer = self._towards(sender)
        if peer in self.up:
            self.emit(Tell(peer, Unreached(to, sender)))
