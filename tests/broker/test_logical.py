"""Logical mobility (R4, R5): filters along the path follow the client, and delivery is as if by flooding."""

import pytest
from msgspec.structs import replace

from roamcast.broker.client import Client
from roamcast.broker.logical.params import PAPERS_RULE, LogicalParams
from roamcast.broker.params import BrokerParams
from roamcast.broker.router import CLIENT
from roamcast.broker.routing import Strategy
from roamcast.model.filter import parse_text
from roamcast.node.boundary import Does, Subscribe
from roamcast.node.kit import Seat
from roamcast.papers.chaos import Failure, TrialParams
from roamcast.papers.chaos_logical import LogicalTrial, WalkTrial, try_logical_seed
from tests.broker.walks import Example

STRATEGIES: tuple[Strategy, ...] = ("flooding", "simple", "identity", "covering", "merging")
FIXED_S = 0.1
EVEN_MS = (100, 100, 100)
ALL = "abcd"
NEXT = {"a": "abc", "b": "abd", "c": "acd", "d": "bcd"}
SHORT = TrialParams(actions=50)


def stepping(**changes: object) -> LogicalParams:
    return replace(PAPERS_RULE, **{"residence_s": FIXED_S, **changes})


@pytest.mark.parametrize("place", "abcd")
def test_r5_table_1_each_broker_looks_one_step_further_when_a_link_takes_as_long_as_a_stay(place: str) -> None:
    example = Example(EVEN_MS, stepping())
    example.begin(place)
    assert example.sets() == [place, NEXT[place], ALL, ALL]


def test_r5_table_2_the_filters_follow_a_client_that_walks_from_a_to_b_to_d() -> None:
    example = Example(EVEN_MS, stepping())
    example.begin("a")
    rows = [example.sets()]
    for place in "bd":
        example.stand("C0", place)
        example.pass_s(3)
        rows.append(example.sets())
    assert rows == [["a", "abc", ALL, ALL], ["b", "abd", ALL, ALL], ["d", "bcd", ALL, ALL]]


def test_r4_only_brokers_whose_set_changes_pass_a_move_on() -> None:
    example = Example(EVEN_MS, stepping())
    example.begin("a")
    example.spoken.count.clear()
    example.stand("C0", "b")
    example.pass_s(3)
    assert example.spoken.of("report") == ["C0-B0"]
    assert example.spoken.of("located") == ["B0-B1"]


@pytest.mark.parametrize("place", "abcd")
def test_r5_table_3_a_slow_client_needs_one_step_everywhere_and_a_fast_one_all_places(place: str) -> None:
    slow = Example(EVEN_MS, stepping(residence_s=60.0))
    slow.begin(place)
    assert slow.sets() == [place, NEXT[place], NEXT[place], NEXT[place]]
    fast = Example(EVEN_MS, stepping(residence_s=0.01))
    fast.begin(place)
    assert fast.sets() == [place, ALL, ALL, ALL]


@pytest.mark.parametrize("place", "abcd")
def test_r5_table_4_steps_0_1_1_2_2_for_delays_of_120_50_50_and_20_ms_and_stays_of_100_ms(place: str) -> None:
    example = Example((120, 50, 50, 20), stepping())
    example.begin(place)
    assert example.sets() == [place, NEXT[place], NEXT[place], ALL, ALL]


def test_r5_the_extremes_are_plain_resubscription_and_every_place() -> None:
    nothing_ahead, everything = Example(EVEN_MS, stepping(steps=0)), Example(EVEN_MS, stepping(steps=64))
    nothing_ahead.begin("a")
    everything.begin("a")
    assert nothing_ahead.sets() == ["a", "a", "a", "a"]
    assert everything.sets() == ["a", ALL, ALL, ALL]


def test_r5_the_residence_time_is_measured_from_the_clients_own_moves() -> None:
    example = Example(EVEN_MS, PAPERS_RULE, places={"a": "b", "b": "c", "c": "d", "d": "e", "e": "f"})
    example.begin("a")
    assert example.sets()[1:] == ["ab", "ab", "ab"]
    for place in "babab":
        example.stand("C0", place)
        example.pass_s(0.1)
    example.pass_s(3)
    state = example.nodes["B0"].border.sessions["C0"].client_state
    assert 100_000 <= state.residence_us < 1_500_000
    for _ in range(8):
        for place in "ab":
            example.stand("C0", place)
            example.pass_s(0.1)
    example.pass_s(3)
    assert example.sets()[1:] == ["abc", "abcd", "abcde"]


def test_r5_a_link_that_becomes_slower_makes_brokers_behind_it_look_further() -> None:
    example = Example(
        EVEN_MS, stepping(probe_period_s=1.0), places={"a": "b", "b": "c", "c": "d", "d": "e", "e": "f"}
    )
    example.begin("a")
    assert example.sets()[1:] == ["ab", "abc", "abcd"]
    link = example.world.links.between[("B0", "B1")]
    link.params = type(link.params)("B0", "B1", 165.0)
    example.pass_s(20)
    assert example.sets()[1:] == ["ab", "abcde", "abcdef"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_r4_a_client_that_walks_gets_what_flooding_would_give_it(strategy: Strategy) -> None:
    trial = WalkTrial(STRATEGIES.index(strategy), BrokerParams(routing=strategy), 0.7, SHORT)
    trial.run()
    trial.check()
    assert trial.required > 15
    trial.leave()


def test_r5_a_client_too_fast_for_one_step_gets_all_when_brokers_look_as_far_as_delays_and_stays_say() -> None:
    logical = LogicalParams(residence_s=0.05)
    trial = WalkTrial(3, BrokerParams(logical=logical), 0.05, SHORT)
    trial.run()
    trial.check()
    assert trial.required > 15


@pytest.mark.parametrize(("seed", "stays_s"), [(0, 0.05), (2, 0.1)])
def test_r5_a_fast_client_misses_nothing_by_default_and_something_by_the_papers_rule(
    seed: int, stays_s: float
) -> None:
    default, paper = (
        WalkTrial(seed, BrokerParams(logical=logical), stays_s, SHORT) for logical in (LogicalParams(), PAPERS_RULE)
    )
    default.run()
    default.check()
    assert default.required > 15
    paper.run()
    with pytest.raises(Failure, match="never got"):
        paper.check()


@pytest.mark.parametrize("logical", [LogicalParams(steps=0), LogicalParams(steps=1)])
def test_r5_the_check_fails_when_brokers_do_not_look_far_enough(logical: LogicalParams) -> None:
    trial = WalkTrial(0, BrokerParams(logical=logical), 0.05, SHORT)
    trial.run()
    with pytest.raises(Failure, match="never got"):
        trial.check()


class Stubborn(Client):
    """Never tells anybody that it has moved."""

    def _report(self, now_us: int) -> list[Does]:
        return super()._report(now_us) if self.reported is None else []


def test_r4_the_check_fails_for_a_client_that_does_not_report_its_moves() -> None:
    trial = WalkTrial(1, BrokerParams(logical=PAPERS_RULE), 0.7, SHORT)
    for client in trial.clients:
        trial.world.by_name[client].host.node = Stubborn(client, trial.broker_params, graph=trial.graph)
    trial.run()
    with pytest.raises(Failure, match="never got"):
        trial.check()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_r4_clients_that_walk_and_roam_lose_nothing_double_nothing_and_leave_nothing(
    strategy: Strategy,
) -> None:
    try_logical_seed(STRATEGIES.index(strategy), BrokerParams(routing=strategy), TrialParams(actions=70))


def test_r4_a_template_moves_with_its_session_and_nothing_stays_at_the_old_broker() -> None:
    example = Example((10, 10, 10, 10), stepping())
    subscription = example.begin("a")
    example.move("C0", None)
    example.pass_s(1)
    missed = example.publish("C1", {"place": "d"})
    example.pass_s(1)
    example.stand("C0", "b")
    example.stand("C0", "d")
    example.move("C0", "B2")
    example.pass_s(2)
    event = example.publish("C1", {"place": "d"})
    example.pass_s(1)
    assert example.ledger.got[subscription] == [missed, event]
    sources = {name: list(broker.logical.following.held) for name, broker in example.nodes.items()}
    assert sources == {"B0": ["B1"], "B1": ["B2"], "B2": [CLIENT + "C0"], "B3": ["B2"]}
    example.leave()


def test_r4_ending_a_subscription_takes_its_template_away_everywhere() -> None:
    example = Example(EVEN_MS, stepping())
    example.begin("a")
    example.unsubscribe("C0")
    example.pass_s(3)
    assert [len(broker.logical.following) for broker in example.nodes.values()] == [0, 0, 0]


def test_r4_a_broker_that_crashed_is_told_again_whom_to_follow() -> None:
    example = Example((10, 10, 10, 10), stepping())
    subscription = example.begin("a")
    example.world.crash("B2", keeps_disk=False)
    example.pass_s(1)
    example.stand("C0", "b")
    example.pass_s(1)
    example.world.restart("B2")
    example.pass_s(3)
    event = example.publish("C1", {"place": "b"})
    example.pass_s(1)
    assert example.ledger.got[subscription] == [event]
    assert example.sets() == ["b", "abd", "abd", "abd", "abd"]


def test_r4_a_subscription_may_change_to_one_that_follows_and_back() -> None:
    example = Example((10, 10, 10), stepping())
    name = example.begin("a")
    plain = replace(example.subscriptions[name], filter=parse_text("place = 'd'"))
    example.world.give("C0", Subscribe(plain))
    example.pass_s(1)
    assert [len(broker.logical.following) for broker in example.nodes.values()] == [0, 0, 0]
    event = example.publish("C1", {"place": "d"})
    example.pass_s(1)
    assert example.ledger.got[name] == [event]
    example.world.give("C0", Subscribe(example.subscriptions[name]))
    example.pass_s(1)
    assert example.sets() == ["a", "abc", "abc", "abc"]
    assert all(len(broker.neighbours.router.table) == 0 for broker in example.nodes.values())


class StubbornTrial(LogicalTrial):
    def _client(self, seat: Seat) -> Stubborn:
        return Stubborn(seat.host, self.broker_params, seat.space, self.graph)


def test_r4_the_check_of_walking_and_roaming_fails_for_clients_that_do_not_report_their_moves() -> None:
    trial = StubbornTrial(1, BrokerParams(), SHORT)
    trial.run()
    with pytest.raises(Failure, match="never got"):
        trial.check()


def test_r4_the_check_of_walking_and_roaming_fails_when_brokers_do_not_look_further_for_clients_that_are_away() -> (
    None
):
    trial = LogicalTrial(1, BrokerParams(logical=replace(PAPERS_RULE, away_steps=0)), SHORT)
    trial.run()
    with pytest.raises(Failure, match="never got"):
        trial.check()
