"""Context-aware publish/subscribe against the figures of section 4.2 (C12): delivery rate, cost, and CPU time.

Each line is one setting of the base scenario, pooled over some seeds: the share of the ideal system's deliveries that
arrived, megabits on the air in a run, in real bytes and with 128 bytes a frame, and simulated seconds for each second
of CPU. `ours` is the recommended preset with void recovery (C13), all others are the paper's.
"""

import sys
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench import progress
from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Result, run_scenario
from roamcast.sim.scenario import Scenario, load_scenario

TAKES = "most of an hour"
SCENARIOS = Path(__file__).parent.parent / "scenarios"
SEEDS = range(1, 6)


def varied(
    scenario: Scenario,
    *,
    hosts: int = 100,
    per_km2: float = 100.0,
    speed_max_mps: float = 10.0,
    domains: float = 0.5,
    preset: str = "paper",
) -> Scenario:
    """The base scenario with one of its parameters changed; the share of publishers and subscribers stays."""
    side_m = 1_000 * (hosts / per_km2) ** 0.5
    group = scenario.hosts[0]
    mobility = replace(group.mobility, width_m=side_m, height_m=side_m, speed_max_mps=speed_max_mps)
    subscribe = tuple(
        replace(rule, publishers=replace(rule.publishers, share=domains))
        for rule in scenario.subscribe
        if rule.publishers is not None
    )
    return replace(
        scenario,
        area_m=(side_m, side_m),
        hosts=(replace(group, count=hosts, mobility=mobility),),
        subscribe=subscribe,
        protocol=scenario.protocol
        if scenario.protocol["kind"] == "flooding"
        else {"kind": "context", "preset": preset},
    )


def measure(name: str, scenario: Scenario, seeds: range = SEEDS) -> dict[str, float]:
    started = time.process_time()
    results: list[Result] = []
    for seed in seeds:
        print(f"{name}: run {seed} of {len(seeds)}", flush=True)
        results.append(run_scenario(scenario, kit_of(scenario.protocol, scenario.radio), seed))
    cpu_s = time.process_time() - started
    expected = sum(result.expected for result in results)
    arrived = expected - sum(result.missed for result in results)
    requests = sum(result.messages.get("matching-request", 0) for result in results)
    figures = {
        "delivery_rate": arrived / max(1, expected),
        "ideal_deliveries": float(expected),
        "unwanted": float(sum(result.unwanted for result in results)),
        "megabits": sum(result.megabits for result in results) / len(results),
        "megabits_128": sum(result.transmissions for result in results) * 128 * 8 / 1e6 / len(results),
        "request_share": requests / sum(result.transmissions for result in results),
        "simulated_per_cpu_s": scenario.seconds * len(results) / cpu_s,
    }
    print(
        f"{name:24} delivered {figures['delivery_rate']:.3f} of {expected:4}, {figures['megabits']:6.1f} Mbit "
        f"({figures['megabits_128']:.1f} with 128 bytes a frame), "
        f"requests {figures['request_share']:.1%}, {figures['simulated_per_cpu_s']:5.0f} simulated s per CPU s"
    )
    sys.stdout.flush()
    return {f"{name}.{key}": value for key, value in figures.items()}


SETTINGS: dict[str, dict[str, Any]] = {
    "base": {},
    "speed-1": {"speed_max_mps": 1.0},
    "speed-5": {"speed_max_mps": 5.0},
    "speed-20": {"speed_max_mps": 20.0},
    "scale-400": {"hosts": 400},
    "density-44": {"per_km2": 44.0},
    "density-60": {"per_km2": 60.0},
    "density-80": {"per_km2": 80.0},
    "density-200": {"per_km2": 200.0},
    "domains-0": {"domains": 0.0},
    "domains-100": {"domains": 1.0},
    "ours": {"preset": "recommended"},
    "ours-density-44": {"preset": "recommended", "per_km2": 44.0},
    "ours-density-60": {"preset": "recommended", "per_km2": 60.0},
}


def main() -> dict[str, float]:
    base = load_scenario(SCENARIOS / "context-base.toml")
    figures: dict[str, float] = {}
    for name, changes in SETTINGS.items():
        # Four times the hosts make eight times the work: two runs have as many deliveries as eight of the others.
        figures |= measure(name, varied(base, **changes), range(1, 3) if name == "scale-400" else SEEDS)
        progress.note(figures)
    figures |= measure("flooding", load_scenario(SCENARIOS / "context-flooding.toml"), range(1, 2))
    return figures


if __name__ == "__main__":
    main()
