"""Keys: that of the group, which all its nodes share, and that of a node, by which its statements are known.

A group's key is 32 bytes in a file, written in hexadecimal by `roamcast key`. Without one a node is in the *open
group*, whose key is public: everybody can listen and speak there, and only signatures tell who said what. A node's
own key is made at its first start and kept in a file that only its user can read: others know the node by it.

A signature of Ed25519 is a secret number, its point on the curve, and some arithmetic with what is signed. The point
takes nearly all of the time and knows nothing of what is signed, so a node that is asked to makes numbers and points
beforehand, while it has nothing else to do (docs/decisions/0034-bonds.md). A number is used once: two signatures
with the same one give the secret key away. Nobody can tell a machine that was resumed twice from one picture of its
memory that it was, so nothing is prepared unless its user has asked for it.
"""

import hashlib
import os
import secrets
from pathlib import Path
from weakref import WeakSet

from nacl.bindings import (
    crypto_core_ed25519_scalar_reduce,
    crypto_scalarmult,
    crypto_scalarmult_ed25519_base_noclamp,
    crypto_sign,
    crypto_sign_ed25519_pk_to_curve25519,
    crypto_sign_ed25519_sk_to_curve25519,
    crypto_sign_open,
    crypto_sign_seed_keypair,
    has_crypto_scalarmult_ed25519,
)
from nacl.exceptions import BadSignatureError, CryptoError

from roamcast.config_errors import unreadable
from roamcast.multicast.frames import KEY_ID_BYTES, NAME_CHARS_MAX, SIGNATURE_BYTES

KEY_BYTES = 32
ORDER = 2**252 + 27_742_317_777_372_353_535_851_937_790_883_648_493
"""How many points Ed25519 reckons with."""
PREPARED_MAX = 64
DISGUISE_BITS = 128
OPEN_GROUP_KEY = hashlib.blake2b(b"roamcast open group", digest_size=KEY_BYTES).digest()


class BadKey(Exception):
    """A key file that is none; the message says what is wrong with it."""


class Identity:
    """A node's own key pair."""

    def __init__(self, seed: bytes) -> None:
        self.public, self._secret = crypto_sign_seed_keypair(seed)
        # Of the secret key, the number that Ed25519 signs with is what Curve25519 calls its own secret key.
        self._exchange = crypto_sign_ed25519_sk_to_curve25519(self._secret)
        self._number = int.from_bytes(self._exchange, "little")
        self._prepared: list[tuple[int, bytes, int]] = []
        """Each for one signature: a secret number, its point, and the number of the secret key in a disguise."""
        self._prepared_by = 0

    def __getstate__(self) -> dict[str, object]:
        """Of a copy, pickled or not: two that have the same numbers would each use them."""
        return {**self.__dict__, "_prepared": [], "_prepared_by": 0}

    @classmethod
    def fresh(cls) -> "Identity":
        return cls(secrets.token_bytes(KEY_BYTES))

    @property
    def prepared(self) -> int:
        """How many signatures are prepared."""
        return len(self._prepared)

    def prepare(self, count: int) -> None:
        """Prepares some more signatures, up to `PREPARED_MAX`."""
        if self._prepared_by != os.getpid():
            self._prepared, self._prepared_by = [], os.getpid()
        if not has_crypto_scalarmult_ed25519:
            return
        _prepared.add(self)
        for _ in range(min(count, PREPARED_MAX - len(self._prepared))):
            number = crypto_core_ed25519_scalar_reduce(secrets.token_bytes(2 * KEY_BYTES))
            point = crypto_scalarmult_ed25519_base_noclamp(number)
            # A multiple of the order makes no difference to the result. What Python's arithmetic takes depends a
            # little on its numbers, and these are others each time.
            disguised = self._number + secrets.randbits(DISGUISE_BITS) * ORDER
            self._prepared.append((int.from_bytes(number, "little"), point, disguised))

    def sign(self, statement: bytes) -> bytes:
        # A copy of this process has the same numbers, also one that was made without Python noticing.
        if not self._prepared or self._prepared_by != os.getpid():
            return crypto_sign(statement, self._secret)[:SIGNATURE_BYTES]
        number, point, disguised = self._prepared.pop()
        challenge = int.from_bytes(hashlib.sha512(point + self.public + statement).digest(), "little")
        return point + ((number + challenge * disguised) % ORDER).to_bytes(KEY_BYTES, "little")

    def forget_prepared(self) -> None:
        self._prepared = []

    def secret_with(self, public: bytes) -> bytes | None:
        """What only this node and the owner of a public key can reckon (X25519); None for a key that is no point."""
        try:
            return crypto_scalarmult(self._exchange, crypto_sign_ed25519_pk_to_curve25519(public))
        except (CryptoError, RuntimeError):
            return None


_prepared: WeakSet[Identity] = WeakSet()


def _forget_all_prepared() -> None:
    """In a forked process. Its number alone would not do: those of processes come again."""
    for identity in _prepared:
        identity.forget_prepared()


os.register_at_fork(after_in_child=_forget_all_prepared)


def is_signed(key: bytes, statement: bytes, signature: bytes) -> bool:
    try:
        crypto_sign_open(signature + statement, key)
    except BadSignatureError:
        return False
    return True


def key_id(group_key: bytes) -> bytes:
    """Tells groups apart, and nothing about their keys."""
    return hashlib.blake2b(group_key, digest_size=KEY_ID_BYTES, person=b"roamcast key id").digest()


def new_key_text() -> str:
    return secrets.token_hex(KEY_BYTES) + "\n"


def read_key(path: Path) -> bytes:
    try:
        text = path.read_text(encoding="ascii").strip()
        key = bytes.fromhex(text)
    except OSError as problem:
        raise BadKey(f"{path}: cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise BadKey(f"{path}: a key is {2 * KEY_BYTES} hexadecimal digits; `roamcast key` makes one") from problem
    if len(key) != KEY_BYTES:
        raise BadKey(f"{path}: holds {len(key)} bytes; a key is {2 * KEY_BYTES} hexadecimal digits")
    return key


def write_key(path: Path, text: str) -> None:
    """For its user alone, never over another one, and in a directory that there is: a mistyped one is to be told."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except FileExistsError:
        raise BadKey(f"{path}: is there already; remove it first if nobody uses it") from None
    except FileNotFoundError:
        raise BadKey(f"{path}: there is no directory {path.parent}; make it first, or name another") from None
    except OSError as problem:
        raise BadKey(f"{path}: cannot be written: {problem.strerror}") from problem


def identity_at(path: Path) -> Identity:
    """The key in a file, which is made if it is missing."""
    if not path.exists():
        write_key(path, new_key_text())
    return Identity(read_key(path))


def next_session_us(path: Path, now_us: int) -> int:
    """When this life of a node begins: now, and later than the last one in any case.

    Others take what began before the session they know for a recording, and a machine without a clock of its own
    may wake up in the past.
    """
    try:
        last_us = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        last_us = 0
    began_us = max(now_us, last_us + 1)
    new = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_text(f"{began_us}\n", encoding="ascii")
        new.replace(path)
    except OSError as problem:
        raise BadKey(f"{path}: cannot be written: {problem.strerror}") from problem
    return began_us


def read_known(path: Path) -> dict[str, bytes]:
    """Names with public keys, a line for each: `NAME KEY`; empty lines and those that begin with `#` say nothing."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadKey(f"{path}: cannot be read: {unreadable(problem)}") from problem
    known: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, text = line.strip().rpartition(" ")
        name = name.strip()
        try:
            key = bytes.fromhex(text)
        except ValueError:
            key = b""
        if not name or len(name) > NAME_CHARS_MAX or len(key) != KEY_BYTES:
            raise BadKey(f"{path}, line {number}: give a name and its key in {2 * KEY_BYTES} hexadecimal digits")
        if known.setdefault(name, key) != key:
            raise BadKey(f"{path}, line {number}: '{name}' has another key already")
    return known
