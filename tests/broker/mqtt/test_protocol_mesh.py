"""docs/PROTOCOL.md, section 16: MQTT clients of brokers in a mesh (M2, M5 to M8, M10, L3)."""

import json
from itertools import combinations
from typing import Literal

import pytest

from roamcast.broker.mesh.grid import Grid, hops
from roamcast.broker.mesh.handover import MeshHandover
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.messages import Forwarded, Routed, Sequenced
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.params import BrokerParams
from roamcast.model.movement import Habits, MovementModel
from roamcast.model.space import Plane
from roamcast.mqtt.packets import Disconnect, Will
from roamcast.node.boundary import Does
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient, Stage

Kind = Literal["predictive", "probing", "batch"]
KINDS: tuple[Kind, ...] = ("predictive", "probing", "batch")
CELL_M = 100.0


def mesh_params(kind: Kind, columns: int = 3, rows: int = 1, **mesh: float) -> BrokerParams:
    return BrokerParams(
        handover=kind,
        mesh=MeshParams(columns=columns, rows=rows, cell_m=CELL_M, **{"arrival_wait_s": 30.0, **mesh}),  # type: ignore[arg-type]
    )


def mesh_edges(params: BrokerParams) -> tuple[tuple[str, str], ...]:
    """Each broker with those of the cells around."""
    grid = Grid(params.mesh, Plane())
    cells = {name: grid.cell_of(name) or (0, 0) for name in grid.brokers()}
    return tuple(pair for pair in combinations(cells, 2) if hops(cells[pair[0]], cells[pair[1]]) == 1)


class MeshScene(Scene):
    """Brokers `broker-1`, `broker-2`, … in cells of 100 m, the first at the origin."""

    def __init__(self, kind: Kind, columns: int = 3, rows: int = 1, **mesh: float) -> None:
        params = mesh_params(kind, columns, rows, **mesh)
        self.stage = Stage(1, mesh_edges(params), params, CoreParams())
        self.rest()
        self.crossed: list[tuple[str, Forwarded]] = []
        """What was forwarded from broker to broker, and to which it goes."""
        for broker in self.stage.brokers.values():
            self._listen(broker.server.core)

    def _listen(self, core: Core) -> None:
        perform = core.border.perform

        def listening(effects: list[Does]) -> None:
            for effect in effects:
                message = getattr(effect, "message", None)
                if isinstance(message, Sequenced) and isinstance(message.message, Routed):
                    cargo = message.message.cargo
                    if isinstance(cargo, Forwarded):
                        self.crossed.append((message.message.to, cargo))
            perform(effects)

        core.border.perform = listening  # type: ignore[method-assign]

    def handover(self, number: int) -> MeshHandover:
        handover = self.stage.brokers[f"broker-{number}"].server.core.broker.handover
        assert isinstance(handover, MeshHandover)
        return handover

    def pair(self, reader_at: str = "broker-1") -> tuple[SimClient, SimClient]:
        """A reader that wants everything, and a writer at the second broker."""
        reader, writer = self.client("reader", reader_at), self.client("writer", "broker-2")
        self.subscribe(reader, "t", qos=2)
        return reader, writer


def leave(client: SimClient, **said: str) -> None:
    client._say(Disconnect(user_properties=tuple(said.items())))
    client.drop()


@pytest.mark.parametrize("kind", KINDS)
def test_l3_rule_80_a_client_that_roams_in_a_mesh_gets_everything_once_in_order(kind: Kind) -> None:
    scene = MeshScene(kind, probe_s=1.0)
    reader, writer = scene.pair()
    for number, at in enumerate((2, 3, 1, 3)):
        scene.publish(writer, "t", b"%d here" % number, qos=2)
        scene.report(reader, position=[50 + 100 * number, 50], velocity=[10, 0])
        reader.drop()
        scene.rest()
        scene.publish(writer, "t", b"%d away" % number, qos=1)
        scene.move(reader, f"broker-{at}")
        assert reader.connacks[-1].session_present
    scene.rest(70.0)
    assert reader.taken == [b"%d %s" % (number, what) for number in range(4) for what in (b"here", b"away")]


def test_m5_rule_81_what_comes_for_a_client_on_its_way_is_sent_to_where_it_will_be() -> None:
    scene = MeshScene("predictive")
    reader, writer = scene.pair()
    scene.report(reader, position=[90, 50], velocity=[20, 0], destination=[250, 50])
    reader.drop()
    scene.rest(6.0)
    scene.publish(writer, "t", b"1")
    assert [to for to, _ in scene.crossed] == ["broker-3", "broker-3"]
    assert list(scene.handover(3).waiting) == ["reader"]
    scene.crossed.clear()
    scene.move(reader, "broker-3")
    assert reader.taken == [b"1"]
    assert scene.crossed == [], "it was there already"


def test_rule_7_rule_82_who_is_away_is_where_its_last_word_says() -> None:
    scene = MeshScene("predictive")
    reader, writer = scene.client("reader", "broker-1"), scene.client("writer", "broker-2")
    scene.subscribe(reader, "t", filter="near(position, 20)")
    scene.report(reader, position=[50, 50])
    leave(reader, trip=json.dumps({"position": [90, 50]}))
    scene.rest()
    scene.publish(writer, "t", {"position": [50, 50]})
    scene.publish(writer, "t", {"position": [90, 50]})
    scene.move(reader, "broker-1")
    assert reader.taken == [b'{"position": [90, 50]}']


def test_m5_rule_81_a_wrong_prediction_costs_nothing_but_a_way() -> None:
    scene = MeshScene("predictive")
    reader, writer = scene.pair("broker-2")
    scene.publish(writer, "t", b"0")
    leave(reader, next="broker-3")
    scene.rest()
    scene.publish(writer, "t", b"1")
    scene.move(reader, "broker-1")
    assert reader.taken == [b"0", b"1"]
    assert list(scene.handover(3).waiting) == ["reader"]
    scene.publish(writer, "t", b"2")
    leave(reader)
    scene.rest()
    scene.publish(writer, "t", b"3")
    scene.move(reader, "broker-3")
    assert reader.taken == [b"0", b"1", b"2", b"3"]


def test_m5_rule_81_what_was_sent_ahead_to_a_client_that_began_anew_is_not_for_it() -> None:
    scene = MeshScene("predictive")
    reader, writer = scene.pair()
    leave(reader, next="broker-3")
    scene.rest()
    scene.publish(writer, "t", b"old")
    reader.connect("broker-2", clean=True)
    scene.rest()
    scene.subscribe(reader, "t", qos=2)
    reader.drop()
    scene.rest()
    scene.publish(writer, "t", b"new")
    scene.move(reader, "broker-3")
    assert reader.taken == [b"new"]


@pytest.mark.parametrize("how", ["next", "trip", "will"])
def test_m2_rule_82_a_client_says_where_it_goes_when_it_leaves_or_in_its_will(how: str) -> None:
    scene = MeshScene("predictive")
    reader, writer = SimClient(scene.stage, "reader"), scene.client("writer", "broker-2")
    will = Will("gone", b"", 0, user_properties=(("next", "broker-3"),))
    reader.connect("broker-1", will=will if how == "will" else None)
    scene.rest()
    scene.subscribe(reader, "t", qos=1)
    match how:
        case "will":
            reader.drop()
        case "trip":
            leave(reader, trip=json.dumps({"position": [250, 50]}))
        case _:
            leave(reader, next="broker-3")
    scene.rest()
    scene.publish(writer, "t", b"1")
    assert list(scene.handover(3).waiting) == ["reader"]
    scene.move(reader, "broker-3")
    assert reader.taken == [b"1"]


def test_rule_82_what_a_client_says_of_its_way_and_nobody_understands_is_counted() -> None:
    scene = MeshScene("predictive")
    reader, writer = scene.pair()
    leave(reader, next="nowhere", trip="no report")
    scene.rest()
    assert scene.remarks("broker-1").count("bad_report") == 2
    scene.publish(writer, "t", b"1")
    scene.move(reader, "broker-1")
    assert reader.taken == [b"1"]


def test_rule_82_a_will_that_its_client_took_back_says_nothing() -> None:
    scene = MeshScene("predictive")
    reader = SimClient(scene.stage, "reader")
    reader.connect("broker-1", will=Will("gone", b"", 0, user_properties=(("next", "broker-3"),)))
    scene.rest()
    scene.subscribe(reader, "t", qos=1)
    leave(reader)
    scene.rest()
    scene.publish(scene.client("writer", "broker-2"), "t", b"1")
    assert scene.crossed == []


def test_m10_rule_83_who_tells_nothing_goes_where_most_went() -> None:
    scene = MeshScene("predictive")
    places = {"0,0": Habits(5.0, {"1,0": 9}), "1,0": Habits(5.0, {"2,0": 9}), "2,0": Habits(5.0)}
    model = MovementModel(1, places, CELL_M)
    for broker in scene.stage.brokers.values():
        assert broker.server.core.adopt(scene.stage.broker_params, scene.stage.core_params, None, model)
    reader, writer = scene.pair()
    leave(reader)
    scene.rest(6.0)
    scene.publish(writer, "t", b"1")
    assert {to for to, _ in scene.crossed} == {"broker-2"}
    scene.move(reader, "broker-2")
    assert reader.taken == [b"1"]


def test_rule_83_of_whom_nobody_knows_anything_nothing_is_sent_ahead() -> None:
    scene = MeshScene("predictive")
    reader, writer = scene.pair()
    reader.drop()
    scene.rest()
    scene.publish(writer, "t", b"1")
    assert scene.crossed == []
    scene.move(reader, "broker-3")
    assert reader.taken == [b"1"]


def test_m8_rule_84_with_probing_messages_wait_until_the_broker_asks_for_them() -> None:
    scene = MeshScene("probing", probe_s=5.0)
    reader, writer = scene.pair()
    for number in range(3):
        scene.publish(writer, "t", b"%d" % number)
    assert reader.taken == []
    scene.rest(5.0)
    assert reader.taken == [b"0", b"1", b"2"]
    scene.publish(writer, "t", b"3")
    assert reader.taken == [b"0", b"1", b"2"]
    scene.rest(5.0)
    assert reader.taken == [b"0", b"1", b"2", b"3"]
    assert not reader.copies


def test_m8_rule_85_with_batch_messages_wait_for_the_end_of_the_trip() -> None:
    scene = MeshScene("batch")
    reader, writer = scene.pair()
    scene.publish(writer, "t", b"at rest")
    scene.report(reader, position=[50, 50], velocity=[10, 0], destination=[250, 50])
    scene.publish(writer, "t", b"on the way")
    scene.rest(10.0)
    assert reader.taken == [b"at rest"]
    scene.rest(10.0)
    assert reader.taken == [b"at rest", b"on the way"]
    scene.publish(writer, "t", b"arrived")
    assert reader.taken == [b"at rest", b"on the way", b"arrived"]


def test_rule_85_with_batch_a_client_that_says_it_has_stopped_gets_everything_at_once() -> None:
    scene = MeshScene("batch")
    reader, writer = scene.pair()
    scene.report(reader, position=[50, 50], velocity=[10, 0])
    scene.publish(writer, "t", b"1")
    assert reader.taken == []
    scene.report(reader, position=[70, 50], velocity=[0, 0])
    assert reader.taken == [b"1"]


def test_rule_85_with_batch_a_client_that_never_stops_is_not_left_without() -> None:
    scene = MeshScene("batch", report_s=20.0)
    reader, writer = scene.pair()
    scene.report(reader, position=[50, 50], velocity=[1, 0])
    scene.publish(writer, "t", b"1")
    scene.rest(15.0)
    assert reader.taken == []
    scene.rest(10.0)
    assert reader.taken == [b"1"]


@pytest.mark.parametrize("kind", KINDS)
def test_rule_80_retained_messages_groups_and_qos_0_are_as_with_relocation(kind: Kind) -> None:
    scene = MeshScene(kind, 2, 2, probe_s=1.0)
    writer = scene.client("writer", "broker-1")
    scene.publish(writer, "kept", b"kept", qos=1, retain=True)
    members = [scene.client(f"m{number}", f"broker-{number}") for number in (1, 2, 3)]
    for member in members:
        scene.subscribe(member, "$share/g/s", qos=1)
        scene.subscribe(member, "kept", qos=1)
        scene.subscribe(member, "plain", qos=0)
    scene.rest(2.0)
    assert [member.taken for member in members] == [[b"kept"]] * 3
    for number in range(6):
        scene.publish(writer, "s", b"%d" % number)
    scene.publish(writer, "plain", b"plain", qos=0)
    scene.rest(2.0)
    shared = [[each for each in member.taken if each.isdigit()] for member in members]
    assert [len(each) for each in shared] == [2, 2, 2]
    assert sorted(each for some in shared for each in some) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert all(b"plain" in member.taken for member in members)


def test_rule_80_what_is_sent_ahead_and_trips_survive_the_death_of_brokers() -> None:
    scene = MeshScene("predictive")
    reader, writer = scene.pair()
    leave(reader, next="broker-3")
    scene.rest()
    scene.publish(writer, "t", b"1")
    for name in ("broker-1", "broker-3"):
        scene.stage.brokers[name].kill()
    scene.rest()
    scene.stage.heal()
    scene.rest()
    assert list(scene.handover(3).waiting) == ["reader"]
    scene.publish(writer, "t", b"2")
    scene.move(reader, "broker-3")
    assert reader.taken == [b"1", b"2"]


def test_rule_83_where_a_client_said_that_it_goes_does_not_count_any_more_when_it_has_come() -> None:
    scene = MeshScene("predictive")
    reader, writer = scene.pair()
    leave(reader, next="broker-3")
    scene.rest()
    scene.move(reader, "broker-1")
    reader.drop()
    scene.rest()
    scene.publish(writer, "t", b"1")
    assert scene.crossed == []
    scene.move(reader, "broker-2")
    assert reader.taken == [b"1"]


def test_rule_80_a_broker_of_a_mesh_forgets_clients_that_have_left() -> None:
    scene = MeshScene("predictive")
    for number in range(20):
        scene.client(f"guest-{number}", "broker-1").drop()
        scene.rest()
    assert not [each for each in scene.handover(1).border.links if each.startswith("guest")]
