"""What a movement model is worth that was learned from traces (M10, P3; section VII leaves predictions open).

Most clients go from the middle of the mesh to one place, the others anywhere. Spark learned `mesh-habits.json` from
the traces of earlier trips (`write_traces`, then `roamcast pipeline movement`). Clients that tell nothing of their
trips are held against clients that tell the truth, by how many of them go elsewhere.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from roamcast.broker.mesh.grid import Grid
from roamcast.journal import Journal, Move, Run
from roamcast.model.movement import load_model
from roamcast.model.space import Plane
from roamcast.model.values import Velocity
from roamcast.papers.experiment import Claim, Experiment, Figures, Findings, Parameters, Plot, Verdict, between
from roamcast.papers.mesh import Setting, measure, trip_leg
from roamcast.papers.mesh_figures import TRIPS, delay_s, overhead
from roamcast.papers.mesh_predictions import PROBING_S
from roamcast.papers.varied import folder

K = 10
MODEL = "mesh-habits.json"
TRACES = Setting(kind="predictive", k=K, astray=0.2, seed=20_260_101)
"""The trips that the model was learned from: a fifth goes anywhere."""
TRACES_TRIPS = 400
ASTRAY = (0.0, 0.25, 0.5, 1.0)
KNOWN = ("the destination, told", "a learned model", "nothing")


def write_traces(directory: Path) -> None:
    """A journal of earlier trips, for `roamcast pipeline movement --cells 250`."""
    middle = Grid(TRACES.mesh(), Plane()).centre((K, K))
    with Journal(directory, Run("mesh-habits", 0, Plane(), TRACES.seed, "trips"), durable=False) as journal:
        for number in range(TRACES_TRIPS):
            leg = trip_leg(TRACES, number, middle)
            seconds = (leg.end_us - leg.start_us) / 1e6
            east, north = leg.destination.x - leg.start.x, leg.destination.y - leg.start.y
            velocity = Velocity(east / seconds, north / seconds)
            journal.record(Move(f"C{number}", leg.start_us, leg.start, velocity))
            journal.record(Move(f"C{number}", leg.end_us, leg.destination, Velocity(0.0, 0.0)))


def learned(parameters: Parameters, seed: int) -> Figures:
    known = parameters["known"]
    setting = Setting(
        kind="predictive",
        k=K,
        runs=TRIPS,
        seed=seed,
        astray=parameters["astray"],
        tells="destination" if known == KNOWN[0] else "nothing",
    )
    measured = measure(setting, load_model(folder() / MODEL) if known == KNOWN[1] else None)
    return {"overhead": measured.overhead, "delay_s": measured.delay_s, "missing": measured.missing}


def delay_of(known: str, **wanted: Any) -> Callable[[Findings], float]:
    return lambda found: delay_s(found.where(known=known, **wanted))


def later_by_share(findings: Findings) -> Verdict:
    delays = [delay_of(KNOWN[1], astray=astray)(findings) for astray in ASTRAY]
    rises = all(before < after for before, after in pairwise(delays))
    return Verdict(", ".join(f"{each:.2f}" for each in delays), rises)


def later_than_told(findings: Findings) -> float:
    here = findings.where(astray=0.0)
    return delay_of(KNOWN[1])(here) - delay_of(KNOWN[0])(here)


def saved_least(findings: Findings) -> float:
    """Of all shares, in percent of the delay of those of whom nothing is known."""
    here = [findings.where(astray=astray) for astray in ASTRAY]
    return 100 * min(1 - delay_of(KNOWN[1])(each) / delay_of(KNOWN[2])(each) for each in here)


def against_told(findings: Findings) -> float:
    here = findings.where(astray=0.0)
    return overhead(here.where(known=KNOWN[1])) / overhead(here.where(known=KNOWN[0]))


LEARNED = Experiment(
    name="mesh-learned",
    requirement="M10",
    title="A model learned from traces against the true destination",
    section="VII, left to future work",
    about=f"Predictive forwarding, k = {K}, 9 m/s, λ = 4 s. A share of the trips goes anywhere, the others to one "
    f"place. The model was learned on Spark from {TRACES_TRIPS} other trips.",
    measure=learned,
    settings={
        preset: tuple({"known": known, "astray": astray} for known in KNOWN for astray in ASTRAY)
        for preset in ("quick", "full")
    },
    runs={"quick": 3, "full": 20},
    paired=True,
    claims=(
        Claim(
            "lost or doubled, whatever is known",
            "as published (IV.C): “every subscribed event exactly once”",
            between(lambda found: found.total("missing"), 0, 0, ".0f"),
        ),
        Claim(
            "mean delay by the model, all trips as learned, s",
            "our reading: as if told the destination, half a second more at most",
            between(later_than_told, -0.5, 0.5, ".2f"),
        ),
        Claim("mean delay by the model, by share of other trips, s", "our reading: grows with it", later_by_share),
        Claim(
            "of what is later without a model, the model saves at least, %",
            "our reading: something, even where no trip is as learned",
            between(saved_least, 0.1, 100.0, ".0f"),
        ),
        Claim(
            "mean delay by the model, a quarter of the trips elsewhere, s",
            f"our reading: below probing's {PROBING_S:g} s",
            between(delay_of(KNOWN[1], astray=0.25), 0.0, PROBING_S, ".2f"),
            "An event that was sent to a wrong cell waits until its client reports.",
        ),
        Claim(
            "packets for an event by the model, against told destinations",
            "our reading: fewer, since clients that tell nothing report more often",
            between(against_told, 0.0, 1.0, ".2f"),
        ),
    ),
    plots=(
        Plot("astray", "share of trips that go elsewhere", "mean delay, s", delay_s, "known"),
        Plot("astray", "share of trips that go elsewhere", "packets for an event", overhead, "known"),
    ),
)

EXPERIMENTS = (LEARNED,)
