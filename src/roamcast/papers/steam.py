"""STEAM's experiments in which one event is raised (S12, S13, sections 5.1 and 5.4): cost, partitions, gossip."""

from collections.abc import Callable
from typing import Any

from roamcast.papers.experiment import (
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
from roamcast.papers.varied import run_varied

SCENARIOS = {
    "A": "steam-a-broken-down-car",
    "B": "steam-b-ambulance",
    "C": "steam-c-intersection",
    "D": "steam-d-game",
    "E": "steam-e-search-and-rescue",
}
RADII_M = (100, 200, 300, 400, 500, 600, 700)
SATURATIONS = (60, 120, 180, 240)
RADIO_M = 200
STANDING = {
    "kind": "static",
    "placement": {"kind": "uniform", "width_m": 1400, "height_m": 7, "origin": [0.0, -3.5]},
}
AT_CENTRE = {"kind": "static", "placement": {"kind": "at", "points": [[700, 0]]}}
"""Scenarios A and B with everybody at rest: what was published for them are snapshots. The proximity of B is a mobile
one all the same. `steam_speed.py` has them drive."""


def one_event(parameters: Parameters, seed: int) -> Figures:
    """One event, once everybody knows the proximity: how many frames it takes, and who misses it."""
    name = parameters["scenario"]
    crowds = 2 if name == "C" else 1
    changes: dict[str, Any] = {
        "seconds": 5.0,
        "publish.0.first_s": 4.0,
        "publish.0.until_s": 4.0,
        "publish.0.announce.circle_m": parameters["radius_m"],
        "faults": {"refuse_share": parameters.get("refuse_share", 0.0)},
    }
    for crowd in range(1, crowds + 1):
        changes[f"hosts.{crowd}.count"] = parameters["saturation"] // crowds
    match name:
        case "A":
            changes["hosts.1.mobility"] = STANDING
        case "B":
            changes["hosts.0.mobility"] = AT_CENTRE
    if "gossip" in parameters:
        changes |= {"protocol.gossip_distance_m": float(RADIO_M), "protocol.gossip_probability": parameters["gossip"]}
    result = run_varied(SCENARIOS[name], changes, seed)
    return {
        "frames": result.messages.get("raised", 0),
        "expected": result.expected,
        "missed": result.missed,
        "unwanted": result.unwanted,
    }


def settings(
    scenarios: str, saturations: tuple[int, ...], radii_m: tuple[int, ...], **more: Any
) -> tuple[Parameters, ...]:
    return tuple(
        {"scenario": name, "saturation": saturation, "radius_m": radius_m, **more}
        for name in scenarios
        for saturation in saturations
        for radius_m in radii_m
    )


# 5.1: what an event costs.


def frames(findings: Findings) -> float:
    return findings.mean("frames")


def frames_in(name: str) -> Callable[[Findings], float]:
    return lambda found: frames(found.where(scenario=name))


def single_hop(findings: Findings) -> Verdict:
    near = [row for row in findings.rows if row.parameters["radius_m"] <= RADIO_M]
    counts = sorted({row.figures["frames"] for row in near})
    return Verdict(", ".join(f"{each:g}" for each in counts), counts == [1.0])


def one_and_members(findings: Findings) -> Verdict:
    """With everybody connected, each member repeats an event once."""
    far = [row for row in findings.rows if row.parameters["radius_m"] > RADIO_M and not row.figures["missed"]]
    wrong = [row for row in far if row.figures["frames"] != 1 + row.figures["expected"]]
    return Verdict(f"{len(far) - len(wrong)} of {len(far)} runs", bool(far) and not wrong)


def linear(saturation: int) -> Claim:
    wanted = 1 + saturation
    return Claim(
        f"frames at 700 m with {saturation} consumers on the road",
        f"as published: equation (2), 'Cd = 1 + NCP': {wanted}, within 3 %",
        about(
            lambda found: frames(found.where(saturation=saturation, radius_m=700)), wanted, relative=0.03, shown=".1f"
        ),
    )


def against_form(findings: Findings) -> float:
    """Frames of all settings beyond the radio's range against 1 + N · PR / 700, in percent."""
    far = [row for row in findings.rows if row.parameters["radius_m"] > RADIO_M]
    form = sum(1.0 + row.parameters["saturation"] * row.parameters["radius_m"] / 700 for row in far)
    return 100 * sum(row.figures["frames"] for row in far) / float(form)


COST = Experiment(
    name="steam-cost",
    requirement="S13",
    title="What one event costs",
    section="5.1, figure 7 AA and AB",
    about="Frames for one event of scenarios A and B, by the radius of its proximity and the number of consumers.",
    measure=one_event,
    settings={
        "quick": settings("AB", SATURATIONS, (100, 200, 300, 500, 700)),
        "full": settings("AB", SATURATIONS, RADII_M),
    },
    runs={"quick": 2, "full": 10},
    claims=(
        Claim(
            "frames up to 200 m",
            "as published: equation (1), 'Cd = 1': exactly",
            single_hop,
        ),
        Claim(
            "frames beyond, nobody cut off",
            "as published: equation (2), 'Cd = 1 + NCP': exactly in every run",
            one_and_members,
        ),
        *(linear(saturation) for saturation in SATURATIONS),
        Claim(
            "frames beyond 200 m, % of 1 + N · PR / 700",
            "shape: figure 7 rises in a line; 100, within 3 %",
            about(against_form, 100.0, absolute=3.0, shown=".1f"),
        ),
    ),
    plots=tuple(
        Plot(
            "radius_m",
            "radius of the proximity, m",
            f"frames for an event, scenario {name}",
            frames_in(name),
            "saturation",
            paper=tuple((700, 1.0 + saturation) for saturation in SATURATIONS),
        )
        for name in "AB"
    ),
)


# 5.4: who is cut off when a fifth refuses to forward.


def cut_off(findings: Findings) -> float:
    return 100 * findings.share("missed", "expected")


def near_cut_off(findings: Findings) -> float:
    near = Findings(row for row in findings.rows if row.parameters["radius_m"] <= RADIO_M)
    return cut_off(near)


def dense_cut_off(findings: Findings) -> float:
    return cut_off(Findings(row for row in findings.rows if row.parameters["saturation"] >= 120))


def on_the_road(findings: Findings) -> float:
    sparse = findings.where(saturation=60)
    return cut_off(Findings(row for row in sparse.rows if row.parameters["scenario"] in "AB"))


def sparse_cut_off(name: str) -> Claim:
    def measured(findings: Findings) -> float:
        far = findings.where(scenario=name, saturation=60)
        return cut_off(Findings(row for row in far.rows if row.parameters["radius_m"] >= 400))

    return Claim(
        f"cut off in {name} from 400 m on, saturation 60, %",
        "as published: 'sparse populations in scenarios C, D, and E "
        "[...] cause the ad hoc network to partition'; more than 1",
        between(measured, 1.0, 100.0, ".1f"),
    )


PARTITIONS = Experiment(
    name="steam-partitions",
    requirement="S13",
    title="Consumers cut off, with a fifth refusing to forward",
    section="5.4, figure 14",
    about="The share of the consumers inside a proximity that an event does not reach, on average over placements. "
    "The paper shows one placement of each, in which nobody is cut off at 300 m.",
    measure=one_event,
    settings={
        "quick": settings("ABCDE", (60, 120), (200, 400, 600), refuse_share=0.2),
        "full": settings("ABCDE", SATURATIONS, RADII_M, refuse_share=0.2),
    },
    runs={"quick": 6, "full": 25},
    claims=(
        Claim(
            "cut off at or below 200 m, %",
            "as published: none: 'only for proximity ranges above 300 meters'",
            between(near_cut_off, 0.0, 0.0, ".2f"),
        ),
        Claim(
            "cut off in A and B, saturation 60, %",
            "as published: none: 'Only very sparse populations in scenarios C, D, and E'",
            between(on_the_road, 0.0, 0.0, ".2f"),
            "In one of 36 placements on the road there is a gap between those that forward, and then mostly a fifth "
            "of the consumers is cut off; over 250 placements it was 0.7 %.",
        ),
        sparse_cut_off("C"),
        sparse_cut_off("D"),
        sparse_cut_off("E"),
        Claim(
            "cut off at saturation 120 and more, %",
            "as published: none: 'network partitions are found only for saturation 60'",
            between(dense_cut_off, 0.0, 0.0, ".2f"),
            "The paper shows one placement of each; over 25 of ours a few have a gap, less than 1 % everywhere.",
        ),
    ),
    plots=(
        Plot(
            "radius_m",
            "radius of the proximity, m",
            "cut off at saturation 60, %",
            lambda found: cut_off(found.where(saturation=60)),
            "scenario",
        ),
    ),
)


# 5.4: single placements.

PLACEMENTS = {"A": 1, "B": 2, "C": 2, "D": 5, "E": 4}
"""Seeds whose placements show what the paper shows, found by trying seeds from 1 on."""


def one_placement(parameters: Parameters, _seed: int) -> Figures:
    return one_event(parameters, PLACEMENTS[parameters["scenario"]])


def partitioned(findings: Findings) -> list[str]:
    """Where anybody is cut off: scenario, saturation and radius."""
    return [
        f"{row.parameters['scenario']} {row.parameters['saturation']} {row.parameters['radius_m']} m"
        for row in findings.rows
        if row.figures["missed"]
    ]


def only_sparse_and_far(findings: Findings) -> Verdict:
    cut = Findings(row for row in findings.rows if row.figures["missed"])
    holds = (
        set(cut.values("scenario")) == set("CDE")
        and set(cut.values("saturation")) == {60}
        and min(cut.values("radius_m")) > 300
    )
    return Verdict(", ".join(partitioned(findings)) or "nowhere", holds)


PLACEMENT = Experiment(
    name="steam-placement",
    requirement="S13",
    title="A test: placements chosen to show the published pattern",
    section="5.4, figure 14",
    about="No result: one placement of each scenario, chosen because it shows what the paper shows, so that the "
    "pattern is known to be possible. About four of ten do, and on average over placements it does not hold "
    "(steam-partitions). A fifth refuses to forward.",
    measure=one_placement,
    settings={preset: settings("ABCDE", SATURATIONS, RADII_M, refuse_share=0.2) for preset in ("quick", "full")},
    runs={"quick": 1, "full": 1},
    claims=(
        Claim(
            "where consumers are cut off in chosen placements",
            "our reading: only at saturation 60, only in C, D and E, only above 300 m",
            only_sparse_and_far,
        ),
    ),
    plots=(
        Plot(
            "radius_m",
            "radius of the proximity, m",
            "cut off at saturation 60, %",
            lambda found: cut_off(found.where(saturation=60)),
            "scenario",
        ),
    ),
)


# 5.4: gossip.


def saved(findings: Findings) -> float:
    """Percent of the frames that forwarding by everybody would take; within the radio's range nobody forwards."""
    everybody = sum(
        1 + (row.figures["expected"] - row.figures["missed"] if row.parameters["radius_m"] > RADIO_M else 0)
        for row in findings.rows
    )
    return 100 * (1 - findings.total("frames") / everybody)


def all_delivered(name: str) -> Claim:
    return Claim(
        f"delivered in {name} at saturation 120 and more, %",
        "as published: 'All entities situated inside the proximity received the event'",
        between(lambda found: 100 - cut_off(found.where(scenario=name)), 100, 100, ".2f"),
        "Over several placements a few consumers have nobody in range who forwards.",
    )


def saving(name: str, beyond: float) -> Claim:
    return Claim(
        f"frames saved in {name} at 600 m, %",
        f"our reading: 'significantly'; a fifth of what lies beyond 200 m: {20 * beyond:.1f}, within 1.5 points"
        " (Forwarders are drawn: with some hundred of them a share of 0.8 is good to a point or two.)",
        about(lambda found: saved(found.where(scenario=name, radius_m=600)), 20 * beyond, absolute=1.5, shown=".1f"),
    )


GOSSIP = Experiment(
    name="steam-gossip",
    requirement="S12, S13",
    title="Gossip G(200 m, 0.8)",
    section="5.4, figure 15",
    about="Members farther than 200 m from the producer repeat an event with probability 0.8.",
    measure=one_event,
    settings={
        "quick": settings("ABCDE", (120, 180), (200, 400, 600), gossip=0.8),
        "full": settings("ABCDE", (120, 180, 240), RADII_M, gossip=0.8),
    },
    runs={"quick": 6, "full": 25},
    claims=(
        *(all_delivered(name) for name in "ABCDE"),
        saving("C", 1 - 200 / 600),
        saving("E", 1 - (200 / 600) ** 2),
    ),
    plots=(Plot("radius_m", "radius of the proximity, m", "frames saved, %", saved, "scenario"),),
)

EXPERIMENTS = (COST, PARTITIONS, PLACEMENT, GOSSIP)
