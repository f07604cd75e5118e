"""The experiments on opportunistic overlays (O8, section 4): path lengths, overhead, clients and load."""

import itertools
from typing import Any

from msgspec.structs import replace

from roamcast.experiments.experiment import (
    Claim,
    Experiment,
    Figures,
    Findings,
    Parameters,
    Plot,
    Verdict,
    about,
    between,
)
from roamcast.experiments.overlay import APPROACHES, PAPER, measure_brokers, measure_clients, measure_load

STATIC = 0
"""An update period that never comes."""


def brokers(parameters: Parameters, seed: int) -> Figures:
    period_s = parameters["period_s"] or None
    setting = replace(PAPER, seconds=float(parameters.get("seconds", PAPER.seconds)))
    measured = measure_brokers(seed, period_s, setting)
    return {"network": measured.network, "overlay": measured.overlay, "kbps": measured.overhead_kbps}


def hops(period_s: int) -> Any:
    return lambda found: found.where(period_s=period_s).mean("overlay")


def length(period_s: int, wanted: float, relative: float) -> Claim:
    what = "static" if period_s == STATIC else f"updates every {period_s} s"
    return Claim(
        f"hops between brokers, {what}",
        f"{wanted}, within {relative:.0%}",
        about(hops(period_s), wanted, relative=relative, shown=".2f"),
    )


BROKERS = Experiment(
    name="overlay-brokers",
    requirement="O8",
    title="Paths between brokers that move",
    section="4.1, figures 7 to 9",
    about="40 brokers on 100 moving hosts; hops of the real network along the overlay's paths.",
    measure=brokers,
    settings={
        "quick": tuple({"period_s": period_s} for period_s in (STATIC, 10, 50, 100)),
        "full": tuple({"period_s": period_s} for period_s in (STATIC, 10, 20, 50, 100)),
    },
    runs={"quick": 1, "full": 10},
    claims=(
        Claim(
            "hops of the network itself",
            "2.36, within 3 %",
            about(lambda found: found.mean("network"), 2.36, relative=0.03, shown=".2f"),
        ),
        Claim(
            "overhead of a broker with updates every 100 s",
            "below 2 kbit/s",
            between(lambda found: found.where(period_s=100).mean("kbps"), 0.0, 2.0, ".2f"),
        ),
        length(STATIC, 6.06, 0.10),
        length(10, 3.32, 0.06),
        length(50, 4.17, 0.06),
        length(100, 4.43, 0.06),
        Claim(
            "overhead of a broker with updates every 50 s",
            "2.4 kbit/s, within 25 %",
            about(lambda found: found.where(period_s=50).mean("kbps"), 2.4, relative=0.25, shown=".2f"),
        ),
    ),
    plots=(
        Plot("period_s", "update period, s (0: static)", "hops between brokers", lambda found: found.mean("overlay")),
        Plot("period_s", "update period, s (0: static)", "kbit/s a broker", lambda found: found.mean("kbps")),
    ),
)


def clients(parameters: Parameters, seed: int) -> Figures:
    measured = measure_clients(seed, parameters["approach"])
    return {"length": measured.length, "relocations": measured.relocations}


def strict_order(findings: Findings) -> Verdict:
    lengths = [findings.where(approach=approach).mean("length") for approach in APPROACHES]
    falls = all(before > after for before, after in itertools.pairwise(lengths))
    return Verdict(" > ".join(f"{each:.2f}" for each in lengths), falls)


CLIENTS = Experiment(
    name="overlay-clients",
    requirement="O8",
    title="Paths between clients: static, home broker, both, best",
    section="4.1, figures 10 to 12",
    about="10 producers and 60 consumers, 20 brokers, all of them moving.",
    measure=clients,
    settings={preset: tuple({"approach": approach} for approach in APPROACHES) for preset in ("quick", "full")},
    runs={"quick": 1, "full": 10},
    claims=(Claim("static, home broker only, both, best", "strictly in this order", strict_order),),
)


def load(parameters: Parameters, seed: int) -> Figures:
    measured = measure_load(seed, parameters["load"], parameters["balance"])
    return {"highest": measured.highest, "overloaded": measured.overloaded, "length": measured.length}


def overloaded(low: float, high: float, balance: bool) -> Any:
    def measured(findings: Findings) -> float:
        rows = [row for row in findings.where(balance=balance).rows if low <= row.parameters["load"] <= high]
        return 100 * Findings(rows).mean("overloaded")

    return measured


LOAD = Experiment(
    name="overlay-load",
    requirement="O8",
    title="Load of brokers, with and without balancing",
    section="4.2, figures 13 and 14",
    about="5 brokers; what events cost is set so that brokers are loaded so much on average.",
    measure=load,
    settings={
        "quick": tuple({"load": share, "balance": balance} for balance in (True, False) for share in (0.2, 0.5, 0.7)),
        "full": tuple(
            {"load": share, "balance": balance}
            for balance in (True, False)
            for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
        ),
    },
    runs={"quick": 1, "full": 10},
    claims=(
        Claim(
            "overloaded below 30 % with balancing",
            "none; at most 1 %",
            between(overloaded(0.0, 0.29, True), 0.0, 1.0, ".1f"),
        ),
        Claim(
            "overloaded at half load: balancing against the nearest broker",
            "fewer",
            lambda found: Verdict(
                f"{overloaded(0.5, 0.5, True)(found):.1f} % against {overloaded(0.5, 0.5, False)(found):.1f} %",
                overloaded(0.5, 0.5, True)(found) < overloaded(0.5, 0.5, False)(found),
            ),
        ),
    ),
    plots=(
        Plot(
            "load",
            "average load",
            "overloaded, share of brokers and periods",
            lambda found: found.mean("overloaded"),
            "balance",
        ),
    ),
)

EXPERIMENTS = (BROKERS, CLIENTS, LOAD)
