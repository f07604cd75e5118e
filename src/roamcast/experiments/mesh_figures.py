"""The mesh paper's experiments (M9, section V): overhead and delay of predictive forwarding and its baselines."""

import math
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
)
from roamcast.experiments.mesh import Setting, closed_form, measure, trip_leg
from roamcast.model.values import Point

TRIPS = 100
"""In one run; figures are means of the means of trips."""
SPEEDS_MPS = (3.0, 6.0, 9.0, 12.0, 15.0)
RING_FACTOR = (math.sqrt(2) + math.log(math.sqrt(2) + 1)) / 2
"""The mean distance to ring i in units of i cells, 1.148; equation (4) has only the second part of it, 0.881."""


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
        f"(2k + 1) / 6 = {closed_form(k):.2f}, within 2 %",
        about(
            lambda found: overhead(found.where(kind="predictive", k=k)), closed_form(k), relative=0.02, shown=".2f"
        ),
    )


def farthest_off(findings: Findings) -> float:
    """Of all speeds and rates, the overhead farthest from the closed form, in percent of it."""
    off = []
    for k in (10, 20):
        here = findings.where(kind="predictive", k=k)
        for speed_mps in here.values("speed_mps"):
            for interval_s in here.values("interval_s"):
                one = here.where(speed_mps=speed_mps, interval_s=interval_s)
                off += [abs(overhead(one) / closed_form(k) - 1)] if one.rows else []
    return 100 * max(off)


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
    section="V, figures 4 and 5",
    about="Packets from broker to broker for each event, on trips of clients across a square of (2k + 1)² cells. A "
    f"run is {TRIPS} trips, so the full preset has the paper's 10,000 for each setting.",
    measure=trips,
    settings={
        "quick": (*settings(ALL, (10,), (3.0, 15.0), (4.0, 8.0)), *settings(("predictive",), (20,), (9.0,), (4.0,))),
        "full": settings(ALL, (10, 20), SPEEDS_MPS, (4.0, 8.0)),
    },
    runs={"quick": 2, "full": 100},
    claims=(
        closed(10),
        closed(20),
        Claim(
            "overhead at every speed and λ, % from the closed form",
            "does not depend on them; at most 2",
            between(farthest_off, 0.0, 2.0, ".1f"),
        ),
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
        *(
            Plot(
                "speed_mps",
                "speed, m/s",
                f"figure 4: packets for an event, k = {k}, λ = {interval_s:g} s",
                overhead,
                "kind",
                where={"k": k, "interval_s": interval_s},
                paper=((9.0, closed_form(k)),),
            )
            for k in (10, 20)
            for interval_s in (4.0, 8.0)
        ),
        Plot(
            "speed_mps",
            "speed, m/s",
            "figure 5: delay at k = 10, λ = 4 s, in s",
            delay_s,
            "kind",
            where={"k": 10, "interval_s": 4.0},
            logarithmic=True,
        ),
    ),
)


# V.A: what the closed form rests on.


def destinations(parameters: Parameters, seed: int) -> Figures:
    """Of trips to destinations: the mean number of cells, and the mean distance in units of as many cells."""
    setting = Setting(kind="predictive", k=parameters["k"], runs=TRIPS, seed=seed)
    ends = [trip_leg(setting, number, Point(0.0, 0.0)).destination for number in range(setting.runs)]
    rings = [round(max(abs(to.x), abs(to.y)) / setting.cell_m) for to in ends]
    factors = [
        math.hypot(to.x, to.y) / (ring * setting.cell_m) for to, ring in zip(ends, rings, strict=True) if ring > 0
    ]
    return {"cells": sum(rings) / len(rings), "factor": sum(factors) / len(factors)}


def mean_cells(k: int) -> Claim:
    wanted = (2 * k + 1) / 3
    return Claim(
        f"cells on the way to a destination, k = {k}",
        f"equation (2): (2k + 1) / 3 = {wanted:.2f}, within 1 %",
        about(lambda found: found.where(k=k).mean("cells"), wanted, relative=0.01, shown=".2f"),
    )


DESTINATIONS = Experiment(
    name="mesh-destinations",
    requirement="M9",
    title="How far clients go",
    section="V.A, equations (2) and (4)",
    about=f"Destinations in a square of (2k + 1)² cells; a run has {TRIPS}, so the full preset the paper's 10,000.",
    measure=destinations,
    settings={preset: tuple({"k": k} for k in (10, 20)) for preset in ("quick", "full")},
    runs={"quick": 20, "full": 100},
    claims=(
        mean_cells(10),
        mean_cells(20),
        Claim(
            "distance to a destination i cells away, in i cells",
            "equation (4): ln(√2 + 1) = 0.881, within 1 %",
            about(lambda found: found.mean("factor"), math.log(math.sqrt(2) + 1), relative=0.01, shown=".3f"),
            f"Equation (4) is off: the mean over a square ring is {RING_FACTOR:.3f}. All that (6) needs is that it "
            "grows with i.",
        ),
        Claim(
            "the same against the mean over a square ring",
            f"(√2 + ln(√2 + 1)) / 2 = {RING_FACTOR:.3f}, within 1 %",
            about(lambda found: found.mean("factor"), RING_FACTOR, relative=0.01, shown=".3f"),
        ),
    ),
)

EXPERIMENTS = (DESTINATIONS, MESH)
