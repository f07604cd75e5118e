"""L2, L3, L8: retained, lasting, shared, wills, every QoS and every way through a broker at once, with all faults."""

import os

import pytest

from tests.live.broker.mixture import Mixture

SEEDS = int(os.environ.get("ROAMCAST_SEEDS", "2"))
STEPS = 40


@pytest.mark.parametrize("brokers", ["a", "ab", "abc"])
@pytest.mark.parametrize("faults", ["", "roam", "drop kill", "cut", "roam drop cut kill"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_everything_at_once_arrives_in_order_and_as_often_as_promised_l2_l3_l8(
    seed: int, faults: str, brokers: str
) -> None:
    trial = Mixture(seed, frozenset(faults.split()), brokers)
    trial.run(STEPS)
    trial.check()
