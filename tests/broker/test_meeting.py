"""R1: brokers with very many clients can meet."""

import pytest

from roamcast.broker import neighbours
from roamcast.broker.broker import Broker
from roamcast.broker.messages import Attach, Hello, Sequenced
from roamcast.broker.params import BrokerParams
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.node.boundary import LinkUp, Note, Received, Send


@pytest.fixture(autouse=True)
def _small_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "WINDOW_BYTES", 30_000)


def crowded(clients: int, params: BrokerParams) -> Broker:
    broker = Broker("A", params, 1)
    for number in range(clients):
        wanted = Subscription(f"s{number}", f"c{number}", f"dev/{number}", 0, FOREVER_US)
        broker.handle(number + 1, Received(Attach(number + 1, 0, "first", (wanted,)), f"c{number}"))
    return broker


def test_r1_a_broker_with_more_clients_than_a_stream_may_hold_messages_can_be_met() -> None:
    params = BrokerParams(routing="simple", stream_bytes_max=3_000)
    broker = crowded(100, params)
    broker.handle(10_000, LinkUp("B"))
    said = broker.handle(10_001, Received(Hello(7, 0, 0), "B"))
    assert not [each for each in said if isinstance(each, Note) and each.what == "stream_overflow"]
    assert len([each for each in said if isinstance(each, Send) and isinstance(each.message, Sequenced)]) > 110


def test_r1_what_comes_after_the_meeting_is_bounded_as_ever() -> None:
    params = BrokerParams(routing="simple", stream_bytes_max=3_000)
    broker = crowded(1, params)
    broker.handle(10_000, LinkUp("B"))
    broker.handle(10_001, Received(Hello(7, 0, 0), "B"))
    notes = []
    for number in range(2, 300):
        wanted = Subscription(f"s{number}", f"c{number}", f"dev/{number}", 0, FOREVER_US)
        said = broker.handle(20_000 + number, Received(Attach(20_000 + number, 0, "first", (wanted,)), f"c{number}"))
        notes += [each.what for each in said if isinstance(each, Note)]
    assert "stream_overflow" in notes
