"""The boundary of every protocol: what goes in, what comes out (docs/ARCHITECTURE.md tells the whole way).

A node is a state machine. It is given one `Input` at a time with the time of its happening, and answers with a list
of `Effect`s. It never reads a clock, a socket, a file or shared randomness; failures reach it as inputs.

Order matters: a runtime performs the effects of one answer in their order, and gives a node its next input only
after it has performed all of them.
"""

from typing import Protocol, TypeAlias

from msgspec import Struct, field

from roamcast.model.context import Context
from roamcast.model.event import Announcement, Event
from roamcast.model.subscription import Subscription


class Message(Struct, frozen=True, array_like=True):
    """Base of what nodes say to each other. Each has a `tag`; a field added later goes to the end and has a default.

    Messages and the model's values are arrays on the wire: names would be half of every packet.
    """

    @property
    def kind(self) -> str:
        """What it is called in counts and journals."""
        return str(self.__struct_config__.tag)

    @property
    def event_id(self) -> str | None:
        """The event this message carries or is about, if any: it lets a journal follow an event's way."""
        return None


class Given(Struct, frozen=True):
    """Base of all inputs."""


class Start(Given, frozen=True):
    """The first input, and the first after a crash: the node sets its timers and says hello.

    `context` is where the host is and how it moves, as far as it is known; `stored` is what earlier `Store`s of this
    host left behind, empty at the very first start and after a crash that took the disk.
    """

    context: Context
    restarted: bool = False
    stored: dict[str, bytes] = field(default_factory=dict)


class Received(Given, frozen=True):
    """A message arrived from `sender`: over the air (`group` says on which multicast group), or over a link."""

    message: Message
    sender: str
    group: int | None = None
    hops: int | None = None
    """Over how many hops of the network it came, where the network says so."""


class TimerFired(Given, frozen=True):
    name: str


class Moved(Given, frozen=True):
    """The location service's word: a new position, velocity, destination or attribute of this host.

    Between two of these the host moves on with its velocity; `Context.position_at` says where it is.
    """

    context: Context


class LinkUp(Given, frozen=True):
    peer: str


class LinkDown(Given, frozen=True):
    """The link to `peer` is gone; whatever was under way on it may be lost."""

    peer: str


class Publish(Given, frozen=True):
    event: Event


class Withdraw(Given, frozen=True):
    """An event of this host that lasts is over: who has not got it yet shall not get it."""

    event_id: str


class Subscribe(Given, frozen=True):
    subscription: Subscription


class Unsubscribe(Given, frozen=True):
    subscription_id: str


class Announce(Given, frozen=True):
    announcement: Announcement


class Unannounce(Given, frozen=True):
    announcement_id: str


class Measured(Given, frozen=True):
    """What this node used since it was last measured. Nodes read no clock: whoever runs one measures it, or a model
    of a simulation says what work costs (O6)."""

    period_s: float
    modulators_s: tuple[tuple[str, float], ...] = ()
    """By subscription, how long its modulator worked."""
    clients_s: tuple[tuple[str, float], ...] = ()
    """By client, how long the node worked for it otherwise."""
    others_s: float = 0.0
    queued_messages: int = 0
    """How many wait to be taken by others."""
    memory_bytes: int = 0


Input: TypeAlias = (
    Start
    | Received
    | TimerFired
    | Moved
    | LinkUp
    | LinkDown
    | Publish
    | Withdraw
    | Subscribe
    | Unsubscribe
    | Announce
    | Unannounce
    | Measured
)


class Effect(Struct, frozen=True):
    """Base of all effects."""


class Send(Effect, frozen=True):
    """To one peer over a link: in order, and whole as long as the link is up."""

    to: str
    message: Message


class Broadcast(Effect, frozen=True):
    """Over the air to whoever is in range and, with a `group`, has joined it. Best effort.

    `jitter_us`: the runtime may wait a random time up to this before it sends, which keeps forwarders apart.
    `priority`: of what waits to be sent, the higher goes first (S14).
    """

    message: Message
    group: int | None = None
    jitter_us: int = 0
    priority: int = 0


class SetTimer(Effect, frozen=True):
    """`TimerFired(name)` at `at_us`; a timer of that name that was set before is forgotten."""

    name: str
    at_us: int


class CancelTimer(Effect, frozen=True):
    name: str


class JoinGroup(Effect, frozen=True):
    group: int


class LeaveGroup(Effect, frozen=True):
    group: int


class Deliver(Effect, frozen=True):
    """Hand an event to the application that made the subscription."""

    event: Event
    subscription_id: str


class Store(Effect, frozen=True):
    """Keep `value` under `key` across crashes, or forget it (None). Safe before any later effect is performed."""

    key: str
    value: bytes | None


class Connect(Effect, frozen=True):
    """Open a link to `peer`; `LinkUp` or `LinkDown` answers."""

    peer: str


class Disconnect(Effect, frozen=True):
    peer: str


class Note(Effect, frozen=True):
    """Something worth counting that nobody has to act on: a drop, a bound reached, a decision taken."""

    what: str
    detail: str = ""


Does: TypeAlias = (
    Send | Broadcast | SetTimer | CancelTimer | JoinGroup | LeaveGroup | Deliver | Store | Connect | Disconnect | Note
)


class Node(Protocol):
    def handle(self, now_us: int, given: Input) -> list[Does]: ...
