"""Users and their passwords: a file of argon2id hashes, and a checker that keeps the loop free while it computes.

One line is one user, `name:hash`; what begins with `#` is a remark. A hash takes long on purpose, so a few
threads verify, a bounded number of clients may wait for them, and what was right a moment ago is remembered as a
keyed digest, for the many clients that come back at once when a link was down.
"""

import asyncio
import os
import secrets
import tempfile
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Literal, TypeAlias

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError
from msgspec import Struct

from roamcast.config_errors import unreadable

USER_CHARS_MAX = 256
PASSWORD_BYTES_MAX = 1_024
"""More than anybody types, and little enough that hashing it costs what a short one costs."""

Answer: TypeAlias = Literal["right", "wrong", "busy"]


class BadPasswords(ValueError):
    """A password file, user or password that cannot be used; the message says which and why."""


class Passwords(Struct, frozen=True):
    """`decoy` is the hash of something that nobody knows."""

    hashes: dict[str, str]
    decoy: str


def load_passwords(file: Path) -> Passwords:
    hashes: dict[str, str] = {}
    for number, line in enumerate(lines_of(file), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        user, colon, digest = entry.partition(":")
        try:
            check_user(user)
            extract_parameters(digest)
        except InvalidHashError as problem:
            found = "no hash after the colon" if colon else "no colon"
            raise BadPasswords(f"{file}, line {number}: {found}; let `roamcast passwd` write it") from problem
        except BadPasswords as problem:
            raise BadPasswords(f"{file}, line {number}: {problem}") from problem
        if user in hashes:
            raise BadPasswords(f"{file}, line {number}: user '{user}' appears twice")
        hashes[user] = digest
    return Passwords(hashes, PasswordHasher().hash(secrets.token_bytes(32)))


def set_password(file: Path, user: str, password: str) -> None:
    """What `roamcast passwd FILE USER` does: adds the user, or gives it a new password; other lines stay."""
    check_user(user)
    if not password or len(password.encode()) > PASSWORD_BYTES_MAX:
        raise BadPasswords(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
    entry = f"{user}:{PasswordHasher().hash(password)}"
    lines = lines_of(file) if file.exists() else []
    others = [line for line in lines if line.lstrip().partition(":")[0] != user]
    # Written beside and renamed, so that a broker never reads half of it.
    handle, beside = tempfile.mkstemp(dir=file.absolute().parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.write("\n".join([*others, entry]) + "\n")
            new.flush()
            os.fsync(new.fileno())
        os.replace(beside, file)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def lines_of(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as problem:
        what = f"{file}: cannot be read: no such file; `roamcast passwd {file} USER` makes it"
        raise BadPasswords(what) from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise BadPasswords(f"{file}: cannot be read: {unreadable(problem)}") from problem


def check_user(user: str) -> None:
    if not 0 < len(user) <= USER_CHARS_MAX or user != user.strip() or user.startswith("#"):
        raise BadPasswords(f"user {user!r}: give 1 to {USER_CHARS_MAX} characters, no space around them, no # first")
    if ":" in user or not user.isprintable():
        raise BadPasswords(f"user {user!r}: a name has no colon, no line break and no control character")


class PasswordChecker:
    """`check` is for the loop; `close` when no more will be asked."""

    def __init__(
        self, workers: int = 2, waiting_max: int = 128, remembered_max: int = 16_384, remembered_us: int = 300_000_000
    ) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="passwords")
        self._hasher = PasswordHasher()
        self._key = secrets.token_bytes(32)
        self._waiting = 0
        self._waiting_max = waiting_max
        self._remembered: OrderedDict[bytes, int] = OrderedDict()
        self._remembered_max = remembered_max
        self._remembered_us = remembered_us

    async def check(self, now_us: int, digest: str, password: bytes) -> Answer:
        if len(password) > PASSWORD_BYTES_MAX:
            return "wrong"
        # The digest has its own salt and belongs to one user, so a new password in the file is a new name here.
        name = blake2b(len(password).to_bytes(8, "big") + password + digest.encode(), key=self._key).digest()
        if now_us < self._remembered.get(name, 0):
            self._remembered.move_to_end(name)
            return "right"
        if self._waiting >= self._waiting_max:
            return "busy"
        self._waiting += 1
        try:
            right = await asyncio.get_running_loop().run_in_executor(self._threads, self._verify, digest, password)
        finally:
            self._waiting -= 1
        if not right:
            return "wrong"
        self._remembered[name] = now_us + self._remembered_us
        self._remembered.move_to_end(name)
        if len(self._remembered) > self._remembered_max:
            self._remembered.popitem(last=False)
        return "right"

    def _verify(self, digest: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(digest, password)
        except (Argon2Error, InvalidHashError):
            return False

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
