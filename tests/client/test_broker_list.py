"""L3: which broker is next, and after which pause."""

from random import Random

import pytest

from roamcast.client.broker_list import PAUSE_MAX_S, REFERENCES_MAX, BrokerList
from roamcast.client.connection import address_of


def broker_list(*brokers: str) -> BrokerList:
    return BrokerList(list(brokers), Random(1))


def test_l3_brokers_are_tried_in_their_order_round_and_round() -> None:
    made = broker_list("mqtt://a", "mqtts://b:99", "mqtt://a:1883")
    assert [str(made.next_address()) for _ in range(3)] == ["mqtt://a:1883", "mqtts://b:99", "mqtt://a:1883"]


def test_l3_the_first_round_has_no_pauses_and_later_ones_have_longer_and_longer_ones_up_to_a_bound() -> None:
    made = broker_list("mqtt://a", "mqtt://b")
    pauses = []
    for _ in range(40):
        pauses.append(made.pause_s())
        made.next_address()
        made.failed()
    assert pauses[:2] == [0.0, 0.0]
    assert 0 < pauses[2] <= 0.1
    assert PAUSE_MAX_S / 2 <= pauses[-1] <= PAUSE_MAX_S
    made.reached()
    assert made.pause_s() == 0.0


def test_l3_the_same_seed_draws_the_same_pauses() -> None:
    def pauses(seed: int) -> list[float]:
        made = BrokerList(["mqtt://a"], Random(seed))
        made.failed()
        return [made.pause_s() for _ in range(5)]

    assert pauses(3) == pauses(3)
    assert pauses(3) != pauses(4)


def test_l3_a_broker_that_is_asked_for_comes_next_and_once() -> None:
    made = broker_list("mqtt://a")
    made.go(address_of("mqtt://z:7"))
    assert made.is_asked(address_of("mqtt://z:7"))
    assert [str(made.next_address()) for _ in range(2)] == ["mqtt://z:7", "mqtt://a:1883"]


@pytest.mark.parametrize("permanently", [False, True])
def test_l3_a_reference_is_followed_and_remembered_if_the_broker_has_moved(permanently: bool) -> None:
    made = broker_list("mqtts://a", "mqtts://b")
    made.next_address()
    made.refer("::: [fe80::1]:77 other", "mqtts", permanently)
    assert str(made.next_address()) == "mqtts://[fe80::1]:77"
    assert [str(each) for each in made.addresses] == [
        "mqtts://[fe80::1]:77" if permanently else "mqtts://a:8883",
        "mqtts://b:8883",
    ]


def test_l3_brokers_that_send_a_client_in_circles_are_not_followed_for_ever() -> None:
    made = broker_list("mqtt://a")
    made.next_address()
    for _ in range(REFERENCES_MAX):
        made.refer("b", "mqtt", permanently=False)
        assert str(made.next_address()) == "mqtt://b:1883"
    made.refer("b", "mqtt", permanently=False)
    assert made.pause_s() > 0
    assert str(made.next_address()) == "mqtt://a:1883"


def test_l3_a_reference_that_nobody_can_read_is_a_failure() -> None:
    made = broker_list("mqtt://a")
    made.refer("http://x", "mqtt", permanently=True)
    assert str(made.next_address()) == "mqtt://a:1883"
    assert made.pause_s() > 0


def test_l3_a_client_needs_a_broker() -> None:
    with pytest.raises(ValueError, match="needs a broker"):
        broker_list()
