"""The engine gives exactly the answers of `model.match` (C6), whatever was added, moved, removed or has expired."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from msgspec.structs import replace

from roamcast.matching import pool
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from tests.effort import examples
from tests.filter.strategies import contexts, positions
from tests.matching.worlds import HOSTS, SPACES, World, events, subscriptions


@pytest.fixture(autouse=True)
def _small_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few subscriptions fill a tail and are sorted into cells, as thousands are otherwise."""
    monkeypatch.setattr(pool, "TAIL_MIN", 2)


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_c6_a_batch_of_events_matches_as_each_alone_by_the_definition(space: Space) -> None:
    @examples(120, suppress_health_check=list(HealthCheck))
    @given(
        hosts=st.lists(contexts(space), max_size=4),
        wanted=st.lists(subscriptions(space), max_size=12),
        given_events=st.lists(events(space), min_size=1, max_size=4),
    )
    def equal(hosts: list[Context], wanted: list[Subscription], given_events: list[Event]) -> None:
        world = World(space)
        for subscription in wanted:
            world.subscribe(subscription)
        for context in hosts:
            world.place(context)
        world.check(given_events)

    equal()


def machine_of(space: Space) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.world = World(space)
            self.now_us = 10

        @rule(subscription=subscriptions(space))
        def subscribe(self, subscription: Subscription) -> None:
            self.world.subscribe(subscription)

        @rule(number=st.integers(0, 11))
        def unsubscribe(self, number: int) -> None:
            self.world.unsubscribe(f"s{number}")

        @rule(context=contexts(space))
        def place(self, context: Context) -> None:
            self.world.place(context)

        @rule(placed=st.lists(contexts(space), max_size=8))
        def place_all(self, placed: list[Context]) -> None:
            self.world.contexts |= {each.host: each for each in placed}
            self.world.engine.place_all(placed)

        @rule(host=st.sampled_from(HOSTS))
        def forget(self, host: str) -> None:
            self.world.forget(host)

        @rule(to=st.lists(positions(space), min_size=4, max_size=4))
        def move(self, to: list[Point]) -> None:
            world = self.world
            placed = [each for each in HOSTS if each in world.contexts and world.contexts[each].position is not None]
            chosen = list(zip(placed, to, strict=False))
            for host, position in chosen:
                world.contexts[host] = replace(world.contexts[host], position=position)
            numbers = [world.engine.host_number(host) for host, _ in chosen]
            world.engine.move(numbers, [each.x for _, each in chosen], [each.y for _, each in chosen])

        @rule(us=st.integers(0, 3))
        def expire(self, us: int) -> None:
            self.now_us += us
            gone = [each.id for each in self.world.subscriptions.values() if each.expires_us < self.now_us]
            assert sorted(self.world.engine.expire(self.now_us)) == sorted(gone)
            for each in gone:
                del self.world.subscriptions[each]

        @rule(given_events=st.lists(events(space), min_size=1, max_size=3))
        def publish(self, given_events: list[Event]) -> None:
            self.world.check(given_events, self.now_us)
            self.world.check_grids()
            assert len(self.world.engine) == len(self.world.subscriptions)

    return Machine


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_c6_the_engine_stays_equal_while_everything_changes(space: Space) -> None:
    run_state_machine_as_test(
        machine_of(space),
        settings=examples(40, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )
