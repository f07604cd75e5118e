"""Runs experiments on Spark: every run of every setting is a task (P4)."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession

from roamcast.experiments import varied
from roamcast.experiments.catalogue import EXPERIMENTS
from roamcast.experiments.experiment import Experiment, Parameters, Preset, Row, seed_of
from roamcast.pipeline.sweep import sweep


class Payload(Struct, frozen=True):
    experiment: str
    parameters: Parameters
    run: int
    root: int
    scenarios: dict[str, str]
    """The texts of the scenario files: an executor need not have them."""


def payloads_of(experiments: Iterable[Experiment], preset: Preset, root: int, runs: int | None) -> list[Payload]:
    """All runs; those of the last settings first, which tend to be the longest."""
    texts = varied.all_texts()
    return [
        Payload(experiment.name, parameters, run, root, texts)
        for experiment in experiments
        for parameters in reversed(experiment.settings[preset])
        for run in range(runs or experiment.runs[preset])
    ]


def work(encoded: str) -> str:
    """One run, on whatever machine."""
    payload = msgspec.json.decode(encoded, type=Payload)
    varied.ship(payload.scenarios)
    seed = seed_of(payload.experiment, payload.parameters, payload.run, payload.root)
    figures = EXPERIMENTS[payload.experiment].measure(payload.parameters, seed)
    return msgspec.json.encode({key: float(value) for key, value in figures.items()}).decode()


def run_all(
    spark: SparkSession,
    experiments: Iterable[Experiment],
    preset: Preset,
    root: int = 0,
    runs: int | None = None,
) -> Iterator[Row]:
    """Every run of the experiments, in the order of their settings."""
    payloads = payloads_of(experiments, preset, root, runs)
    answers = dict(sweep(spark, work, [msgspec.json.encode(each).decode() for each in payloads]))
    rows = [
        Row(
            payload.experiment,
            payload.parameters,
            payload.run,
            seed_of(payload.experiment, payload.parameters, payload.run, root),
            {} if answers[number].error else figures_of(answers[number].answer),
            answers[number].error,
            answers[number].cpu_s,
        )
        for number, payload in enumerate(payloads)
    ]
    yield from sorted(rows, key=place_of(experiments, preset))


def figures_of(answer: str) -> dict[str, float]:
    return msgspec.json.decode(answer, type=dict[str, float])


def place_of(experiments: Iterable[Experiment], preset: Preset) -> "Place":
    return Place({each.name: list(each.settings[preset]) for each in experiments})


class Place:
    """Where a row stands: by experiment, setting and run."""

    def __init__(self, settings: Mapping[str, list[Parameters]]) -> None:
        self.settings = settings
        self.names = list(settings)

    def __call__(self, row: Row) -> tuple[int, int, int]:
        return self.names.index(row.experiment), self.settings[row.experiment].index(row.parameters), row.run
