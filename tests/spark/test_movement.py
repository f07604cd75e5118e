"""P3: movement learned from a journal is what the hosts did, and is judged fairly on hosts it does not know."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from roamcast.cli.main import app
from roamcast.journal import Journal, Move, Run
from roamcast.model.movement import MovementModel, Score, load_model
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.papers.mesh_learned import MODEL, write_traces
from roamcast.papers.varied import folder
from roamcast.spark.chores import Chores
from roamcast.spark.ingest import ingest
from roamcast.spark.movement_file import Learned
from roamcast.spark.movement_tables import HELD_OUT, VISITS
from roamcast.spark.published import Tables
from roamcast.spark.tables import BadPipeline
from tests.spark.chain import surveyed
from tests.spark.ways import CELL_M, ODDITIES, SECOND_US, SECONDS, WALKERS, corner_m, walked, write_world

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]
ROUNDING_US = 2
END_US = SECONDS * SECOND_US + 1

Visits = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def journal(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ways")
    write_world(directory)
    ingest(spark, str(directory))
    return directory


@pytest.fixture(scope="module")
def in_cells(spark: SparkSession, journal: Path) -> tuple[MovementModel, Visits]:
    """Learned from all hosts, and who was where."""
    out = str(journal / "cells.json")
    Chores(str(journal), "local[2]", None, None, {}).movement(CELL_M, out, rest_s=1.0, hold_out=0.0, seed=1)
    visits: Visits = {}
    for row in Tables(spark, str(journal)).read(VISITS).orderBy("host", "way", "step").collect():
        visits.setdefault(row["host"], []).append(row.asDict())
    return load_model(Path(out)), visits


@pytest.fixture(scope="module")
def in_places(spark: SparkSession, journal: Path) -> tuple[Learned, MovementModel, list[str]]:
    """Learned from most of the tourists, the file, and who was held out."""
    chores = Chores(str(journal), "local[2]", None, None, {})
    learned, place = chores.movement(None, None, places=True, rest_s=1.0, hold_out=0.3, seed=1)
    held_out = sorted(row[0] for row in Tables(spark, str(journal)).read(HELD_OUT).collect())
    return learned, load_model(Path(place)), held_out


def test_p3_visits_of_a_grid_walk_are_those_of_its_own_legs(in_cells: tuple[MovementModel, Visits]) -> None:
    _, visits = in_cells
    for host in WALKERS:
        wanted = walked(host)
        found = visits[host]
        assert [visit["place"] for visit in found] == [place for place, _, _ in wanted]
        for visit, (_, from_us, until_us) in zip(found, wanted, strict=True):
            assert abs(visit["from_us"] - from_us) <= ROUNDING_US
            assert abs(visit["until_us"] - until_us) <= ROUNDING_US
        assert [visit["whole"] for visit in found] == [False, *(True for _ in found[2:]), False]
    assert sum(map(len, visits.values())) > 200


def test_p3_r4_steps_and_residence_times_of_a_grid_walk_are_those_of_its_own_legs(
    in_cells: tuple[MovementModel, Visits],
) -> None:
    model, _ = in_cells
    steps: Counter[tuple[str, str]] = Counter()
    stays: dict[str, list[int]] = {}
    for host in WALKERS:
        way = walked(host)
        steps.update((here[0], there[0]) for here, there in pairwise(way))
        for place, from_us, until_us in way[1:-1]:
            stays.setdefault(place, []).append(until_us - from_us)
    places = {place: habits for place, habits in model.places.items() if place in stays}
    assert {(place, other): n for place, habits in places.items() for other, n in habits.next.items()} == steps
    for place, habits in places.items():
        assert habits.residence_s == pytest.approx(sum(stays[place]) / len(stays[place]) / 1e6, abs=1e-5)
        low, middle, high = habits.residence_quantiles_s or (0.0, 0.0, 0.0)
        assert min(stays[place]) - ROUNDING_US <= low * 1e6 <= middle * 1e6 <= high * 1e6
        assert high * 1e6 <= max(stays[place]) + ROUNDING_US
    assert len(places) == 12
    assert model.graph().ploc("0,0", 1) == {"0,0", *(other for place, other in steps if place == "0,0")}


def test_m10_the_model_of_the_experiment_is_what_its_traces_teach(tmp_path: Path, spark: SparkSession) -> None:
    """If this must change: write the traces, ingest them, and `roamcast pipeline movement DIRECTORY --cells 250
    --origin 0 0 --out scenarios/mesh-habits.json`."""
    traces, out = tmp_path / "traces", tmp_path / MODEL
    write_traces(traces)
    ingest(spark, str(traces))
    chores = Chores(str(traces), "local[2]", None, None, {})
    chores.movement(250.0, str(out), origin=(0.0, 0.0), rest_s=1.0, hold_out=0.2, seed=1)
    assert load_model(out) == load_model(folder() / MODEL)


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ("jumps", [(0, "0,0", 0, 10), (1, "5,0", 10, None)]),
        ("hops", [(0, "0,0", 0, 10), (0, "1,0", 10, 20), (0, "1,1", 20, None)]),
        ("lost", [(0, "0,0", 0, 10), (0, "1,0", 20, None)]),
        ("back", [(0, "0,0", 0, 10), (1, "0,0", 20, None)]),
        ("crashed", [(0, "0,0", 0, 10), (1, "1,0", 20, None)]),
        ("fixes", [(0, "0,0", 0, 5), (0, "1,0", 5, 12.5), (0, "2,0", 12.5, 17.5), (0, "3,0", 17.5, None)]),
        ("seldom", [(0, "0,0", 0, 61), (0, "1,0", 61, None)]),
        ("corner", [(0, "0,0", 0, 5), (0, "1,1", 5, None)]),
        ("westward", [(0, "2,0", 0, 0.000001), (0, "1,0", 0.000001, 10.000001), (0, "0,0", 10.000001, None)]),
        ("again", [(0, "0,0", 0, 10), (0, "1,0", 10, None)]),
        ("rocket", [(0, "1,0", 10, None)]),
    ],
)
def test_p3_a_way_breaks_where_nobody_saw_how_a_host_came_there(
    in_cells: tuple[MovementModel, Visits], host: str, wanted: list[tuple[int, str, float, float | None]]
) -> None:
    """Hosts that jump, are lost, crash, tell only fixes, or pass a corner; a touching cell is a step."""
    first = round(corner_m(list(ODDITIES).index(host)) / CELL_M)
    found = []
    for visit in in_cells[1][host]:
        column, row = map(int, visit["place"].split(","))
        until_s = None if visit["until_us"] == END_US else visit["until_us"] / 1e6
        found.append((visit["way"], f"{column - first},{row}", visit["from_us"] / 1e6, until_s))
    assert found == wanted


def test_p3_a_host_whose_position_is_never_known_visits_no_cell(in_cells: tuple[MovementModel, Visits]) -> None:
    assert "nowhere" in ODDITIES
    assert "nowhere" not in in_cells[1]


def test_p3_who_only_stands_teaches_nothing(in_cells: tuple[MovementModel, Visits]) -> None:
    """A broker in its cell must not make its mesh believe that clients stay there for ever."""
    model, visits = in_cells
    for host, known in (("last", False), ("jumps", False), ("hops", True)):
        assert {visit["place"] in model.places for visit in visits[host]} == {known}


def test_p3_a_host_that_was_lost_on_the_way_says_nothing_of_residence(in_cells: tuple[MovementModel, Visits]) -> None:
    assert [visit["whole"] for visit in in_cells[1]["lost"]] == [False, False]
    assert [visit["whole"] for visit in in_cells[1]["hops"]] == [False, True, False]


def test_p3_a_tour_through_named_places_is_learned_with_its_rests_as_trips(
    in_places: tuple[Learned, MovementModel, list[str]],
) -> None:
    learned, model, held_out = in_places
    assert model == learned.model
    assert (learned.hosts, len(held_out)) == (10, 3)
    habits = model.places
    assert {place: list(each.next) for place, each in habits.items()} == {
        "arcade": ["bridge"],
        "bridge": ["castle"],
        "castle": ["arcade"],
    }
    assert {place: each.residence_s for place, each in habits.items()} == {"arcade": 10, "bridge": 20, "castle": 30}
    # One rests at the arcade and at the castle, and passes the bridge. Seven hosts went four rounds each.
    assert {place: each.ends for place, each in habits.items()} == {
        "arcade": {"castle": 28},
        "bridge": {},
        "castle": {"arcade": 21},
    }
    assert model.cell_m == 0


def test_p3_m10_predictions_of_a_tour_are_right(in_places: tuple[Learned, MovementModel, list[str]]) -> None:
    _, model, _ = in_places
    assert model.evaluation is not None
    scores = {(score.what, score.ahead, score.reach): score for score in model.evaluation.scores}

    def rate(*key: Any) -> float:
        return scores[key].hits / scores[key].asked

    assert rate("next", 1, 1) == rate("trip", 1, 1) == 1
    assert scores["next", 1, 1].asked == 3 * 11
    assert [rate("ploc", 1, reach) for reach in (0, 1, 2, 3)] == [0, 1, 1, 1]
    assert [rate("ploc", 2, reach) for reach in (0, 1, 2, 3)] == [0, 0, 1, 1]
    assert [rate("ploc", 3, reach) for reach in (0, 1, 2, 3)] == [1, 1, 1, 1], "the tour is back where it began"
    assert [scores["ploc", 1, reach].size for reach in (0, 1, 2, 3)] == [1, 2, 3, 3]
    for ahead in (0.5, 1.0, 2.0, 4.0):
        assert rate("broker", ahead, 1) == 1
        assert rate("broker", ahead, 3) == 1


def test_p3_hosts_that_are_held_out_are_the_same_for_a_seed_and_others_for_another(
    spark: SparkSession, journal: Path, in_places: tuple[Learned, MovementModel, list[str]]
) -> None:
    from dataclasses import replace

    from roamcast.spark.movement import held_out
    from roamcast.spark.movement_file import settings_for

    frames, found = surveyed(spark, journal)
    settings = settings_for(frames, found, cell_m=0.0, origin=None, rest_s=1.0, hold_out=0.3, seed=1)

    visited = Tables(spark, str(journal)).read(VISITS)

    def drawn(**changes: Any) -> list[str]:
        return sorted(row[0] for row in held_out(visited, replace(settings, **changes)).collect())

    assert drawn() == in_places[2]
    assert drawn(seed=2) != in_places[2]
    assert len(drawn(hold_out=0.999)) == 9, "one remains to learn from"


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["pipeline", "movement", *arguments], env={"COLUMNS": "160", "NO_COLOR": "1"})


def test_p3_one_host_is_learned_from_and_the_command_says_that_nobody_is_left_to_test(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = Run("one", 0, Plane(), 1)
    with Journal(tmp_path, run, durable=False) as journal:
        for second, x in ((0, 50.0), (10, 150.0), (30, 50.0)):
            journal.record(Move("one", second * SECOND_US, Point(x, 0.0)))
    ingest(spark, str(tmp_path))
    result = invoke(str(tmp_path), "--cells", "100", "--out", str(tmp_path / "one.json"))
    assert result.exit_code == 0, result.output
    assert "2 places, 2 steps" in result.output
    assert "no hosts were held out" in result.output
    model = load_model(tmp_path / "one.json")
    assert model.evaluation is None
    assert model.likeliest("0,0") == "1,0"
    # From half-way to the second fix until half-way back.
    assert model.residence_s("1,0") == pytest.approx(15)


def test_p3_a_journal_without_records_or_not_ingested_is_refused_with_what_to_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    Journal(tmp_path, Run("empty", 0, Plane(), 1), durable=False).close()
    chores = Chores(str(tmp_path), "local[2]", None, None, {})
    with pytest.raises(BadPipeline, match="not ingested yet"):
        chores.movement(CELL_M, None, rest_s=1.0, hold_out=0.2, seed=1)
    ingest(spark, str(tmp_path))
    with pytest.raises(BadPipeline, match="no host in the journal has the attribute 'place'"):
        chores.movement(None, None, places=True, rest_s=1.0, hold_out=0.2, seed=1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--cells", "100", "--places"), "give one of them"),
        (("--cells", "-3"), "--cells is -3"),
        (("--cells", "nan"), "--cells is nan"),
        (("--hold-out", "1"), "--hold-out is 1"),
        (("--rest", "-1"), "--rest is -1"),
        (("--origin", "nan", "0"), "--origin is nan 0"),
        (("--out", "/nowhere/at/all.json"), "no such directory"),
    ],
)
def test_p3_arguments_that_make_no_sense_are_refused(
    journal: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    result = invoke(str(journal), *arguments)
    assert result.exit_code == 2
    assert complaint in result.output


def test_p3_the_command_prints_what_the_model_is_worth(
    journal: Path, in_places: tuple[Learned, MovementModel, list[str]]
) -> None:
    from roamcast.cli.pipeline import show_movement
    from roamcast.terminal import console

    with console.capture() as capture:
        show_movement(in_places[0], "place")
    said = capture.get()
    assert "3 places" in said
    assert "on 3 hosts that were held out" in said
    assert "ploc(x, 1)" in said
    assert "100.0%" in said


def test_p3_scores_survive_the_file(in_places: tuple[Learned, MovementModel, list[str]]) -> None:
    evaluation = in_places[1].evaluation
    assert evaluation is not None
    assert evaluation.hosts == 3
    assert evaluation.mean_residence_s == pytest.approx(20, abs=2)
    assert msgspec.json.decode(msgspec.json.encode(evaluation.scores), type=tuple[Score, ...]) == evaluation.scores
