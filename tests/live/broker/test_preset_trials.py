"""L3, L8 under every preset: clients roam, brokers are killed, links cut, and nothing that was promised is lost."""

import os

import pytest

from roamcast.protocols.broker.logical.params import AheadParams
from roamcast.protocols.broker.params import BrokerParams
from tests.live.broker.test_roaming_trials import Trial

SEEDS = int(os.environ.get("ROAMCAST_SEEDS", "5"))
NEXT = {"a": ("b", "d"), "b": ("c",), "c": ("a", "b", "d"), "d": ("a",)}
PRESETS = {
    "advertisements": BrokerParams(advertisements=True),
    "ahead": BrokerParams(ahead=AheadParams(next_brokers=NEXT)),
    "both": BrokerParams(advertisements=True, routing="merging", ahead=AheadParams(next_brokers=NEXT)),
}


@pytest.mark.parametrize("faults", ["", "roam", "roam cut", "roam cut kill"])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_complete_in_order_and_once_l3_l8_r1_r7(seed: int, preset: str, faults: str) -> None:
    trial = Trial(seed, frozenset(faults.split()), PRESETS[preset])
    trial.run()
    trial.check()


@pytest.mark.parametrize(("seed", "preset", "faults"), [(19, "ahead", "roam"), (72, "both", "roam cut kill")])
def test_p24_a_client_that_goes_on_before_its_session_has_come_keeps_all_of_it(
    seed: int, preset: str, faults: str
) -> None:
    """What it had been sent and had said reached the broker that it had left already."""
    trial = Trial(seed, frozenset(faults.split()), PRESETS[preset])
    trial.run()
    trial.check()
