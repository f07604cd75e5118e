"""The experiments of context-aware publish/subscribe (C12, section 4.2): speed, scale, density, domains, flooding."""

import math
from typing import Any

from roamcast.experiments.experiment import (
    Claim,
    Experiment,
    Figures,
    Findings,
    Parameters,
    Plot,
    Verdict,
    between,
    points_apart,
)
from roamcast.experiments.varied import run_varied

CHANCE = (
    "A run has 20 to 50 deliveries to go by, fewer where hosts are few, so with few runs chance moves a rate by "
    "points; the full preset pools the paper's number of runs."
)
BASE: Parameters = {"hosts": 100, "per_km2": 100, "speed_mps": 10, "domains": 0.5}


def base_run(parameters: Parameters, seed: int) -> Figures:
    """The base scenario with its parameters as given; the share of publishers and subscribers stays."""
    given = BASE | parameters
    side_m = 1_000 * (given["hosts"] / given["per_km2"]) ** 0.5
    changes: dict[str, Any] = {
        "area_m": [side_m, side_m],
        "hosts.0.count": given["hosts"],
        "hosts.0.mobility.width_m": side_m,
        "hosts.0.mobility.height_m": side_m,
        "hosts.0.mobility.speed_max_mps": given["speed_mps"],
        "subscribe.0.publishers.share": given["domains"],
        "packet_bytes": None,
    }
    if "seconds" in given:
        changes["seconds"] = given["seconds"]
    if "preset" in given:
        changes["protocol.preset"] = given["preset"]
    flooding = given.get("protocol") == "flooding"
    result = run_varied("context-flooding" if flooding else "context-base", changes, seed)
    return {
        "expected": result.expected,
        "missed": result.missed,
        "unwanted": result.unwanted,
        "megabits": result.megabits,
        "megabits_128": result.transmissions * 128 * 8 / 1e6,
        "frames": result.transmissions,
        "requests": result.messages.get("matching-request", 0),
    }


def delivered(findings: Findings) -> float:
    return 1 - findings.share("missed", "expected")


def megabits(findings: Findings) -> float:
    """As the paper's figures imply: 128 bytes a frame."""
    return findings.mean("megabits_128")


def real_megabits(findings: Findings) -> float:
    """Of the bytes that our frames have."""
    return findings.mean("megabits")


def where_delivered(low: float, high: float = 1.0, **wanted: Any) -> Any:
    return between(lambda found: delivered(found.where(**wanted)), low, high, ".3f")


# Speed.


def falls_with_speed(findings: Findings) -> float:
    return 100 * (delivered(findings.where(speed_mps=1)) - delivered(findings.where(speed_mps=20)))


SPEED = Experiment(
    name="context-speed",
    requirement="C12",
    title="Delivery and cost against speed",
    section="4.2, figure 3a",
    measure=base_run,
    settings={
        "quick": ({"speed_mps": 1}, {"speed_mps": 10}, {"speed_mps": 20}),
        "full": tuple({"speed_mps": speed} for speed in (1, 5, 10, 15, 20)),
    },
    runs={"quick": 8, "full": 10},
    claims=(
        Claim(
            "delivered at 10 m/s",
            "above 0.93 of what an ideal system delivers",
            where_delivered(0.93, speed_mps=10),
            CHANCE,
        ),
        Claim(
            "fall from 1 to 20 m/s, points", "falls; at least 2", between(falls_with_speed, 2.0, 100.0, ".1f"), CHANCE
        ),
        Claim(
            "cost at 10 m/s",
            "42 Mbit, within 30 %",
            between(lambda found: megabits(found.where(speed_mps=10)), 0.7 * 42, 1.3 * 42, ".1f"),
        ),
        Claim(
            "cost at 20 m/s",
            "46 Mbit, within 30 %",
            between(lambda found: megabits(found.where(speed_mps=20)), 0.7 * 46, 1.3 * 46, ".1f"),
        ),
    ),
    plots=(
        Plot("speed_mps", "largest speed, m/s", "delivered, share of the ideal", delivered),
        Plot("speed_mps", "largest speed, m/s", "Mbit in a run", megabits, paper=((10, 42.0), (20, 46.0))),
    ),
)

# Scale.


def flat_with_scale(findings: Findings) -> Verdict:
    spread = points_apart(delivered(findings.where(hosts=hosts)) for hosts in findings.values("hosts"))
    return Verdict(f"{spread:.1f} points apart", spread <= 5.0)


def exponent(findings: Findings) -> float:
    """Of the cost against the side of the area, from 100 to 400 hosts at the same density."""
    small, large = (megabits(findings.where(hosts=hosts)) for hosts in (100, 400))
    return math.log2(large / small)


SCALE = Experiment(
    name="context-scale",
    requirement="C12",
    title="Delivery and cost against the size of the area",
    section="4.2, figure 3b",
    about="The same density on a larger area. A run of 400 hosts has as many deliveries as four of 100.",
    measure=base_run,
    settings={
        "quick": ({"hosts": 100}, {"hosts": 400, "seconds": 450}),
        "full": tuple({"hosts": hosts} for hosts in (100, 225, 400)),
    },
    runs={"quick": 3, "full": 10},
    claims=(
        Claim("delivered, across sizes", "the same, within 5 points", flat_with_scale, CHANCE),
        Claim("cost against the side of the area", "cubic: exponent 2.7 to 3.3", between(exponent, 2.7, 3.3, ".2f")),
    ),
    plots=(
        Plot("hosts", "hosts", "delivered, share of the ideal", delivered),
        Plot("hosts", "hosts", "Mbit in a run", megabits),
    ),
)

# Density.


def dense(findings: Findings) -> float:
    return min(delivered(findings.where(per_km2=per_km2)) for per_km2 in findings.values("per_km2") if per_km2 >= 80)


DENSITY = Experiment(
    name="context-density",
    requirement="C12",
    title="Delivery against density",
    section="4.2, figure 4a",
    measure=base_run,
    settings={
        "quick": tuple({"per_km2": per_km2} for per_km2 in (44, 60, 80)),
        "full": tuple({"per_km2": per_km2} for per_km2 in (44, 60, 80, 100, 150, 200, 400)),
    },
    runs={"quick": 8, "full": 10},
    claims=(
        Claim("delivered at 44 hosts/km²", "poor: at most 0.75", where_delivered(0.0, 0.75, per_km2=44), CHANCE),
        Claim("delivered at 60", "good: at least 0.83", where_delivered(0.83, per_km2=60), CHANCE),
        Claim("delivered at 80 and more, the least", "at least 0.90", between(dense, 0.90, 1.0, ".3f"), CHANCE),
    ),
    plots=(
        Plot("per_km2", "hosts in a km²", "delivered, share of the ideal", delivered),
        Plot("per_km2", "hosts in a km²", "Mbit in a run", megabits),
    ),
)

# Publication domains.


def requests(findings: Findings) -> float:
    return 100 * findings.share("requests", "frames")


def indifferent_to_domains(findings: Findings) -> Verdict:
    spread = points_apart(delivered(findings.where(domains=domains)) for domains in findings.values("domains"))
    return Verdict(f"{spread:.1f} points apart", spread <= 4.0)


DOMAINS = Experiment(
    name="context-domains",
    requirement="C12",
    title="Subscriptions with a publication domain",
    section="4.2, figure 4b",
    measure=base_run,
    settings={
        "quick": ({"domains": 0.0}, {"domains": 1.0}),
        "full": tuple({"domains": share} for share in (0.0, 0.25, 0.5, 0.75, 1.0)),
    },
    runs={"quick": 8, "full": 10},
    paired=True,
    claims=(
        Claim("delivered, whatever their share", "the same, within 4 points", indifferent_to_domains, CHANCE),
        Claim(
            "matching requests when all have one",
            "almost 10 % of the messages; 2 to 12 %",
            between(lambda found: requests(found.where(domains=1.0)), 2.0, 12.0, ".1f"),
        ),
    ),
    plots=(
        Plot("domains", "share with a publication domain", "delivered, share of the ideal", delivered),
        Plot(
            "domains",
            "share with a publication domain",
            "matching requests, % of messages",
            requests,
            paper=((1.0, 10.0),),
        ),
    ),
)

# Flooding.


def against_flooding(findings: Findings) -> float:
    return megabits(findings.where(protocol="context")) / megabits(findings.where(protocol="flooding"))


def really_against_flooding(protocol: str) -> Any:
    def share(findings: Findings) -> float:
        return real_megabits(findings.where(protocol=protocol)) / real_megabits(findings.where(protocol="flooding"))

    return share


FLOODING = Experiment(
    name="context-flooding",
    requirement="C12",
    title="Cost against flooding",
    section="4.2",
    measure=base_run,
    settings={
        "quick": (
            {"protocol": "context"},
            {"protocol": "flooding"},
            {"protocol": "context, recommended", "preset": "recommended"},
        ),
        "full": (
            {"protocol": "context"},
            {"protocol": "flooding"},
            {"protocol": "context, recommended", "preset": "recommended"},
        ),
    },
    runs={"quick": 2, "full": 10},
    paired=True,
    claims=(
        Claim(
            "flooding",
            "83 to 94 Mbit, within 10 %",
            between(lambda found: megabits(found.where(protocol="flooding")), 0.9 * 83, 1.1 * 94, ".1f"),
        ),
        Claim("context against flooding", "less than half; at most 0.6", between(against_flooding, 0.0, 0.6, ".2f")),
        Claim(
            "the same in real bytes",
            "at most half",
            between(really_against_flooding("context"), 0.0, 0.5, ".2f"),
        ),
        Claim(
            "recommended against flooding, in real bytes",
            "not in the paper; at most three quarters",
            between(really_against_flooding("context, recommended"), 0.0, 0.75, ".2f"),
        ),
    ),
    plots=(
        Plot(
            "protocol",
            "",
            "Mbit in a run, 128 bytes a frame",
            megabits,
            paper=(("context", 42.0), ("flooding", 88.5)),
        ),
        Plot("protocol", "", "Mbit in a run, real bytes", real_megabits),
    ),
)

EXPERIMENTS = (SPEED, SCALE, DENSITY, DOMAINS, FLOODING)
