"""STEAM's cost of events against speed, and of stationary against mobile services (S13, section 5.1, figure 7 B).

One run is one placement of 120 consumers: scenario A, whose consumers drive past a producer that stands, and scenario
B, whose producer drives past consumers that stand, at every speed. The event is raised when the producer of B is at
the centre of the road, where that of A stands.
"""

from collections.abc import Callable
from typing import Any

from roamcast.papers.experiment import Claim, Experiment, Figures, Findings, Parameters, Plot, apart, between
from roamcast.papers.varied import run_varied
from roamcast.sim.run import Result

SATURATION = 120
RADIO_M = 200
CENTRE_M = 700.0
RAISED_S = 4.0
ENTERS_S = 1.0
SPEEDS_MPS = (5.0, 15.0, 25.0, 35.0, 50.0)


def one_event(name: str, radius_m: float, changes: dict[str, Any], seed: int) -> Result:
    given = {
        "seconds": RAISED_S + 1,
        "publish.0.first_s": RAISED_S,
        "publish.0.until_s": RAISED_S,
        "publish.0.announce.circle_m": radius_m,
        "hosts.1.count": SATURATION,
        **changes,
    }
    return run_varied(name, given, seed)


def consumers_drive(radius_m: float, speed_mps: float, seed: int) -> Result:
    return one_event("steam-a-broken-down-car", radius_m, {"hosts.1.mobility.speed_mps": [speed_mps]}, seed)


def producer_drives(radius_m: float, speed_mps: float, seed: int) -> Result:
    way_m = speed_mps * (RAISED_S - ENTERS_S)
    route = {
        "name": "call",
        "points": [[CENTRE_M - way_m, 0], [CENTRE_M + way_m, 0]],
        "speed_mps": speed_mps,
        "entries_s": [ENTERS_S],
    }
    return one_event("steam-b-ambulance", radius_m, {"hosts.0.mobility.routes": [route]}, seed)


def all_speeds(parameters: Parameters, seed: int) -> Figures:
    figures: Figures = {"missed": 0.0, "expected": 0.0}
    for name, run in (("A", consumers_drive), ("B", producer_drives)):
        for speed_mps in SPEEDS_MPS:
            result = run(parameters["radius_m"], speed_mps, seed)
            figures[f"{name}@{speed_mps:g}"] = result.messages.get("raised", 0)
            figures["missed"] += result.missed
            figures["expected"] += result.expected
    return figures


def mean_cost(findings: Findings, name: str) -> float:
    costs = [cost for _, cost in findings.along(name)]
    return sum(costs) / len(costs)


def lost(at_range: bool) -> Callable[[Findings], float]:
    return lambda found: Findings(
        row for row in found.rows if (row.parameters["radius_m"] == RADIO_M) == at_range
    ).total("missed")


def same_at_every_speed(name: str, who: str) -> Claim:
    return Claim(
        f"frames at 5 to 50 m/s, {who}",
        "as published: 'does not depend on the speed'; within 3 % of their mean",
        between(lambda found: apart(cost for _, cost in found.along(name)), 0.0, 3.0, ".1f"),
    )


SPEED = Experiment(
    name="steam-speed",
    requirement="S13",
    title="What one event costs at other speeds, from a stationary and from a mobile service",
    section="5.1, figure 7 BA and BB",
    about="120 vehicles; consumers that drive past a broken-down car (A), an ambulance that drives past vehicles "
    "that have stopped (B).",
    measure=all_speeds,
    settings={
        "quick": tuple({"radius_m": radius_m} for radius_m in (200, 400, 700)),
        "full": tuple({"radius_m": radius_m} for radius_m in (100, 200, 300, 400, 500, 600, 700)),
    },
    runs={"quick": 12, "full": 30},
    claims=(
        same_at_every_speed("A", "consumers drive"),
        same_at_every_speed("B", "the producer drives"),
        Claim(
            "stationary against mobile service",
            "as published: 'virtually identical'; within 3 %",
            between(lambda found: apart(mean_cost(found, name) for name in "AB"), 0.0, 3.0, ".1f"),
        ),
        Claim(
            "lost at any speed, radius other than 200 m",
            "as published: 'no event loss has been recorded in any experiment'",
            between(lost(False), 0, 0, ".0f"),
            "Who comes into a proximity between two beacons of a fast producer has not heard of it when the event is "
            "raised.",
        ),
        Claim(
            "lost at any speed, radius 200 m",
            "as published: 'no event loss has been recorded in any experiment'",
            between(lost(True), 0, 0, ".0f"),
            "A proximity as large as the radio's range is heard of only inside it: who enters at 25 m/s and more may "
            "not have heard a beacon yet when the event comes.",
        ),
    ),
    plots=tuple(
        Plot("", "speed, m/s", f"frames for an event, scenario {name}", series="radius_m", along=(name,))
        for name in "AB"
    ),
)

EXPERIMENTS = (SPEED,)
