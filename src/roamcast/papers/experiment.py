"""What an experiment is: settings to run, what one run measures, and what the paper claims of it (P4).

An experiment never runs anything itself. `sweep.py` runs its settings, as many times each as its preset says, on
Spark; `report.py` holds the findings against the claims. The seed of a run comes from the experiment, its setting and
the number of the run, never from where it runs: results do not depend on the number of partitions or executors.
"""

import hashlib
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

Preset: TypeAlias = Literal["quick", "full"]
"""Minutes on two cores, or the papers' number of runs."""
Parameters: TypeAlias = dict[str, Any]
Figures: TypeAlias = dict[str, float]
Measure: TypeAlias = Callable[[Parameters, int], Figures]
"""One run: its parameters and its seed in, its figures out."""


class Row(Struct, frozen=True):
    """What one run came to; `error` instead of figures if it failed twice."""

    experiment: str
    parameters: Parameters
    run: int
    seed: int
    figures: Figures = {}
    error: str = ""
    cpu_s: float = 0.0


class Findings:
    """The rows of one experiment, and ways to ask them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = [row for row in rows if not row.error]

    def where(self, **wanted: Any) -> "Findings":
        return Findings(
            row for row in self.rows if all(row.parameters.get(key) == value for key, value in wanted.items())
        )

    def mean(self, figure: str) -> float:
        """Of the runs that have this figure; not a number if none has."""
        values = [row.figures[figure] for row in self.rows if figure in row.figures]
        return sum(values) / len(values) if values else float("nan")

    def total(self, figure: str) -> float:
        """Over the runs; not a number if there was none, so that no claim holds on nothing."""
        return sum(row.figures.get(figure, 0.0) for row in self.rows) if self.rows else float("nan")

    def share(self, part: str, whole: str) -> float:
        """Pooled over the runs: a run with more of the whole counts more."""
        whole_total = self.total(whole)
        return self.total(part) / whole_total if whole_total > 0 else float("nan")

    def along(self, name: str) -> list[tuple[float, float]]:
        """Figures called `name@x`: each x with the mean over the runs that have it, in order."""
        prefix = f"{name}@"
        names = {each for row in self.rows for each in row.figures if each.startswith(prefix)}
        return sorted((float(each.removeprefix(prefix)), self.mean(each)) for each in names)

    def values(self, parameter: str) -> list[Any]:
        """The different values of a parameter, in the order of the settings."""
        return list(dict.fromkeys(row.parameters[parameter] for row in self.rows if parameter in row.parameters))


def points_apart(values: Iterable[float]) -> float:
    """How far shares are apart, in points; not a number if there are fewer than two, or one is none."""
    found = list(values)
    if len(found) < 2 or not all(math.isfinite(each) for each in found):
        return math.nan
    return 100 * (max(found) - min(found))


class Verdict(Struct, frozen=True):
    measured: str
    holds: bool


class Claim(Struct, frozen=True):
    what: str
    paper: str
    """Its value or its shape in the paper, and what we accept as the same."""
    judge: Callable[[Findings], Verdict]
    reason: str = ""
    """Why it differs, where it is known to."""


class Plot(Struct, frozen=True):
    """A line for each value of `series`: `y` of the findings against the parameter `x`. Where the values of `x` are
    words, bars. With `along`, what is drawn are the figures called `along@x`, a line for each name in it."""

    x: str
    x_title: str
    y_title: str
    y: Callable[[Findings], float] = lambda _: math.nan
    series: str = ""
    along: tuple[str, ...] = ()
    paper: tuple[tuple[Any, float], ...] = ()
    """Points that the paper gives in numbers."""
    where: Parameters = {}
    """Only these settings."""
    logarithmic: bool = False


def apart(values: Iterable[float]) -> float:
    """The largest distance from the mean, in percent of it; not a number if there are fewer than two values."""
    found = list(values)
    if len(found) < 2 or not all(math.isfinite(each) for each in found):
        return math.nan
    middle = sum(found) / len(found)
    return 100 * max(abs(each - middle) for each in found) / middle


class Experiment(Struct, frozen=True):
    name: str
    requirement: str
    title: str
    section: str
    measure: Measure
    settings: dict[Preset, tuple[Parameters, ...]]
    runs: dict[Preset, int]
    claims: tuple[Claim, ...]
    plots: tuple[Plot, ...] = ()
    about: str = ""
    paired: bool = False
    """Whether a run has the same seed in every setting, so that settings are compared on the same world."""
    absent: Callable[[], str] = lambda: ""
    """Why it cannot be run here: what is missing, and how to get it; empty if nothing is."""

    def seed(self, parameters: Parameters, run: int, root: int = 0) -> int:
        return seed_of(self.name, {} if self.paired else parameters, run, root)


def seed_of(experiment: str, parameters: Parameters, run: int, root: int = 0) -> int:
    """The same for the same run, wherever it runs; different settings and runs have nothing in common."""
    named = msgspec.json.encode([root, experiment, parameters, run], order="deterministic")
    return int.from_bytes(hashlib.sha256(named).digest()[:4], "big")


def within(measured: float, wanted: float, relative: float = 0.0, absolute: float = 0.0) -> bool:
    return abs(measured - wanted) <= relative * abs(wanted) + absolute


def about(
    value: Callable[[Findings], float],
    wanted: float,
    relative: float = 0.0,
    absolute: float = 0.0,
    shown: str = ".3g",
) -> Callable[[Findings], Verdict]:
    """The claim that a value is this one, give or take."""

    def judge(findings: Findings) -> Verdict:
        measured = value(findings)
        return Verdict(format(measured, shown), within(measured, wanted, relative, absolute))

    return judge


def between(
    value: Callable[[Findings], float], low: float, high: float = float("inf"), shown: str = ".3g"
) -> Callable[[Findings], Verdict]:
    """The claim that a value lies in a range; one that is not a number does not."""

    def judge(findings: Findings) -> Verdict:
        measured = value(findings)
        return Verdict(format(measured, shown), low <= measured <= high)

    return judge
