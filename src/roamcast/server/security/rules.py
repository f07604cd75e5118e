"""Rules: who may publish and subscribe to what, and from and into which area.

A rule speaks of those users and clients that one of its patterns names; `*` in a pattern stands for any text. In all
patterns `%u` stands for the user and `%c` for the client id. A topic pattern whose `%u` or `%c` would bring in a `/`,
`+` or `#` grants nothing: a client must not widen a rule by the name it chooses.
"""

import re
import tomllib
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from roamcast.config_errors import error_text, unreadable
from roamcast.model.region import Box, Circle, Polygon, Shape
from roamcast.model.subject import check_pattern
from roamcast.model.values import Point
from roamcast.server.security.verdicts import Identity

PART = re.compile(r"(%u|%c|\*)")


class BadRules(ValueError):
    """A file of rules that cannot be used; the message names the file, the key and what is allowed."""


class CircleArea(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="circle"):
    centre: tuple[float, float]
    radius_m: float

    def shape(self) -> Shape:
        return Circle(Point(*self.centre), self.radius_m)

    def __post_init__(self) -> None:
        self.shape()


class BoxArea(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="box"):
    low: tuple[float, float]
    high: tuple[float, float]

    def shape(self) -> Shape:
        return Box(Point(*self.low), Point(*self.high))

    def __post_init__(self) -> None:
        self.shape()


class PolygonArea(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="polygon"):
    corners: tuple[tuple[float, float], ...]

    def shape(self) -> Shape:
        return Polygon(tuple(Point(*corner) for corner in self.corners))

    def __post_init__(self) -> None:
        self.shape()


AreaParams: TypeAlias = CircleArea | BoxArea | PolygonArea


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    users: tuple[str, ...] = ()
    """Empty: of everybody, also of those without a name."""
    clients: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    area: AreaParams | None = None
    """Where they may publish; they may subscribe wherever they are."""
    publisher_inside: bool = True
    """Whether the publisher must be in the area itself; if not, its events must say that they stay in it."""

    def __post_init__(self) -> None:
        for pattern in (*self.publish, *self.subscribe):
            check_pattern(pattern)
        if not self.publish and not self.subscribe:
            raise ValueError("publish and subscribe are both missing; a rule must allow something")
        if self.area is not None and not self.publish:
            raise ValueError("area: it says where one may publish, and this rule has no publish")

    def speaks_of(self, identity: Identity) -> bool:
        return (not self.users or (identity.user is not None and named(self.users, identity.user, identity))) and (
            not self.clients or named(self.clients, identity.client_id, identity)
        )


class RulesFile(Struct, frozen=True, forbid_unknown_fields=True):
    rules: tuple[Rule, ...]


def load_rules(file: Path) -> tuple[Rule, ...]:
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise BadRules(f"{file}: cannot be read: {unreadable(problem)}") from problem
    except tomllib.TOMLDecodeError as problem:
        raise BadRules(f"{file}: not valid TOML: {problem}") from problem
    try:
        return msgspec.convert(given, RulesFile).rules
    except msgspec.ValidationError as problem:
        raise BadRules(f"{file}: {error_text(problem, given, RulesFile)}") from problem


def named(patterns: tuple[str, ...], name: str, identity: Identity) -> bool:
    return any(name_matches(pattern, name, identity) for pattern in patterns)


def name_matches(pattern: str, name: str, identity: Identity) -> bool:
    wanted = ""
    for part in PART.split(pattern):
        if part == "*":
            wanted += ".*"
        elif part == "%u" and identity.user is None:
            return False
        else:
            wanted += re.escape({"%u": identity.user, "%c": identity.client_id}.get(part) or part)
    return re.fullmatch(wanted, name, re.DOTALL) is not None


def topic_pattern(pattern: str, identity: Identity) -> str | None:
    """The pattern for this client, or None if it grants nothing to it."""
    for sign, value in (("%u", identity.user), ("%c", identity.client_id)):
        if sign not in pattern:
            continue
        if not value or any(wild in value for wild in "/+#"):
            return None
        # What a name brings in is not looked at again, or a user called %c would get what is the client's.
        pattern = pattern.replace(sign, value.replace("%", "\0"))
    return pattern.replace("\0", "%")
