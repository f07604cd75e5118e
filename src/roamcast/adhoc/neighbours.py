"""Beacons and the neighbour table (C7): who is within one hop, where, and with which key attributes.

Every frame of the ad hoc protocols says where its sender is (`Here`), so any frame does a beacon's work; a `Beacon`
is sent only by a host that has said nothing else for a period ("in the absence of other traffic", section 4.1).
`Presence` is the sending side: it knows where the host was a while ago, which is how others see that it has just
entered a region. `NeighbourTable` is the listening side. It is bounded: who was heard of longest ago goes first.

Which attributes frames carry nobody has to configure: a host that holds a filter over its neighbours names the
attributes that the filter aggregates (`Here.asks`), and whoever hears that carries them, as long as it is repeated.
"""

from operator import attrgetter

from msgspec import Struct, field

from roamcast.model.context import Context
from roamcast.model.space import Plane, Space
from roamcast.model.values import NAME_CHARS_MAX, BadValue, Point, Value, Velocity, check_attributes, check_point
from roamcast.node.boundary import Message

ASKS_MAX = 16
"""Attributes that one host can ask of its neighbours, and that one carries for them."""


def rounded(place: Point, space: Space) -> Point:
    """To the centimetre, as frames tell places: location services know no better, and it is half the bytes."""
    digits = 2 if type(space) is Plane else 7
    return Point(round(place.x, digits), round(place.y, digits))


def in_few(context: Context, space: Space) -> Context:
    """What others need to find a host again: where it is and how it moves, to the centimetre."""
    position, velocity = context.position, context.velocity
    return Context(
        context.host,
        None if position is None else rounded(position, space),
        context.at_us,
        None if velocity is None else Velocity(round(velocity.east, 2), round(velocity.north, 2)),
    )


class Here(Struct, frozen=True, array_like=True):
    """Where the sender of a frame is, where it was about a beacon period before, its key attributes, and those that
    it asks of its neighbours."""

    position: Point
    previous: Point | None = None
    """None: it was nowhere before, it has just started."""
    attributes: dict[str, Value] = field(default_factory=dict)
    asks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_point(self.position, "sender")
        if self.previous is not None:
            check_point(self.previous, "sender")
        check_attributes(self.attributes)
        if len(self.asks) > ASKS_MAX or not all(1 <= len(name) <= NAME_CHARS_MAX for name in self.asks):
            raise BadValue(f"asks for {len(self.asks)} attributes; give at most {ASKS_MAX} names")


class Beacon(Message, frozen=True, tag="beacon"):
    here: Here


class Presence:
    """What a host says of itself in its frames."""

    def __init__(self, period_us: int, key_attributes: tuple[str, ...], asked_us: int = 0) -> None:
        """`asked_us`: for so long after it was last asked for an attribute is carried."""
        self.period_us = period_us
        self.key_attributes = key_attributes
        self.asked_us = asked_us
        self.asks: tuple[str, ...] = ()
        """What filters here need to know of neighbours."""
        self._carried: dict[str, int] = {}
        """What neighbours asked for, and until when it is carried."""
        self.said_us: int | None = None
        """When the host last told where it is."""
        self._marked: Point | None = None
        self._marked_us = 0
        self._previous: Point | None = None

    def here(self, now_us: int, me: Context, position: Point) -> Here:
        """What to put into a frame that is sent now."""
        keys = {name: me.attributes[name] for name in self.key_attributes if name in me.attributes}
        for name, until_us in self._carried.items():
            if until_us >= now_us and name in me.attributes:
                keys[name] = me.attributes[name]
        return Here(position, self._marked if self._renews(now_us) else self._previous, keys, self.asks)

    def asked(self, now_us: int, names: tuple[str, ...], me: Context) -> bool:
        """A neighbour asks for attributes; answers whether frames carry one from now on that they did not before."""
        is_news = False
        for name in names:
            if name in self.key_attributes or name not in me.attributes:
                continue
            if name not in self._carried and len(self._carried) >= ASKS_MAX:
                self._carried = {key: until for key, until in self._carried.items() if until >= now_us}
                if len(self._carried) >= ASKS_MAX:
                    continue
            is_news = is_news or self._carried.get(name, -1) < now_us
            self._carried[name] = now_us + self.asked_us
        return is_news

    def hurry(self) -> None:
        """The next beacon is due at once."""
        self.said_us = None

    def said(self, now_us: int, position: Point) -> None:
        """A frame with this host's `here` was sent."""
        self.said_us = now_us
        if self._renews(now_us):
            self._previous, self._marked, self._marked_us = self._marked, position, now_us

    def _renews(self, now_us: int) -> bool:
        """The previous position changes at most every half period: of two frames in quick succession a listener may
        have missed the first, and must see from the second as well that the host has come from elsewhere."""
        return self._marked is None or now_us - self._marked_us >= self.period_us // 2

    def due_us(self, now_us: int) -> int:
        """When the next beacon is to be sent, if nothing else is sent until then."""
        return now_us if self.said_us is None else self.said_us + self.period_us


LOOK_AGAIN_US = 1_000_000
"""A neighbour that says much is looked at, for what it has entered, no more often than this."""


class Neighbour:
    __slots__ = ("heard_us", "here", "host", "looked_us", "turn")

    def __init__(self, host: str, here: Here, heard_us: int, turn: int) -> None:
        self.host = host
        self.here = here
        self.heard_us = heard_us
        self.looked_us = heard_us
        self.turn = turn
        """The how-manieth frame that its host heard was the last one of this neighbour."""


BY_TURN = attrgetter("turn")


class NeighbourTable:
    """Frames are many, and whoever asks in which order neighbours were heard of are few: these put them in order."""

    __slots__ = ("_known", "_turn", "dropped", "lifetime_us", "neighbours_max")

    def __init__(self, neighbours_max: int, lifetime_us: int) -> None:
        self.neighbours_max = neighbours_max
        self.lifetime_us = lifetime_us
        self.dropped = 0
        self._known: dict[str, Neighbour] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, host: str) -> bool:
        return host in self._known

    def heard(self, now_us: int, host: str, here: Here) -> bool:
        """Remembers it; answers whether the neighbour is new, or was not looked at for a while."""
        self._turn += 1
        neighbour = self._known.get(host)
        if neighbour is None:
            if len(self._known) >= self.neighbours_max:
                del self._known[min(self._known.values(), key=BY_TURN).host]
                self.dropped += 1
            self._known[host] = Neighbour(host, here, now_us, self._turn)
            return True
        neighbour.here = here
        neighbour.heard_us = now_us
        neighbour.turn = self._turn
        if now_us - neighbour.looked_us < LOOK_AGAIN_US:
            return False
        neighbour.looked_us = now_us
        return True

    def current(self, now_us: int) -> list[Neighbour]:
        """Those heard of recently, the last one last; the others are forgotten."""
        oldest_us = now_us - self.lifetime_us
        ordered = sorted(self._known.values(), key=BY_TURN)
        for count, each in enumerate(ordered):
            if each.heard_us >= oldest_us:
                return ordered[count:] if count else ordered
            del self._known[each.host]
        return []

    def contexts(self, now_us: int) -> list[Context]:
        """The neighbours as relational properties see them: identity, position and key attributes."""
        return [
            Context(each.host, each.here.position, each.heard_us, attributes=each.here.attributes)
            for each in self.current(now_us)
        ]

    def context(self, now_us: int, host: str) -> Context | None:
        each = self._known.get(host)
        if each is None or each.heard_us < now_us - self.lifetime_us:
            return None
        return Context(host, each.here.position, each.heard_us, attributes=each.here.attributes)
