"""How fast the simulator is: simulated seconds for each second of CPU, and the cost of one reception.

The base scenario of C12 with flooding at 100 hosts, then at constant density with 400 and 1,000: the cost of a frame
must stay flat, since it depends on who is near and not on how many hosts there are.
"""

import math
import time
from pathlib import Path

from msgspec.structs import replace

from roamcast.experiments.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import Scenario, load_scenario

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
        result = run.finish()
        rate = seconds / cpu_s
        per_frame_us = cpu_s / result.transmissions * 1e6
        print(
            f"{hosts:5} hosts, {seconds:5.0f} s: {cpu_s:6.2f} s CPU, {rate:7.1f} simulated s per CPU s, "
            f"{per_frame_us:6.1f} µs a frame, {result.megabits:.1f} Mbit"
        )
        figures[f"simulated_per_cpu_s_{hosts}"] = rate
        figures[f"us_per_frame_{hosts}"] = per_frame_us
    return figures


if __name__ == "__main__":
    main()
