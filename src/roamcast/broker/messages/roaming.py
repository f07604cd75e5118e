"""What brokers say to each other of a client that has moved, is gone (R3), or may come (R7)."""

from roamcast.broker.messages.clients import Numbered
from roamcast.broker.transfer import SessionState
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Message


class Relocate(Message, frozen=True, tag="relocate"):
    """A claim: `client` is now at the first broker of `path`, and has everything up to number `after`.

    `epoch` grows with each attachment of the client: of two claims, the later is right. One that `forgets` wants
    nothing of what was kept for the client: it has started anew.
    """

    client: str
    epoch: int
    after: int
    path: tuple[str, ...]
    forgets: bool = False
    was_at: str = ""
    """Where the client says that it was: a way to go where nobody knows better (M7)."""
    has: tuple[tuple[int, str], ...] = ()
    """By number, the ids of events that were sent ahead to where the client is now (M5)."""
    corrects: bool = False
    """It was sent back to where an earlier claim came from. Its own search goes another way, so nobody says of this
    one that nothing was found."""


class Replay(Message, frozen=True, tag="replay"):
    """What was kept for a client, on its way back along `path` to the broker that claimed it with `epoch`."""

    client: str
    epoch: int
    path: tuple[str, ...]
    events: tuple[Numbered, ...] = ()
    last: bool = False
    session: SessionState | None = None
    """On the last message: what the session is beside its events."""
    apart: tuple[int, ...] = ()
    """The numbers of the events that travel apart from this message (M6)."""
    ahead: tuple[int, ...] = ()
    """Of those that travel apart, the numbers of those that were there ahead, and are not sent again (M5)."""


class NotFound(Message, frozen=True, tag="not_found"):
    """Nobody on this side has anything for the client; on its way back along `path`."""

    client: str
    epoch: int
    path: tuple[str, ...]


class Remember(Message, frozen=True, tag="remember"):
    """Who knows what this client wants? `number` tells the questions of one broker, the first of `path`, apart."""

    client: str
    number: int
    path: tuple[str, ...]
    hurries: bool = False
    """Nobody is waited for whose link is down."""


class Remembered(Message, frozen=True, tag="remembered"):
    """The answer, on its way back along `path`; `found` tells whether the client has a session."""

    client: str
    number: int
    path: tuple[str, ...]
    found: bool = False
    epoch: int = 0
    """Of its latest attachment, as far as is known: the next must be later."""
    session: SessionState | None = None
    unsure: bool = False
    """A broker that may have the session could not be asked."""


class Farewell(Message, frozen=True, tag="farewell"):
    """Nothing is kept for the client any more: whoever knows nothing newer of it forgets it."""

    client: str
    epoch: int
    hops: int = 0


class Abandon(Message, frozen=True, tag="abandon"):
    """The client has begun anew with this epoch, because what was kept for it did not come: whatever is older goes.

    It is passed on to everybody: a broker that has crashed since may not know where the client was.
    """

    client: str
    epoch: int
    hops: int = 0


class Prepare(Message, frozen=True, tag="prepare"):
    """Subscribe ahead for a client that may come (R7)."""

    client: str
    ticket: int
    subscriptions: tuple[Subscription, ...]
    epoch: int = 0
    """Of its present attachment, for a client that cannot say so itself: the next must be later."""
    session: SessionState | None = None
    """What is known of such a client: it can be told at once that its session is there."""


class Prepared(Message, frozen=True, tag="prepared"):
    client: str
    ticket: int


class Complete(Message, frozen=True, tag="complete"):
    """Of what is numbered for the client behind `number`, nothing has passed by the broker that is told."""

    client: str
    ticket: int
    number: int


class Release(Message, frozen=True, tag="release"):
    """The client is elsewhere, or gone."""

    client: str


class Letter(Message, frozen=True, tag="letter"):
    """From one broker to another that need not be its neighbour."""

    origin: str
    target: str
    body: Prepare | Prepared | Complete | Release
