"""Fences at Redis and at Tile38: the CPU time of their servers for each move, and the memory for each fence.

Redis has no fences: the nearest it has is a geo set of their centres, searched around each new place as far as the
widest fence reaches. Which of those a move enters or leaves the client would still have to find out and remember.
Tile38 has fences: a channel each (`SETCHAN … WITHIN … FENCE DETECT enter,exit,cross`), and a SET for each move. It
judges new places; what a way passes through between two of them is told as `cross`.
"""

import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench.match import Doubles
from bench.redis_geo import DEGREE_M, Redis, add, encoded, search
from roamcast.model.fence import Fence
from roamcast.model.region import Circle, Polygon
from roamcast.model.values import Point
from roamcast.model.way import outline

HOST = "127.0.0.1"
AT_ONCE = 500
WIDEST_M = 300.0


class RedisGeo:
    program = "redis-server"

    @classmethod
    def why_not(cls) -> str | None:
        return None if shutil.which(cls.program) else f"no {cls.program} in PATH"

    def measure(self, fences: Sequence[Fence], ways: Doubles) -> dict[str, float]:
        program = shutil.which(self.program)
        assert program is not None
        with Redis(program) as server:
            before = memory_of(server)
            for some in batched(add("fences", each.name, *centre(each)) for each in fences):
                server.ask(some)
            taken = memory_of(server) - before
            rate = moves_per_s(server, (search("fences", x, y, WIDEST_M) for _, _, x, y in ways.tolist()), len(ways))
        return {"redis_searches_per_s": rate, "redis_bytes_per_fence": taken / len(fences)}


class Tile38(Redis):
    family = socket.AF_INET
    name = "tile38-server"

    def __init__(self) -> None:
        super().__init__(shutil.which(self.name) or self.name)
        self.port = 0

    @classmethod
    def why_not(cls) -> str | None:
        return None if shutil.which(cls.name) else f"no {cls.name} in PATH"

    def arguments(self, directory: Path) -> tuple[list[str], Any]:
        self.port = free_port()
        return ["-h", HOST, "-p", str(self.port), "-d", str(directory), "-appendonly", "no", "-q"], (HOST, self.port)

    def measure(self, fences: Sequence[Fence], ways: Doubles) -> dict[str, float]:
        with self:
            before = memory_of(self)
            for some in batched(map(channel, fences)):
                self.ask(some)
            taken = memory_of(self) - before
            moves_per_s(self, moves(ways[:, :2]), len(ways))
            rate = moves_per_s(self, moves(ways[:, 2:]), len(ways))
        return {"tile38_moves_per_s": rate, "tile38_bytes_per_fence": taken / len(fences)}


def batched(commands: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(commands)
    while some := list(islice(rest, AT_ONCE)):
        yield some


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def moves_per_s(server: Redis, commands: Iterable[bytes], count: int) -> float:
    """A CPU second of the server."""
    began = server.cpu_s()
    for some in batched(commands):
        server.ask(some)
    return count / (server.cpu_s() - began)


def memory_of(server: Redis) -> int:
    """What is in memory of a process."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def centre(fence: Fence) -> tuple[float, float]:
    region = fence.region
    if isinstance(region, Circle):
        return region.centre.x, region.centre.y
    assert isinstance(region, Polygon)
    xs, ys = [each.x for each in region.corners], [each.y for each in region.corners]
    return sum(xs) / len(xs), sum(ys) / len(ys)


def channel(fence: Fence) -> bytes:
    begin = ("SETCHAN", fence.name, "WITHIN", "fleet", "FENCE", "DETECT", "enter,exit,cross")
    region = fence.region
    if isinstance(region, Circle):
        return encoded(*begin, "CIRCLE", *degrees(region.centre)[::-1], f"{region.radius_m:.3f}")
    assert isinstance(region, Polygon)
    ring = [*outline(region), outline(region)[0]]
    corners = ",".join(f"[{','.join(degrees(each))}]" for each in ring)
    return encoded(*begin, "OBJECT", f'{{"type":"Polygon","coordinates":[[{corners}]]}}')


def moves(places: Doubles) -> Iterator[bytes]:
    for number, (x, y) in enumerate(places.tolist()):
        yield encoded("SET", "fleet", f"host-{number}", "POINT", *degrees(Point(x, y))[::-1])


def degrees(point: Point) -> tuple[str, str]:
    """Longitude and latitude near the equator."""
    return f"{point.x / DEGREE_M:.9f}", f"{point.y / DEGREE_M:.9f}"
