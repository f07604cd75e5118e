"""Subjects: slash-separated levels, as MQTT's topics are; `+` stands for one level in a pattern, `#` for the rest."""

from functools import lru_cache

from roamcast.model.values import BadValue, is_unicode

SUBJECT_BYTES_MAX = 65_535
SHORT_CHARS_MAX = 128

SAID_LONGER = {"#": "+/#", "/#": "/+/#"}
"""Patterns that match the same subjects, since no subject is empty."""


class BadSubject(BadValue):
    """A subject or pattern that cannot be used; the message says what is wrong with it."""


def check_subject(subject: str) -> None:
    if len(subject) <= SHORT_CHARS_MAX:
        check_short_subject(subject)
    else:
        check_any_subject(subject)


def check_any_subject(subject: str) -> None:
    check_length(subject)
    if is_pattern(subject):
        raise BadSubject(f"subject '{subject}': wildcards + and # belong in subscriptions")


check_short_subject = lru_cache(maxsize=4_096)(check_any_subject)
"""The same few come with every event; long ones are not remembered, so that nobody can fill the memory with them."""


def is_pattern(subject: str) -> bool:
    """Whether it has a wildcard, and so may match several subjects."""
    return "+" in subject or "#" in subject


def check_pattern(pattern: str) -> None:
    check_length(pattern)
    levels = pattern.split("/")
    for index, level in enumerate(levels):
        if level == "#" and index != len(levels) - 1:
            raise BadSubject(f"subject pattern '{pattern}': # must be the last level")
        if level not in ("+", "#") and ("+" in level or "#" in level):
            raise BadSubject(f"subject pattern '{pattern}': a wildcard must be a whole level, not part of '{level}'")


def check_length(text: str) -> None:
    if text.isascii() and 0 < len(text) <= SUBJECT_BYTES_MAX and "\0" not in text:
        return
    if not text:
        raise BadSubject("a subject must not be empty")
    if "\0" in text or not is_unicode(text) or len(text.encode()) > SUBJECT_BYTES_MAX:
        raise BadSubject(f"a subject has at most {SUBJECT_BYTES_MAX} bytes of UTF-8 and no NUL")


@lru_cache(maxsize=65_536)
def subject_matches(pattern: str, subject: str) -> bool:
    """As MQTT 5, section 4.7: a wildcard at the first level does not match a subject that begins with `$`."""
    if pattern == subject:
        return True
    wanted, given = pattern.split("/"), subject.split("/")
    if subject.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for index, level in enumerate(wanted):
        if level == "#":
            return True
        if index >= len(given) or level not in ("+", given[index]):
            return False
    return len(wanted) == len(given)


def subject_covers(pattern: str, other: str) -> bool:
    """Whether every subject that `other` matches is also matched by `pattern`."""
    if pattern == other:
        return True
    if other[0] == "$" and pattern[0] in "+#":
        return False
    wide, narrow = pattern.split("/"), SAID_LONGER.get(other, other).split("/")
    for index, level in enumerate(wide):
        if level == "#":
            return True
        if index >= len(narrow) or narrow[index] == "#" or level not in ("+", narrow[index]):
            return False
    return len(wide) == len(narrow)


@lru_cache(maxsize=65_536)
def subjects_overlap(one: str, other: str) -> bool:
    """Whether some subject is matched by both patterns."""
    for system, wild in ((one, other), (other, one)):
        if system.startswith("$") and wild.startswith(("+", "#")):
            return False
    ours, theirs = SAID_LONGER.get(one, one).split("/"), SAID_LONGER.get(other, other).split("/")
    for our, their in zip(ours, theirs, strict=False):
        if "#" in (our, their):
            return True
        if "+" not in (our, their) and our != their:
            return False
    longer = ours[len(theirs) :] or theirs[len(ours) :]
    # What ends here is matched by the other one too if only a # follows there.
    return not longer or longer == ["#"]
