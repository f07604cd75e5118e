"""From the tables of `movement.py` to the one file that brokers load, and back out of Spark: a line for each place.

Only the model comes to the driver, which is as large as the world and not as the journal.
"""

from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.plain import plain_space
from roamcast.model.movement import PLACES_MAX, Evaluation, MovementModel, Score, model_bytes
from roamcast.spark.files import write_bytes
from roamcast.spark.journal import Journal
from roamcast.spark.movement_scores import mean_residence_s, model_of
from roamcast.spark.movement_tables import HELD_OUT, SCORES, STAYS, STEPS, TRIPS, VISITS, MovementSettings
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings
from roamcast.spark.tables import BadPipeline, Table

ORIGIN_DEGREES = 0.01
"""An origin on Earth that is found from the journal is a multiple of this, so that two journals may share it."""

SEED_LIMIT = 2**63


class Learned(msgspec.Struct, frozen=True):
    """What a person is told beside the model."""

    model: MovementModel
    hosts: int
    """That were seen to move, held out or not."""

    @property
    def steps(self) -> int:
        return sum(sum(habits.next.values()) for habits in self.model.places.values())

    @property
    def trips(self) -> int:
        return sum(sum(habits.ends.values()) for habits in self.model.places.values())


def settings_for(
    journal: Journal,
    of_journal: Settings,
    *,
    cell_m: float,
    origin: tuple[float, float] | None,
    rest_s: float,
    hold_out: float,
    seed: int,
) -> MovementSettings:
    """`cell_m` 0: named places. Without an origin: (0, 0) on a plane, on Earth the south-west of all positions."""
    if not 0 <= cell_m < float("inf"):
        raise BadPipeline(f"--cells is {cell_m:g}; give metres above 0")
    if not 0 <= hold_out < 1:
        raise BadPipeline(f"--hold-out is {hold_out:g}; give a share of the hosts from 0 up to, not including, 1")
    if not 0 <= rest_s < float("inf"):
        raise BadPipeline(f"--rest is {rest_s:g}; give seconds from 0 on")
    if not -SEED_LIMIT <= seed < SEED_LIMIT:
        raise BadPipeline(f"--seed is {seed}; give one of at most 64 bits")
    if origin is None:
        space: Any = of_journal.space
        origin = south_west(journal) if cell_m and plain_space(space) == "earth" else (0.0, 0.0)
    if not all(abs(each) < float("inf") for each in origin):
        raise BadPipeline(f"--origin is {origin[0]:g} {origin[1]:g}; give two finite numbers")
    return MovementSettings(
        **vars(of_journal), cell_m=cell_m, origin=origin, rest_us=round(rest_s * 1e6), hold_out=hold_out, seed=seed
    )


def south_west(journal: Journal) -> tuple[float, float]:
    lowest = (F.floor(F.min(name) / ORIGIN_DEGREES) * ORIGIN_DEGREES for name in ("x", "y"))
    found = journal.moves.agg(*lowest).first()
    assert found is not None
    return (0.0, 0.0) if found[0] is None else (round(found[0], 2), round(found[1], 2))


def read_learned(tables: Tables, settings: MovementSettings) -> Learned:
    """What the jobs have left in their tables."""
    places = tables.read(STAYS).count()
    if not places:
        raise BadPipeline(f"{tables.journal}: nothing to learn movement from; {what_is_missing(tables, settings)}")
    if places > PLACES_MAX:
        raise BadPipeline(
            f"{tables.journal}: {places:,} places, and a model holds {PLACES_MAX:,}; give larger --cells"
        )
    stays, steps, trips = (columns_of(tables, table) for table in (STAYS, STEPS, TRIPS))
    model = model_of(stays, steps, trips, settings.cell_m, settings.origin)
    held_out = tables.read(HELD_OUT).count()
    if held_out:
        evaluation = Evaluation(held_out, mean_residence_s(stays), scores_of(tables.read(SCORES)))
        model = msgspec.structs.replace(model, evaluation=evaluation)
    hosts = tables.read(VISITS).where("step > 0").select("host").distinct().count()
    return Learned(model, hosts)


def what_is_missing(tables: Tables, settings: MovementSettings) -> str:
    if not tables.read(VISITS).isEmpty():
        return "no host was seen to go from one place to another"
    wanted = "the attribute 'place'" if settings.cell_m == 0 else "a position"
    return f"no host in the journal has {wanted}"


def columns_of(tables: Tables, table: Table) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = tables.read(table).toArrow().to_pydict()
    return found


def scores_of(found: DataFrame) -> tuple[Score, ...]:
    rows = found.orderBy("what", "ahead", "reach").collect()
    return tuple(
        Score(row["what"], row["ahead"], row["reach"], row["asked"], row["hits"], row["named"] / row["asked"])
        for row in rows
    )


def write_model(model: MovementModel, place: str) -> None:
    try:
        write_bytes(place, model_bytes(model))
    except OSError as problem:
        raise BadPipeline(f"{place}: cannot be written: {problem.strerror or problem}") from problem
