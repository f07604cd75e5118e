"""L7: files of keys, and what begins a session."""

from pathlib import Path

import pytest

from roamcast.multicast.keys import (
    BadKey,
    Identity,
    identity_at,
    is_signed,
    key_id,
    next_session_us,
    read_key,
    read_known,
)


def test_l7_a_node_keeps_its_key(tmp_path: Path) -> None:
    path = tmp_path / "ann.key"
    first, again = identity_at(path), identity_at(path)
    assert first.public == again.public
    assert path.stat().st_mode & 0o077 == 0
    assert is_signed(first.public, b"said", again.sign(b"said"))
    assert not is_signed(Identity.fresh().public, b"said", again.sign(b"said"))


@pytest.mark.parametrize("text", ["", "hello", "ab" * 31, "ab" * 33])
def test_l7_a_file_that_is_no_key_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "group.key"
    path.write_text(text)
    with pytest.raises(BadKey, match=r"group\.key: .*64 hexadecimal digits"):
        read_key(path)


def test_l7_groups_are_told_apart_by_four_bytes_that_are_not_of_the_key() -> None:
    keys = [bytes([number]) * 32 for number in range(50)]
    assert len({key_id(key) for key in keys}) == 50
    assert all(key_id(key) not in key for key in keys)


def test_l7_a_list_of_keys_has_a_line_for_each_name(tmp_path: Path) -> None:
    path = tmp_path / "known"
    path.write_text(f"# ours\nann {'ab' * 32}\n\n  my car {'cd' * 32}\n")
    assert read_known(path) == {"ann": b"\xab" * 32, "my car": b"\xcd" * 32}


@pytest.mark.parametrize("line", ["ann", f"{'ab' * 32}", f"ann {'ab' * 31}", f"bob {'cd' * 32}"])
def test_l7_a_line_that_is_no_key_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "known"
    path.write_text(f"bob {'ab' * 32}\n{line}\n")
    with pytest.raises(BadKey, match="line 2"):
        read_known(path)


def test_l7_a_session_begins_after_the_last_one_even_if_the_clock_went_back(tmp_path: Path) -> None:
    path = tmp_path / "ann.session"
    assert next_session_us(path, 5_000) == 5_000
    assert next_session_us(path, 3_000) == 5_001
    path.write_text("not a number")
    assert next_session_us(path, 3_000) == 3_000
