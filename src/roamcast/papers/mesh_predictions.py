"""What wrong predictions cost in a mesh (M10; section VII leaves it open)."""

from collections.abc import Callable
from itertools import pairwise

from roamcast.papers.experiment import Claim, Experiment, Figures, Findings, Parameters, Plot, Verdict, between
from roamcast.papers.mesh import CELL_M, Setting, closed_form, measure
from roamcast.papers.mesh_figures import TRIPS, delay_s, overhead

K = 10
ERRORS_M = (0.0, CELL_M / 2, CELL_M, 2 * CELL_M, 4 * CELL_M)
DETOURS_M = (0.0, CELL_M, 2 * CELL_M, 4 * CELL_M)
PROBING_S = 5.0


def mistaken(parameters: Parameters, seed: int) -> Figures:
    measured = measure(
        Setting(
            kind="predictive",
            k=K,
            runs=TRIPS,
            seed=seed,
            noise_m=parameters["error_m"],
            detour_m=parameters["detour_m"],
            tells=parameters["tells"],
        )
    )
    return {"overhead": measured.overhead, "delay_s": measured.delay_s, "missing": measured.missing}


def told(figure: Callable[[Findings], float], error_m: float) -> Callable[[Findings], float]:
    return lambda found: figure(found.where(tells="destination", error_m=error_m, detour_m=0.0))


def roundabout(figure: Callable[[Findings], float], detour_m: float) -> Callable[[Findings], float]:
    return lambda found: figure(found.where(tells="destination", error_m=0.0, detour_m=detour_m))


def later_by_error(findings: Findings) -> Verdict:
    delays = [told(delay_s, error_m)(findings) for error_m in ERRORS_M]
    return Verdict(
        ", ".join(f"{each:.2f}" for each in delays), all(before < after for before, after in pairwise(delays))
    )


def later_by_detour(findings: Findings) -> Verdict:
    delays = [roundabout(delay_s, detour_m)(findings) for detour_m in DETOURS_M]
    return Verdict(
        ", ".join(f"{each:.2f}" for each in delays), all(before < after for before, after in pairwise(delays))
    )


def dearest(findings: Findings) -> float:
    """Of all errors up to two cells, the overhead against the closed form."""
    return max(told(overhead, error_m)(findings) for error_m in ERRORS_M[:-1]) / closed_form(K)


WRONG = Experiment(
    name="mesh-predictions",
    requirement="M10",
    title="What wrong predictions cost",
    section="VII, left to future work",
    about=f"Predictive forwarding, k = {K}, 9 m/s, λ = 4 s. Clients tell a destination that is wrong by a normally "
    "distributed error, east and north, of so many metres; or go by a place so many metres beside the straight way; "
    "or tell none, so that brokers go by the velocity.",
    measure=mistaken,
    settings={
        preset: (
            *({"tells": "destination", "error_m": error_m, "detour_m": 0.0} for error_m in ERRORS_M),
            *({"tells": "destination", "error_m": 0.0, "detour_m": detour_m} for detour_m in DETOURS_M[1:]),
            {"tells": "velocity", "error_m": 0.0, "detour_m": 0.0},
        )
        for preset in ("quick", "full")
    },
    runs={"quick": 2, "full": 20},
    claims=(
        Claim(
            "lost or doubled, however wrong",
            "as published (IV.C): “every subscribed event exactly once”",
            between(lambda found: found.total("missing"), 0, 0, ".0f"),
        ),
        Claim("mean delay by error, s", "our reading: grows with the error", later_by_error),
        Claim("mean delay by detour, s", "our reading: grows with the detour", later_by_detour),
        Claim(
            "mean delay with an error of half a cell, s",
            f"our reading: below probing's {PROBING_S:g} s",
            between(told(delay_s, CELL_M / 2), 0.0, PROBING_S, ".2f"),
        ),
        Claim(
            "mean delay with an error of a cell, s",
            f"our reading: below probing's {PROBING_S:g} s",
            between(told(delay_s, CELL_M), 0.0, PROBING_S, ".2f"),
            "What did not find its client waits for the client's next report.",
        ),
        Claim(
            "overhead with errors up to two cells, against the closed form",
            "our reading: not above it, within 10 %",
            between(dearest, 0.0, 1.1, ".2f"),
        ),
        Claim(
            "overhead by velocity alone, against the closed form",
            "our reading: as with a destination, within 10 %",
            between(lambda found: overhead(found.where(tells="velocity")) / closed_form(K), 0.9, 1.1, ".2f"),
            "A trip without an end makes its client report every `report_s`, so that its serving broker follows it. "
            "What these handovers cost is not in this figure.",
        ),
    ),
    plots=(
        *(
            Plot(x, title, y_title, y, "tells", where={other: 0.0}, paper=paper)
            for x, title, other in (("error_m", "error, m", "detour_m"), ("detour_m", "detour, m", "error_m"))
            for y_title, y, paper in (
                ("mean delay, s", delay_s, ()),
                ("packets for an event", overhead, ((0.0, closed_form(K)),)),
            )
        ),
    ),
)

EXPERIMENTS = (WRONG,)
