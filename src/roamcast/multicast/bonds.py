"""Bonds: two nodes that share a secret authenticate frames by a tag, a microsecond each, instead of a signature.

A signature convinces everybody and takes long to check; for a node that hears another all the time a *tag* is
enough, a keyed hash of what is signed. Its key can be reckoned by the two nodes only, from their own keys (X25519)
and the sessions under way, so who has the group's key cannot make one. A bond goes one way, from a sender to a
listener.

A node that has heard some frames greets, and again from time to time while it hears more. Who hears a greeting puts
tags for the greeter into its frames, for a few listeners at most. Signatures stay in every frame: a tag that is
missing or wrong means nothing, and the signature is looked at.

| | |
|---|---|
| `GREETING_FRAMES` | so many frames heard since the last greeting are worth another |
| `GREETING_PERIOD_US` | and it is at least so long ago |
| `LISTENER_US` | who was not heard for so long is no listener any more |
"""

import hashlib
import secrets
from hmac import compare_digest

from roamcast.multicast.frames import MARK_BYTES, TAG_BYTES, TAGS_AT, TAGS_MAX
from roamcast.multicast.keys import KEY_BYTES, Identity
from roamcast.multicast.peers import Peer

GREETING_FRAMES = 8
GREETING_PERIOD_US = 20_000_000
LISTENER_US = 60_000_000
PERSON = b"roamcast tags"


class Bond:
    __slots__ = ("_keyed", "mark")

    def __init__(self, secret: bytes, sender: tuple[bytes, bytes], listener: tuple[bytes, bytes]) -> None:
        """Each side is a public key and a session."""
        both = b"".join((*sender, *listener))
        derived = hashlib.blake2b(both, key=secret, digest_size=KEY_BYTES + MARK_BYTES, person=PERSON).digest()
        self.mark = derived[KEY_BYTES:]
        """By which the listener finds its tag; nobody else can tell whose it is."""
        self._keyed = hashlib.blake2b(key=derived[:KEY_BYTES], digest_size=TAG_BYTES - MARK_BYTES)

    def tag(self, signed: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(signed)
        return self.mark + keyed.digest()

    def vouches(self, plain: bytes, tags_end: int, signed: bytes) -> bool:
        """Whether the tag for this listener is among those of a frame, and right."""
        at = plain.find(self.mark, TAGS_AT, tags_end)
        if at < 0:
            return False
        keyed = self._keyed.copy()
        keyed.update(signed)
        return compare_digest(plain[at + MARK_BYTES : at + TAG_BYTES], keyed.digest())


class Bonds:
    """Of one session of one node: whom it makes tags for, and whether it would like some itself."""

    def __init__(self, identity: Identity, session: bytes) -> None:
        self.identity = identity
        self.session = session
        self._listeners: dict[tuple[str, bytes], tuple[Bond, Peer]] = {}
        """By name and session: another could use the same session."""
        self.frames_heard = 0
        """Since the last greeting."""
        self._greeted_us: int | None = None

    # As a sender.

    @property
    def listeners(self) -> int:
        """For how many there are tags in every frame."""
        return len(self._listeners)

    def tags(self, signed: bytes) -> bytes:
        """How many, and the tags."""
        tags = bytes([len(self._listeners)])
        for bond, _ in self._listeners.values():
            tags += bond.tag(signed)
        return tags

    def greeted(self, now_us: int, peer: Peer) -> None:
        """By somebody whose greeting was signed. There is room for the first ones; others check signatures."""
        assert peer.session is not None
        self._forget_silent(now_us)
        listener = peer.name, peer.session
        if listener in self._listeners or len(self._listeners) >= TAGS_MAX:
            return
        secret = self.identity.secret_with(peer.key)
        if secret is not None:
            bond = Bond(secret, (self.identity.public, self.session), (peer.key, peer.session))
            self._listeners[listener] = bond, peer

    def _forget_silent(self, now_us: int) -> None:
        """Also those whose session is over."""
        silent = [
            listener
            for listener, (_, peer) in self._listeners.items()
            if now_us - peer.heard_us > LISTENER_US or peer.session != listener[1]
        ]
        for listener in silent:
            del self._listeners[listener]

    # As a listener.

    def bind(self, peer: Peer) -> Bond:
        """The bond by which a peer vouches for frames of its session, made when the first tags come from it."""
        assert peer.session is not None
        # There are keys that sign and that nobody can share a secret with. To find that out takes as long as to check
        # a signature, so it is done once: by a secret that nobody knows no frame is ever vouched for.
        secret = self.identity.secret_with(peer.key) or secrets.token_bytes(KEY_BYTES)
        peer.bond = Bond(secret, (peer.key, peer.session), (self.identity.public, self.session))
        return peer.bond

    def is_to_greet(self, now_us: int) -> bool:
        """Asked from time to time; True once for each greeting that is due."""
        self._forget_silent(now_us)
        if self.frames_heard < GREETING_FRAMES:
            return False
        if self._greeted_us is not None and now_us - self._greeted_us < GREETING_PERIOD_US:
            return False
        self.frames_heard, self._greeted_us = 0, now_us
        return True
