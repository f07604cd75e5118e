"""What a sweep on Spark costs beyond its simulations, and whether it uses both cores (P4).

The same runs of the base scenario of C12, each about a second long, in a plain loop and as a sweep on `local[2]` with
its session open. Other work on the machine makes wall clocks lie, so the overhead is given in CPU as well: everything
that driver, Spark and workers have used, over what the loop has used. Used of the cores is the CPU of the sweep over
its wall clock on two cores; on an idle machine it should be near 1, and the two overheads near each other.

Then sweeps of runs that do nothing, few and many: what a sweep costs once, and what each of its runs costs.

    python -m bench sweep
"""

import time
from typing import Any

from bench.oracle import cpu_s
from roamcast.experiments.varied import all_texts, run_varied, ship
from roamcast.pipeline.session import open_session
from roamcast.pipeline.sweep import sweep

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


def main() -> dict[str, float]:
    work, seeds = Simulation(), [str(seed) for seed in range(1, RUNS + 1)]
    spark = open_session(f"local[{CORES}]")
    # Workers are there, and have imported everything, as they have after the first experiment of many.
    list(sweep(spark, work, seeds[: 2 * CORES]))
    loop = measured(lambda: [work(seed) for seed in seeds])
    swept = measured(lambda: answers_of(spark, work, seeds))
    nothing = costs_of_nothing(spark)
    spark.stop()
    assert loop.answers == swept.answers, "the sweep came to something else than the loop"
    figures = {
        "loop_wall_s": loop.wall_s,
        "loop_cpu_s": loop.cpu_s,
        "sweep_wall_s": swept.wall_s,
        "sweep_cpu_s": swept.cpu_s,
        "overhead_cpu": swept.cpu_s / loop.cpu_s - 1,
        "overhead_wall": CORES * swept.wall_s / loop.wall_s - 1,
        "used_of_cores": swept.cpu_s / (CORES * swept.wall_s),
    }
    print(f"{RUNS} runs in a loop: {loop.wall_s:.1f} s, {loop.cpu_s:.1f} s of CPU")
    print(f"the same as a sweep on {CORES} cores: {swept.wall_s:.1f} s, {swept.cpu_s:.1f} s of CPU")
    print(
        f"overhead {figures['overhead_cpu']:.1%} of CPU, {figures['overhead_wall']:.1%} of time; "
        f"{figures['used_of_cores']:.0%} of the cores used"
    )
    print(
        f"a sweep of nothing: {nothing['once_cpu_s']:.2f} s of CPU once, "
        f"and {nothing['each_cpu_ms']:.1f} ms for each run"
    )
    return figures | nothing


def answers_of(spark: Any, work: Any, payloads: list[str]) -> list[str]:
    answers = dict(sweep(spark, work, payloads))
    return [answers[number].answer for number in range(len(payloads))]


def nothing_done(payload: str) -> str:
    return payload


def costs_of_nothing(spark: Any) -> dict[str, float]:
    """The least of some repetitions."""
    few_s, many_s = (min(nothing_s(spark, count) for _ in range(REPETITIONS)) for count in (FEW, MANY))
    each_s = (many_s - few_s) / (MANY - FEW)
    return {"once_cpu_s": few_s - FEW * each_s, "each_cpu_ms": 1_000 * each_s}


def nothing_s(spark: Any, count: int) -> float:
    return measured(lambda: answers_of(spark, nothing_done, [""] * count)).cpu_s


class Measured:
    def __init__(self, answers: list[str], wall_s: float, used_s: float) -> None:
        self.answers = answers
        self.wall_s = wall_s
        self.cpu_s = used_s


def measured(do: Any) -> Measured:
    started, used = time.perf_counter(), cpu_s()
    answers = do()
    return Measured(answers, time.perf_counter() - started, cpu_s() - used)


if __name__ == "__main__":
    main()
