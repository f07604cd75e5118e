"""The experiments of context-aware publish/subscribe (C12, section 4.2): speed, scale, density, domains, flooding."""

import math
from typing import Any

from roamcast.node.observer import Observer
from roamcast.papers.experiment import (
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
from roamcast.papers.varied import run_varied

CHANCE = (
    "A run has 20 to 50 deliveries to go by, fewer where hosts are few, so with few runs chance moves a rate by "
    "points; the full preset pools the paper's number of runs."
)
BASE: Parameters = {"hosts": 100, "per_km2": 100, "speed_mps": 10, "domains": 0.5}


class Requested(Observer):
    """How many bytes matching requests took."""

    def __init__(self) -> None:
        self.bytes = 0

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        if message_type == "matching-request":
            self.bytes += size_bytes


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
    }
    if "seconds" in given:
        changes["seconds"] = given["seconds"]
    if "preset" in given:
        changes["protocol.preset"] = given["preset"]
    flooding = given.get("protocol") == "flooding"
    requested = Requested()
    result = run_varied("context-flooding" if flooding else "context-base", changes, seed, (requested,))
    return {
        "expected": result.expected,
        "missed": result.missed,
        "unwanted": result.unwanted,
        "megabits": result.megabits,
        "megabits_128": result.transmissions * 128 * 8 / 1e6,
        "frames": result.transmissions,
        "requests": result.messages.get("matching-request", 0),
        "request_megabits": requested.bytes * 8 / 1e6,
    }


def delivered(findings: Findings) -> float:
    return 1 - findings.share("missed", "expected")


def megabits(findings: Findings) -> float:
    """As the paper's figures imply: 128 bytes a frame."""
    return findings.mean("megabits_128")


def real_megabits(findings: Findings) -> float:
    """Of the bytes that our frames have."""
    return findings.mean("megabits")


FEW_PACKETS = (
    "The paper's packets and its geocast are not described: 128 bytes a frame is what its cost of flooding implies."
)
FEW_RUNS = "Read from a figure without numbers, of runs with 20 to 50 deliveries each."


def where_delivered(low: float, high: float = 1.0, **wanted: Any) -> Any:
    return between(lambda found: delivered(found.where(**wanted)), low, high, ".3f")


# Speed.


def falls_with_speed(findings: Findings) -> float:
    return 100 * (delivered(findings.where(speed_mps=1)) - delivered(findings.where(speed_mps=20)))


def change_of_cost(slow_mps: int, fast_mps: int) -> Any:
    def percent(findings: Findings) -> float:
        slow, fast = (megabits(findings.where(speed_mps=speed)) for speed in (slow_mps, fast_mps))
        return 100 * (fast / slow - 1)

    return percent


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
            "shape: no number; above 0.93 of what an ideal system delivers",
            where_delivered(0.93, speed_mps=10),
            CHANCE,
        ),
        Claim(
            "fall from 1 to 20 m/s, points",
            "as published: 'the delivery rate should decrease with increasing speed'",
            between(falls_with_speed, 0.0, 100.0, ".1f"),
            CHANCE,
        ),
        Claim(
            "cost at 10 m/s, 128 bytes a frame",
            f"as published: '42Mbit'; within 30 % ({FEW_PACKETS})",
            between(lambda found: megabits(found.where(speed_mps=10)), 0.7 * 42, 1.3 * 42, ".1f"),
        ),
        Claim(
            "cost at 20 m/s, 128 bytes a frame",
            f"as published: '46Mbit'; within 30 % ({FEW_PACKETS})",
            between(lambda found: megabits(found.where(speed_mps=20)), 0.7 * 46, 1.3 * 46, ".1f"),
        ),
        Claim(
            "cost from 1 to 10 m/s, %",
            "as published: 'The decrease in cost when the maximum speed increases from 1m/s to 10m/s'",
            between(change_of_cost(1, 10), -100.0, 0.0, "+.1f"),
            "It rises. Fewer deliveries would save little here, for events and refreshes are nearly all of the cost; "
            "faster hosts come near the boundary of their reachability regions more often, and refresh each time.",
        ),
        Claim(
            "cost from 10 to 20 m/s, %",
            "as published: 'the increase remains limited (42Mbit to 46Mbit)': 9.5, at most 30"
            " (That it remains limited is what is claimed; the two costs are claims of their own.)",
            between(change_of_cost(10, 20), 0.0, 30.0, "+.1f"),
            "",
        ),
    ),
    plots=(
        Plot("speed_mps", "largest speed, m/s", "delivered, share of the ideal", delivered),
        Plot(
            "speed_mps",
            "largest speed, m/s",
            "Mbit in a run, 128 bytes a frame",
            megabits,
            paper=((10, 42.0), (20, 46.0)),
        ),
        Plot("speed_mps", "largest speed, m/s", "Mbit in a run, real bytes", real_megabits),
    ),
)

# Scale.


def flat_with_scale(findings: Findings) -> Verdict:
    spread = points_apart(delivered(findings.where(hosts=hosts)) for hosts in findings.values("hosts"))
    return Verdict(f"{spread:.1f} points apart", spread <= 5.0)


def exponent(findings: Findings) -> float:
    """Of the cost against the side of the area, from the fewest hosts to the most at the same density."""
    sizes = findings.values("hosts")
    if len(sizes) < 2:
        return math.nan
    small, large = (megabits(findings.where(hosts=hosts)) for hosts in (min(sizes), max(sizes)))
    return 2 * math.log(large / small) / math.log(max(sizes) / min(sizes))


SCALE = Experiment(
    name="context-scale",
    requirement="C12",
    title="Delivery and cost against the size of the area",
    section="4.2, figure 3b",
    about="The same density on a larger area: a run of 225 hosts has as many deliveries as two of 100, one of 400 as "
    "four. A run of 400 takes ten times as long as one of 100, so the quick preset goes to 225.",
    measure=base_run,
    settings={
        "quick": ({"hosts": 100}, {"hosts": 225}),
        "full": tuple({"hosts": hosts} for hosts in (100, 225, 400)),
    },
    runs={"quick": 3, "full": 10},
    claims=(
        Claim(
            "delivered, across sizes",
            "as published: 'largely independent of system scale'; within 5 points",
            flat_with_scale,
            CHANCE,
        ),
        Claim(
            "cost against the side of the area, exponent",
            "as published: 'increases as the cube of the side'; 2.7 to 3.3",
            between(exponent, 2.7, 3.3, ".2f"),
        ),
    ),
    plots=(
        Plot("hosts", "hosts", "delivered, share of the ideal", delivered),
        Plot("hosts", "hosts", "Mbit in a run, 128 bytes a frame", megabits),
        Plot("hosts", "hosts", "Mbit in a run, real bytes", real_megabits),
    ),
)

# Density.


def dense(findings: Findings) -> float:
    return min(delivered(findings.where(per_km2=per_km2)) for per_km2 in findings.values("per_km2") if per_km2 >= 80)


def change_with_density(findings: Findings) -> float:
    """The densities differ by the area: a hundred hosts are the same in all."""
    densest = max(findings.values("per_km2"))
    return 100 * (megabits(findings.where(per_km2=densest)) / megabits(findings.where(per_km2=44)) - 1)


DENSITY = Experiment(
    name="context-density",
    requirement="C12",
    title="Delivery against density",
    section="4.2, figure 4a",
    measure=base_run,
    settings={
        "quick": tuple({"per_km2": per_km2} for per_km2 in (44, 60, 80, 200)),
        "full": tuple({"per_km2": per_km2} for per_km2 in (44, 60, 80, 100, 150, 200, 400)),
    },
    runs={"quick": 8, "full": 10},
    claims=(
        Claim(
            "delivered at 44 hosts/km²",
            f"shape: 'With lower densities, network connectivity may not be guaranteed'; at most 0.75 ({FEW_RUNS})",
            where_delivered(0.0, 0.75, per_km2=44),
            CHANCE,
        ),
        Claim(
            "delivered at 60",
            f"shape: 'good performance [...] for host densities higher than 60'; at least 0.83 ({FEW_RUNS})",
            where_delivered(0.83, per_km2=60),
            CHANCE,
        ),
        Claim(
            "delivered at 80 and more, the least",
            "shape: 'good performance'; at least 0.90",
            between(dense, 0.90, 1.0, ".3f"),
            CHANCE,
        ),
        Claim(
            "cost at 200 and more hosts/km² against 44, %",
            "as published: 'the increase in network traffic evidenced by the figure'",
            between(change_with_density, 0.0, float("inf"), "+.1f"),
            "It falls. Likely, but not taken apart: hosts that hear a copy let theirs go, so that more hosts in a "
            "region send little more, and on a smaller area ways are shorter.",
        ),
    ),
    plots=(
        Plot("per_km2", "hosts in a km²", "delivered, share of the ideal", delivered),
        Plot("per_km2", "hosts in a km²", "Mbit in a run, 128 bytes a frame", megabits),
        Plot("per_km2", "hosts in a km²", "Mbit in a run, real bytes", real_megabits),
    ),
)

# Publication domains.


def requests(findings: Findings) -> float:
    """Of the bits on the air, in percent."""
    return 100 * findings.share("request_megabits", "megabits")


def requests_in_frames(findings: Findings) -> float:
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
        Claim(
            "delivered, whatever their share",
            "as published: 'almost unaffected by this parameter'; within 4 points",
            indifferent_to_domains,
            CHANCE,
        ),
        Claim(
            "matching requests when all have one, % of the bits",
            "as published: 'almost 10% of the overall network traffic'; 9 to 10",
            between(lambda found: requests(found.where(domains=1.0)), 9.0, 10.0, ".1f"),
            "Ours are fewer: hosts of a matching area hear each other's request and send one, and events and "
            "refreshes, of which all else is, go to regions enlarged by 60 m on every side.",
        ),
        Claim(
            "the same, % of the frames",
            "our reading: not in the paper; 2 to 12 (It bounds what we lack and excludes a flood of requests.)",
            between(lambda found: requests_in_frames(found.where(domains=1.0)), 2.0, 12.0, ".1f"),
        ),
    ),
    plots=(
        Plot("domains", "share with a publication domain", "delivered, share of the ideal", delivered),
        Plot(
            "domains",
            "share with a publication domain",
            "matching requests, % of the bits",
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
            "flooding, 128 bytes a frame",
            "as published: 'a cost ranging from 83Mbit to 94Mbit'",
            between(lambda found: megabits(found.where(protocol="flooding")), 83, 94, ".1f"),
        ),
        Claim(
            "context against flooding, 128 bytes a frame",
            "as published: 42 of 83 to 46 of 94 Mbit: about half; at most 0.51",
            between(against_flooding, 0.0, 0.51, ".2f"),
        ),
        Claim(
            "the same in real bytes",
            "our reading: at most half",
            between(really_against_flooding("context"), 0.0, 0.5, ".2f"),
        ),
        Claim(
            "recommended against flooding, in real bytes",
            "our reading: not in the paper; at most three quarters",
            between(really_against_flooding("context, recommended"), 0.0, 0.75, ".2f"),
            "Single runs cost 0.68 to 0.83 of flooding, so a few may come out above; the full preset pools ten.",
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
