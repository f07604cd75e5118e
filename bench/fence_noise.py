"""A device that stands at a border with 20 m of noise: how many false transitions, and how many true ones are lost.

Each day a van comes from afar, stands at the border of a yard for 24 hours, goes in, and away again; it reports every
ten seconds with its accuracy. What is true is that it enters once and leaves once. The same reports are judged by the
default rule, which takes six times the accuracy, by a rule without hysteresis, and by Tile38, which has none, where
`tile38-server` is in PATH.
"""

import random
import socket
from collections.abc import Iterator

from bench import progress
from bench.fence_peers import HOST, Tile38, degrees
from bench.redis_geo import encoded
from roamcast.model.fence import BEGIN, Fence, FenceRule, Fix, Transition, advance
from roamcast.model.region import Box
from roamcast.model.space import Plane
from roamcast.model.values import Point

TAKES = "2 minutes"
DAYS = 42
HOURS = 24
STEP_S = 10
NOISE_M = 20.0
YARD = Box(Point(-50.0, -500.0), Point(50.0, 500.0))
TRUE = [Transition.ENTER, Transition.LEAVE]
RULES = {"default": FenceRule(), "without_hysteresis": FenceRule(hysteresis_m=0.0)}


def day(seed: int) -> Iterator[Fix]:
    rng = random.Random(seed)
    places = [-2_000.0 + 195 * step for step in range(11)]
    places += [-50.0] * (HOURS * 3600 // STEP_S)
    places += [-50.0 + 10 * step for step in range(11)] + [50.0 + 195 * step for step in range(11)]
    for step, x in enumerate(places):
        place = Point(x + rng.gauss(0, NOISE_M), rng.gauss(0, NOISE_M))
        yield Fix(step * STEP_S * 1_000_000, place, NOISE_M)


def told(rule: FenceRule, seed: int) -> list[Transition]:
    state, found = BEGIN, list[Transition]()
    for fix in day(seed):
        state, more = advance(Fence("yard", YARD, rule), state, fix, Plane())
        found += [each.transition for each in more]
    return found


def false_and_lost(found: list[Transition]) -> tuple[int, int]:
    """By count: what is told besides one enter and one leave, and which of these is not told."""
    false = sum(max(0, found.count(each) - 1) for each in TRUE)
    return false, sum(each not in found for each in TRUE)


class Listener:
    """Of a channel of Tile38."""

    def __init__(self, server: Tile38, port: int) -> None:
        self.server = server
        self.socket = socket.create_connection((HOST, port))
        self.socket.sendall(encoded("SUBSCRIBE", "yard"))
        self.data = b""
        self.until(b"subscribe")

    def until(self, sign: bytes) -> bytes:
        while sign not in self.data:
            more = self.socket.recv(1 << 20)
            if not more:
                raise ConnectionError("Tile38 closed the connection")
            self.data += more
        data, self.data = self.data, b""
        return data

    def drain(self) -> None:
        """What has come: a server whose words nobody reads stops."""
        self.socket.settimeout(0.02)
        try:
            while more := self.socket.recv(1 << 20):
                self.data += more
        except TimeoutError:
            pass
        finally:
            self.socket.settimeout(None)

    def day(self, seed: int) -> list[Transition]:
        van, end = f"van-{seed}", f"end-{seed}"
        sets = [encoded("SET", "fleet", van, "POINT", *degrees(fix.position)[::-1]) for fix in day(seed)]
        for first in range(0, len(sets), 500):
            self.server.ask(sets[first : first + 500])
            self.drain()
        self.server.ask([encoded("SET", "fleet", end, "POINT", "0", "0")])
        data = self.until(b'"id":"' + end.encode())
        counts = (
            data.count(b'"detect":"enter"') - data.count(b'"id":"' + end.encode()),
            data.count(b'"detect":"exit"'),
        )
        return [Transition.ENTER] * counts[0] + [Transition.LEAVE] * counts[1]


def at_tile38(days: int) -> list[list[Transition]]:
    with Tile38() as server:
        low, high = (degrees(each)[::-1] for each in (YARD.low, YARD.high))
        rule = ("WITHIN", "fleet", "FENCE", "DETECT", "enter,exit", "BOUNDS", *low, *high)
        server.ask([encoded("SETCHAN", "yard", *rule)])
        listener = Listener(server, server.port)
        return [listener.day(seed) for seed in range(days)]


def main(days: int = DAYS) -> dict[str, float]:
    figures: dict[str, float] = {"device_hours": days * HOURS}
    found = {name: [told(rule, seed) for seed in range(days)] for name, rule in RULES.items()}
    if why := Tile38.why_not():
        progress.skipped("Tile38", why)
    else:
        found["tile38"] = at_tile38(days)
    for name, each in found.items():
        pairs = [false_and_lost(of_day) for of_day in each]
        figures[f"{name}_false"], figures[f"{name}_lost"] = (float(sum(part)) for part in zip(*pairs, strict=True))
    for name, value in figures.items():
        print(f"{name:32} {value:14,.0f}", flush=True)
    return figures


if __name__ == "__main__":
    main()
