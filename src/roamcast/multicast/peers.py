"""The nodes that this node has heard: their keys and current sessions.

A name belongs to the key that it was first heard with (trust on first use), or to the one that a list gives it; then
names that are not on the list are strangers. A peer has one session at a time, the one that began last: frames of an
earlier one are recordings. The table is bounded. When it is full, who has not been heard for long makes room; if all
were heard lately, a newcomer has to wait, since a flood of names must not push out those that are there.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from roamcast.multicast.drops import Dropped
from roamcast.multicast.replay import Window

if TYPE_CHECKING:
    from roamcast.multicast.bonds import Bond

PEERS_MAX = 4_096
IDLE_US = 600_000_000
"""Who was silent for so long gives way to others."""
LATELY_US = 1_000_000
"""Who was heard so lately need not be moved to the end of the table again."""


class Peer:
    __slots__ = ("began_us", "bond", "cipher", "heard_us", "key", "name", "session", "window")

    def __init__(self, name: str, key: bytes, heard_us: int) -> None:
        self.name = name
        self.key = key
        self.heard_us = heard_us
        self.session: bytes | None = None
        """None of whom only statements came, through others."""
        self.began_us = -1
        self.cipher: ChaCha20Poly1305 | None = None
        self.window = Window()
        self.bond: Bond | None = None
        """By which it tells this node that a frame is its own, once it has."""


class Peers:
    def __init__(
        self,
        known: Mapping[str, bytes] | None = None,
        peers_max: int = PEERS_MAX,
        gateways: Collection[str] | None = None,
    ) -> None:
        self.known = known
        """None: trust on first use."""
        self.gateways = gateways
        """Who may bring events of others; None: whoever is in the group."""
        self.peers_max = peers_max
        self.by_name: dict[str, Peer] = {}
        """In the order in which they were last heard of."""
        self.by_session: dict[bytes, Peer] = {}
        """One of those who use a session: as a rule there is only one."""

    def check(self, name: str, key: bytes) -> Peer | None:
        """The peer of that name, if it is known already; raises `Dropped` if the name is another's or on no list."""
        if self.known is not None:
            wanted = self.known.get(name)
            if wanted is None:
                raise Dropped("stranger", f"'{name}' is not on the list of known keys")
            if wanted != key:
                raise Dropped("forged", f"'{name}' is known by another key")
        peer = self.by_name.get(name)
        if peer is not None and peer.key != key:
            raise Dropped("forged", f"'{name}' was heard with another key first")
        return peer

    def check_gateway(self, name: str) -> None:
        """Raises `Dropped` if a node is not to speak for others."""
        if self.gateways is not None and name not in self.gateways:
            raise Dropped("stranger", f"'{name}' is not a gateway that this node trusts")

    def met(self, now_us: int, name: str, key: bytes) -> Peer:
        """A name was proved to belong to a key."""
        peer = self.check(name, key)
        if peer is not None:
            del self.by_name[name]
        else:
            self._make_room(now_us)
            peer = Peer(name, key, now_us)
        peer.heard_us = now_us
        self.by_name[name] = peer
        return peer

    def begins(self, peer: Peer, session: bytes, began_us: int, cipher: ChaCha20Poly1305) -> None:
        """A peer's session, in place of the one before."""
        self._end_session(peer)
        peer.bond = None
        peer.session, peer.began_us, peer.cipher, peer.window = session, began_us, cipher, Window()
        self.by_session.setdefault(session, peer)

    def _end_session(self, peer: Peer) -> None:
        if peer.session is not None and self.by_session.get(peer.session) is peer:
            del self.by_session[peer.session]

    def _make_room(self, now_us: int) -> None:
        if len(self.by_name) < self.peers_max:
            return
        oldest = next(iter(self.by_name.values()))
        if now_us - oldest.heard_us < IDLE_US:
            raise Dropped("crowded", f"{len(self.by_name)} names were heard lately")
        del self.by_name[oldest.name]
        self._end_session(oldest)
