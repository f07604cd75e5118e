"""A move changes routes between the old broker and the new one, and nowhere else (R3; Rebeca, section 4.1)."""

import pytest

from roamcast.broker.routing import Strategy
from roamcast.papers.rebeca_locality import STRATEGIES, one_hop


@pytest.mark.parametrize("move", ["first", "later"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_r3_a_move_by_one_hop_changes_two_routes_on_any_line(strategy: Strategy, move: str) -> None:
    for brokers in (7, 31):
        assert one_hop({"routing": strategy, "brokers": brokers, "move": move}, 1)["routes"] == 2


def test_r3_a_claim_goes_nowhere_but_to_the_old_broker() -> None:
    for brokers in (7, 31):
        assert one_hop({"routing": "covering", "brokers": brokers, "move": "later"}, 1)["search"] == 2
