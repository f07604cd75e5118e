"""Signatures of statements: made once by their origin, checked once by each node, passed on by forwarders.

Checking a signature takes longer than everything else that a datagram needs, and a statement comes often: repeated by
forwarders, told anew by its origin. So what was checked is remembered by its digest, in a bounded memory, and with it
the attestation that this node needs when it passes the statement on itself.
"""

import hashlib

from roamcast.live.adhoc.drops import Dropped
from roamcast.live.adhoc.frames import STATEMENTS_MAX, Attestation
from roamcast.live.adhoc.keys import Identity, is_signed
from roamcast.live.adhoc.peers import Peers
from roamcast.live.adhoc.statements import Statement, statements_of
from roamcast.node.boundary import Message

ATTESTED_MAX = 16_384
DIGEST_BYTES = 16
CONTEXT = b"roamcast statement\x00"
"""In front of what is signed: no signature of something else is one of a statement."""


class Signatures:
    def __init__(self, name: str, identity: Identity, peers: Peers, attested_max: int = ATTESTED_MAX) -> None:
        self.name = name
        self.identity = identity
        self.peers = peers
        self.attested_max = attested_max
        self._attested: dict[bytes, Attestation] = {}
        """By the digest of origin and statement; what was used last is at the end."""

    def attest(self, message: Message) -> tuple[Attestation, ...]:
        """The signatures that go with a message: this node's own, and those that its origins made."""
        statements = statements_of(message)
        if len(statements) > STATEMENTS_MAX:
            raise Dropped("oversized", f"{len(statements)} statements, at most {STATEMENTS_MAX}")
        return tuple(map(self._attestation, statements))

    def check(self, now_us: int, message: Message, attestations: tuple[Attestation, ...]) -> None:
        """Raises `Dropped` unless every statement is signed by the key of its origin."""
        statements = statements_of(message)
        if len(statements) != len(attestations):
            raise Dropped("forged", f"{len(statements)} statements with {len(attestations)} signatures")
        for statement, attestation in zip(statements, attestations, strict=True):
            self._check(now_us, statement, attestation)

    def _attestation(self, statement: Statement) -> Attestation:
        digest = digest_of(statement)
        known = self._attested.get(digest)
        if known is None:
            if statement.origin != self.name:
                raise Dropped("unattested", f"nothing of '{statement.origin}' is known to be signed so")
            known = Attestation(self.identity.public, self.identity.sign(CONTEXT + statement.said))
        self._remember(digest, known)
        return known

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
            raise Dropped("forged", f"somebody else speaks as '{self.name}'")
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
