"""A live broker's settings: one TOML file, validated as a whole before anything is opened.

A mistake gets an error that names the file, the key, and what is allowed there; an unknown key one that names the
nearest known one. `docs/reference/BROKER.md` has every key. Paths are looked for beside the file.

Two rules are about safety. A broker for which no password, certificate or rule is configured serves its own machine
alone, unless `anonymous = true` says that everybody is welcome. Brokers on several machines are linked by mutual TLS.
"""

import ipaddress
import runpy
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.logical.params import LogicalParams
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.overlay.mqtt.underlay import SOURCE
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.params import BrokerParams
from roamcast.config_errors import error_text, unreadable
from roamcast.model.movement import MovementModel, load_model
from roamcast.model.places import MovementGraph
from roamcast.model.space import Earth, Plane
from roamcast.model.values import BadValue, Point
from roamcast.mqtt.limits import Limits
from roamcast.server.http.limits import HttpLimits
from roamcast.server.http.metrics import ListenerKind
from roamcast.server.presets import BadKind, as_written, by_kind, check_overlay, check_preset
from roamcast.server.security.limits import RateLimits
from roamcast.server.security.passwords import Passwords, load_passwords
from roamcast.server.security.policy import Policy
from roamcast.server.security.rules import Rule, load_rules
from roamcast.server.storage.settings import StorageSettings
from roamcast.server.storage.store import is_postgres
from roamcast.server.studio.settings import Background, BadMap, StudioSettings, check_address, load_background
from roamcast.server.tracking import TrackingParams
from roamcast.server.tracks import TrackSettings

PORTS: dict[ListenerKind, int] = {"tcp": 1883, "tls": 8883, "ws": 8083, "wss": 8084}
SECURE: tuple[ListenerKind, ...] = ("tls", "wss")
LOOPBACK = "127.0.0.1"
NAME_CHARS_MAX = 128
WITH_MODELS = ("logical", "ahead", "mesh")
"""Tables below `protocol` that name the file of a movement model."""


class BadSettings(ValueError):
    """Settings that cannot be used; the message names the file, the key and what is allowed."""


def check_name(key: str, name: str) -> None:
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or any(sign in name for sign in "/+#> "):
        raise ValueError(f"{key} is '{name}'; give 1 to {NAME_CHARS_MAX} characters, without spaces, /, +, # and >")
    if name.startswith(SOURCE):
        raise ValueError(f"{key} is '{name}'; what begins with {SOURCE} is the name of a client among brokers")


def check_port(key: str, port: int | None) -> None:
    if port is not None and not 0 <= port <= 65_535:
        raise ValueError(f"{key} is {port}; give 1 to 65535, or 0 for any that is free")


def host_and_port(key: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
        raise ValueError(f"{key}: '{text}' is not an address; give host:port, such as north-2.example:7883")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Listener(Struct, frozen=True, forbid_unknown_fields=True):
    """Where clients connect."""

    kind: ListenerKind = "tcp"
    host: str = ""
    """Empty: every address of the machine, or only its own if nothing is configured that keeps strangers out."""
    port: int | None = None
    """None: the usual one, 1883, 8883, 8083 or 8084."""
    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    """The authority whose client certificates are believed; the common name is the user."""
    client_certificates: Literal["optional", "required"] = "required"
    origins: tuple[str, ...] = ()
    """With WebSocket, the pages that browsers may come from; none given: from any."""

    def __post_init__(self) -> None:
        check_port("port", self.port)
        if self.kind in SECURE and not (self.certificate and self.key):
            raise ValueError(f"certificate and key are needed with kind = '{self.kind}'")
        if self.kind not in SECURE and (self.certificate or self.key or self.client_ca):
            raise ValueError(
                f"certificate, key, client_ca: kind = '{self.kind}' has no use for them; write tls or wss"
            )
        if self.origins and self.kind not in ("ws", "wss"):
            raise ValueError(f"origins: kind = '{self.kind}' has no use for them; write ws or wss")

    @property
    def port_number(self) -> int:
        return PORTS[self.kind] if self.port is None else self.port


class HttpSettings(Struct, frozen=True, forbid_unknown_fields=True):
    port: int
    host: str = LOOPBACK
    limits: HttpLimits = HttpLimits()
    origins: tuple[str, ...] = ()
    """Pages of other servers, such as `https://example.org`, that a browser may ask from."""

    def __post_init__(self) -> None:
        check_port("port", self.port)
        for each in self.origins:
            check_address("origins", each)


class Peer(Struct, frozen=True, forbid_unknown_fields=True):
    """A broker next to this one."""

    name: str
    host: str
    port: int
    clients: str = ""
    """Where clients reach it, such as `north.example:1883`: this broker's clients are sent there when it stops."""
    standbys: tuple[str, ...] = ()
    """Where it is called when it is not there, such as `north-2.example:7883`."""

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_port("port", self.port)
        if not self.host:
            raise ValueError("host is empty; give the address of the peer")
        for text in self.standbys:
            host_and_port("standbys", text)

    @property
    def others(self) -> list[tuple[str, int]]:
        return [host_and_port("standbys", text) for text in self.standbys]


class LinkSettings(Struct, frozen=True, forbid_unknown_fields=True):
    port: int | None = None
    """Where peers call; none: this broker only calls them."""
    host: str = LOOPBACK
    ca: str = ""
    certificate: str = ""
    key: str = ""
    peers: tuple[Peer, ...] = ()

    def __post_init__(self) -> None:
        check_port("port", self.port)
        names = [peer.name for peer in self.peers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"peers: '{name}' appears twice")
        given = [bool(each) for each in (self.ca, self.certificate, self.key)]
        if any(given) and not all(given):
            raise ValueError("ca, certificate and key are needed together")
        called = [host for peer in self.peers for host in (peer.host, *(host for host, _ in peer.others))]
        away = [host for host in (self.host, *called) if not is_loopback(host)]
        if away and not self.secure:
            raise ValueError(f"ca, certificate and key are needed, since {away[0]} is not this machine alone")

    @property
    def secure(self) -> bool:
        return bool(self.ca)


class SecuritySettings(Struct, frozen=True, forbid_unknown_fields=True):
    passwords: str = ""
    """A file that `roamcast passwd` writes."""
    rules_file: str = ""
    """A TOML file of `[[rules]]`, besides those here."""
    rules: tuple[Rule, ...] = ()
    anonymous: bool | None = None
    """Whether clients without a name are let in; none: only if nothing else is configured."""
    limits: RateLimits = RateLimits()


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    """Of this broker among its peers; it stays the same as long as the data directory does."""
    data: str
    """The directory of sessions and messages, or the PostgreSQL database."""
    space: Literal["earth", "plane"] = "earth"
    listeners: tuple[Listener, ...] = (Listener(),)
    http: HttpSettings | None = None
    studio: StudioSettings = StudioSettings()
    links: LinkSettings = LinkSettings()
    protocol: BrokerParams = BrokerParams()
    overlay: OverlayParams | None = None
    """With it brokers reshape their network themselves, and log nothing; `protocol.kind = "overlay"` is the same."""
    security: SecuritySettings = SecuritySettings()
    connections: Limits = Limits()
    keeping: CoreParams = CoreParams()
    storage: StorageSettings = StorageSettings()
    modulators: tuple[str, ...] = ()
    """Python files that register modulators for subscriptions to name."""
    tracks: TrackSettings | None = None
    """With it, where clients were is kept for days; none: only where they are."""
    owntracks: TrackingParams | None = None
    """With it, OwnTracks locations move the clients that publish them; none: they are messages like any other."""
    redirect_to: str = ""
    """Where all clients are sent instead, such as `north.example:1883`; empty: this broker takes them."""
    redirect_moved: bool = False
    """Whether for good (0x9D) or for now (0x9C)."""
    journal: str = ""
    """A directory for what happens, as the pipeline reads it; empty: none is written."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if not self.data:
            raise ValueError("data is empty; give a directory, or postgresql://…")
        if "://" in self.data and not is_postgres(self.data):
            raise ValueError(f"data is '{self.data}'; give a directory, or postgresql://USER@HOST/DATABASE")
        if not self.listeners:
            raise ValueError("listeners is empty; a broker without any serves nobody")
        if self.name in [peer.name for peer in self.links.peers]:
            raise ValueError(f"links.peers: '{self.name}' is this broker itself")
        check_preset(self.name, [peer.name for peer in self.links.peers], self.protocol, self.model_space())
        if self.tracks is not None and (is_postgres(self.data) or self.overlay is not None):
            raise ValueError("tracks: they are kept in a directory; give data = 'DIRECTORY', and no overlay")
        if self.owntracks is not None and self.space != "earth":
            raise ValueError(f"owntracks: its locations are on Earth, and space is '{self.space}'")
        if self.overlay is not None:
            check_overlay(self.protocol, self.overlay, self.journal, self.studio.enabled)
        check_studio(self)
        check_apart(self)
        check_reachable(self)

    @property
    def shows_studio(self) -> bool:
        """What clients do is shown without a password, so to this machine alone unless somebody says so."""
        if self.http is None or self.overlay is not None:
            return False
        return is_loopback(self.http.host) if self.studio.enabled is None else self.studio.enabled

    @property
    def open(self) -> bool:
        """Nothing is configured that keeps strangers out."""
        security = self.security
        return not (security.passwords or security.rules_file or security.rules or self.asks_certificates)

    @property
    def asks_certificates(self) -> bool:
        return any(listener.client_ca for listener in self.listeners)

    def host_of(self, listener: Listener) -> str | None:
        """What to bind to; None is every address."""
        if listener.host:
            return listener.host
        return LOOPBACK if self.open and not self.security.anonymous else None

    def exposes_passwords(self, listener: Listener) -> bool:
        """Whether passwords cross a network there that anybody may read."""
        if not self.security.passwords or listener.kind in SECURE:
            return False
        host = self.host_of(listener)
        return host is None or not is_loopback(host)

    def model_space(self) -> Plane | Earth:
        return Earth() if self.space == "earth" else Plane()


def check_studio(settings: Settings) -> None:
    studio = settings.studio
    if studio.enabled and settings.http is None:
        raise ValueError("studio.enabled needs a port; set http.port")
    if studio.place is not None:
        try:
            settings.model_space().check(Point(*studio.place))
        except BadValue as problem:
            raise ValueError(f"studio.place: {problem}") from problem
    try:
        studio.check(settings.model_space())
    except ValueError as problem:
        raise ValueError(f"studio.{problem}") from problem


def check_apart(settings: Settings) -> None:
    """Two listeners on one port would fail too, but later and with less to say."""
    taken: dict[int, str] = {}
    places = [(f"listeners[{number}]", each.port_number) for number, each in enumerate(settings.listeners, start=1)]
    places += [("http", settings.http.port)] if settings.http else []
    places += [("links", settings.links.port)] if settings.links.port is not None else []
    for place, port in places:
        if port and port in taken:
            raise ValueError(f"{place}.port: {port} is that of {taken[port]} already")
        taken[port] = place


def check_reachable(settings: Settings) -> None:
    if settings.open and not settings.security.anonymous:
        for number, listener in enumerate(settings.listeners, start=1):
            if listener.host and not is_loopback(listener.host):
                raise ValueError(
                    f"listeners[{number}].host: others can reach {listener.host}, and nothing keeps them out; set "
                    "security.passwords and security.rules, or security.anonymous = true if everybody is welcome"
                )
    if not settings.open and not settings.security.rules and not settings.security.rules_file:
        raise ValueError(
            "security.rules is missing, and what no rule allows is denied; to let everybody who is let in do "
            "everything, write rules = [{ publish = ['#'], subscribe = ['#'] }]"
        )


def load_settings(path: Path) -> Settings:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise BadSettings(f"{path}: cannot be read: {unreadable(problem)}") from problem
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadSettings(f"{path}: not valid TOML: {problem}") from problem
    return beside(settings_from(given, str(path)), path.parent)


def settings_from(given: dict[str, Any], name: str = "settings") -> Settings:
    try:
        meant = by_kind(given)
    except BadKind as problem:
        raise BadSettings(f"{name}: {problem}") from problem
    try:
        return msgspec.convert(meant, Settings)
    except msgspec.ValidationError as problem:
        raise BadSettings(f"{name}: {as_written(error_text(problem, meant, Settings), given)}") from problem


def beside(settings: Settings, folder: Path) -> Settings:
    """The settings with the files that they name looked for in the folder of the file."""

    def found(path: str) -> str:
        return str(folder / path) if path else ""

    def with_paths(part: Any, *keys: str) -> Any:
        return replace(part, **{key: found(getattr(part, key)) for key in keys})

    parts = {part: with_paths(getattr(settings.protocol, part), "movement") for part in WITH_MODELS}
    return replace(
        settings,
        protocol=replace(settings.protocol, **parts),
        modulators=tuple(map(found, settings.modulators)),
        data=settings.data if is_postgres(settings.data) else found(settings.data),
        journal=found(settings.journal),
        listeners=tuple(with_paths(each, "certificate", "key", "client_ca") for each in settings.listeners),
        links=with_paths(settings.links, "ca", "certificate", "key"),
        studio=with_paths(settings.studio, "map"),
        security=with_paths(settings.security, "passwords", "rules_file"),
    )


def load_movement(settings: Settings, part: str) -> MovementModel | None:
    """The model that a table below `protocol` names; raises `BadSettings`."""
    given = getattr(settings.protocol, part)
    if not given.movement:
        return None
    try:
        model = load_model(Path(given.movement))
        if not isinstance(given, LogicalParams):
            given.check_model(model)
    except BadValue as problem:
        raise BadSettings(f"protocol.{part}.movement: {problem}") from problem
    return model


def load_graph(settings: Settings) -> MovementGraph | None:
    """What `myloc` walks on; raises `BadSettings`."""
    model = load_movement(settings, "logical")
    return None if model is None else model.graph()


def load_protocol(settings: Settings) -> BrokerParams:
    """With what movement models say of the next brokers, and of how long clients stay; raises `BadSettings`."""
    protocol = settings.protocol
    led, walked = load_movement(settings, "ahead"), load_movement(settings, "logical")
    if led is not None:
        protocol = replace(protocol, ahead=protocol.ahead.following(led))
    if walked is not None:
        protocol = replace(protocol, logical=protocol.logical.following(walked))
    return protocol


def load_map(settings: Settings) -> Background | None:
    """What the studio draws below everything; raises `BadSettings`."""
    if not settings.studio.map or not settings.shows_studio:
        return None
    try:
        return load_background(Path(settings.studio.map))
    except BadMap as problem:
        raise BadSettings(f"studio.map: {problem}") from problem


def load_modulators(settings: Settings) -> None:
    """Runs the files that register modulators: the broker's own code, as trusted as the rest of it."""
    for number, path in enumerate(settings.modulators, start=1):
        try:
            runpy.run_path(path, run_name=f"roamcast_modulators_{number}")
        except Exception as problem:  # whatever a file does when it is loaded is the matter of its author
            raise BadSettings(f"modulators: {path}: {problem}") from problem


def load_policy(settings: Settings) -> tuple[Policy, Passwords | None]:
    """Reads the files that `security` names; raises `BadPasswords`, `BadRules` or `BadSettings`."""
    security = settings.security
    rules = security.rules + (load_rules(Path(security.rules_file)) if security.rules_file else ())
    passwords = load_passwords(Path(security.passwords)) if security.passwords else None
    try:
        policy = Policy(
            settings.model_space(),
            rules,
            None if passwords is None else passwords.hashes,
            "" if passwords is None else passwords.decoy,
            settings.asks_certificates,
            security.anonymous,
        )
    except BadValue as problem:
        raise BadSettings(f"security.rules: an area is not on the {settings.space}: {problem}") from problem
    return policy, passwords
