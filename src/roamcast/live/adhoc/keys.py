"""Keys: that of the group, which all its nodes share, and that of a node, by which its statements are known.

A group's key is 32 bytes in a file, written in hexadecimal by `roamcast key`. Without one a node is in the *open
group*, whose key is public: everybody can listen and speak there, and only signatures tell who said what. A node's
own key is made at its first start and kept in a file that only its user can read: others know the node by it.
"""

import hashlib
import os
import secrets
from pathlib import Path

from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import BadSignatureError

from roamcast.complaints import unreadable
from roamcast.live.adhoc.frames import KEY_ID_BYTES, NAME_CHARS_MAX, SIGNATURE_BYTES

KEY_BYTES = 32
OPEN_GROUP_KEY = hashlib.blake2b(b"roamcast open group", digest_size=KEY_BYTES).digest()


class BadKey(Exception):
    """A key file that is none; the message says what is wrong with it."""


class Identity:
    """A node's own key pair."""

    def __init__(self, seed: bytes) -> None:
        self.public, self._secret = crypto_sign_seed_keypair(seed)

    @classmethod
    def fresh(cls) -> "Identity":
        return cls(secrets.token_bytes(KEY_BYTES))

    def sign(self, statement: bytes) -> bytes:
        return crypto_sign(statement, self._secret)[:SIGNATURE_BYTES]


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
    """For its user alone, and never over another one."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except OSError as problem:
        if path.exists():
            raise BadKey(f"{path}: is there already; remove it first if nobody uses it") from None
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
