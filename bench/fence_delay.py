"""How soon a transition reaches its subscriber: one broker, 1,000 clients that drive and report once a second.

Two hundred fences lie among them. One client subscribes to all transitions; the delay is from when a client of this
process sent the report that passed a border, until the transition is here. Clients and broker share the machine.
"""

import asyncio
import json
import math
import time
from random import Random
from typing import Any

from bench.broker_load import REPORT, SIDE_M, STEPS_PER_S, Walker, connected, cpu_s, serving
from roamcast.mqtt.packets import Publish

TAKES = "30 s"
CLIENTS = 1_000
FENCES = 200
SECONDS = 20.0
SPEED_MPS = 15.0


class Watcher(Walker):
    sent: dict[str, float]
    """By client, when it has sent its last report."""

    def heard(self, now: float, said: dict[str, Any]) -> None:
        self.latencies_ms.append((now - self.sent[said["host"]]) * 1e3)


def fences(rng: Random) -> dict[str, Any]:
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [rng.uniform(0, SIDE_M), rng.uniform(0, SIDE_M)]},
            "properties": {"radius_m": rng.uniform(30, 200), "hysteresis_m": 0},
        }
        for _ in range(FENCES)
    ]
    return {"type": "FeatureCollection", "features": features}


async def drive(drivers: list[Walker], sent: dict[str, float], rng: Random) -> None:
    loop = asyncio.get_running_loop()
    places = [[rng.uniform(0, SIDE_M), rng.uniform(0, SIDE_M), rng.uniform(0, math.tau)] for _ in drivers]
    begun = loop.time()
    for step in range(int(SECONDS * STEPS_PER_S)):
        for number in range(step % STEPS_PER_S, len(drivers), STEPS_PER_S):
            x, y, heading = places[number]
            if not (0 < x < SIDE_M and 0 < y < SIDE_M):
                heading = math.atan2(SIDE_M / 2 - y, SIDE_M / 2 - x)
            places[number] = [x + SPEED_MPS * math.cos(heading), y + SPEED_MPS * math.sin(heading), heading]
            sent[drivers[number].name] = time.perf_counter()
            drivers[number].publish(REPORT, {"position": places[number][:2]})
        await asyncio.sleep(max(0.0, begun + (step + 1) / STEPS_PER_S - loop.time()))


async def measure(port: int, pid: int) -> dict[str, float]:
    delays_ms: list[float] = []
    sent: dict[str, float] = {}
    loop, rng = asyncio.get_running_loop(), Random(1)
    _, watcher = await loop.create_connection(lambda: Watcher("watcher", delays_ms), "127.0.0.1", port)
    watcher.sent = sent
    await watcher.subscribe("$roam/fence/#")
    watcher.say(Publish("$roam/fences/town", json.dumps(fences(rng)).encode(), retain=True))
    drivers = await connected(port, CLIENTS, [], "driver")
    before_s, begun = cpu_s(pid), time.perf_counter()
    await drive(drivers, sent, rng)
    elapsed_s = time.perf_counter() - begun
    await asyncio.sleep(1.0)
    delays_ms.sort()
    return {
        "clients": len(drivers),
        "transitions": len(delays_ms),
        "delay_p50_ms": round(delays_ms[len(delays_ms) // 2], 2),
        "delay_p99_ms": round(delays_ms[len(delays_ms) * 99 // 100], 2),
        "delay_max_ms": round(delays_ms[-1], 2),
        "cpu_share": round((cpu_s(pid) - before_s) / elapsed_s, 3),
        "behind_s": round(elapsed_s - SECONDS, 2),
    }


def main() -> dict[str, float]:
    with serving() as (port, pid):
        figures = asyncio.run(measure(port, pid))
    for name, value in figures.items():
        print(f"{name:<20} {value}")
    return figures


if __name__ == "__main__":
    main()
