"""How fast the simulator is: simulated seconds for each second of CPU, and the cost of one reception.

The base scenario of C12 with flooding at 100 hosts, then at constant density with 400 and 1,000: the cost of a frame
must stay flat, since it depends on who is near and not on how many hosts there are.

Then two hosts that talk, all events scoped, with 10, 1,000 and 4,000 others ten kilometres away: what a delivery
costs, with the ideal system and the check that only what matches is delivered, must stay flat too.
"""

import math
import time
from pathlib import Path

from msgspec.structs import replace

from roamcast.experiments.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import Scenario, load_scenario, scenario_from

SCENARIO = Path(__file__).parent.parent / "scenarios" / "context-flooding.toml"


def scaled(scenario: Scenario, hosts: int, seconds: float) -> Scenario:
    """The same density and traffic per host on a larger square; publishers stay 20, so load per area falls."""
    group = scenario.hosts[0]
    side_m = 1_000 * math.sqrt(hosts / 100)
    mobility = replace(group.mobility, width_m=side_m, height_m=side_m)
    rules = tuple(replace(rule, share=20 / hosts) for rule in scenario.publish)
    return replace(
        scenario,
        hosts=(replace(group, count=hosts, mobility=mobility),),
        area_m=(side_m, side_m),
        publish=rules,
        subscribe=tuple(replace(rule, share=20 / hosts) for rule in scenario.subscribe),
        seconds=seconds,
    )


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
    base = load_scenario(SCENARIO)
    figures: dict[str, float] = {}
    for hosts, seconds in ((100, 450.0), (400, 100.0), (1_000, 40.0)):
        scenario = scaled(base, hosts, seconds)
        run = Run(scenario, kit_of(scenario.protocol), seed=1)
        started = time.process_time()
        for _ in run.steps():
            pass
        cpu_s = time.process_time() - started
        result = run.result()
        rate = seconds / cpu_s
        per_frame_us = cpu_s / result.transmissions * 1e6
        print(
            f"{hosts:5} hosts, {seconds:5.0f} s: {cpu_s:6.2f} s CPU, {rate:7.1f} simulated s per CPU s, "
            f"{per_frame_us:6.1f} µs a frame, {result.megabits:.1f} Mbit"
        )
        figures[f"simulated_per_cpu_s_{hosts}"] = rate
        figures[f"us_per_frame_{hosts}"] = per_frame_us
    for others in (10, 1_000, 4_000):
        cost_us = delivering_us(others)
        print(f"a pair talking, {others:5} others far away: {cost_us:6.1f} µs a delivery")
        figures[f"us_per_delivery_{others}_far"] = cost_us
    return figures


if __name__ == "__main__":
    main()
