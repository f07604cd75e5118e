"""The options of `roamcast node`: what they mean, and what is wrong with them."""

import math
import os
import time
from pathlib import Path

from msgspec import Struct

from roamcast.client.connection import address_of
from roamcast.gateway.running import GatewaySettings
from roamcast.model.context import Context
from roamcast.model.space import Earth, Plane
from roamcast.model.subject import check_pattern
from roamcast.model.values import Point
from roamcast.movement import BadSource, Source
from roamcast.movement import source as source_of
from roamcast.movement.choosing import check_space
from roamcast.multicast.keys import OPEN_GROUP_KEY, identity_at, next_session_us, read_key, read_known
from roamcast.multicast.multicast import PORT
from roamcast.multicast.running import NodeSettings
from roamcast.multicast.text_form import (
    event_type_of,
    own_attribute_of,
    point_of,
)
from roamcast.node.kit import ProtocolKit
from roamcast.node.port import PERIOD_MIN_S
from roamcast.papers.assemble import kit_of
from roamcast.server.links.frames import NAME_CHARS_MAX, check_name

WHOLE_LAN_M = 20_100_000.0
"""Farther than any two places on Earth are apart: on a LAN everybody hears everybody."""
WITHIN_M = 200.0
PROTOCOLS = ("proximity", "context")
SPACES: dict[str, Plane | Earth] = {"earth": Earth(), "plane": Plane()}
NOWHERE = Point(0.0, 0.0)
"""Where a node is that was not told: with all others that were not."""


class BadOption(Exception):
    """An option that makes no sense; the message says which and why."""


class Options(Struct, frozen=True, kw_only=True):
    """As `roamcast node` has them."""

    name: str
    announce: tuple[str, ...] = ()
    within_m: float | None = None
    shape: str | None = None
    stationary: bool = False
    period_s: float | None = None
    raised: tuple[str, ...] = ()
    every_s: float | None = None
    lifetime_s: float = 0.0
    subscribe: tuple[str, ...] = ()
    filter: str = ""
    publishers: str = ""
    publishers_within_m: float | None = None
    interest_within_m: float | None = None
    relevant_within_m: float | None = None
    position: str | None = None
    at: str | None = None
    location: str | None = None
    space: str | None = None
    attributes: tuple[str, ...] = ()
    key_file: Path | None = None
    identity: Path | None = None
    known_keys: Path | None = None
    trust_gateways: tuple[str, ...] = ()
    gateway: tuple[str, ...] = ()
    carry: tuple[str, ...] = ()
    username: str | None = None
    password: str | None = None
    authority: Path | None = None
    application: str | None = None
    protocol: str = "proximity"
    preset: str | None = None
    range_m: float | None = None
    emulate_range: bool = False
    gossip: str | None = None
    interfaces: tuple[str, ...] = ()
    port: int | None = None
    prepare_signatures: bool = False
    journal: Path | None = None
    seconds: float | None = None
    json: bool = False

    @property
    def tells_nothing(self) -> bool:
        """Then it says what is typed, and hears everything."""
        return not (self.announce or self.subscribe or self.gateway or self.application)


def settings_of(options: Options, space: Plane | Earth) -> NodeSettings:
    try:
        check_name(options.name)
    except ValueError as problem:
        wanted = f"give 1 to {NAME_CHARS_MAX} characters that can be printed, the first not @"
        raise BadOption(f"the name {options.name[:80]!r}: {wanted}") from problem
    check_amounts(options)
    check_company(options)
    port = PORT if options.port is None else options.port
    if not 0 < port < 65_536:
        raise BadOption(f"--port {port}: give a port from 1 to 65535, the same at all nodes")
    key_path = options.identity or own_key_path(options.name)
    if options.identity is None:
        make_directory(key_path.parent)
    return NodeSettings(
        name=options.name,
        identity=identity_at(key_path),
        began_us=next_session_us(key_path.with_suffix(".session"), time.time_ns() // 1_000),
        space=space,
        group_key=OPEN_GROUP_KEY if options.key_file is None else read_key(options.key_file),
        known=None if options.known_keys is None else read_known(options.known_keys),
        gateways=options.trust_gateways or None,
        port=port,
        interfaces=options.interfaces,
        prepares_signatures=options.prepare_signatures,
        journal=options.journal,
        range_m=options.range_m or WHOLE_LAN_M,
        emulates_range=options.emulate_range,
    )


def check_amounts(options: Options) -> None:
    amounts = (
        ("every", options.every_s, PERIOD_MIN_S),
        ("period", options.period_s, PERIOD_MIN_S),
        ("range", options.range_m, 1.0),
        ("lifetime", options.lifetime_s, 0.0),
        ("seconds", options.seconds, 0.0),
    )
    for name, value, least in amounts:
        if value is not None and not least <= value < math.inf:
            raise BadOption(f"--{name} {value:g}: give {least:g} or more")


def check_company(options: Options) -> None:
    """Raises `BadOption` for one that means nothing without another."""
    context = options.protocol == "context"
    companies = (
        ("--carry", bool(options.carry), "--gateway", bool(options.gateway)),
        ("--user", options.username is not None, "--gateway", bool(options.gateway)),
        ("--ca", options.authority is not None, "--gateway", bool(options.gateway)),
        ("--period", options.period_s is not None, "--announce", bool(options.announce)),
        ("--shape", options.shape is not None, "--announce", bool(options.announce)),
        ("--emulate-range", options.emulate_range, "--range", options.range_m is not None),
        ("--gossip", options.gossip is not None, "--protocol proximity", not context),
        ("--every", options.every_s is not None, "--raise", bool(options.raised)),
        ("--interest-within", options.interest_within_m is not None, "--protocol context", context),
        ("--relevant-within", options.relevant_within_m is not None, "--protocol context", context),
    )
    for name, given, other, there in companies:
        if given and not there:
            raise BadOption(f"{name} means nothing without {other}; give both, or neither")
    if options.shape is not None and options.within_m is not None:
        raise BadOption("--shape and --within: give only one of them, since a proximity has one shape")


def own_key_path(name: str) -> Path:
    """Where programs keep what they must find again."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "roamcast" / f"{name.replace('/', '%2F')}.key"


def make_directory(path: Path) -> None:
    """That of a user's state may not be there yet."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise BadOption(
            f"{path}: cannot be made: {problem.strerror}; name a place for its key with --identity"
        ) from problem


def whereabouts_of(options: Options) -> tuple[Source | None, Plane | Earth]:
    """The source of locations, if one is named, and the space that this node is in: a source knows its own."""
    given = [each for each in ("position", "at", "location") if getattr(options, each) is not None]
    if len(given) > 1:
        raise BadOption(f"--{' and --'.join(given)}: give only one of them, since a node has one position")
    source = None if options.location is None else source_of(options.location)
    flat = options.at is not None or isinstance(getattr(source, "space", None), Plane)
    space = asked_space(options) or (Plane() if flat else Earth())
    if source is not None and options.location is not None:
        check_placed(options.location, source, space, options.space)
    return source, space


def asked_space(options: Options) -> Plane | Earth | None:
    if options.space is None:
        return None
    if options.space not in SPACES:
        raise BadOption(f"--space {options.space}: give {' or '.join(SPACES)}")
    for name, word in (("position", "earth"), ("at", "plane")):
        if getattr(options, name) is not None and options.space != word:
            raise BadOption(
                f"--{name} is a place on {'Earth' if word == 'earth' else 'a plane'}; --space says otherwise"
            )
    return SPACES[options.space]


def check_placed(text: str, source: Source, space: Plane | Earth, asked: str | None) -> None:
    """Raises `BadSource` for one whose places are not in the space."""
    try:
        check_space(text, source, space)
    except BadSource as problem:
        hint = "; metres on a plane need --space plane" if asked is None and text.startswith("fixed:") else ""
        raise BadSource(f"{problem}{hint}") from problem


def kit_for(options: Options) -> ProtocolKit:
    """With the parameters that the simulator takes too when nobody says otherwise."""
    if options.protocol not in PROTOCOLS:
        raise BadOption(f"--protocol {options.protocol}: give {' or '.join(PROTOCOLS)}")
    preset = {} if options.preset is None else {"preset": options.preset}
    gossip = {} if options.gossip is None else gossip_of(options.gossip)
    return kit_of({"kind": options.protocol, **preset, **gossip, "radio_range_m": options.range_m or WHOLE_LAN_M})


def gossip_of(text: str) -> dict[str, float]:
    """G(d, p) of STEAM: who is farther than d metres from the producer forwards with probability p."""
    distance, _, probability = text.partition(",")
    try:
        found = {"gossip_distance_m": float(distance), "gossip_probability": float(probability)}
    except ValueError:
        found = {}
    if not found or not 0 < found["gossip_distance_m"] < math.inf or not 0 <= found["gossip_probability"] <= 1:
        raise BadOption(f"--gossip {text}: give METRES,PROBABILITY, for example 200,0.8")
    return found


def context_of(options: Options, space: Plane | Earth) -> Context:
    attributes = dict(own_attribute_of(text) for text in options.attributes)
    given = options.position or options.at
    here = point_of(given) if given is not None else (NOWHERE if options.location is None else None)
    if here is not None:
        space.check(here)
    return Context(options.name, here, attributes=attributes)


def gateway_settings_of(options: Options) -> GatewaySettings:
    """Raises `BadOption` for a broker that is none, `BadValue` for what cannot cross."""
    try:
        for text in options.gateway:
            address_of(text)
    except ValueError as problem:
        raise BadOption(f"--gateway: {problem}") from problem
    subjects, types = dict[str, None](), []
    for text in options.carry:
        if "(" in text:
            types.append(event_type_of(text))
            subjects[types[-1].subject] = None
        else:
            check_pattern(text.strip())
            subjects[text.strip()] = None
    within_m = GatewaySettings().within_m if options.within_m is None else options.within_m
    return GatewaySettings(subjects=tuple(subjects) or ("#",), types=tuple(types), within_m=within_m)
