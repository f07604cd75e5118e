"""The formats of recorded movement, each read into the same `Fixes`: who was where at which time.

| kind | file | read as |
|---|---|---|
| `fcd` | `.xml` | SUMO floating-car data: `timestep time`, in it `vehicle` (`person`, `container`) `id x y` in m |
| `fcd-geo` | | the same with x and y in degrees (`--fcd-output.geo`), which the file itself does not tell |
| `gpx` | `.gpx` | `trk` with `name` (one host; without: track-1, track-2, ...), its `trkpt lat lon` with `time` |
| `csv` | `.csv` | a header, then one fix a row; columns by the names in `CSV_NAMES`, others ignored |
| `bonnmotion` | `.movements` | one node a line, numbered from 0: `time x y time x y ...` in seconds and metres |

Files come from elsewhere, so they are read as hostile: XML is streamed and refused as soon as it declares a document
type (and with it any entity), numbers must be finite and within bounds, and every error is a `BadTrace` that
names the file, the line, and the element or field.
"""

import csv
import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias
from xml.parsers import expat

from roamcast.movement.params import COORDINATE_MAX_M

TraceKind: TypeAlias = Literal["fcd", "fcd-geo", "gpx", "csv", "bonnmotion"]

KIND_OF_SUFFIX: dict[str, TraceKind] = {".xml": "fcd", ".gpx": "gpx", ".csv": "csv", ".movements": "bonnmotion"}

CSV_NAMES = {
    "host": ("host", "id", "vehicle", "vehicle_id", "node", "device", "name"),
    "time": ("time", "t", "time_s", "timestamp", "timestep_time"),
    "time_us": ("time_us", "t_us"),
    "x": ("x", "x_m", "east_m", "vehicle_x"),
    "y": ("y", "y_m", "north_m", "vehicle_y"),
    "lon": ("lon", "lng", "long", "longitude"),
    "lat": ("lat", "latitude"),
}
"""Header names, in any case; `time` holds seconds or an ISO 8601 time, `time_us` microseconds."""

TIME_MAX_US = 2**52
"""142 years: how far from 0 or 1970, and how long, a trace may be."""
FIXES_MAX = 20_000_000
XML_DEPTH_MAX = 100
XML_TEXT_CHARS_MAX = 1_000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FCD_MOVERS = ("vehicle", "person", "container")


class BadTrace(ValueError):
    """A trace that cannot be replayed; the message says where and why."""


class HostFixes:
    """The fixes of one host as they stand in the file, with the line of each."""

    def __init__(self) -> None:
        self.times_us = array("q")
        self.xs = array("d")
        self.ys = array("d")
        self.lines = array("q")

    def append(self, time_us: int, x: float, y: float, line: int) -> None:
        self.times_us.append(time_us)
        self.xs.append(x)
        self.ys.append(y)
        self.lines.append(line)

    def rows(self) -> Iterator[tuple[int, float, float, int]]:
        return zip(self.times_us, self.xs, self.ys, self.lines, strict=True)


class Fixes:
    """All fixes of one file."""

    def __init__(self, path: Path, *, geographic: bool) -> None:
        self.path = path
        self.geographic = geographic
        self.hosts: dict[str, HostFixes] = {}
        self._count = 0

    def bad(self, line: int, what: str, problem: str) -> NoReturn:
        raise BadTrace(f"{self.path}, line {line}, {what}: {problem}")

    def add(self, host: str, time_us: int, x: float, y: float, line: int, what: str) -> None:
        if not host:
            self.bad(line, what, "the name of the host is empty")
        if self._count >= FIXES_MAX:
            self.bad(line, what, f"more than {FIXES_MAX} fixes")
        self.check_place(x, y, line, what)
        self._count += 1
        self.hosts.setdefault(host, HostFixes()).append(time_us, x, y, line)

    def text(self, given: str | None, line: int, what: str) -> str:
        if given is None or not given.strip():
            self.bad(line, what, "is missing")
        return given.strip()

    def number(self, given: str | None, line: int, what: str) -> float:
        found = self.double(given, line, what)
        if not math.isfinite(found):
            self.bad(line, what, f"{self.text(given, line, what):.40} is not a finite number")
        return found

    def double(self, given: str | None, line: int, what: str) -> float:
        """The same, or infinite, or not a number."""
        text = self.text(given, line, what)
        try:
            return float(text)
        except ValueError:
            self.bad(line, what, f"'{text:.40}' is not a number")

    def coordinate(self, given: str | None, line: int, what: str) -> float:
        return self.number(given, line, what)

    def seconds(self, given: str | None, line: int, what: str, unit_us: int = 1_000_000) -> int:
        """A time in seconds (or another unit), as microseconds, rounded once from the decimal text."""
        text = self.text(given, line, what)
        # The double says whether the size is sane before exact arithmetic meets an absurd exponent.
        if abs(self.number(text, line, what)) * unit_us > TIME_MAX_US:
            self.bad(line, what, f"time {text:.40} is out of range")
        try:
            return round(Decimal(text) * unit_us)
        except ArithmeticError:
            self.bad(line, what, f"'{text:.40}' is not a time")

    def moment(self, given: str | None, line: int, what: str) -> int:
        """An ISO 8601 time as microseconds since 1970; one without a zone is UTC."""
        text = self.text(given, line, what)
        try:
            read = datetime.fromisoformat(text)
        except ValueError:
            self.bad(line, what, f"'{text:.40}' is not an ISO 8601 time")
        time_us = ((read if read.tzinfo else read.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)
        if abs(time_us) > TIME_MAX_US:
            self.bad(line, what, f"time {text:.40} is out of range")
        return time_us

    def check_place(self, x: float, y: float, line: int, what: str) -> None:
        if self.geographic and not (abs(x) <= 180 and abs(y) <= 90):
            self.bad(line, what, f"longitude {x}, latitude {y} is no place on Earth")
        if max(abs(x), abs(y)) > COORDINATE_MAX_M:
            self.bad(line, what, f"({x}, {y}) is beyond ±{COORDINATE_MAX_M:.0f} m")


def kind_of_file(path: Path) -> TraceKind:
    kind = KIND_OF_SUFFIX.get(path.suffix.lower())
    if kind is None:
        raise BadTrace(f"{path}: the kind of trace is not known from its name; give it, or use {known_suffixes()}")
    return kind


def known_suffixes() -> str:
    return ", ".join(KIND_OF_SUFFIX)


class XmlReader(ABC):
    """Streams an XML file and hands over elements as they open and close, with the line and the path to them."""

    def __init__(self, fixes: Fixes, root: str) -> None:
        self.fixes = fixes
        self.root = root
        self.open: list[str] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    @property
    def line(self) -> int:
        return self.parser.CurrentLineNumber

    def read(self) -> None:
        try:
            with self.fixes.path.open("rb") as file:
                self.parser.ParseFile(file)
        except expat.ExpatError as error:
            self.fixes.bad(error.lineno, "XML", expat.ErrorString(error.code))
        except BadTrace:
            raise
        except (LookupError, ValueError) as error:  # an encoding that is unknown, or that expat cannot read
            self.fixes.bad(self.line, "XML", str(error))

    @abstractmethod
    def started(self, element: str, attributes: dict[str, str]) -> None: ...

    @abstractmethod
    def ended(self, element: str) -> None: ...

    def _doctype(self, *_declared: object) -> NoReturn:
        self.fixes.bad(self.line, "XML", "declares a document type; traces have none, and it could hide entities")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        element = name.rpartition(" ")[2]
        if not self.open and element != self.root:
            self.fixes.bad(self.line, f"element <{element:.40}>", f"the file should begin with <{self.root}>")
        if len(self.open) >= XML_DEPTH_MAX:
            self.fixes.bad(self.line, f"element <{element:.40}>", f"nested more than {XML_DEPTH_MAX} deep")
        self.started(element, attributes)
        self.open.append(element)

    def _end(self, name: str) -> None:
        self.open.pop()
        self.ended(name.rpartition(" ")[2])


class FcdReader(XmlReader):
    def __init__(self, fixes: Fixes) -> None:
        super().__init__(fixes, "fcd-export")
        self.time_us = 0

    def started(self, element: str, attributes: dict[str, str]) -> None:
        line, fixes = self.line, self.fixes
        if element == "timestep":
            self.time_us = fixes.seconds(attributes.get("time"), line, "<timestep> field 'time'")
        if element not in FCD_MOVERS:
            return
        if "timestep" not in self.open:
            fixes.bad(line, f"<{element}>", "stands outside a <timestep>")
        x = fixes.coordinate(attributes.get("x"), line, f"<{element}> field 'x'")
        y = fixes.coordinate(attributes.get("y"), line, f"<{element}> field 'y'")
        fixes.add(attributes.get("id", ""), self.time_us, x, y, line, f"<{element}> field 'id'")

    def ended(self, element: str) -> None:
        """Everything stands in attributes."""


class GpxReader(XmlReader):
    """A track's name may stand after its points, so they wait until the track ends."""

    def __init__(self, fixes: Fixes) -> None:
        super().__init__(fixes, "gpx")
        self.parser.CharacterDataHandler = self._text
        self.track = 0
        self.name = ""
        self.time = ""
        self.place = (0.0, 0.0)
        self.place_line = 0
        self.waiting = HostFixes()

    def started(self, element: str, attributes: dict[str, str]) -> None:
        if element == "trk":
            self.track += 1
            self.name = ""
            self.waiting = HostFixes()
        elif element == "trkpt":
            if "trk" not in self.open:
                self.fixes.bad(self.line, "<trkpt>", "stands outside a <trk>")
            longitude = self.fixes.coordinate(attributes.get("lon"), self.line, "<trkpt> field 'lon'")
            latitude = self.fixes.coordinate(attributes.get("lat"), self.line, "<trkpt> field 'lat'")
            self.place, self.place_line, self.time = (longitude, latitude), self.line, ""

    def ended(self, element: str) -> None:
        if element == "trkpt":
            time_us = self.fixes.moment(self.time, self.place_line, "<trkpt> field 'time'")
            self.waiting.append(time_us, *self.place, self.place_line)
        elif element == "trk":
            host = self.name.strip() or f"track-{self.track}"
            for time_us, x, y, line in self.waiting.rows():
                self.fixes.add(host, time_us, x, y, line, "<trkpt>")

    def _text(self, text: str) -> None:
        match self.open[-2:]:
            case ["trkpt", "time"]:
                self.time += text
            case ["trk", "name"]:
                self.name += text
            case _:
                return
        if max(len(self.time), len(self.name)) > XML_TEXT_CHARS_MAX:
            self.fixes.bad(self.line, f"<{self.open[-1]}>", f"holds more than {XML_TEXT_CHARS_MAX} characters")


def read_fcd(fixes: Fixes) -> None:
    FcdReader(fixes).read()


def read_gpx(fixes: Fixes) -> None:
    GpxReader(fixes).read()


def read_csv(fixes: Fixes) -> None:
    """Comma, semicolon or tab, whichever the header has most of; `fixes` learns from it whether it holds degrees."""
    with fixes.path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        if not header.strip():
            raise BadTrace(f"{fixes.path}: the file is empty; a CSV trace begins with a header")
        separator = max(",;\t", key=header.count)
        rows = csv.reader(chain([header], file), delimiter=separator)
        try:
            columns = csv_columns(fixes, next(rows))
            for row in rows:
                if row:
                    read_row(fixes, columns, row, rows.line_num)
        except csv.Error as error:
            fixes.bad(rows.line_num, "CSV", str(error))


def csv_columns(fixes: Fixes, header: list[str]) -> dict[str, int]:
    given = [name.strip().lower() for name in header]
    columns: dict[str, int] = {}
    for field, names in CSV_NAMES.items():
        places = [place for place, name in enumerate(given) if name in names]
        if len(places) > 1:
            fixes.bad(1, f"field '{field}'", f"both '{given[places[0]]}' and '{given[places[1]]}' could be it")
        if places:
            columns[field] = places[0]
    if ("x" in columns or "y" in columns) == ("lon" in columns or "lat" in columns):
        fixes.bad(1, "header", "needs either x and y or lon and lat")
    fixes.geographic = "lon" in columns
    if ("time" in columns) == ("time_us" in columns):
        fixes.bad(1, "header", "needs either time or time_us")
    for field in ("host", *(("lon", "lat") if fixes.geographic else ("x", "y"))):
        if field not in columns:
            fixes.bad(1, f"field '{field}'", f"no column is called {' or '.join(CSV_NAMES[field])}")
    return columns


def read_row(fixes: Fixes, columns: dict[str, int], row: list[str], line: int) -> None:
    def cell(field: str) -> str | None:
        return row[columns[field]] if columns[field] < len(row) else None

    if "time_us" in columns:
        time_us = fixes.seconds(cell("time_us"), line, "field 'time_us'", unit_us=1)
    else:
        text = cell("time") or ""
        read: Callable[[str | None, int, str], int] = fixes.moment if "T" in text or ":" in text else fixes.seconds
        time_us = read(text, line, "field 'time'")
    east, north = ("lon", "lat") if fixes.geographic else ("x", "y")
    x = fixes.coordinate(cell(east), line, f"field '{east}'")
    y = fixes.coordinate(cell(north), line, f"field '{north}'")
    fixes.add((cell("host") or "").strip(), time_us, x, y, line, "field 'host'")


def read_bonnmotion(fixes: Fixes) -> None:
    with fixes.path.open(encoding="utf-8-sig") as file:
        for node, (line, text) in enumerate(node_lines(fixes, file)):
            numbers = text.split()
            if len(numbers) % 3:
                fixes.bad(line, f"node {node}", f"{len(numbers)} numbers are no triples of time, x and y")
            for at in range(0, len(numbers), 3):
                what = f"node {node}, triple {at // 3 + 1}, field"
                time_us = fixes.seconds(numbers[at], line, f"{what} 'time'")
                x = fixes.coordinate(numbers[at + 1], line, f"{what} 'x'")
                y = fixes.coordinate(numbers[at + 2], line, f"{what} 'y'")
                fixes.add(str(node), time_us, x, y, line, what)


def node_lines(fixes: Fixes, lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    for line, text in enumerate(lines, start=1):
        if text.upper().startswith("#3D"):
            fixes.bad(line, "header", "three-dimensional movements are not replayed")
        if text.strip() and not text.startswith("#"):
            yield line, text
