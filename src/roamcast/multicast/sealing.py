"""From message to datagram and back: sealed for the group, signed by origins, each taken once.

A frame is sealed with ChaCha20-Poly1305 under a key that is derived from the group's and the session, so no two
senders share a key and the frame's number is a nonce that never comes twice. Everybody in the group has the group's
key, so the seal keeps others out and no more: every frame is signed by its sender, and what travels on by its origin.
docs/decisions/0028-sealed-frames.md says what that protects from and what not. Who hears a sender often knows its
frames by a tag (`bonds.py`), and need not check the signature.

A datagram is looked at in the order of what it costs: its length and first bytes, its seal, its form, whether it was
seen, and only then signatures. Nothing is remembered of a frame before it is its sender's. A session is in the clear,
and who has the group's key can use that of another: so it tells which key to try, and never whose a frame is.
"""

import hashlib
from collections.abc import Callable
from struct import Struct as Layout

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from msgspec import Struct

from roamcast.model.space import Earth, Plane
from roamcast.model.values import BadValue, Point
from roamcast.multicast.bonds import Bonds
from roamcast.multicast.drops import Dropped
from roamcast.multicast.frames import (
    FRAME_BYTES_MAX,
    GROUP_BYTES,
    HEADER_BYTES,
    LAYOUT,
    SEAL_BYTES,
    SIGNATURE_BYTES,
    SPACE_AT,
    TAG_BYTES,
    TAGS_AT,
    Body,
    Header,
    body_bytes,
    front_bytes,
    read_body,
    read_header,
    session_id,
)
from roamcast.multicast.keys import KEY_BYTES, OPEN_GROUP_KEY, Identity, is_signed, key_id
from roamcast.multicast.peers import LATELY_US, Peers
from roamcast.multicast.signing import UNSIGNED, Signatures
from roamcast.multicast.statements import is_last_word
from roamcast.node.boundary import Message
from roamcast.node.codec import BadMessage, Codec

PLANE = Plane()
NONCE = Layout(">4xQ")
GREETING = b""
"""In place of a message."""
REFUSED_MAX = 1_024
CONTEXT = b"roamcast frame\x00"
"""In front of what is signed: no signature of something else is one of a frame."""


class Heard(Struct, frozen=True):
    """What a datagram said."""

    message: Message
    sender: str
    group: int


class EmulatedRadio(Struct, frozen=True):
    """A radio that reaches so far, on a network that reaches everybody: as the paper's authors had it (STEAM, 5)."""

    range_m: float
    space: Plane | Earth
    place: Callable[[], Point | None]
    """Where this node is."""

    def check(self, sender: str, there: Point | None) -> None:
        here = self.place()
        if here is None or there is None:
            raise Dropped("out_of_range", f"the distance to '{sender}' is unknown")
        try:
            self.space.check(there)
        except BadValue as problem:
            raise Dropped("malformed", str(problem)) from problem
        if not self.space.within(here, there, self.range_m):
            raise Dropped("out_of_range", f"'{sender}' is farther than {self.range_m:g} m away")


class Seals:
    """One life of one node: its session, and whom it hears."""

    def __init__(
        self,
        name: str,
        codec: Codec,
        identity: Identity,
        began_us: int,
        drawn: bytes,
        group_key: bytes = OPEN_GROUP_KEY,
        peers: Peers | None = None,
        space: Plane | Earth = PLANE,
        emulated: "EmulatedRadio | None" = None,
    ) -> None:
        """`drawn` are eight random bytes of this life; `emulated` tells its place and how far frames reach."""
        self.name = name
        self.codec = codec
        self.identity = identity
        self.group_key = group_key
        self.peers = peers if peers is not None else Peers()
        self.signatures = Signatures(name, identity, self.peers)
        self.session = session_id(began_us, drawn)
        self.bonds = Bonds(identity, self.session)
        self.emulated = emulated
        self._front = front_bytes(key_id(group_key), 0 if isinstance(space, Plane) else 1)
        self._cipher = cipher_of(group_key, self.session)
        self._counter = 0
        self._refused: dict[bytes, None] = {}
        """Digests of frames whose signature was wrong."""

    def seal(self, data: bytes, group: int, message: Message | None = None) -> bytes:
        """The datagram of a message in the codec's bytes; the message itself spares decoding them, as a rule.

        What is signed is the message as others will read it: a whole number where a double belongs is one by then.
        """
        if message is not None and is_last_word(message, self.name):
            attestations = UNSIGNED
        else:
            attestations = self.signatures.attest(self._decoded(data))
        place = None if self.emulated is None else self.emulated.place()
        return self._sealed(body_bytes(self.name, self.identity.public, data, attestations, place), group)

    def greeting(self, now_us: int) -> bytes | None:
        """A frame that asks others for tags, if one is due."""
        if not self.bonds.is_to_greet(now_us):
            return None
        return self._sealed(body_bytes(self.name, self.identity.public, GREETING), 0)

    def _sealed(self, body: bytes, group: int) -> bytes:
        counter = self._counter + 1
        head = LAYOUT.pack(self._front, group.to_bytes(GROUP_BYTES), self.session, counter)
        signed = CONTEXT + head + body
        tags = self.bonds.tags(signed)
        size = HEADER_BYTES + SIGNATURE_BYTES + len(tags) + len(body) + SEAL_BYTES
        if size > FRAME_BYTES_MAX:
            raise Dropped("too_long", f"{size} bytes to send, at most {FRAME_BYTES_MAX}")
        self._counter = counter
        plain = self.identity.sign(signed) + tags + body
        return head + self._cipher.encrypt(NONCE.pack(counter), plain, head)

    def header(self, datagram: bytes) -> Header:
        """What the sender wrote on the outside, if it is for this group of nodes and not from this one."""
        header = read_header(datagram)
        if header.front != self._front:
            raise Dropped("wrong_key" if header.front[:SPACE_AT] != self._front[:SPACE_AT] else "other_space")
        if header.session == self.session:
            raise Dropped("own")
        return header

    def open(self, now_us: int, datagram: bytes, header: Header) -> Heard | None:
        """Raises `Dropped`, and nothing else, for every datagram that a node must not be given; None is a greeting,
        which is not for the node."""
        speaker = self.peers.by_session.get(header.session)
        cipher = speaker.cipher if speaker is not None else None
        if cipher is None:
            cipher = cipher_of(self.group_key, header.session)
        head = datagram[:HEADER_BYTES]
        try:
            plain = cipher.decrypt(NONCE.pack(header.counter), datagram[HEADER_BYTES:], head)
        except InvalidTag:
            raise Dropped("broken_seal") from None
        tags_end = TAGS_AT + plain[SIGNATURE_BYTES] * TAG_BYTES
        said = plain[tags_end:]
        body = read_body(said)
        signed = CONTEXT + head + said
        peer = self.peers.by_name.get(body.sender)
        if peer is None or peer.session != header.session or peer.key != body.key:
            self._check_sender(body, header)
            peer = None
        elif not peer.window.is_new(header.counter):
            raise Dropped("replayed", f"frame {header.counter} of '{peer.name}'")
        # A tag counts in a session only that a signature has begun.
        bond = None if peer is None or tags_end == TAGS_AT else peer.bond or self.bonds.bind(peer)
        if bond is None or not bond.vouches(plain, tags_end, signed):
            self._check_signature(body, signed, plain[:SIGNATURE_BYTES])
        if peer is not None:
            if now_us - peer.heard_us > LATELY_US:
                self.peers.met(now_us, peer.name, peer.key)
        else:
            peer = self.peers.met(now_us, body.sender, body.key)
            self.peers.begins(peer, header.session, header.began_us, cipher)
        # From here on the frame is its sender's, and is used up even if nothing comes of it.
        peer.window.mark(header.counter)
        if body.message == GREETING:
            self.bonds.greeted(now_us, peer)
            return None
        if self.emulated is not None:
            self.emulated.check(peer.name, body.place)
        self.bonds.frames_heard += 1
        message = self._decoded(body.message)
        if body.attestations != UNSIGNED or not is_last_word(message, peer.name):
            self.signatures.check(now_us, message, peer, body.attestations)
        return Heard(message, body.sender, header.group)

    def _check_signature(self, body: Body, signed: bytes, signature: bytes) -> None:
        """A frame that was refused costs nobody a second look: who can make one can send it for ever."""
        digest = hashlib.blake2b(signature + body.key + signed, digest_size=KEY_BYTES).digest()
        if digest not in self._refused:
            if is_signed(body.key, signed, signature):
                return
            if len(self._refused) >= REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
            self._refused[digest] = None
        raise Dropped("forged", f"'{body.sender}' did not sign this frame")

    def _decoded(self, data: bytes) -> Message:
        try:
            return self.codec.decode(data)
        except BadMessage as problem:
            raise Dropped("malformed", str(problem)) from problem

    def _check_sender(self, body: Body, header: Header) -> None:
        """Whether somebody of that name and key may begin this session; that it did is for the signature to tell."""
        if body.sender == self.name:
            raise Dropped("forged", f"another node uses the name '{self.name}'")
        known = self.peers.check(body.sender, body.key)
        if known is not None and header.began_us <= known.began_us:
            raise Dropped("replayed", f"'{body.sender}' has begun a later session")


def cipher_of(group_key: bytes, session: bytes) -> ChaCha20Poly1305:
    derived = hashlib.blake2b(session, key=group_key, digest_size=KEY_BYTES, person=b"roamcast frames")
    return ChaCha20Poly1305(derived.digest())
