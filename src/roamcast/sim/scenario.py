"""Scenario files: a world, its hosts, what applications do in it and what goes wrong, in TOML.

A scenario is validated once, as a whole, before anything runs. A mistake gets an error that names the key, what
stands there, and what is allowed.
"""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roamcast.config_errors import error_text, unreadable
from roamcast.model.context import RESERVED_NAMES
from roamcast.model.event import difference
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.movement.models import MobilityModel, Streets, TraceReplay
from roamcast.movement.params import COORDINATE_MAX_M
from roamcast.sim.access import AccessRule
from roamcast.sim.amounts import SECONDS_MAX
from roamcast.sim.brokers import check_brokers
from roamcast.sim.checkers import Check
from roamcast.sim.draws import Drawn, check_drawn
from roamcast.sim.faults import FaultParams
from roamcast.sim.fences import FenceParams
from roamcast.sim.links import LinkParams
from roamcast.sim.radio import RadioParams
from roamcast.sim.traffic import PublishRule, SubscribeRule
from roamcast.sim.underlay import UnderlayParams
from roamcast.sim.wiring import Wiring

HOSTS_MAX = 100_000


class BadScenario(ValueError):
    """A scenario that cannot be run; the message names the file, the key and what is allowed."""


class HostGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts that are made alike. With a `count` they are called name-1, name-2, …; without, there is one: name."""

    name: str
    mobility: MobilityModel
    count: int | None = None
    attributes: dict[str, Drawn] = {}
    application: str = ""
    """`file.py:Class`, beside the scenario: what runs on these hosts."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name is empty; a group of hosts needs a name")
        check_drawn("attributes", self.attributes)
        for name in self.attributes:
            if name in RESERVED_NAMES:
                raise ValueError(f"attributes.{name}: every host has its own {name}; choose another name")
        if self.count is not None and not 1 <= self.count <= HOSTS_MAX:
            raise ValueError(f"count is {self.count}; give 1 to {HOSTS_MAX}")

    def hosts(self) -> list[str]:
        return [self.name] if self.count is None else [f"{self.name}-{number}" for number in range(1, self.count + 1)]


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    seconds: float
    hosts: tuple[HostGroup, ...]
    protocol: dict[str, Any]
    """`kind` says which one; the rest are its parameters, checked by whoever knows the protocols."""
    about: str = ""
    area_m: tuple[float, float] = (1_000.0, 1_000.0)
    radio: RadioParams | None = None
    underlay: UnderlayParams | None = None
    """With it, hosts reach each other over as many radio hops as it takes."""
    links: tuple[LinkParams, ...] = ()
    wiring: tuple[Wiring, ...] = ()
    """Links of whole groups, in a shape."""
    access: tuple[AccessRule, ...] = ()
    """Links of clients that move to the brokers they reach."""
    publish: tuple[PublishRule, ...] = ()
    subscribe: tuple[SubscribeRule, ...] = ()
    fences: tuple[FenceParams, ...] = ()
    faults: FaultParams = FaultParams()
    checks: tuple[Check, ...] = ("no-duplicates",)
    packet_bytes: int | None = None
    """Every message counts as so many bytes; by default as many as it has."""
    places: dict[str, tuple[str, ...]] = {}
    """The movement graph that `myloc` walks on: each place with those next to it."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= SECONDS_MAX:
            raise ValueError(f"seconds is {self.seconds}; a run takes some time, and at most {SECONDS_MAX} s")
        if not all(0 <= side <= COORDINATE_MAX_M for side in self.area_m):
            raise ValueError(f"area_m is {list(self.area_m)}; give a width and a height in metres of 0 or more")
        if self.packet_bytes is not None and not self.packet_bytes >= 1:
            raise ValueError(f"packet_bytes is {self.packet_bytes}; give at least 1, or leave it out")
        if self.underlay is not None and self.radio is None:
            raise ValueError("underlay: paths go over radio hops; give a [radio] as well")
        if not self.hosts:
            raise ValueError("hosts is empty; a scenario needs at least one [[hosts]] group")
        names = [group.name for group in self.hosts]
        users = [each.by for each in self.publish] + [each.by for each in self.subscribe]
        users += [each.by for each in self.fences]
        for by in users + [each.by for each in self.access]:
            if by not in names:
                raise ValueError(f"by = '{by}' names no group of hosts; there are {', '.join(names)}")
        for key, group in [("of", each.of) for each in self.wiring] + [("to", each.to) for each in self.access]:
            if group not in names:
                raise ValueError(f"{key} = '{group}' names no group of hosts; there are {', '.join(names)}")
        hosts = {host for group in self.hosts for host in group.hosts()}
        for around in [each.around for each in self.fences if each.around]:
            if around not in hosts:
                raise ValueError(f"around = '{around}' names no host")
        check_structures(self.publish)
        check_brokers(self)

    @property
    def end_us(self) -> int:
        return round(self.seconds * 1e6)

    def graph(self) -> MovementGraph | None:
        return movement_graph(self.places) if self.places else None


def check_structures(rules: tuple[PublishRule, ...]) -> None:
    """One subject has one structure (S1): consumers drop what has another, so whoever wrote the second would wonder.

    How events want to be delivered is part of an announcement only, so rules without one have no say in it.
    """
    first: dict[str, tuple[int, PublishRule]] = {}
    for number, rule in enumerate(rules, start=1):
        before, other = first.setdefault(rule.subject, (number, rule))
        ours, theirs = rule.event_type(), other.event_type()
        if ours.content != theirs.content or (rule.announce and other.announce and ours != theirs):
            raise ValueError(
                f"publish[{number}]: '{rule.subject}' has another structure than in publish[{before}]: "
                f"{difference(theirs, ours)}; give both rules the same content and the same validity_s, priority, "
                "deadline_s and order, or one of them another subject"
            )
        if other.announce is None and rule.announce is not None:
            first[rule.subject] = (number, rule)


def load_scenario(path: Path) -> Scenario:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise BadScenario(f"{path}: cannot be read: {unreadable(problem)}") from problem
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadScenario(f"{path}: not valid TOML: {problem}") from problem
    return beside(scenario_from(given, str(path)), path.parent)


def beside(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with the files it names looked for in its own folder."""

    def group_beside(group: HostGroup) -> HostGroup:
        mobility = group.mobility
        if isinstance(mobility, TraceReplay):
            mobility = replace(mobility, path=str(folder / mobility.path))
        elif isinstance(mobility, Streets) and isinstance(mobility.map, str):
            mobility = replace(mobility, map=str(folder / mobility.map))
        application = str(folder / group.application) if group.application else ""
        return replace(group, mobility=mobility, application=application)

    return replace(scenario, hosts=tuple(group_beside(group) for group in scenario.hosts))


def scenario_from(given: dict[str, Any], name: str = "scenario") -> Scenario:
    try:
        return msgspec.convert(given, Scenario)
    except msgspec.ValidationError as problem:
        raise BadScenario(f"{name}: {error_text(problem, given, Scenario)}") from problem
