"""Random walks over a mesh lose and double nothing, however wrong the predictions are (M7, M10)."""

import pytest

from roamcast.broker.mesh.client import MeshClient
from roamcast.broker.messages import Numbered
from roamcast.broker.params import BrokerParams
from roamcast.node.boundary import Does, Node
from roamcast.node.kit import Seat
from roamcast.papers.chaos import Failure, TrialParams
from roamcast.papers.chaos_mesh import KINDS, MeshKind, MeshTrial, trial_params, try_mesh_seed
from roamcast.papers.trials import outcome
from tests.effort import seeds

SHORT = TrialParams(clients=5, actions=80)


@pytest.mark.parametrize("kind", KINDS)
@seeds(6)
def test_m7_m10_random_walks_lose_and_double_nothing_keep_order_and_leave_nothing(seed: int, kind: MeshKind) -> None:
    try_mesh_seed(seed, kind, SHORT)


def test_a_trial_is_made_from_its_seed_alone() -> None:
    got = []
    for _ in range(2):
        trial = MeshTrial(3, trial_params("predictive"), SHORT)
        trial.run()
        got.append((trial.ledger.got, trial.ledger.notes))
    assert got[0] == got[1]


def test_trials_have_predictions_that_hit_and_such_that_miss() -> None:
    trial = MeshTrial(2, trial_params("predictive"), SHORT)
    trial.run()
    assert trial.ledger.notes["forward_missed"] > 0


def test_the_mesh_is_among_the_trials_that_run_at_length() -> None:
    assert outcome("mesh", 0) is None


class Trusting(MeshClient):
    """Takes whatever is newer, as if brokers always found it: what did not is lost."""

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        return super()._take(now_us, Numbered(numbered.number, numbered.delivery), sender)


class Forgetful(MeshClient):
    """Does not know what it has got: whatever comes again it gets twice."""

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        effects = super()._take(now_us, numbered, sender)
        self.last = max(0, self.last - 1)
        self.marks.clear()
        return effects


class Taciturn(MeshClient):
    """Never says that it is somewhere else."""

    def _report_now(self, now_us: int) -> list[Does]:
        return []


@pytest.mark.slow
@pytest.mark.parametrize("naive", [Trusting, Forgetful, Taciturn])
def test_most_trials_fail_for_clients_that_do_not_follow_the_protocol(naive: type[MeshClient]) -> None:
    """Not all: what a client does wrong must happen to matter."""

    class Naive(MeshTrial):
        def _client(self, seat: Seat) -> Node:
            return naive(seat.host, self.broker_params, seat.space, seat.graph)

    failed = 0
    for seed in range(5):
        trial = Naive(seed, trial_params("predictive"))
        trial.run()
        try:
            trial.check()
        except Failure:
            failed += 1
    assert failed >= 3


def test_a_buffer_that_is_too_small_loses_events_and_says_so() -> None:
    params = trial_params("batch")
    small = BrokerParams(handover="batch", mesh=params.mesh, counterpart_events_max=2)
    trial = MeshTrial(1, small, SHORT)
    trial.run()
    with pytest.raises(Failure):
        trial.check()
    assert trial.ledger.notes["events_lost"] > 0
