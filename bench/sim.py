"""How fast the simulator is: simulated seconds for each second of CPU, and the cost of one frame.

Three settings at 100, 400 and 1,000 hosts, at the density of the base scenario of C12:

- `context`: that scenario, the whole protocol with its `paper` preset;
- `geocast`: only its events, instantaneous and with nobody who subscribes, so what is left is geocast and beacons;
- `flooding`: events flooded. Publishers stay 20 here, since each of them is heard by everybody.

A frame's cost must not depend on how many hosts there are, only on who is near. The first seconds, in which everybody
starts, are not measured.

Where ns-3 is installed, geocast and flooding are run there as well (`ns3_peer.py`).

Then two hosts that talk, all events scoped, with 10, 1,000 and 4,000 others ten kilometres away: what a delivery
costs, with the ideal system and the check that only what matches is delivered, must stay flat too.
"""

import math
import sys
import time
from pathlib import Path

from msgspec.structs import replace

from bench import ns3_peer, progress
from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import Scenario, load_scenario, scenario_from

TAKES = "76 s; 4 minutes with ns-3"
NEEDS = {"ns3": "pip install 'roamcast[bench]'", "g++": "apt-get install g++"}
SCENARIOS = Path(__file__).parent.parent / "scenarios"
SECONDS = {100: 100.0, 400: 30.0, 1_000: 20.0}
"""For how many hosts, and how long: so that all take a few seconds of CPU."""
WARM_UP_S = 10


def scaled(scenario: Scenario, hosts: int, seconds: float) -> Scenario:
    """The same density on a larger square; the share of hosts that publish and subscribe stays."""
    group = scenario.hosts[0]
    side_m = 1_000 * math.sqrt(hosts / 100)
    mobility = replace(group.mobility, width_m=side_m, height_m=side_m)
    # As the packets of the peer in ns-3, and not encoded to find out how long they are.
    return replace(
        scenario,
        packet_bytes=128,
        hosts=(replace(group, count=hosts, mobility=mobility),),
        area_m=(side_m, side_m),
        seconds=seconds + WARM_UP_S,
    )


def context(hosts: int, seconds: float) -> Scenario:
    return scaled(load_scenario(SCENARIOS / "context-base.toml"), hosts, seconds)


def geocast(hosts: int, seconds: float) -> Scenario:
    scenario = context(hosts, seconds)
    moments = tuple(replace(rule, lifetime_s=(0.0,)) for rule in scenario.publish)
    return replace(scenario, publish=moments, subscribe=())


def flooding(hosts: int, seconds: float) -> Scenario:
    scenario = scaled(load_scenario(SCENARIOS / "context-flooding.toml"), hosts, seconds)
    return replace(
        scenario,
        publish=tuple(replace(rule, share=20 / hosts) for rule in scenario.publish),
        subscribe=tuple(replace(rule, share=20 / hosts) for rule in scenario.subscribe),
    )


SETTINGS = {"context": context, "geocast": geocast, "flooding": flooding}


def measured(name: str, hosts: int, scenario: Scenario) -> dict[str, float]:
    run = Run(scenario, kit_of(scenario.protocol, scenario.radio), seed=1)
    steps = run.steps()
    for _ in range(WARM_UP_S):
        next(steps)
    before, started = run.result().transmissions, time.process_time()
    for _ in steps:
        pass
    cpu_s = time.process_time() - started
    seconds, frames = scenario.seconds - WARM_UP_S, run.result().transmissions - before
    print(
        f"{name:8} {hosts:5} hosts, {seconds:4.0f} s: {cpu_s:6.2f} s CPU, "
        f"{seconds / cpu_s:7.1f} simulated s per CPU s, {frames / seconds:7.1f} frames a second, "
        f"{cpu_s / frames * 1e6:6.1f} µs a frame"
    )
    sys.stdout.flush()
    return {
        f"{name}.{hosts}.simulated_per_cpu_s": seconds / cpu_s,
        f"{name}.{hosts}.frames_per_s": frames / seconds,
        f"{name}.{hosts}.us_per_frame": cpu_s / frames * 1e6,
    }


def pair_and_others(others: int) -> Scenario:
    """Two hosts that hear each other, and others in a line far away, none of them in range of another."""
    near = {"kind": "line", "start": [0, 0], "end": [50, 0]}
    far = {"kind": "line", "start": [10_000, 0], "end": [10_000 + 300 * others, 0]}
    return scenario_from(
        {
            "name": "pair",
            "seconds": 50,
            "protocol": {"kind": "flooding"},
            "radio": {"kind": "unit-disk", "range_m": 100},
            "hosts": [
                {"name": "pair", "count": 2, "mobility": {"kind": "static", "placement": near}},
                {"name": "other", "count": others, "mobility": {"kind": "static", "placement": far}},
            ],
            "publish": [
                {
                    "by": "pair",
                    "subject": "x",
                    "every_s": 0.1,
                    "lifetime_s": [1],
                    "relevance": {"box_m": [100, 100]},
                    "audience": {"circle_m": 200, "at": "with-me"},
                }
            ],
            "subscribe": [{"by": "pair", "subject": "x", "interest": {"circle_m": 100, "at": "with-me"}}],
            "checks": ["no-duplicates", "only-matching"],
        }
    )


def delivering_us(others: int) -> float:
    scenario = pair_and_others(others)
    run = Run(scenario, kit_of(scenario.protocol), seed=1)
    steps = run.steps()
    # In the first second everybody starts; that is not what is measured.
    next(steps)
    before, started = run.result().delivered, time.process_time()
    for _ in steps:
        pass
    return (time.process_time() - started) / (run.result().delivered - before) * 1e6


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, setting in SETTINGS.items():
        for hosts, seconds in SECONDS.items():
            figures |= measured(name, hosts, setting(hosts, seconds))
            progress.note(figures)
    for others in (10, 1_000, 4_000):
        cost_us = delivering_us(others)
        print(f"a pair talking, {others:5} others far away: {cost_us:6.1f} µs a delivery")
        figures[f"us_per_delivery_{others}_far"] = cost_us
        progress.note(figures)
    return figures | ns3_peer.compare(
        {
            name: {hosts: SETTINGS[name](hosts, seconds) for hosts, (_, seconds) in ns3_peer.SECONDS.items()}
            for name in ("geocast", "flooding")
        }
    )


if __name__ == "__main__":
    main()
