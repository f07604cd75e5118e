"""P3: the cells that a straight stretch passes are those that a look at every moment finds; guesses without Spark."""

import math
import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.movement import VERSION, Habits, MovementModel
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point
from roamcast.spark.movement_cells import CROSSINGS_MAX, Cut
from roamcast.spark.movement_scores import SPREAD_MAX, Exam, Visit, along, spread_out
from tests.effort import examples

SECOND_US = 1_000_000
COLUMNS = ("x", "y", "velocity_east", "velocity_north", "next_x", "next_y")


def stretch(x: float, y: float, east: float | None, north: float | None, seconds: float) -> dict[str, object]:
    of = dict(zip(COLUMNS, (x, y, east, north, None, None), strict=True))
    return {"host": "h", "life": 0, "from_us": 0, "until_us": round(seconds * 1e6), **of}


def cut(
    space: Plane | Earth, cell_m: float, origin: tuple[float, float], *rows: dict[str, object]
) -> list[dict[str, object]]:
    types = {"host": pa.string(), "life": pa.int64(), "from_us": pa.int64(), "until_us": pa.int64()}
    schema = pa.schema([*types.items(), *((name, pa.float64()) for name in COLUMNS)])
    batches = pa.Table.from_pylist(list(rows), schema=schema).to_batches()
    return [row for batch in Cut(space, cell_m, origin)(iter(batches)) for row in batch.to_pylist()]


def check_against_looks(space: Plane | Earth, start: Point, east: float, north: float, seconds: float) -> int:
    origin, cell_m = Point(start.x, start.y), 70.0
    found = cut(space, cell_m, (origin.x, origin.y), stretch(start.x, start.y, east, north, seconds))
    assert found[0]["from_us"] == 0
    assert found[-1]["until_us"] == round(seconds * 1e6)
    for one, other in pairwise(found):
        assert one["until_us"] == other["from_us"]
    looked = 0
    for piece in found:
        first, last = int(str(piece["from_us"])), int(str(piece["until_us"])) - 1
        for at_us in {first, (first + last) // 2, last}:
            here = space.moved(start, east * at_us / 1e6, north * at_us / 1e6)
            cells = [metres / cell_m for metres in space.offset_m(origin, here)]
            # Nearer to a border than a curve differs from a line, or a microsecond from none, nobody can tell.
            if all(abs(each - round(each)) > 1e-4 for each in cells):
                assert (piece["column"], piece["row"]) == (math.floor(cells[0]), math.floor(cells[1]))
                looked += 1
    return looked


@examples(80)
@given(st.integers(0, 2**32))
def test_p3_the_cells_of_a_stretch_are_those_that_a_look_at_any_moment_finds(seed: int) -> None:
    rng = random.Random(seed)
    start = Point(rng.uniform(-500, 500), rng.uniform(-500, 500))
    check_against_looks(Plane(), start, rng.uniform(-30, 30), rng.uniform(-30, 30), rng.uniform(0.1, 100))


@examples(40)
@given(st.integers(0, 2**32))
def test_p3_and_on_earth(seed: int) -> None:
    rng = random.Random(seed)
    start = Point(rng.uniform(-180, 180), rng.uniform(-60, 60))
    check_against_looks(Earth(), start, rng.uniform(-30, 30), rng.uniform(-30, 30), rng.uniform(0.1, 30))


def test_p3_the_comparison_looks_at_something() -> None:
    assert check_against_looks(Plane(), Point(1.0, 2.0), 13.0, -7.0, 60.0) > 10


def test_p3_many_stretches_in_one_batch_are_each_cut_for_themselves() -> None:
    rows = [stretch(10.0 * n, 5.0, 10.0, 0.0, 30.0) for n in range(4)]
    apart = [piece for row in rows for piece in cut(Plane(), 100.0, (0.0, 0.0), row)]
    assert cut(Plane(), 100.0, (0.0, 0.0), *rows) == apart
    assert cut(Plane(), 100.0, (0.0, 0.0)) == []


@pytest.mark.parametrize("speed", [CROSSINGS_MAX * 100.0, 1e300, float("inf")])
def test_p3_who_would_pass_too_many_cells_is_nowhere(speed: float) -> None:
    slow = stretch(0.0, 0.0, 1.0, 0.0, 10.0)
    found = cut(Plane(), 10.0, (0.0, 0.0), stretch(0.0, 0.0, speed, 0.0, 10.0), slow)
    assert found == cut(Plane(), 10.0, (0.0, 0.0), slow)


def test_p3_who_wanders_slower_than_positions_are_measured_stands() -> None:
    found = [cut(Plane(), 100.0, (0.0, 0.0), stretch(50.0, 50.0, speed, 0.0, 10.0)) for speed in (0.0, 0.05, 0.5)]
    assert [piece["stands"] for pieces in found for piece in pieces] == [True, True, False]
    unknown = cut(Plane(), 100.0, (0.0, 0.0), stretch(50.0, 50.0, None, None, 10.0))
    assert [piece["stands"] for piece in unknown] == [False]


STREET = MovementModel(
    VERSION,
    {"a": Habits(10.0, {"b": 3, "c": 1}, {"d": 2}), "b": Habits(20.0, {"d": 1}), "c": Habits(5.0), "d": Habits(1.0)},
)


def test_m10_the_first_guess_follows_the_likeliest_steps_for_their_residence_times() -> None:
    assert [along(STREET, "a", seconds) for seconds in (0, 9.9, 10, 29.9, 30, 1e9)] == ["a", "a", "b", "b", "d", "d"]
    assert along(STREET, "elsewhere", 5) == "elsewhere"


def test_m10_the_spread_is_a_share_of_hosts_and_keeps_to_its_bound() -> None:
    spread = spread_out(STREET, "a", 8, 2.5)
    assert sum(spread.values()) == pytest.approx(1)
    assert spread["b"] > spread["c"] > 0
    star = MovementModel(
        VERSION, {"hub": Habits(1.0, {f"p{n}": 1 for n in range(200)}), **{f"p{n}": Habits(1.0) for n in range(200)}}
    )
    assert len(spread_out(star, "hub", 2, 0.5)) == SPREAD_MAX


def test_p3_an_exam_counts_what_was_wrong_as_well() -> None:
    """A host that goes where nobody went before, from a place the model knows."""
    exam = Exam(STREET, 10.0, SECOND_US)
    second = SECOND_US
    exam.take([Visit("a", 0, 10 * second, second), Visit("d", 10 * second, 30 * second, second)])
    scores = {(row["what"], row["ahead"], row["reach"]): row for row in exam.rows().to_pylist()}
    assert (scores["next", 1, 1]["hits"], scores["next", 1, 1]["asked"], scores["next", 1, 3]["named"]) == (0, 1, 2)
    assert scores["trip", 1, 1]["hits"] == 1
    assert [scores["ploc", 1, q]["hits"] for q in (0, 1, 2, 3)] == [0, 0, 1, 1]
    assert scores["broker", 0.5, 1]["hits"] == scores["broker", 0.5, 1]["asked"] == 2
    assert scores["broker", 1.0, 1] == {"what": "broker", "ahead": 1.0, "reach": 1, "asked": 2, "hits": 1, "named": 2}
