"""Single stories of brokers that crash: what is lost is told, and nothing is doubled or found by mistake (R3)."""

from msgspec.structs import replace

from roamcast.broker.client import Client
from roamcast.broker.messages import Lost, Numbered
from roamcast.broker.params import BrokerParams
from roamcast.broker.window import Delivery
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Value
from roamcast.node.boundary import Deliver, LinkUp, Received, Send, Subscribe
from tests.broker.lines import Line

PRICE: dict[str, Value] = {"price": 1, "kind": "a"}


def standing_line(brokers: int, at: str) -> tuple[Line, str]:
    """C0 publishes at the first broker, C1 is subscribed at another."""
    line = Line(brokers, 2)
    line.pass_s(1)
    line.move("C0", "B0")
    line.move("C1", at)
    subscription = line.subscribe("C1", "price < 5")
    line.pass_s(5)
    return line, subscription


def crash(line: Line, broker: str, down_s: float = 0.1) -> None:
    line.world.crash(broker, keeps_disk=False)
    line.pass_s(down_s)
    line.world.restart(broker)


def test_r3_a_publication_that_a_crashed_broker_had_passed_on_is_not_delivered_again() -> None:
    line, subscription = standing_line(3, "B2")
    event = line.publish("C0", PRICE)
    while len(set(line.ledger.under_way_us[event])) == 1:
        line.pass_s(0.001)
    # Now the event is on its way from B0, and C0 never hears that B0 has accepted it.
    line.move("C0", None)
    line.pass_s(2)
    crash(line, "B0")
    line.pass_s(2)
    line.move("C0", "B1")
    line.pass_s(10)
    assert line.got(subscription) == [event]


def test_r3_what_a_crashed_broker_kept_is_lost_and_the_client_is_told() -> None:
    line, subscription = standing_line(3, "B2")
    line.move("C1", None)
    line.publish("C0", PRICE)
    line.pass_s(2)
    crash(line, "B2")
    line.pass_s(2)
    line.move("C1", "B1")
    line.pass_s(5)
    assert line.got(subscription) == []
    assert line.ledger.notes["events_lost"] == 1
    event = line.publish("C0", PRICE)
    line.pass_s(2)
    assert line.got(subscription) == [event]


def test_r3_a_client_that_went_on_before_the_loss_was_known_is_told_where_it_is_now() -> None:
    line, _ = standing_line(4, "B3")
    line.move("C1", None)
    line.publish("C0", PRICE)
    line.pass_s(2)
    crash(line, "B3")
    line.pass_s(2)
    line.cut(("B2", "B3"))
    line.move("C1", "B2")
    line.pass_s(0.015)
    line.move("C1", "B1")
    line.pass_s(90)
    assert line.ledger.notes["events_lost"] == 1


def test_r3_a_client_that_is_away_when_the_loss_is_known_is_told_when_it_returns() -> None:
    line, _ = standing_line(3, "B2")
    line.move("C1", None)
    line.pass_s(2)
    crash(line, "B2")
    line.pass_s(2)
    line.move("C1", "B1")
    line.pass_s(0.011)
    line.move("C1", None)
    line.pass_s(90)
    assert "events_lost" not in line.ledger.notes
    line.move("C1", "B1")
    line.pass_s(1)
    assert line.ledger.notes["events_lost"] == 1


def test_r3_a_broker_that_has_crashed_passes_on_that_a_client_is_gone() -> None:
    line = Line(3, 1, BrokerParams(counterpart_age_s_max=20.0))
    line.pass_s(1)
    line.move("C0", "B2")
    line.pass_s(2)
    line.move("C0", "B0")
    line.pass_s(2)
    line.world.links.cut("B0", "B1")
    crash(line, "B1")
    line.move("C0", None)
    line.pass_s(30)
    assert line.nodes["B2"].handover.arrow_of("C0") is not None
    line.world.links.heal("B0", "B1")
    line.pass_s(2)
    assert line.nodes["B2"].handover.arrow_of("C0") is None


def test_r3_a_broker_that_has_crashed_learns_from_its_neighbours_where_clients_are() -> None:
    line, _ = standing_line(4, "B0")
    line.move("C1", "B3")
    line.pass_s(2)
    crash(line, "B1")
    line.pass_s(2)
    arrow = line.nodes["B1"].handover.arrows.of["C1"]  # type: ignore[attr-defined]
    assert arrow.towards == "B2"


def test_r3_a_claim_that_a_crashed_broker_forgot_does_not_leave_a_later_one_to_an_older_session() -> None:
    """C1 goes from B0 to B3, then to B0 again, while the broker between them has forgotten everything."""
    line, subscription = standing_line(4, "B0")
    line.move("C1", "B3")
    line.pass_s(2)
    crash(line, "B1")
    line.pass_s(2)
    line.move("C1", None)
    event = line.publish("C0", PRICE)
    line.pass_s(2)
    line.move("C1", "B0")
    line.pass_s(5)
    assert line.got(subscription) == [event]
    assert "events_lost" not in line.ledger.notes


def test_r3_a_claim_that_comes_back_to_a_crashed_broker_does_not_lead_to_where_it_came_back_from() -> None:
    """C1 is at B0. A neighbour on the other side says the claim again that it had heard from the crashed broker."""
    line, _ = standing_line(4, "B3")
    line.move("C1", "B0")
    line.pass_s(2)
    claim = line.nodes["B2"].handover.arrows.of["C1"].claim  # type: ignore[attr-defined]
    assert claim.path == ("B0", "B1", "B2")
    crash(line, "B1", 0.05)
    node = line.nodes["B1"]
    node.handover.hear(line.world.kernel.now_us, replace(claim, corrects=True), "B2")
    assert node.handover.arrows.of["C1"].towards == "B0"  # type: ignore[attr-defined]


def test_r3_numbers_of_a_broker_whose_replay_never_came_are_not_given_again() -> None:
    line = Line(3, 3)
    line.pass_s(1)
    for client, broker in (("C0", "B0"), ("C1", "B2"), ("C2", "B2")):
        line.move(client, broker)
    subscription = line.subscribe("C1", "price < 5")
    line.pass_s(5)
    line.world.crash("B1", keeps_disk=False)
    line.hang_on_two("C1", "B0")
    line.pass_s(0.1)
    # B2, which C1 still hears, does not know that it has gone on.
    first = line.publish("C2", PRICE)
    line.pass_s(line.broker_params.replay_wait_s_max + 5)
    assert line.got(subscription) == [first]
    second = line.publish("C0", PRICE)
    line.pass_s(5)
    assert line.got(subscription) == [first, second]


def test_r3_a_client_on_two_brokers_takes_nothing_of_what_the_earlier_one_began_anew() -> None:
    client, event = Client("C0", BrokerParams()), Event("e", "x", Context("C1"), 1, 1, {"price": 1})
    client.handle(1, Subscribe(Subscription("s", "C0", "x", 1, FOREVER_US)))
    for peer in ("B0", "B1"):
        client.handle(2, LinkUp(peer))
    delivery = Delivery(event, 1, ("s",))
    for stale in (Lost(None), Numbered(60_001, delivery)):
        assert client.handle(3, Received(stale, "B0")) == []
    taken = client.handle(4, Received(Numbered(1, delivery), "B1"))
    assert [type(each) for each in taken] == [Deliver, Send]
