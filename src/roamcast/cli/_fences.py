"""What `roamcast fences` does."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from roamcast.cli._pubsub import BadWords, Person, grumble, known, run
from roamcast.client.fences import feature
from roamcast.model.fence_text import BadFence
from roamcast.model.filter import BadFilter
from roamcast.model.region import ORIGIN, Anchored, Circle, Region
from roamcast.model.values import BadValue, Point
from roamcast.printable import shown, shown_json

FEATURES_MAX = 5_000
"""Of one message; more are several, NAME/1, NAME/2, …"""


class RegionText(Struct, frozen=True):
    circle: str = ""
    around: str = ""
    on: tuple[str, ...] = ()
    dwell_s: float = 0.0
    hosts: str = ""

    def region(self) -> Region:
        if self.around:
            host, _, metres = self.around.rpartition(",")
            try:
                return Anchored(Circle(ORIGIN, float(metres)), host)
            except ValueError:
                raise BadWords(f"--around is '{self.around}'; give a client and metres, as in van-7,150") from None
        try:
            x, y, radius_m = (float(each) for each in self.circle.split(","))
        except ValueError:
            raise BadWords(f"--circle is '{self.circle}'; give three numbers, as in 24.94,60.17,200") from None
        return Circle(Point(x, y), radius_m)


def put_one(person: Person, name: str, given: RegionText) -> bool:
    async def work() -> bool:
        said = {"on": list(given.on) or None, "dwell_s": given.dwell_s or None, "hosts": given.hosts or None}
        fence = feature(name, given.region(), said)
        async with known(person, "fences") as client:
            await client.fences.put_geojson(name, fence)
        return True

    return worded(work)


def put_file(person: Person, file: str, name: str) -> bool:
    path = Path(file)
    try:
        whole = msgspec.json.decode(path.read_bytes())
    except OSError as problem:
        raise BadWords(f"{file}: cannot be read: {problem.strerror}; --circle and --around need no file") from None
    except (msgspec.MsgspecError, RecursionError, ValueError) as problem:
        raise BadWords(f"{file}: not GeoJSON: {problem}") from None
    if not isinstance(whole, dict):
        raise BadWords(f"{file}: not GeoJSON: give a Feature or a FeatureCollection")

    async def work() -> bool:
        async with known(person, "fences") as client:
            for each, part in parts(name or path.stem, whole):
                await client.fences.put_geojson(each, part)
        return True

    return worded(work)


def parts(name: str, whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What fits into a message each."""
    features = whole.get("features")
    if not isinstance(features, list) or len(features) <= FEATURES_MAX:
        yield name, whole
        return
    for number, first in enumerate(range(0, len(features), FEATURES_MAX), start=1):
        yield f"{name}/{number}", {**whole, "features": features[first : first + FEATURES_MAX]}


def print_all(person: Person) -> bool:
    async def work() -> bool:
        async with known(person, "fences") as client:
            for name, given in (await client.fences.all()).items():
                print(f"{shown(name)} {shown_json(json.dumps(given, ensure_ascii=False))}")
        return True

    return worded(work)


def delete_all(person: Person, names: Sequence[str]) -> bool:
    async def work() -> bool:
        async with known(person, "fences") as client:
            there = await client.fences.all()
            for name in names:
                if name not in there:
                    grumble(f"no fence is called '{name}'; there are {', '.join(there) or 'none'}")
                else:
                    await client.fences.delete(name)
        return all(name in there for name in names)

    return worded(work)


def worded(work: Any) -> bool:
    try:
        return bool(run(work()))
    except (BadFence, BadFilter, BadValue) as problem:
        raise BadWords(str(problem).splitlines()[0]) from None
