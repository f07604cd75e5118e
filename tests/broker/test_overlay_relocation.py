"""Relocation of modulators and sessions: the eight steps, and what holds whatever happens meanwhile (O4, O6, O7)."""

from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.broker.modulators.spec import Declarative, Every, spec_to_text
from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.messages import Agree, Detoured, Inside
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.params import BrokerParams
from roamcast.node.boundary import Does, Node
from roamcast.node.kit import Seat
from roamcast.papers.chaos import Failure
from roamcast.papers.chaos_overlay import QUICK, OverlayTrial, OverlayTrialParams, try_overlay
from tests.effort import seeds

SMALL = OverlayTrialParams(brokers=4, clients=3, relays=1, seconds=8.0, area_m=500.0)
SHORT = replace(QUICK, clients=BrokerParams(counterpart_age_s_max=30.0))
STILL = OverlayParams(home="given", update_period_s=3.0, tend_s=0.5, clients=BrokerParams(counterpart_age_s_max=60.0))


class Story(OverlayTrial):
    """Three brokers, one consumer, one producer, all in reach of each other; nothing moves unless it is told to."""

    def __init__(self, overlay: OverlayParams = STILL) -> None:
        super().__init__(1, overlay, OverlayTrialParams(brokers=3, clients=2, relays=0))
        self.said: list[tuple[str, str, str]] = []
        self.pass_s(5)
        self.subscribe("C0", "TRUE")
        self.pass_s(2)
        self.publish("C1")
        self.pass_s(1)

    def place(self) -> str:
        """Where the modulator is."""
        (name,) = [name for name, node in self.nodes.items() if node.clients.posts]
        return name

    def home(self) -> str:
        (name,) = [name for name, node in self.nodes.items() if "C0" in node.clients.sessions]
        return name

    def elsewhere(self) -> str:
        return next(name for name in self.brokers if name not in (self.place(), self.home()))

    def move_home(self, to: str) -> None:
        node = self.nodes[self.home()]
        self._perform(node.host, node.relocation.departing.horizontal(self.world.kernel.now_us, "C0", to))

    def move_post(self, to: str) -> None:
        node = self.nodes[self.place()]
        name = next(iter(node.clients.posts))
        self._perform(node.host, node.relocation.departing.place(self.world.kernel.now_us, name, to))

    def change_to(self, filter_text: str) -> None:
        """The consumer wants something else under the same name."""
        self._again("C0/s0", filter_text)

    def listen(self) -> None:
        for node in self.nodes.values():
            node.brokers.flows.say = self._overheard(node)  # type: ignore[method-assign]

    def _overheard(self, node: OverlayBroker) -> Any:
        say = node.brokers.flows.say

        def overheard(now_us: int, peer: str, inside: Inside) -> list[Does]:
            self.said.append((node.host, peer, inside.kind))
            return say(now_us, peer, inside)

        return overheard


def test_o4_a_home_moves_in_the_eight_steps_of_section_2_4() -> None:
    story = Story()
    source, destination = story.home(), story.elsewhere()
    (producers,) = [name for name, node in story.nodes.items() if "C1" in node.clients.sessions]
    concerned = {destination, producers} - {source}
    story.listen()
    story.move_home(destination)
    story.pass_s(2)
    steps = [each for each in story.said if each[2] in ("ask", "agree", "detour", "detoured", "handoff")]
    assert steps[0] == (source, destination, "ask")
    assert steps[1] == (destination, source, "agree")
    assert {each for each in steps if each[2] == "detour"} == {(source, each, "detour") for each in concerned}
    assert {each for each in steps if each[2] == "detoured"} == {(each, source, "detoured") for each in concerned}
    assert steps[-1] == (source, destination, "handoff")
    assert story.home() == story.place() == destination


LIGHT = replace(STILL, light_moves=True)


def detours_of_a_move(modulator: str, params: OverlayParams = LIGHT) -> int:
    """How many brokers are told of a move of a modulator, and wait for, besides the two."""
    story = Story(params)
    source = story.home()
    # The producer gets a broker of its own.
    (producer,) = [name for name, node in story.nodes.items() if "C1" in node.clients.sessions]
    away = next(name for name in story.brokers if name != source)
    node = story.nodes[producer]
    if producer == source:
        story._perform(producer, node.relocation.departing.horizontal(story.world.kernel.now_us, "C1", away))
        story.pass_s(2)
        producer = away
    story.subscribe("C0", "TRUE", modulator)
    story.pass_s(2)
    to = next(name for name in story.brokers if name not in (source, producer))
    story.listen()
    node, name = story.nodes[source], "C0/s1"
    story._perform(source, node.relocation.departing.place(story.world.kernel.now_us, name, to))
    story.pass_s(2)
    assert name in story.nodes[to].clients.posts
    return len([each for each in story.said if each[2] == "detour" and each[1] not in (source, to)])


def test_o4_a_light_move_of_what_has_no_state_does_not_wait_for_brokers_with_producers() -> None:
    everything, sampled = (spec_to_text(each) for each in (Declarative(keep=("n",)), Declarative(sampling=Every(2))))
    assert [detours_of_a_move(each) for each in ("", everything, sampled)] == [0, 0, 1]
    assert detours_of_a_move("", STILL) == 1


class AlwaysLight(OverlayTrial):
    def _node(self, seat: Seat) -> Node:
        node = super()._node(seat)
        if isinstance(node, OverlayBroker):
            node.relocation.departing._is_light = lambda move: True  # type: ignore[method-assign]
        return node


@seeds(10)
def test_o4_light_moves_lose_and_disorder_nothing_even_of_what_has_state(seed: int) -> None:
    trial = AlwaysLight(seed, SHORT, SMALL)
    trial.run()
    trial.check()
    trial.leave()
    assert trial.ledger.notes["handed_over"] > 3


def test_o4_brokers_without_producers_hear_of_a_move_once_a_period() -> None:
    story = Story()
    destination = story.elsewhere()
    story.listen()
    story.move_home(destination)
    story.pass_s(STILL.update_period_s + 2)
    assert len([each for each in story.said if each[2] == "whereabouts"]) <= 1
    assert all(node.brokers.directory.entries["C0/s0"].place == destination for node in story.nodes.values())


def test_o4_the_modulator_goes_on_counting_at_the_new_broker_and_the_client_learns_its_home() -> None:
    story = Story()
    to = story.elsewhere()
    for _ in range(3):
        story.publish("C1")
    story.move_home(to)
    for _ in range(3):
        story.publish("C1")
        story.pass_s(0.002)
    story.pass_s(2)
    assert story.ledger.counts["C0/s0"] == [1, 2, 3, 4, 5, 6, 7]
    client = story.world.by_name["C0"].host.node
    assert client.home == to  # type: ignore[attr-defined]


def test_o6_a_modulator_may_be_elsewhere_than_its_home_and_come_back() -> None:
    story = Story()
    home, to = story.home(), story.elsewhere()
    story.move_post(to)
    story.pass_s(1)
    assert (story.place(), story.home()) == (to, home)
    story.publish("C1")
    story.pass_s(1)
    node = story.nodes[to]
    story._perform(to, node.relocation.departing.downstream(story.world.kernel.now_us, "C0/s0"))
    story.pass_s(1)
    story.publish("C1")
    story.pass_s(1)
    assert story.place() == home
    assert story.ledger.counts["C0/s0"] == [1, 2, 3]


def test_o6_upstream_is_towards_the_producers() -> None:
    story = Story()
    producer = next(name for name, node in story.nodes.items() if "C1" in node.clients.sessions)
    if story.home() == producer:
        story.move_home(story.elsewhere())
        story.pass_s(2)
    node = story.nodes[story.home()]
    assert node.relocation.departing.upstream_of("C0/s0") == node.brokers.topology.path(producer)[1]  # type: ignore[index]


def test_o4_a_home_moves_while_its_modulator_stays_elsewhere() -> None:
    story = Story()
    story.move_post(story.elsewhere())
    story.pass_s(1)
    place, to = story.place(), story.elsewhere()
    story.publish("C1")
    story.move_home(to)
    story.publish("C1")
    story.pass_s(2)
    assert (story.place(), story.home()) == (place, to)
    assert story.ledger.counts["C0/s0"] == [1, 2, 3]


def test_o4_home_and_modulator_move_at_the_same_time_and_nothing_is_lost() -> None:
    story = Story()
    story.move_post(story.elsewhere())
    story.pass_s(1)
    to, home = story.elsewhere(), story.home()
    story.move_post(home)
    story.move_home(to)
    for _ in range(5):
        story.publish("C1")
        story.pass_s(0.003)
    story.pass_s(3)
    assert story.ledger.counts["C0/s0"] == [1, 2, 3, 4, 5, 6]


def test_o4_unsubscribing_on_the_way_leaves_nothing_behind() -> None:
    story = Story()
    story.move_home(story.elsewhere())
    story.pass_s(0.005)
    story.unsubscribe("C0")
    story.pass_s(5)
    assert all(node.left()["posts"] == node.left()["entries"] == 0 for node in story.nodes.values())


def test_o4_a_broker_that_cannot_run_a_modulator_refuses_it_and_everything_stays() -> None:
    story = Story()
    to, home = story.elsewhere(), story.home()
    story.nodes[to].brokers.directory.without(story.place())
    story.move_home(to)
    story.pass_s(2)
    assert story.ledger.notes["handoff_refused"] == 1
    assert story.home() == story.place() == home


def test_o1_a_modulator_that_nobody_knows_is_refused() -> None:
    story = Story()
    story.subscribe("C0", "TRUE", modulator="nobody knows it")
    story.pass_s(1)
    assert story.ledger.notes["modulator_refused"] == 1


def test_o7_a_client_out_of_reach_gets_everything_later() -> None:
    story = Story()
    story.world.pause("C0", story.world.kernel.now_us + 3_000_000)
    for _ in range(4):
        story.publish("C1")
        story.pass_s(0.5)
    assert story.ledger.counts["C0/s0"] == [1]
    story.pass_s(4)
    assert story.ledger.counts["C0/s0"] == [1, 2, 3, 4, 5]


def test_o1_a_client_whose_home_broker_crashed_begins_anew_and_says_so() -> None:
    story = Story()
    home = story.home()
    story.world.crash(home, keeps_disk=False)
    story.pass_s(1)
    story.world.restart(home)
    story.pass_s(15)
    before = len(story.ledger.got["C0/s0"])
    story.publish("C1")
    story.pass_s(3)
    assert story.ledger.notes["events_lost"] >= 1
    assert len(story.ledger.got["C0/s0"]) == before + 1


def test_o1_a_modulator_whose_broker_crashed_is_made_anew_at_the_home_broker() -> None:
    story = Story()
    story.move_post(story.elsewhere())
    story.pass_s(1)
    place, home = story.place(), story.home()
    story.world.crash(place, keeps_disk=False)
    story.pass_s(1)
    story.world.restart(place)
    story.pass_s(8)
    assert story.place() == home
    story.publish("C1")
    story.pass_s(3)
    assert story.ledger.notes["events_lost"] >= 1
    assert story.ledger.counts["C0/s0"] == [1, 1]


@seeds(5)
def test_o4_random_trials_are_complete_in_order_without_duplicates_and_leave_nothing_behind(seed: int) -> None:
    trial = try_overlay(seed, SHORT, SMALL)
    assert trial.ledger.notes["handed_over"] > 3
    assert trial.ledger.notes["relocated"] == trial.ledger.notes["handed_over"]


class Hasty(OverlayTrial):
    """Brokers that hand over at once, without waiting for what is still on its way to them (step 5), and that do not
    send on what comes afterwards."""

    def _node(self, seat: Seat) -> Node:
        node = super()._node(seat)
        if isinstance(node, OverlayBroker):
            departing = node.relocation.departing
            agreed = departing.agreed

            def hasty(now_us: int, agree: Agree) -> list[Does]:
                effects = agreed(now_us, agree)
                move = departing.moves.get(agree.client)
                for broker in list(move.awaits or ()) if move is not None else ():
                    effects += departing.detoured(now_us, Detoured(agree.client, agree.move), broker)
                return effects

            departing.agreed = hasty  # type: ignore[method-assign]
            node.clients._send_on = lambda *_: []  # type: ignore[method-assign]
        return node


class Careless(OverlayTrial):
    """Brokers that do not buffer what arrives before the modulator does (step 6)."""

    def _node(self, seat: Seat) -> Node:
        node = super()._node(seat)
        if isinstance(node, OverlayBroker):
            node.relocation.arriving._buffer = lambda arrival, each: []  # type: ignore[method-assign]
        return node


class HastyStory(Hasty, Story):
    pass


class CarelessStory(Careless, Story):
    pass


def everything_arrives_during_a_move(story: Story) -> bool:
    """Events leave the producer's broker so close together that some meet every step of the move."""
    producer = next(name for name, node in story.nodes.items() if "C1" in node.clients.sessions)
    if story.home() == producer:
        story.move_home(story.elsewhere())
        story.pass_s(1)
    source = story.home()
    (to,) = [name for name in story.brokers if name not in (source, producer)]
    for index in range(200):
        story.publish("C1")
        story.pass_s(0.0002)
        if index == 50:
            story.move_home(to)
    story.pass_s(5)
    assert story.home() == to
    return story.ledger.got["C0/s0"] == [event.id for event in story.published]


@pytest.mark.parametrize(("kind", "arrives"), [(Story, True), (HastyStory, False), (CarelessStory, False)])
def test_o4_events_arrive_during_a_move_unless_a_step_is_left_out(kind: type[Story], arrives: bool) -> None:
    assert everything_arrives_during_a_move(kind()) is arrives


def test_o4_the_trial_notices_a_modulator_that_lost_count() -> None:
    story = Story()
    story.check()
    story.ledger.counts["C0/s0"] = [2]
    with pytest.raises(Failure, match="lost count"):
        story.check()


def test_o4_the_trial_notices_a_modulator_that_began_anew_without_reason() -> None:
    story = Story()
    story.ledger.counts["C0/s0"] = [1, 2, 1]
    with pytest.raises(Failure, match="begun 2 times"):
        story.check()
    story.change_to("price >= 0")
    story.check()


def test_o4_the_trial_notices_an_event_that_never_came() -> None:
    story = Story()
    story.required_from_us["C0/s0"] = 0
    story.check()
    story.ledger.got["C0/s0"].clear()
    with pytest.raises(Failure, match="never got"):
        story.check()
