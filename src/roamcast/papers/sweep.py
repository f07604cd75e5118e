"""Runs experiments on Spark: every run of every setting is a task (P4)."""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession

from roamcast.papers import varied
from roamcast.papers.catalogue import EXPERIMENTS
from roamcast.papers.experiment import Experiment, Parameters, Preset, Row
from roamcast.spark.sweep import sweep


class Payload(Struct, frozen=True):
    experiment: str
    parameters: Parameters
    run: int
    root: int


def payloads_of(experiments: Sequence[Experiment], preset: Preset, root: int, runs: int | None) -> list[Payload]:
    """All runs; those of the last settings first, which tend to be the longest."""
    return [
        Payload(experiment.name, parameters, run, root)
        for experiment in experiments
        for parameters in reversed(experiment.settings[preset])
        for run in range(runs or experiment.runs[preset])
    ]


class Work:
    """One run, on whatever machine; the scenario files go along, an executor need not have them."""

    def __init__(self) -> None:
        self.texts = varied.all_texts()

    def __call__(self, encoded: str) -> str:
        varied.ship(self.texts)
        return measured(msgspec.json.decode(encoded, type=Payload))


def measured(payload: Payload) -> str:
    experiment = EXPERIMENTS[payload.experiment]
    figures = experiment.measure(payload.parameters, experiment.seed(payload.parameters, payload.run, payload.root))
    endless = [name for name, value in figures.items() if not math.isfinite(value)]
    if endless:
        raise ValueError(f"the run has no {', '.join(endless)}")
    return msgspec.json.encode({key: float(value) for key, value in figures.items()}).decode()


def run_all(
    spark: SparkSession,
    experiments: Sequence[Experiment],
    preset: Preset,
    root: int = 0,
    runs: int | None = None,
) -> Iterator[Row]:
    """Every run of the experiments, in the order of their settings."""
    payloads = payloads_of(experiments, preset, root, runs)
    answers = dict(sweep(spark, Work(), [msgspec.json.encode(each).decode() for each in payloads]))
    rows = [
        Row(
            payload.experiment,
            payload.parameters,
            payload.run,
            EXPERIMENTS[payload.experiment].seed(payload.parameters, payload.run, root),
            {} if answers[number].error else figures_of(answers[number].answer),
            answers[number].error,
            answers[number].cpu_s,
        )
        for number, payload in enumerate(payloads)
    ]
    yield from sorted(rows, key=place_of(experiments, preset))


def figures_of(answer: str) -> dict[str, float]:
    return msgspec.json.decode(answer, type=dict[str, float])


def place_of(experiments: Sequence[Experiment], preset: Preset) -> "Place":
    return Place({each.name: list(each.settings[preset]) for each in experiments})


class Place:
    """Where a row stands: by experiment, setting and run."""

    def __init__(self, settings: Mapping[str, list[Parameters]]) -> None:
        self.settings = settings
        self.names = list(settings)

    def __call__(self, row: Row) -> tuple[int, int, int]:
        return self.names.index(row.experiment), self.settings[row.experiment].index(row.parameters), row.run
