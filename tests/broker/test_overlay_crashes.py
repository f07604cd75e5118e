"""Brokers of an overlay that crash, and news of moves that come late (O4, O7)."""

import pytest
from msgspec.structs import replace

from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.directory import Directory
from roamcast.broker.overlay.messages import Discharge, Enrol
from roamcast.broker.params import BrokerParams
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.node.boundary import Node
from roamcast.node.kit import Seat
from roamcast.papers.chaos import Failure
from roamcast.papers.chaos_overlay import QUICK, OverlayTrial, OverlayTrialParams, try_overlay
from tests.broker.test_overlay_relocation import Story

CRASHES = OverlayTrialParams(brokers=4, clients=3, relays=2, seconds=15.0, crashes=True)
SHORT = replace(QUICK, clients=BrokerParams(counterpart_age_s_max=40.0))
WANTED = Subscription("s", "C", "x", 0, FOREVER_US)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4, 5])
def test_o7_brokers_that_crash_lose_only_what_they_had_and_leave_nothing_behind(seed: int) -> None:
    trial = try_overlay(seed, SHORT, CRASHES)
    assert trial.crashes


class Indifferent(OverlayTrial):
    """Brokers that make nothing anew after a crash of another one."""

    def _node(self, seat: Seat) -> Node:
        node = super()._node(seat)
        if isinstance(node, OverlayBroker):
            node.relocation.losses.renew = lambda *_: []  # type: ignore[method-assign]
        return node


class IndifferentStory(Indifferent, Story):
    pass


@pytest.mark.parametrize(("kind", "complaint"), [(Story, ""), (IndifferentStory, "never got")])
def test_the_trial_fails_for_brokers_that_make_nothing_anew_after_a_crash(kind: type[Story], complaint: str) -> None:
    story = kind()
    place = story.elsewhere()
    story.move_post(place)
    story.pass_s(2)
    story.crash_broker(place)
    story.pass_s(30)
    story.apart_us = story.world.kernel.now_us
    story.pass_s(1)
    story.publish("C1")
    story.pass_s(5)
    said = ""
    try:
        story.check()
    except Failure as failure:
        said = str(failure)
    assert complaint in said
    assert bool(said) == bool(complaint)


def test_o4_a_modulator_whose_broker_crashed_on_the_point_of_handing_it_over_is_made_anew() -> None:
    story = Story()
    home, to = story.home(), story.elsewhere()
    story.move_post(to)
    story.pass_s(2)
    story.nodes[to].relocation.departing._hand_over = lambda *_: []  # type: ignore[method-assign]
    story.move_post(home)
    story.pass_s(1)
    story.world.crash(to, keeps_disk=False)
    story.pass_s(1)
    story.world.restart(to)
    story.pass_s(20)
    assert ("C0", "events_lost") in story.ledger.noted_us
    assert story.place() == home
    before = len(story.ledger.got["C0/s0"])
    story.publish("C1")
    story.pass_s(2)
    assert len(story.ledger.got["C0/s0"]) == before + 1


def test_o4_an_event_for_a_post_that_has_gone_is_sent_on_and_its_sender_is_corrected() -> None:
    story = Story()
    (producer,) = [name for name, node in story.nodes.items() if "C1" in node.clients.sessions]
    source = story.place()
    to = next(name for name in story.brokers if name not in (producer, source))
    stale = story.nodes[producer].brokers.directory.entries["C0/s0"]
    story.move_post(to)
    story.pass_s(1)
    assert story.place() == to
    story.nodes[producer].brokers.directory.entries["C0/s0"] = stale
    story.publish("C1")
    story.pass_s(2)
    assert story.ledger.counts["C0/s0"] == [1, 2]
    assert story.nodes[producer].brokers.directory.entries["C0/s0"].place == to


def test_o1_a_broker_that_lost_an_entry_asks_for_it_when_it_hears_where_the_post_is() -> None:
    story = Story()
    story.move_home(story.elsewhere())
    story.pass_s(1)
    other = next(name for name in story.brokers if name != story.home())
    directory = story.nodes[other].brokers.directory
    directory.discharge(Discharge("C0/s0", FOREVER_US, directory.entries["C0/s0"].made, certain=False))
    node = story.nodes[story.home()]
    node.brokers.news["C0/s0"] = (0, ())
    story.pass_s(2)
    assert directory.entries["C0/s0"].place == story.home()


def test_o1_news_of_a_post_that_come_behind_its_end_are_old() -> None:
    directory = Directory(Plane(), 10, 10)
    assert not directory.discharge(Discharge("s", 7, 5))
    assert not directory.enrol(Enrol(WANTED, "B", 6, 5))
    assert directory.enrol(Enrol(WANTED, "B", 8, 8)), "another post of the same subscription"


def test_o1_a_post_whose_end_was_told_first_takes_an_earlier_one_with_it() -> None:
    directory = Directory(Plane(), 10, 10)
    directory.enrol(Enrol(WANTED, "B", 6, 5))
    assert not directory.discharge(Discharge("s", 9, 8))
    assert not directory.enrol(Enrol(WANTED, "C", 8, 8))
    assert (len(directory.entries), len(directory.table)) == (0, 0)


def test_o1_a_post_that_was_believed_lost_does_not_take_the_place_of_its_successor() -> None:
    directory = Directory(Plane(), 10, 10)
    directory.enrol(Enrol(WANTED, "B", 9, 8))
    assert not directory.enrol(Enrol(WANTED, "C", 12, 5))
    assert directory.entries["s"].place == "B"


def test_o1_a_broker_that_only_does_not_have_a_post_does_not_end_it() -> None:
    directory = Directory(Plane(), 10, 10)
    directory.enrol(Enrol(WANTED, "B", 6, 5))
    assert directory.discharge(Discharge("s", 6, 5, certain=False))
    assert directory.enrol(Enrol(WANTED, "D", 7, 5))


def test_o1_of_two_news_of_a_move_the_later_is_right() -> None:
    directory = Directory(Plane(), 10, 10)
    directory.enrol(Enrol(WANTED, "B", 6, 5))
    directory.moved("s", 5, 8, "D")
    directory.moved("s", 5, 7, "E")
    assert directory.entries["s"].place == "D"


def test_o1_a_broker_that_knows_an_earlier_post_asks_for_the_later_one() -> None:
    directory = Directory(Plane(), 10, 10)
    assert directory.lacks("s", 6)
    directory.enrol(Enrol(WANTED, "B", 6, 5))
    assert not directory.lacks("s", 6)
    assert directory.lacks("s", 9)


def test_o4_a_broker_that_knows_nothing_of_what_moves_is_told_by_the_next_broker() -> None:
    story = Story()
    (producer,) = [name for name, node in story.nodes.items() if "C1" in node.clients.sessions]
    to = next(name for name in story.brokers if name not in (producer, story.place()))
    directory = story.nodes[producer].brokers.directory
    directory.discharge(Discharge("C0/s0", FOREVER_US, directory.entries["C0/s0"].made, certain=False))
    story.move_post(to)
    story.pass_s(1)
    assert directory.entries["C0/s0"].place == story.place() == to
