"""L7: passwords are stored as argon2id, verified off the loop, and a mistake in the file is named."""

import asyncio
import stat
from pathlib import Path

import pytest

from roamcast.server.security import BadPasswords, PasswordChecker, load_passwords, set_password


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("passwords") / "passwords"
    path.write_text("# who may come in\n")
    set_password(path, "ann", "first")
    set_password(path, "bob", "brief")
    set_password(path, "ann", "pässword: #1")
    return path


def test_l7_a_password_file_has_argon2id_hashes_for_its_owner_alone(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert lines[0] == "# who may come in"
    assert [line.partition("$v=")[0] for line in lines[1:]] == ["bob:$argon2id", "ann:$argon2id"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_l7_a_password_is_right_or_wrong_and_the_last_one_set_counts(file: Path) -> None:
    passwords = load_passwords(file)

    async def ask() -> list[str]:
        checker = PasswordChecker()
        asked = [
            (passwords.hashes["ann"], "pässword: #1"),
            (passwords.hashes["ann"], "first"),
            (passwords.hashes["bob"], "pässword: #1"),
            (passwords.decoy, "brief"),
            ("no hash", "brief"),
            (passwords.hashes["bob"], "x" * 5_000),
        ]
        answers = [await checker.check(0, digest, password.encode()) for digest, password in asked]
        checker.close()
        return [str(answer) for answer in answers]

    assert asyncio.run(ask()) == ["right", "wrong", "wrong", "wrong", "wrong", "wrong"]


class Counting(PasswordChecker):
    """Says yes to "brief", and counts how often it was asked."""

    verified = 0

    def _verify(self, digest: str, password: bytes) -> bool:
        self.verified += 1
        return password == b"brief"


def test_a_right_password_is_remembered_for_a_while_and_a_wrong_one_is_not() -> None:
    async def ask() -> list[int]:
        checker = Counting(remembered_us=1_000, remembered_max=2)
        counts = []
        for now_us, digest, password in [
            (0, "a", b"brief"),
            (999, "a", b"brief"),
            (1_000, "a", b"brief"),
            (1_000, "b", b"brief"),
            (1_000, "a", b"wrong"),
            (1_001, "a", b"wrong"),
            (1_001, "c", b"brief"),
            (1_001, "a", b"brief"),
        ]:
            before = checker.verified
            await checker.check(now_us, digest, password)
            counts.append(checker.verified - before)
        checker.close()
        return counts

    assert asyncio.run(ask()) == [1, 0, 1, 1, 1, 1, 1, 1]


def test_more_clients_than_may_wait_are_told_that_the_broker_is_busy() -> None:
    async def ask() -> list[str]:
        checker = Counting(waiting_max=3)
        answers = await asyncio.gather(*(checker.check(0, str(number), b"brief") for number in range(5)))
        checker.close()
        return [str(answer) for answer in answers]

    assert asyncio.run(ask()) == ["right", "right", "right", "busy", "busy"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ann", "line 1: no colon"),
        ("\nann:secret", "line 2: no hash after the colon"),
        ("ann:$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g\n" * 2, "line 2: user 'ann' appears twice"),
        (":x", "line 1: user ''"),
    ],
)
def test_a_mistake_in_the_password_file_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "passwords"
    file.write_text(text)
    with pytest.raises(BadPasswords, match=f"passwords, {said}"):
        load_passwords(file)


def test_a_password_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadPasswords, match=r"no such file; `roamcast passwd .*gone USER` makes it"):
        load_passwords(tmp_path / "gone")


@pytest.mark.parametrize("user", ["", "a:b", "a\nb", "#a", " a", "x" * 300])
def test_a_name_that_the_file_could_not_hold_is_refused(tmp_path: Path, user: str) -> None:
    with pytest.raises(BadPasswords, match="user"):
        set_password(tmp_path / "passwords", user, "brief")
    assert list(tmp_path.iterdir()) == []
