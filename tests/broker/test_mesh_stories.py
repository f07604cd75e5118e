"""A mesh with mobility prediction, one story a test (M1 to M8, M10)."""

import pytest

from roamcast.broker.broker import Broker
from roamcast.broker.mesh.identity import EventIds
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.messages import Notified, Sequenced
from roamcast.broker.params import BrokerParams
from roamcast.broker.router import CLIENT
from roamcast.model.space import Plane
from roamcast.node.boundary import Received
from roamcast.papers.chaos_mesh import KINDS, MeshKind
from tests.broker.meshes import Mesh

# Streams, wishes, ids.


def test_m1_m4_brokers_talk_to_eight_neighbours_and_exchange_wishes_on_the_tree_only() -> None:
    mesh = Mesh(columns=5, rows=5)
    mesh.settle()
    middle = mesh.nodes[mesh.grid.broker((1, 1))].neighbours
    assert len(middle.streams.of) == 8
    assert sorted(middle.router.neighbours) == sorted([mesh.grid.broker((0, 0)), mesh.grid.broker((2, 2))])


def test_m4_an_event_reaches_a_resting_client_anywhere_over_the_tree() -> None:
    mesh = Mesh(columns=5, rows=5, clients=3)
    mesh.settle()
    mesh.rest("C2", (4, 1))
    mesh.pass_s(2)
    mesh.publish("C0")
    mesh.pass_s(1)
    assert mesh.has_all("C1")
    assert mesh.has_all("C2")
    assert mesh.sent("forwarded") == 0


def test_m3_events_get_ids_from_the_broker_where_they_came_in() -> None:
    ids = EventIds("broker-3", 7, 10)
    one, other = ids.next(), ids.next()
    assert (one.broker, one.life, one.number) == ("broker-3", 7, 1)
    assert one != other
    elsewhere = EventIds("broker-4", 1, 10)
    assert [elsewhere.is_new(each) for each in (one, other, one, other)] == [True, True, False, False]
    assert not ids.is_new(one), "what came in here comes back only in a loop"
    assert elsewhere.is_new(EventIds("broker-3", 8, 10).next()), "after a crash numbers begin anew"


def test_m3_ids_of_so_many_brokers_are_remembered() -> None:
    ids = EventIds("broker-1", 1, brokers_max=2)
    for number in range(2, 6):
        assert ids.is_new(EventIds(f"broker-{number}", 1, 1).next())
    assert len(ids.last) == 2


def test_m3_an_event_that_comes_again_is_dropped() -> None:
    mesh = Mesh(columns=3, rows=3)
    mesh.settle((2, 2))
    mesh.publish("C0")
    mesh.pass_s(1)
    first, last = mesh.nodes[mesh.grid.broker((0, 0))], mesh.grid.broker((2, 2))
    stream = first.neighbours.streams.of[mesh.grid.broker((1, 1))]
    notified = next(each.message for each in stream.waiting if isinstance(each.message, Notified))
    # As if the tree had a loop: the middle broker says it once more.
    middle = mesh.nodes[mesh.grid.broker((1, 1))].neighbours.streams.of[last]
    mesh.world.give(last, Received(Sequenced(middle.sent + 1, notified), mesh.grid.broker((1, 1))))
    mesh.pass_s(1)
    assert mesh.ledger.notes["event_again"] == 1
    assert mesh.has_all("C1")


def test_a_broker_that_is_not_on_the_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="not a broker of the mesh"):
        Broker("B7", BrokerParams(handover="predictive"), 1, Plane())


# On the way.


def test_m2_a_client_reports_when_its_status_changes_and_not_when_it_crosses_a_border() -> None:
    mesh = Mesh()
    mesh.settle()
    before = mesh.sent("attach")
    mesh.goes("C1", (6, 0))
    assert mesh.sent("attach") == before + 1
    assert mesh.serving("C1") == [(0, 0)]
    mesh.rest("C1", (6, 0))
    mesh.pass_s(2)
    assert mesh.sent("attach") == before + 2
    assert mesh.serving("C1") == [(6, 0)]


def test_m5_events_meet_the_client_on_its_way_each_over_as_many_hops_as_it_has_gone() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.goes("C1", (6, 0))
    assert mesh.has_all("C1")
    assert mesh.sent("forwarded") == 0 + 1 + 2 + 3 + 4 + 5 + 6
    assert max(mesh.tally.latencies_us) < 100_000


def test_m5_the_client_table_has_status_and_subscriptions() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.pass_s(1)
    session = mesh.nodes[mesh.grid.broker((0, 0))].border.sessions["C1"]
    assert session.attachment.trip is not None
    assert session.attachment.trip.status.destination == mesh.point((6, 0))
    assert len(session.attachment.trip.stays) == 7
    assert len(session.subscriptions) == 1


def test_m5_an_event_that_is_early_waits_at_the_forwarding_broker() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0), speed_mps=250)
    mesh.move("C1", None)
    mesh.pass_s(1.6)
    mesh.publish("C0")
    mesh.pass_s(0.5)
    assert mesh.handover((2, 0)).waiting["C1"].events
    mesh.enter("C1", (2, 0))
    mesh.pass_s(0.1)
    assert mesh.has_all("C1")
    assert not mesh.handover((2, 0)).waiting


def test_m5_an_event_that_is_late_is_sent_after_the_client() -> None:
    mesh = Mesh(mesh=MeshParams(columns=7, rows=3, hop_delay_ms=0.001))
    mesh.settle()
    mesh.leaves_for("C1", (6, 0), speed_mps=250)
    mesh.enter("C1", (3, 0))
    # The client leaves the third cell 2.5 s after its report; two hops take longer than the broker believes.
    mesh.pass_s(2.485)
    mesh.publish("C0")
    mesh.pass_s(0.1)
    assert mesh.has_all("C1")
    assert mesh.sent("forwarded") == 3
    assert mesh.serving("C1") == [(0, 0)]


def test_m5_what_the_client_has_got_on_the_way_its_serving_broker_forgets() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.goes("C1", (6, 0), events=5)
    assert len(mesh.published) == 35
    mesh.pass_s(1)
    kept = mesh.nodes[mesh.grid.broker((0, 0))].border.sessions["C1"].window.entries
    assert len(kept) < 16


def test_m5_forwarded_events_beyond_the_bound_are_dropped_noted_and_still_arrive_with_the_report() -> None:
    mesh = Mesh(mesh=MeshParams(columns=7, rows=3, held_events_max=2))
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.move("C1", None)
    mesh.pass_s(8)
    for _ in range(5):
        mesh.publish("C0")
    mesh.pass_s(0.2)
    assert mesh.ledger.notes["forward_missed"] == 3
    mesh.rest("C1", (6, 2))
    mesh.pass_s(2)
    assert mesh.has_all("C1")


# Brokers that are down.


def test_m6_forwarding_goes_around_a_broker_that_is_down() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.world.crash(mesh.grid.broker((2, 0)), keeps_disk=False)
    mesh.move("C1", None)
    mesh.pass_s(40)
    mesh.enter("C1", (4, 0))
    for _ in range(3):
        mesh.publish("C0")
    mesh.pass_s(0.5)
    assert mesh.has_all("C1")
    assert mesh.serving("C1") == [(0, 0)]


def test_m6_what_was_under_way_when_a_broker_went_down_takes_another_way() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.move("C1", None)
    mesh.pass_s(40)
    mesh.enter("C1", (4, 0))
    mesh.publish("C0")
    mesh.pass_s(0.008)
    mesh.world.crash(mesh.grid.broker((2, 0)), keeps_disk=False)
    mesh.pass_s(0.5)
    assert mesh.has_all("C1")
    assert mesh.serving("C1") == [(0, 0)]


def test_m6_where_no_broker_leads_on_events_wait_for_a_link() -> None:
    mesh = Mesh(columns=5, rows=1)
    mesh.settle()
    link = (mesh.grid.broker((1, 0)), mesh.grid.broker((2, 0)))
    mesh.leaves_for("C1", (4, 0), speed_mps=1_000)
    mesh.move("C1", None)
    mesh.world.links.cut(*link)
    mesh.pass_s(5)
    mesh.enter("C1", (4, 0))
    mesh.publish("C0")
    mesh.pass_s(1)
    assert mesh.got("C1") == []
    mesh.world.links.heal(*link)
    mesh.pass_s(1)
    assert mesh.has_all("C1")


# Handover.


@pytest.mark.parametrize("kind", KINDS)
def test_m7_a_trip_costs_nothing_and_leaves_nothing_behind(kind: MeshKind) -> None:
    mesh = Mesh(kind)
    mesh.settle()
    for goal in ((6, 0), (0, 2), (3, 1)):
        mesh.goes("C1", goal, events=2)
        mesh.rest("C1", goal)
        mesh.publish("C0")
        mesh.pass_s(1)
    mesh.pass_s(20)
    assert mesh.has_all("C1")
    assert mesh.serving("C1") == [(3, 1)]
    wishes = {name: len(node.neighbours.router.table.of(CLIENT + "C1")) for name, node in mesh.nodes.items()}
    assert sum(wishes.values()) == 1


def test_m7_the_old_broker_forwards_until_the_new_subscription_has_reached_it() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.goes("C1", (6, 0), events=0)
    forwarded = mesh.sent("forwarded")
    mesh.rest("C1", (6, 0))
    # The report takes 1 ms, and the claim six hops of 5 ms: half-way it has not arrived.
    mesh.pass_s(0.015)
    mesh.publish("C0")
    mesh.pass_s(0.002)
    assert sorted(mesh.serving("C1")) == [(0, 0), (6, 0)]
    assert mesh.sent("forwarded") > forwarded
    mesh.pass_s(1)
    assert mesh.serving("C1") == [(6, 0)]
    assert mesh.has_all("C1")


def test_m7_a_later_report_overtakes_an_earlier_claim_and_still_finds_the_session() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.move("C1", None)
    mesh.publish("C0")
    mesh.rest("C1", (6, 0))
    # The claim of (6, 0) is on its way to (5, 1), the next broker of the tree, when the client reports there.
    mesh.pass_s(0.003)
    mesh.rest("C1", (5, 1))
    mesh.pass_s(0.5)
    mesh.publish("C0")
    mesh.pass_s(20)
    assert mesh.has_all("C1")
    assert mesh.serving("C1") == [(5, 1)]


def test_m7_a_claim_goes_to_the_old_broker_and_not_to_everybody() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.goes("C1", (6, 0))
    before = mesh.sent("relocate")
    mesh.rest("C1", (6, 0))
    mesh.pass_s(1)
    assert mesh.sent("relocate") == before + 6
    assert mesh.serving("C1") == [(6, 0)]


def test_m7_a_client_that_publishes_on_its_way_is_served_from_there() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.pass_s(15)
    mesh.enter("C1", (2, 0))
    mesh.publish("C1")
    mesh.pass_s(1)
    assert mesh.serving("C1") == [(2, 0)]
    assert mesh.has_all("C1")


def test_m7_a_report_that_was_lost_is_made_again_on_the_next_link() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.move("C1", None)
    mesh.rest("C1", (3, 0))
    mesh.move("C1", None)
    mesh.pass_s(1)
    assert mesh.serving("C1") == [(0, 0)]
    mesh.enter("C1", (4, 0))
    mesh.pass_s(1)
    assert mesh.serving("C1") == [(4, 0)]


def test_m7_a_client_that_returns_to_its_serving_broker_is_told_at_once_what_it_missed() -> None:
    mesh = Mesh("batch")
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.move("C1", None)
    mesh.publish("C0")
    mesh.pass_s(1)
    mesh.enter("C1", (0, 0))
    mesh.pass_s(0.1)
    assert mesh.has_all("C1")


@pytest.mark.parametrize("wants", [True, False])
def test_m7_a_subscription_lost_at_a_border_is_told_in_the_next_cell(wants: bool) -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    # The word takes 1 ms.
    if wants:
        mesh.unsubscribe("C1")
        mesh.pass_s(1)
        mesh.subscribe("C1", "TRUE")
    else:
        mesh.unsubscribe("C1")
    mesh.pass_s(0.000_5)
    mesh.enter("C1", (1, 0))
    mesh.pass_s(1)
    mesh.publish("C0")
    mesh.pass_s(1)
    assert mesh.has_all("C1") == wants
    assert [len(mesh.nodes[mesh.grid.broker((1, 0))].border.sessions["C1"].subscriptions)] == [int(wants)]


def test_m7_a_confirmed_subscription_makes_nobody_report_at_the_border() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.leaves_for("C1", (6, 0))
    mesh.subscribe("C1", "TRUE")
    mesh.pass_s(0.1)
    before = mesh.sent("attach")
    mesh.enter("C1", (1, 0))
    mesh.pass_s(1)
    assert mesh.sent("attach") == before


# Baselines.


def test_m8_probing_brings_events_when_the_client_asks() -> None:
    mesh = Mesh("probing")
    mesh.settle()
    mesh.goes("C1", (6, 0), speed_mps=5, events=3)
    mesh.pass_s(10)
    assert mesh.has_all("C1")
    assert 3 < sum(mesh.tally.latencies_us) / len(mesh.tally.latencies_us) / 1e6 < 7
    assert mesh.sent("polled") > 0


def test_m8_batch_forwarding_brings_everything_at_the_end_of_the_trip() -> None:
    mesh = Mesh("batch")
    mesh.settle()
    mesh.goes("C1", (6, 0))
    assert mesh.got("C1") == []
    mesh.rest("C1", (6, 0))
    mesh.pass_s(1)
    assert mesh.has_all("C1")
    assert mesh.sent("forwarded") == 7 * 6


def test_m8_a_client_that_never_says_that_it_has_arrived_gets_the_batch_when_it_should_have() -> None:
    mesh = Mesh("batch", mesh=MeshParams(columns=7, rows=3, report_s=10))
    mesh.settle()
    mesh.leaves_for("C1", (6, 0), speed_mps=150)
    mesh.publish("C0")
    mesh.pass_s(15)
    assert mesh.got("C1") == []
    mesh.pass_s(6)
    assert mesh.has_all("C1")
    mesh.publish("C0")
    mesh.pass_s(1)
    assert mesh.has_all("C1")


# Crashes.


def test_r3_a_client_that_crashes_and_returns_is_not_given_what_it_had_before() -> None:
    mesh = Mesh()
    mesh.settle()
    mesh.publish("C0")
    mesh.pass_s(1)
    mesh.world.crash("C1", keeps_disk=False)
    mesh.move("C1", None)
    mesh.world.restart("C1")
    mesh.enter("C1", (5, 0))
    mesh.pass_s(1)
    assert mesh.serving("C1") == [(5, 0)]
    assert mesh.client("C1").last == 0
    assert len(mesh.got("C1")) == 1
