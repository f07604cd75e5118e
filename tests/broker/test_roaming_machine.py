"""Roaming as a state machine (R3): whatever order hypothesis finds for moves, changed filters, links that go down,
brokers that crash, and publications."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy
from roamcast.papers.chaos import PAUSES_S, Trial, TrialParams
from tests.effort import examples

CLIENTS = st.sampled_from(["C0", "C1", "C2"])
BROKERS = st.sampled_from(["B0", "B1", "B2", "B3"])
STRATEGIES: st.SearchStrategy[Strategy] = st.sampled_from(["flooding", "simple", "identity", "covering", "merging"])


class Roaming(RuleBasedStateMachine):
    trial: Trial

    @initialize(seed=st.integers(0, 1_000), strategy=STRATEGIES)
    def begin(self, seed: int, strategy: Strategy) -> None:
        self.trial = Trial(seed, BrokerParams(routing=strategy), TrialParams(brokers=4, clients=3))
        self.trial.pass_s(0.1)
        for client in self.trial.clients:
            self.trial.move(client, "B0")
        self.trial.pass_s(1)
        for client in self.trial.clients:
            self.trial.subscribe(client)
        self.trial.pass_s(31)

    @rule(client=CLIENTS)
    def publish(self, client: str) -> None:
        self.trial.publish(client)

    @rule(client=CLIENTS, broker=BROKERS)
    def move(self, client: str, broker: str) -> None:
        self.trial.move(client, broker)

    @rule(client=CLIENTS, broker=BROKERS)
    def hang_on_two(self, client: str, broker: str) -> None:
        self.trial.hang_on_two(client, broker)

    @rule(client=CLIENTS)
    def vanish(self, client: str) -> None:
        self.trial.move(client, None)

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        self.trial.cut(data.draw(st.sampled_from(list(self.trial.tree))))

    @rule(client=CLIENTS)
    def change(self, client: str) -> None:
        self.trial.change(client)

    @rule(broker=BROKERS)
    def crash(self, broker: str) -> None:
        self.trial.crash(broker)

    @rule(seconds=st.sampled_from(PAUSES_S))
    def wait(self, seconds: float) -> None:
        self.trial.pass_s(seconds)

    def teardown(self) -> None:
        if hasattr(self, "trial"):
            self.trial.calm()
            self.trial.recovered_us = self.trial.world.kernel.now_us
            self.trial.check()
            self.trial.leave()


TestRoaming = Roaming.TestCase
TestRoaming.settings = examples(40, stateful_step_count=30)
