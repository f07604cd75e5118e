"""A source from one line of text, as one writes it on a command line (docs/reference/LOCATION.md has all of it).

fixed:24.94,60.17    trace:ride.gpx?speed=2&loop    gpsd:localhost:2947    simulated:scenarios/town.toml#car-7
"""

import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

import msgspec

from roamcast.config_errors import error_text
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import BadValue
from roamcast.movement.fix import BadSource, Clock, Source
from roamcast.movement.fixed import Fixed
from roamcast.movement.gpsd import PORT, Gpsd
from roamcast.movement.models import MobilityModel
from roamcast.movement.options import Options, point_of
from roamcast.movement.recorded import Playing, Recording
from roamcast.movement.trace_formats import BadTrace, TraceKind, kind_of_file
from roamcast.movement.walking import Walking, checked, of_scenario, waypoints

TEXT_CHARS_MAX = 4_096
SCENARIO = re.compile(r"[^={?#]*\.toml([?#]|$)")
ADDRESS = re.compile(r"(\[(?P<six>[0-9a-fA-F:.%\w]+)\]|(?P<host>[^:\[\]]*))(:(?P<port>[0-9]{1,5}))?")


def source(text: str, space: Space | None = None, clock: Clock | None = None) -> Source:
    """Raises `BadSource`, also for one whose positions are not in `space`, if that is given."""
    kind, colon, rest = text[:TEXT_CHARS_MAX].partition(":")
    make = MAKERS.get(kind)
    if make is None or not colon or len(text) > TEXT_CHARS_MAX:
        known = ", ".join(f"{each}:" for each in MAKERS)
        raise BadSource(f"location '{text:.60}' is not known; it begins with one of {known}")
    made = make(rest, clock)
    if space is not None:
        check_space(text, made, space)
    return made


def check_space(text: str, made: Source, space: Space) -> None:
    """Raises `BadSource` for one whose positions are not in the space; a fixed place may be in either."""
    if isinstance(made, Fixed):
        try:
            space.check(made.point)
        except BadValue as problem:
            raise BadSource(f"location '{text}': {problem}") from problem
        return
    own = getattr(made, "space", space)
    if own != space:
        hint = "; origin=LONGITUDE,LATITUDE puts it on Earth" if isinstance(own, Plane) else ""
        raise BadSource(f"location '{text}' gives {word_of(own)}, and {word_of(space)} are needed{hint}")


def word_of(space: Space) -> str:
    return "longitudes and latitudes" if isinstance(space, Earth) else "metres"


def parted(rest: str, what: str) -> tuple[str, str | None, Options]:
    """FILE#host?options, of which all but the file may be missing."""
    named, _, options = rest.partition("?")
    file, hash_, host = named.partition("#")
    if not file:
        raise BadSource(f"{what}: the file is missing; write {what}FILE")
    return file, unquote(host) if hash_ else None, Options(f"{what}{rest:.60}", options)


def playing_of(options: Options) -> Playing:
    try:
        return Playing(
            options.number("speed", 1.0),
            options.number("begin_s", 0.0),
            options.flag("loop"),
            options.point("origin"),
        )
    except BadSource:
        raise
    except ValueError as problem:
        raise BadSource(str(problem)) from problem


def fixed(rest: str, clock: Clock | None) -> Fixed:
    point = point_of(rest, "fixed: the position")
    try:
        Plane().check(point)
    except BadValue as problem:
        raise BadSource(f"fixed:{rest}: {problem}") from problem
    return Fixed((point.x, point.y), clock)


def trace(rest: str, clock: Clock | None) -> "Recording | Walking":
    file, host, options = parted(rest, "trace:")
    playing, kind = playing_of(options), trace_kind(options.text("kind"), Path(file))
    options.done()
    if kind == "bonnmotion":
        return waypoints(Path(file), host, playing, clock)
    return Recording(Path(file), host, kind, playing, clock)


def trace_kind(given: str | None, path: Path) -> TraceKind:
    for kind in get_args(TraceKind):
        if kind == given:
            return kind  # type: ignore[no-any-return]
    if given is not None:
        raise BadSource(f"trace: there is no kind '{given}' (known: {', '.join(get_args(TraceKind))})")
    try:
        return kind_of_file(path)
    except BadTrace as problem:
        raise BadSource(f"{problem}; or say kind=csv and the like") from problem


def simulated(rest: str, clock: Clock | None) -> Walking:
    if SCENARIO.match(rest):
        file, host, options = parted(rest, "simulated:")
        seed, playing = options.integer("seed", 1), playing_of(options)
        options.done()
        return of_scenario(Path(file), host, seed, playing, clock)
    table, mark, asked = rest.rpartition("?")
    if not mark or any(sign in asked for sign in "{}\"'"):
        # There is none, or it stands in a text within the table.
        table, asked = rest, ""
    options = Options(f"simulated:{rest:.60}", asked)
    seed, playing = options.integer("seed", 1), playing_of(options)
    options.done()
    mobility = model_of(table)
    return checked(lambda: mobility.legs(random.Random(f"{seed}/mobility/host"), 0, 1), playing, clock)


def model_of(table: str) -> MobilityModel:
    """`kind = "static", placement = {…}` as in a scenario; the name of the kind alone may stand first."""
    table = table.strip()
    if table.startswith("{") and table.endswith("}"):
        table = table[1:-1]
    kind, comma, more = table.partition(",")
    if kind and "=" not in kind:
        table = f'kind = "{kind.strip()}"{comma}{more}'
    try:
        given = tomllib.loads(f"mobility = {{{table}}}")
        return msgspec.convert(given["mobility"], MobilityModel)  # type: ignore[no-any-return]
    except tomllib.TOMLDecodeError as problem:
        raise BadSource(f"simulated: '{table:.60}' is not a TOML table: {problem}") from problem
    except msgspec.ValidationError as problem:
        raise BadSource(f"simulated: {error_text(problem, given['mobility'], MobilityModel)}") from problem


def gpsd(rest: str, clock: Clock | None) -> Gpsd:
    address, _, asked = rest.partition("?")
    options = Options(f"gpsd:{rest:.60}", asked)
    device = options.text("device")
    options.done()
    found = ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"] or PORT) <= 65_535:
        raise BadSource(f"gpsd:{rest:.60}: give HOST or HOST:PORT, such as localhost:{PORT} or [::1]:{PORT}")
    return Gpsd(found["six"] or found["host"] or "localhost", int(found["port"] or PORT), device, clock)


AnySource = Fixed | Recording | Walking | Gpsd

MAKERS: dict[str, Callable[[str, Clock | None], AnySource]] = {
    "fixed": fixed,
    "trace": trace,
    "simulated": simulated,
    "gpsd": gpsd,
}
