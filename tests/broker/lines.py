"""A line of brokers with a few clients, for tests that tell one story each."""

from collections.abc import Sequence

from roamcast.broker.params import BrokerParams
from roamcast.papers.chaos import Trial, TrialParams


class Line(Trial):
    """Brokers B0 - B1 - B2 - …; every broker link takes 10 ms or more, nobody is attached at first."""

    def __init__(self, brokers: int, clients: int, params: BrokerParams | None = None) -> None:
        super().__init__(1, params or BrokerParams(), TrialParams(brokers, clients))

    def _tree(self) -> Sequence[tuple[str, str]]:
        return list(zip(self.brokers, self.brokers[1:], strict=False))

    def got(self, subscription_id: str) -> list[str]:
        return self.ledger.got.get(subscription_id, [])
