"""Subjects and their patterns: MQTT 5, section 4.7, and which pattern covers which."""

import itertools

import pytest

from roamcast.model.subject import (
    SUBJECT_BYTES_MAX,
    BadSubject,
    check_pattern,
    check_subject,
    is_pattern,
    subject_covers,
    subject_matches,
)


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "sport/tennis", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/monitor", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/monitor", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("a/+", "a/$b", True),
        ("ACCOUNTS", "Accounts", False),
        ("traffic", "traffic", True),
        ("a//b", "a/b", False),
    ],
)
def test_patterns_match_as_mqtt_says(pattern: str, subject: str, expected: bool) -> None:
    check_pattern(pattern)
    check_subject(subject)
    assert subject_matches(pattern, subject) is expected


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("", "empty"),
        ("a/+", "wildcards"),
        ("a#", "wildcards"),
        ("a\0b", "NUL"),
        ("x" * (SUBJECT_BYTES_MAX + 1), "65535 bytes"),
        ("ü" * (SUBJECT_BYTES_MAX // 2 + 1), "65535 bytes"),
        ("half\ud83d", "UTF-8"),
    ],
)
def test_a_bad_subject_is_refused_with_the_reason(subject: str, message: str) -> None:
    with pytest.raises(BadSubject, match=message):
        check_subject(subject)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("", "empty"), ("a/#/b", "last level"), ("a/b+", "whole level"), ("sport#", "whole level"), ("+a/b", "'\\+a'")],
)
def test_a_bad_pattern_is_refused_with_the_reason(pattern: str, message: str) -> None:
    with pytest.raises(BadSubject, match=message):
        check_pattern(pattern)


SUBJECT_LEVELS = ["", "a", "b", "$c", "other"]
PATTERN_LEVELS = ["", "a", "$c", "+"]
SUBJECTS = [
    "/".join(levels)
    for length in (1, 2, 3, 4)
    for levels in itertools.product(SUBJECT_LEVELS, repeat=length)
    if levels != ("",)
]
PATTERNS = [
    "/".join((*levels, *rest))
    for length in (0, 1, 2, 3)
    for levels in itertools.product(PATTERN_LEVELS, repeat=length)
    for rest in ((), ("#",))
    if (*levels, *rest) not in ((), ("",))
]


def by_the_book(pattern: list[str], subject: list[str]) -> bool:
    """Recursive and without regard to `$`: another way of saying what a pattern matches."""
    if not pattern or not subject:
        return pattern in ([], ["#"]) and not subject
    if pattern[0] == "#":
        return True
    return pattern[0] in ("+", subject[0]) and by_the_book(pattern[1:], subject[1:])


def matched_by_the_book(pattern: str) -> frozenset[str]:
    hidden = pattern[0] in "+#"
    return frozenset(
        subject
        for subject in SUBJECTS
        if by_the_book(pattern.split("/"), subject.split("/")) and not (hidden and subject.startswith("$"))
    )


@pytest.mark.parametrize(("subject", "expected"), [("a/b", False), ("a/+", True), ("#", True), ("$sys", False)])
def test_a_pattern_is_told_from_a_subject(subject: str, expected: bool) -> None:
    assert is_pattern(subject) is expected


def test_matching_agrees_with_brute_force() -> None:
    for pattern in PATTERNS:
        matched = frozenset(subject for subject in SUBJECTS if subject_matches(pattern, subject))
        assert matched == matched_by_the_book(pattern), pattern


def test_covering_is_sound_and_complete_against_brute_force() -> None:
    """R2. Subjects are longer than every pattern and have a level that no pattern names, so sets tell all."""
    matched = {pattern: matched_by_the_book(pattern) for pattern in PATTERNS}
    for pattern, other in itertools.product(PATTERNS, repeat=2):
        assert subject_covers(pattern, other) == (matched[pattern] >= matched[other]), (pattern, other)


def test_brute_force_tells_a_wrong_covering() -> None:
    """The comparison can fail: `+` does not cover `#`, nor `#` what begins with `$`."""
    assert not matched_by_the_book("+") >= matched_by_the_book("#")
    assert not matched_by_the_book("#") >= matched_by_the_book("$c/#")
