"""What a broker of an overlay knows, for people to look at (O2, O4)."""

from typing import TYPE_CHECKING

from msgspec import Struct

from roamcast.broker.overlay.messages import Row

if TYPE_CHECKING:
    from roamcast.broker.overlay.broker import OverlayBroker


class SessionTable(Struct, frozen=True):
    client: str
    attached: bool
    departing: bool
    kept: int
    """How many events wait for the client."""
    subscriptions: tuple[tuple[str, str | None], ...]
    """With the broker where the modulator of each is; None: nobody knows."""


class PostTable(Struct, frozen=True):
    subscription: str
    home: str
    modulator: str
    load: float


class OverlayTables(Struct, frozen=True):
    broker: str
    rows: tuple[Row, ...]
    """The topology, as each broker has told of itself."""
    paths: tuple[tuple[str, ...], ...]
    """To every other broker that can be reached, the shortest first."""
    lost: tuple[str, ...]
    """Brokers that were given up."""
    sessions: tuple[SessionTable, ...]
    posts: tuple[PostTable, ...]


def tables_of(broker: "OverlayBroker") -> OverlayTables:
    topology, entries = broker.brokers.topology, broker.brokers.directory.entries
    paths = [path for path in topology.paths_from(broker.host, topology.avoided).values() if len(path) > 1]
    sessions = [
        SessionTable(
            session.client,
            session.attachment.attached,
            session.departing,
            len(session.window),
            tuple((name, entries[name].place if name in entries else None) for name in session.wanted),
        )
        for session in broker.clients.sessions.values()
    ]
    posts = [
        PostTable(name, post.home, post.subscription.modulator, post.load)
        for name, post in broker.clients.posts.items()
    ]
    return OverlayTables(
        broker.host,
        tuple(topology.rows.values()),
        tuple(sorted(paths, key=lambda path: (topology.hops(path), path))),
        tuple(broker.brokers.flows.lost),
        tuple(sessions),
        tuple(posts),
    )
