"""The mesh paper's experiments (M9, section V): overhead and delay of predictive forwarding and its baselines."""

from typing import Any

from roamcast.experiments.experiment import (
    Claim,
    Experiment,
    Figures,
    Findings,
    Parameters,
    Plot,
    about,
    between,
    points_apart,
)
from roamcast.experiments.mesh import Setting, closed_form, measure

TRIPS = 100
"""In one run; figures are means of the means of trips."""


def trips(parameters: Parameters, seed: int) -> Figures:
    setting = Setting(
        kind=parameters["kind"],
        k=parameters.get("k", 10),
        speed_mps=parameters.get("speed_mps", 9.0),
        interval_s=parameters.get("interval_s", 4.0),
        runs=TRIPS,
        seed=seed,
    )
    measured = measure(setting)
    return {
        "overhead": measured.overhead,
        "delay_s": measured.delay_s,
        "missing": measured.missing,
        "events": measured.events,
    }


def overhead(findings: Findings) -> float:
    return findings.mean("overhead")


def delay_s(findings: Findings) -> float:
    return findings.mean("delay_s")


def closed(k: int) -> Claim:
    return Claim(
        f"overhead of predictive forwarding at k = {k}",
        f"(2k + 1) / 6 = {closed_form(k):.2f}, within 5 %",
        about(
            lambda found: overhead(found.where(kind="predictive", k=k)), closed_form(k), relative=0.05, shown=".2f"
        ),
    )


def spread(parameter: str) -> Any:
    """How far the values of a parameter are apart in overhead, in percent of the mean."""

    def measured(findings: Findings) -> float:
        ours = findings.where(kind="predictive", k=10)
        return points_apart(
            overhead(ours.where(**{parameter: value})) for value in ours.values(parameter)
        ) / overhead(ours)

    return measured


def against(kind: str, **wanted: Any) -> Any:
    def measured(findings: Findings) -> float:
        here = findings.where(**wanted)
        return overhead(here.where(kind=kind)) / overhead(here.where(kind="predictive"))

    return measured


def saving(interval_s: float) -> Any:
    return lambda found: 100 * (1 - 1 / against("probing", k=10, interval_s=interval_s)(found))


def later(findings: Findings) -> float:
    here = findings.where(k=10)
    return delay_s(here.where(kind="probing")) - delay_s(here.where(kind="predictive"))


def settings(
    kinds: tuple[str, ...], ks: tuple[int, ...], speeds_mps: tuple[float, ...], intervals_s: tuple[float, ...]
) -> tuple[Parameters, ...]:
    return tuple(
        {"kind": kind, "k": k, "speed_mps": speed_mps, "interval_s": interval_s}
        for kind in kinds
        for k in ks
        for speed_mps in speeds_mps
        for interval_s in intervals_s
    )


ALL = ("predictive", "probing", "batch")
MESH = Experiment(
    name="mesh",
    requirement="M9",
    title="Overhead and delay of forwarding to where the client will be",
    section="V, figures 5 to 8",
    about="Packets from broker to broker for each event, on trips of clients across a square of (2k + 1)² cells.",
    measure=trips,
    settings={
        "quick": (*settings(ALL, (10,), (9.0, 18.0), (4.0, 8.0)), *settings(("predictive",), (20,), (9.0,), (4.0,))),
        "full": (
            *settings(ALL, (10,), (9.0, 13.0, 18.0), (4.0, 8.0)),
            *settings(ALL, (20,), (9.0, 18.0), (4.0, 8.0)),
        ),
    },
    runs={"quick": 2, "full": 5},
    claims=(
        closed(10),
        closed(20),
        Claim("overhead at other speeds", "the same, within 4 %", between(spread("speed_mps"), 0.0, 4.0, ".1f")),
        Claim("overhead at other rates", "the same, within 4 %", between(spread("interval_s"), 0.0, 4.0, ".1f")),
        Claim(
            "batch forwarding against predictive",
            "twice, within 2 %",
            about(against("batch", k=10), 2.0, relative=0.02, shown=".2f"),
        ),
        Claim("saved against probing, λ = 4 s", "a third; 28 to 37 %", between(saving(4.0), 28.0, 37.0, ".1f")),
        Claim("saved against probing, λ = 8 s", "a half; 44 to 53 %", between(saving(8.0), 44.0, 53.0, ".1f")),
        Claim("later than predictive: probing", "about 5 s; 4.8 to 5.1 s", between(later, 4.8, 5.1, ".2f")),
        Claim("lost or doubled", "nothing", between(lambda found: found.total("missing"), 0, 0, ".0f")),
    ),
    plots=(
        Plot(
            "interval_s",
            "λ, s between events",
            "overhead at k = 10",
            lambda found: overhead(found.where(k=10)),
            "kind",
        ),
        Plot(
            "interval_s",
            "λ, s between events",
            "delay at k = 10, s",
            lambda found: delay_s(found.where(k=10)),
            "kind",
        ),
    ),
)

EXPERIMENTS = (MESH,)
