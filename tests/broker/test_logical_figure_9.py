"""Figure 9 of Rebeca: how many messages logical mobility takes, against flooding (R6)."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import load_scenario

SECONDS = 24
BETWEEN_BROKERS = ("notified", "wanted", "unwanted", "located", "unlocated", "probe", "echo", "got")


def ran(name: str) -> Run:
    scenario = replace(load_scenario(Path(f"scenarios/rebeca-logical-{name}.toml")), seconds=SECONDS)
    run = Run(scenario, kit_of(scenario.protocol), seed=1)
    for _ in run.steps():
        pass
    run.finish()
    return run


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: ran(name) for name in ("flooding", "1s", "10s")}


@pytest.mark.slow
def test_r6_flooding_takes_more_messages_than_a_fast_client_and_that_more_than_a_slow_one(
    runs: dict[str, Run],
) -> None:
    totals = {name: run.result().transmissions for name, run in runs.items()}
    assert totals["flooding"] > 4 * totals["1s"]
    assert totals["1s"] > totals["10s"]


def test_r6_between_brokers_logical_mobility_is_ten_times_below_flooding(runs: dict[str, Run]) -> None:
    between = {
        name: sum(run.result().messages.get(each, 0) for each in BETWEEN_BROKERS) for name, run in runs.items()
    }
    assert between["flooding"] > 10 * between["1s"]


def test_r4_the_client_gets_exactly_what_it_gets_by_flooding(runs: dict[str, Run]) -> None:
    assert runs["1s"].tally.deliveries == runs["flooding"].tally.deliveries
    assert len(runs["1s"].tally.deliveries) > 20
