"""Signatures of statements: made once by their origin, checked once by each node, passed on by forwarders.

A statement that comes from its origin needs no check, since the frame was signed by the same key. One that others
pass on may come often, and checking a signature takes longer than all else that a datagram needs. So what was found
to be said is remembered by its digest, in a bounded memory, and with it the attestation that this node needs when it
passes the statement on itself.
"""

import hashlib

from roamcast.multicast.drops import Dropped
from roamcast.multicast.frames import STATEMENTS_MAX, Attestation
from roamcast.multicast.keys import Identity, is_signed
from roamcast.multicast.peers import Peer, Peers
from roamcast.multicast.statements import Statement, is_last_word, statements_of, travels
from roamcast.node.boundary import Message

ATTESTED_MAX = 16_384
DIGEST_BYTES = 16
CONTEXT = b"roamcast statement\x00"
"""In front of what is signed: no signature of something else is one of a statement."""


UNSIGNED: tuple[Attestation | None, ...] = (None,)
"""Of one statement, for which its frame speaks."""


class Signatures:
    def __init__(self, name: str, identity: Identity, peers: Peers, attested_max: int = ATTESTED_MAX) -> None:
        self.name = name
        self.identity = identity
        self.peers = peers
        self.attested_max = attested_max
        self._attested: dict[bytes, Attestation] = {}
        """By the digest of origin and statement; what was used last is at the end."""

    def attest(self, message: Message) -> tuple[Attestation | None, ...]:
        """The signatures that go with a message: this node's own if it travels on, and those of other origins."""
        statements = statements_of(message)
        if len(statements) > STATEMENTS_MAX:
            raise Dropped("too_long", f"{len(statements)} statements, at most {STATEMENTS_MAX}")
        goes_on = travels(message)
        return tuple(self._attestation(each) if goes_on or each.origin != self.name else None for each in statements)

    def check(
        self, now_us: int, message: Message, sender: Peer, attestations: tuple[Attestation | None, ...]
    ) -> None:
        """Raises `Dropped` unless every statement is its sender's, or signed by the key of its origin."""
        if attestations == UNSIGNED and is_last_word(message, sender.name):
            return
        statements = statements_of(message)
        if len(statements) != len(attestations):
            raise Dropped("forged", f"{len(statements)} statements with {len(attestations)} signatures")
        for statement, attestation in zip(statements, attestations, strict=True):
            if statement.carried and statement.origin != self.name:
                self.peers.check_gateway(statement.origin)
            if statement.origin == sender.name:
                self._take(statement, sender, attestation)
            elif attestation is not None:
                self._check(now_us, statement, attestation)
            else:
                raise Dropped("forged", f"'{statement.origin}' did not sign what '{sender.name}' passes on")

    def _attestation(self, statement: Statement) -> Attestation:
        digest = digest_of(statement)
        known = self._attested.get(digest)
        if known is None:
            if statement.origin != self.name:
                raise Dropped("unattested", f"nothing of '{statement.origin}' is known to be signed so")
            known = Attestation(self.identity.public, self.identity.sign(CONTEXT + statement.said))
        self._remember(digest, known)
        return known

    def _take(self, statement: Statement, sender: Peer, attestation: Attestation | None) -> None:
        """From its origin. Whether the attestation is good is for those to find out whom it is passed on to."""
        if attestation is not None:
            if attestation.key != sender.key:
                raise Dropped("forged", f"'{sender.name}' signs with the key of another node")
            self._remember(digest_of(statement), attestation)

    def _check(self, now_us: int, statement: Statement, attestation: Attestation) -> None:
        digest = digest_of(statement)
        known = self._attested.get(digest)
        # Another signature of the same statement by the same key is as good: it was said.
        if known is not None and known.key == attestation.key:
            self._remember(digest, known)
            return
        mine = statement.origin == self.name
        if not mine:
            self.peers.check(statement.origin, attestation.key)
        elif attestation.key != self.identity.public:
            raise Dropped("forged", f"another node signs as '{self.name}'")
        if not is_signed(attestation.key, CONTEXT + statement.said, attestation.signature):
            raise Dropped("forged", f"'{statement.origin}' did not sign this")
        if not mine:
            self.peers.met(now_us, statement.origin, attestation.key)
        self._remember(digest, attestation)

    def _remember(self, digest: bytes, attestation: Attestation) -> None:
        self._attested.pop(digest, None)
        if len(self._attested) >= self.attested_max:
            del self._attested[next(iter(self._attested))]
        self._attested[digest] = attestation


def digest_of(statement: Statement) -> bytes:
    origin = statement.origin.encode()
    digest = hashlib.blake2b(len(origin).to_bytes(4) + origin, digest_size=DIGEST_BYTES)
    digest.update(statement.said)
    return digest.digest()
