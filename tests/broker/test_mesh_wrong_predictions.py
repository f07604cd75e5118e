"""Predictions that are wrong cost time and no event, and such that were learned find a silent client (M10)."""

import pytest

from roamcast.broker.mesh.params import MeshParams
from roamcast.model.context import Context
from roamcast.model.movement import VERSION, Habits, MovementModel
from roamcast.model.values import Velocity
from roamcast.papers.chaos_mesh import trip
from tests.broker.meshes import Mesh


def test_m10_a_client_that_goes_elsewhere_without_a_word_gets_everything_once_it_reports() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.pass_s(20)
    mesh.enter("C1", (0, 2))
    for _ in range(3):
        mesh.publish("C0")
        mesh.pass_s(2)
    assert mesh.got("C1") == []
    mesh.rest("C1", (0, 2))
    mesh.pass_s(1)
    assert mesh.has_all("C1")


def test_m10_a_gap_makes_a_client_report_at_once() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.move("C1", None)
    mesh.pass_s(20)
    mesh.publish("C0")
    mesh.pass_s(5)
    assert mesh.ledger.notes["forward_missed"] == 1
    mesh.pass_s(17)
    mesh.enter("C1", (4, 0))
    mesh.publish("C0")
    mesh.pass_s(1)
    assert mesh.has_all("C1")
    assert mesh.serving("C1") == [(4, 0)]


def test_m10_a_client_whose_trip_should_be_over_reports_where_it_is() -> None:
    mesh = Mesh(mesh=MeshParams(columns=7, rows=3, report_s=10))
    mesh.settle()
    mesh.leaves_for("C1", (6, 0), speed_mps=100)
    mesh.pass_s(1)
    mesh.enter("C1", (0, 1))
    mesh.publish("C0")
    mesh.pass_s(22)
    assert mesh.got("C1") == []
    mesh.pass_s(6)
    assert mesh.has_all("C1")


ALONG_THE_ROW = MovementModel(
    VERSION, {f"{column},0": Habits(10.0, {f"{column + 1},0": 3}) for column in range(6)} | {"6,0": Habits(10.0)}, 250
)


@pytest.mark.parametrize("known", [True, False])
def test_m10_what_was_learned_finds_a_client_that_tells_no_destination(known: bool) -> None:
    mesh = Mesh(movement=ALONG_THE_ROW if known else None)
    mesh.settle()
    mesh.tells("C1", Context("C1", mesh.point((0, 0)), mesh.world.kernel.now_us, pause_us=1))
    for column in range(7):
        mesh.enter("C1", (column, 0))
        mesh.pass_s(5)
        mesh.publish("C0")
        mesh.pass_s(5)
    assert mesh.has_all("C1") == known
    mesh.rest("C1", (6, 0))
    mesh.pass_s(1)
    assert mesh.has_all("C1")


def test_m10_a_speed_that_is_wrong_costs_time_and_no_event() -> None:
    mesh = Mesh()
    mesh.settle()
    told = trip("C1", mesh.point((0, 0)), mesh.point((6, 0)), 25.0)
    mesh.tells("C1", Context("C1", told.position, mesh.world.kernel.now_us, Velocity(12, 0), told.destination))
    for column in range(7):
        mesh.enter("C1", (column, 0))
        mesh.publish("C0")
        mesh.pass_s(10)
    mesh.rest("C1", (6, 0))
    mesh.pass_s(1)
    assert mesh.has_all("C1")
