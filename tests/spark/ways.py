"""Hosts whose movement is known, for tests of what the pipeline learns from it.

All are in one journal: walkers of a simulation, hosts on a tour through places that they name, and a few that do what
journals must be read with care for. Each of the latter has a kilometre of its own; its cells are counted from there.
"""

import random
from pathlib import Path

from roamcast.journal import ContextChange, Journal, Move, Record, Run
from roamcast.model.space import Plane
from roamcast.model.values import Point, Velocity
from roamcast.movement.grid import GridWalk
from roamcast.papers.assemble import kit_of
from roamcast.sim.run import run_scenario
from roamcast.sim.scenario import scenario_from

SECOND_US = 1_000_000
CELL_M = 100.0
SECONDS = 300
SEED = 5
GRID = {"columns": 4, "rows": 3, "cell_m": CELL_M, "residence_s": [8, 14], "speed_mps": 20, "corners": True}
WALKERS = [f"walker-{number}" for number in range(1, 9)]
TOURISTS = [f"tourist-{number}" for number in range(10)]
TOUR = (("arcade", 10, True), ("bridge", 20, False), ("castle", 30, True))
"""Each place, for how many seconds, and whether one rests there."""
STILL = Velocity(0.0, 0.0)


def write_world(directory: Path) -> None:
    mobility = {"kind": "grid", **GRID}
    scenario = scenario_from(
        {
            "name": "ways",
            "seconds": SECONDS,
            "protocol": {"kind": "flooding"},
            "hosts": [{"name": "walker", "count": len(WALKERS), "mobility": mobility}],
        }
    )
    with Journal(directory, Run("ways", 0, Plane(), SEED, "ways"), durable=False) as journal:
        run_scenario(scenario, kit_of(scenario.protocol), SEED, journal)
        for record in [*tours(), *oddities()]:
            journal.record(record)


def walked(host: str) -> list[tuple[str, int, int]]:
    """The cells of a walker and the times at which it came and went, as its own legs have it."""
    model = GridWalk(**{key: tuple(value) if isinstance(value, list) else value for key, value in GRID.items()})  # type: ignore[arg-type]
    number = WALKERS.index(host)
    found: list[tuple[str, int, int]] = []
    came_us = 0
    for leg in model.legs(random.Random(f"{SEED}/mobility/{host}"), number, len(WALKERS)):
        cell = f"{int(leg.start.x // CELL_M)},{int(leg.start.y // CELL_M)}"
        half_us = (leg.start_us + leg.end_us) // 2
        if not leg.resting and half_us < SECONDS * SECOND_US:
            found.append((cell, came_us, half_us))
            came_us = half_us
        elif not leg.resting or leg.end_us > SECONDS * SECOND_US:
            return [*found, (cell, came_us, SECONDS * SECOND_US + 1)]
    raise AssertionError("a walk has no end")


def tours() -> list[Record]:
    records: list[Record] = []
    for number, host in enumerate(TOURISTS):
        now_s = number
        for turn in range(12):
            place, stay_s, rests = TOUR[turn % 3]
            where = Point(50_000.0 + 10 * turn, 0.0)
            records.append(Move(host, now_s * SECOND_US, where, STILL if rests else Velocity(0.5, 0.0)))
            records.append(ContextChange(host, now_s * SECOND_US, {"place": place, "turn": turn}))
            now_s += stay_s
        records.append(Move.gone(host, now_s * SECOND_US))
    return records


ODDITIES: dict[str, list[tuple[int, tuple[float, float] | str | None, tuple[float, float] | None]]] = {
    "jumps": [(0, (50, 50), (0, 0)), (10, (550, 50), (0, 0))],
    "hops": [(0, (50, 50), (0, 0)), (10, (150, 50), (0, 0)), (20, (150, 150), (0, 0))],
    "lost": [(0, (50, 50), (0, 0)), (10, None, None), (20, (150, 50), (0, 0))],
    "back": [(0, (50, 50), (0, 0)), (10, None, None), (20, (50, 50), (0, 0))],
    "crashed": [(0, (50, 50), (0, 0)), (10, "gone", None), (20, (150, 50), (0, 0))],
    "fixes": [(0, (50, 50), None), (10, (150, 50), None), (20, (350, 50), None)],
    "seldom": [(0, (50, 50), None), (61, (150, 50), (0, 0))],
    "corner": [(0, (50, 50), (10, 10)), (10, (150, 150), (0, 0))],
    "westward": [(0, (200, 50), (-10, 0)), (15, (50, 50), (0, 0))],
    "again": [(0, (50, 50), (0, 0)), (5, (60, 50), (0, 0)), (10, (150, 50), (0, 0))],
    "nowhere": [(0, None, None)],
    "last": [(SECONDS, (50, 50), (0, 0))],
    "rocket": [(0, (50, 50), (1e300, 0)), (10, (150, 50), (0, 0))],
}


def oddities() -> list[Record]:
    return [
        odd_move(host, number, at_s, where, velocity)
        for number, (host, moves) in enumerate(ODDITIES.items())
        for at_s, where, velocity in moves
    ]


def odd_move(
    host: str, number: int, at_s: int, where: tuple[float, float] | str | None, velocity: tuple[float, float] | None
) -> Move:
    if isinstance(where, str):
        return Move.gone(host, at_s * SECOND_US)
    position = None if where is None else Point(where[0] + corner_m(number), where[1])
    return Move(host, at_s * SECOND_US, position, None if velocity is None else Velocity(*map(float, velocity)))


def corner_m(number: int) -> float:
    return 100_000.0 + 1_000.0 * number
