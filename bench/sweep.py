"""What a sweep on Spark costs beyond its simulations, and whether it uses both cores (P4).

Runs of the base scenario of C12, each about a second long, as a sweep on `local[2]` with its session open and its
workers started, as they are after the first experiment of many. Every run tells the CPU that its simulation took, so
the overhead is what driver, Spark and workers have used beyond that; a loop to compare with would run at another
moment, and this kind of machine is a third faster at one moment than at the next. In time, the overhead is what is
left of two cores that are busy with nothing but simulations.

Then sweeps of runs that do nothing, few and many: what a sweep costs once, and what each of its runs costs.

    python -m bench sweep
"""

import time
from typing import Any

from bench import interrupts
from bench.oracle import processes
from roamcast.papers.varied import all_texts, run_varied, ship
from roamcast.spark.session import open_session
from roamcast.spark.sweep import sweep

TAKES = "some minutes"
NEEDS = {"java": "apt-get install default-jre-headless"}
RUNS = 60
CORES = 2
CHANGES: dict[str, Any] = {"seconds": 100.0}
FEW, MANY = 2, 202
REPETITIONS = 3


class Simulation:
    """One run; its seed is the payload."""

    def __init__(self) -> None:
        self.texts = all_texts()

    def __call__(self, seed: str) -> str:
        ship(self.texts)
        return str(run_varied("context-base", CHANGES, int(seed)).transmissions)


class Measured:
    def __init__(self, spark: Any, work: Any, payloads: list[str]) -> None:
        started, used_s = time.perf_counter(), cpu_s()
        answers = [answer for _, answer in sweep(spark, work, payloads)]
        self.wall_s, self.cpu_s = time.perf_counter() - started, cpu_s() - used_s
        self.inside_s = sum(each.cpu_s for each in answers)
        assert not any(each.error for each in answers), "a run failed"


def cpu_s() -> float:
    """Of driver, Java and workers, so far."""
    return sum(each[1] for each in processes().values())


def main() -> dict[str, float]:
    work, seeds = Simulation(), [str(seed) for seed in range(1, RUNS + 1)]
    print("the session opens, and its workers start", flush=True)
    with interrupts.kept():
        spark = open_session(f"local[{CORES}]")
    Measured(spark, work, seeds[: 2 * CORES])
    print(f"a sweep of {RUNS} runs", flush=True)
    swept = Measured(spark, work, seeds)
    print(f"sweeps of {FEW} and of {MANY} runs that do nothing, {REPETITIONS} times each", flush=True)
    nothing = costs_of_nothing(spark)
    spark.stop()
    figures = {
        "wall_s": swept.wall_s,
        "cpu_s": swept.cpu_s,
        "simulations_cpu_s": swept.inside_s,
        "overhead_cpu": swept.cpu_s / swept.inside_s - 1,
        "overhead_wall": CORES * swept.wall_s / swept.inside_s - 1,
        "used_of_cores": swept.cpu_s / (CORES * swept.wall_s),
    }
    print(
        f"{RUNS} runs on {CORES} cores: {swept.wall_s:.1f} s, {swept.cpu_s:.1f} s of CPU, "
        f"{swept.inside_s:.1f} s of it the simulations'"
    )
    print(
        f"overhead {figures['overhead_cpu']:.1%} of CPU, {figures['overhead_wall']:.1%} of time; "
        f"{figures['used_of_cores']:.0%} of the cores used"
    )
    print(
        f"a sweep of nothing: {nothing['once_cpu_s']:.2f} s of CPU once, "
        f"and {nothing['each_cpu_ms']:.1f} ms for each run"
    )
    return figures | nothing


def nothing_done(payload: str) -> str:
    return payload


def costs_of_nothing(spark: Any) -> dict[str, float]:
    """The least of some repetitions."""
    few_s, many_s = (
        min(Measured(spark, nothing_done, [""] * count).cpu_s for _ in range(REPETITIONS)) for count in (FEW, MANY)
    )
    each_s = (many_s - few_s) / (MANY - FEW)
    return {"once_cpu_s": few_s - FEW * each_s, "each_cpu_ms": 1_000 * each_s}


if __name__ == "__main__":
    main()
