"""Single stories of sessions: what a broker keeps for a client, and for how long (R3)."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from roamcast.broker.broker import Broker
from roamcast.broker.client import Client
from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy
from roamcast.model.filter import parse_text
from roamcast.model.values import Value
from roamcast.node.boundary import Subscribe
from tests.broker.lines import Line

PRICE: dict[str, Value] = {"price": 1, "kind": "a"}


def settled_line(brokers: int = 6, params: BrokerParams | None = None) -> tuple[Line, str]:
    """C0 publishes at the first broker, C1 is subscribed at the last."""
    line = Line(brokers, 2, params)
    line.pass_s(1)
    line.move("C0", "B0")
    line.move("C1", line.brokers[-1])
    subscription = line.subscribe("C1", "price < 5")
    line.pass_s(5)
    return line, subscription


def test_r3_a_client_that_moves_from_the_last_broker_to_the_second_goes_on_behind_its_last_number() -> None:
    line, subscription = settled_line()
    before = [line.publish("C0", PRICE) for _ in range(123)]
    line.pass_s(5)
    assert line.got(subscription) == before
    line.move("C1", None)
    line.pass_s(1)
    missed = [line.publish("C0", PRICE) for _ in range(10)]
    line.move("C1", "B1")
    meanwhile = [line.publish("C0", PRICE) for _ in range(10)]
    line.pass_s(5)
    assert line.got(subscription) == [*before, *missed, *meanwhile]
    assert line.nodes["B1"].border.sessions["C1"].window.next_number == 144
    assert "C1" not in line.nodes["B5"].border.sessions


def test_r3_a_client_that_returns_to_the_same_broker_gets_what_it_missed_and_nobody_is_asked() -> None:
    line, subscription = settled_line(3)
    line.move("C1", None)
    line.pass_s(1)
    missed = [line.publish("C0", PRICE) for _ in range(3)]
    line.pass_s(1)
    line.move("C1", "B2")
    line.pass_s(1)
    assert line.got(subscription) == missed
    assert [broker for broker in line.brokers if line.nodes[broker].handover.arrow_of("C1")] == ["B2"]


def test_r3_a_client_that_moves_on_before_the_first_move_is_done_gets_everything_once() -> None:
    line, subscription = settled_line()
    line.move("C1", None)
    line.pass_s(1)
    missed = [line.publish("C0", PRICE) for _ in range(3)]
    line.pass_s(1)
    line.move("C1", "B0")
    line.pass_s(0.015)
    assert line.nodes["B0"].border.sessions["C1"].attachment.awaits is not None
    line.move("C1", "B3")
    meanwhile = line.publish("C0", PRICE)
    line.pass_s(5)
    assert line.got(subscription) == [*missed, meanwhile]
    assert [broker for broker in line.brokers if "C1" in line.nodes[broker].border.sessions] == ["B3"]


def test_r3_of_two_brokers_that_claim_a_client_the_later_attachment_has_it() -> None:
    line, subscription = settled_line()
    line.hang_on_two("C1", "B1")
    line.hang_on_two("C1", "B3")
    events = [line.publish("C0", PRICE) for _ in range(3)]
    line.pass_s(5)
    assert line.got(subscription) == events
    (holder,) = [broker for broker in line.brokers if "C1" in line.nodes[broker].border.sessions]
    client = line.world.by_name["C1"].host.node
    assert isinstance(client, Client)
    assert client.broker == holder


def test_r3_what_waits_for_a_client_is_bounded_and_the_loss_is_told() -> None:
    line, subscription = settled_line(params=BrokerParams(counterpart_events_max=5))
    line.move("C1", None)
    line.pass_s(1)
    events = [line.publish("C0", PRICE) for _ in range(8)]
    line.pass_s(1)
    line.move("C1", "B2")
    line.pass_s(5)
    assert line.got(subscription) == events[3:]
    assert line.ledger.notes["events_lost"] == 1


def test_r3_a_client_that_stays_away_too_long_is_forgotten_everywhere_and_told_when_it_returns() -> None:
    line, subscription = settled_line(params=BrokerParams(counterpart_age_s_max=20.0))
    line.move("C1", None)
    line.pass_s(25)
    assert all(not any(broker.left().values()) for broker in line.nodes.values() if broker.host != "B0")
    line.move("C1", "B3")
    line.pass_s(2)
    event = line.publish("C0", PRICE)
    line.pass_s(2)
    assert line.got(subscription) == [event]
    assert line.ledger.notes["events_lost"] == 1


def test_r3_a_client_that_crashed_starts_anew_and_its_old_session_goes() -> None:
    line, subscription = settled_line()
    line.move("C1", None)
    line.world.crash("C1", keeps_disk=False)
    line.publish("C0", PRICE)
    line.pass_s(1)
    line.world.restart("C1")
    line.move("C1", "B2")
    renewed = line.subscribe("C1", "price < 5")
    line.pass_s(5)
    event = line.publish("C0", PRICE)
    line.pass_s(2)
    assert line.got(renewed) == [event]
    assert line.got(subscription) == []
    assert "C1" not in line.nodes["B5"].border.sessions


def test_r3_a_broker_that_crashed_is_asked_anew_and_events_pass_it_again() -> None:
    line, subscription = settled_line()
    line.world.crash("B3", keeps_disk=False)
    line.pass_s(1)
    line.world.restart("B3")
    line.pass_s(5)
    event = line.publish("C0", PRICE)
    line.pass_s(2)
    assert line.got(subscription) == [event]


def test_r1_events_wait_for_a_link_between_brokers_that_is_down_for_a_while() -> None:
    line, subscription = settled_line()
    line.world.links.cut("B2", "B3")
    events = [line.publish("C0", PRICE) for _ in range(20)]
    line.pass_s(10)
    assert line.got(subscription) == []
    line.world.links.heal("B2", "B3")
    line.pass_s(5)
    assert line.got(subscription) == events


def test_r1_a_neighbour_that_is_away_beyond_the_patience_is_given_up_and_welcome_again() -> None:
    line, subscription = settled_line(params=BrokerParams(stream_patience_s=5.0))
    line.world.links.cut("B2", "B3")
    line.pass_s(10)
    assert "B3" not in line.nodes["B2"].neighbours.streams.of
    line.publish("C0", PRICE)
    line.world.links.heal("B2", "B3")
    line.pass_s(5)
    event = line.publish("C0", PRICE)
    line.pass_s(2)
    assert line.got(subscription) == [event]


def test_r1_a_stream_that_nobody_takes_from_is_bounded() -> None:
    line, _ = settled_line(params=BrokerParams(stream_bytes_max=3_000))
    line.world.links.cut("B2", "B3")
    for _ in range(100):
        line.publish("C0", PRICE)
    line.pass_s(2)
    assert line.ledger.notes["stream_overflow"] == 1
    assert isinstance(line.nodes["B2"], Broker)
    assert "B3" not in line.nodes["B2"].neighbours.streams.of


def test_r1_an_event_does_not_go_round_for_ever_where_brokers_are_linked_in_a_circle() -> None:
    class Ring(Line):
        def _tree(self) -> Sequence[tuple[str, str]]:
            return [*super()._tree(), (self.brokers[-1], self.brokers[0])]

    ring = Ring(3, 1, BrokerParams(routing="flooding"))
    ring.pass_s(1)
    ring.move("C0", "B0")
    ring.pass_s(1)
    ring.publish("C0", PRICE)
    ring.pass_s(60)
    assert ring.ledger.notes["event_looped"] == 2


def test_r3_what_waited_may_be_more_than_one_message_can_hold() -> None:
    line, subscription = settled_line()
    line.move("C1", None)
    line.pass_s(1)
    events = [line.publish("C0", {"price": 1, "kind": "x" * 20_000}) for _ in range(64)]
    line.pass_s(2)
    line.move("C1", "B1")
    line.pass_s(5)
    assert line.got(subscription) == events
    assert "unsendable" not in line.ledger.notes


def test_r3_a_link_that_is_down_in_the_middle_of_a_move_delays_the_replay_and_loses_nothing() -> None:
    line, subscription = settled_line()
    line.move("C1", None)
    line.pass_s(1)
    events = [line.publish("C0", PRICE) for _ in range(5)]
    line.pass_s(1)
    line.world.links.cut("B3", "B4")
    line.move("C1", "B1")
    line.pass_s(30)
    assert line.got(subscription) == []
    line.world.links.heal("B3", "B4")
    line.pass_s(5)
    assert line.got(subscription) == events
    assert "events_lost" not in line.ledger.notes


@pytest.mark.parametrize("routing", ["flooding", "simple", "identity", "covering", "merging"])
def test_r2_a_subscription_that_changed_while_its_client_was_away_holds_as_it_is_now(routing: Strategy) -> None:
    line, subscription = settled_line(params=BrokerParams(routing=routing))
    line.move("C1", None)
    line.pass_s(1)
    changed = replace(line.subscriptions[subscription], filter=parse_text("price > 7"))
    line.world.give("C1", Subscribe(changed))
    line.move("C1", "B2")
    line.pass_s(5)
    line.publish("C0", {"price": 1, "kind": "a"})
    wanted = line.publish("C0", {"price": 8, "kind": "a"})
    line.pass_s(5)
    assert line.got(subscription) == [wanted]


def test_r3_a_claim_whose_way_leads_through_a_crashed_broker_goes_once_more() -> None:
    line, subscription = settled_line()
    line.move("C1", None)
    line.pass_s(1)
    events = [line.publish("C0", PRICE) for _ in range(5)]
    line.pass_s(1)
    line.world.crash("B3", keeps_disk=False)
    line.move("C1", "B1")
    line.pass_s(1)
    line.world.restart("B3")
    line.pass_s(10)
    assert line.got(subscription) == events
