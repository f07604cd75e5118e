"""Advertisements (R1): wishes go only to where something is announced, and nothing is lost by it."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.advertising import Advertising
from roamcast.broker.gated import AskAdvertised
from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy, asking_for
from roamcast.broker.wishes import Wish
from roamcast.model.filter import parse_text
from roamcast.model.space import Plane
from roamcast.model.subject import subject_matches, subjects_overlap
from roamcast.model.values import Value
from roamcast.papers.chaos import SUBJECT, Failure, Trial, TrialParams
from roamcast.papers.chaos_announcing import AnnouncingTrial, AnnouncingWalkers
from tests.broker.lines import Line
from tests.broker.walks import Spoken
from tests.effort import examples

STRATEGIES: tuple[Strategy, ...] = ("flooding", "simple", "identity", "covering", "merging")
PRICE: dict[str, Value] = {"price": 1, "kind": "a"}
SHORT = TrialParams(actions=80)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", [AnnouncingTrial, AnnouncingWalkers])
def test_r1_random_moves_with_advertisements_lose_nothing_and_leave_nothing(
    kind: type[Trial], strategy: Strategy
) -> None:
    trial = kind(30 + STRATEGIES.index(strategy), BrokerParams(routing=strategy, advertisements=True), SHORT)
    trial.run()
    trial.check()
    trial.leave()


class AnnouncingLine(Line, AnnouncingTrial):
    """Announces only when told to."""

    def publish(self, client: str, content: dict[str, Value] | None = None) -> str:
        return Trial.publish(self, client, content)


def line_of_three() -> tuple[AnnouncingLine, Spoken]:
    """C0 may publish at B0, C1 at B2; C2 is at B1."""
    line = AnnouncingLine(3, 3, BrokerParams(advertisements=True))
    spoken = Spoken()
    line.world.observers = (*line.world.observers, spoken)
    line.pass_s(1)
    for client, broker in (("C0", "B0"), ("C1", "B2"), ("C2", "B1")):
        line.move(client, broker)
    line.pass_s(1)
    return line, spoken


def test_r1_a_wish_goes_only_to_where_its_subject_is_announced() -> None:
    line, spoken = line_of_three()
    line.announce("C0")
    line.pass_s(1)
    line.subscribe("C2", "price < 5")
    line.pass_s(1)
    assert spoken.of("wanted") == ["B1-B0"]


def test_r1_a_wish_follows_when_its_subject_is_announced_later_and_ends_with_it() -> None:
    line, spoken = line_of_three()
    line.subscribe("C2", "price < 5")
    line.pass_s(1)
    assert spoken.of("wanted") == []
    line.announce("C1")
    line.pass_s(1)
    assert len(line.nodes["B2"].neighbours.router.table.of("B1")) == 1
    line.unannounce("C1")
    line.pass_s(1)
    assert line.nodes["B2"].neighbours.router.table.of("B1") == []
    assert [broker.left()["advertisements"] for broker in line.nodes.values()] == [0, 0, 0]


def test_r1_what_is_published_right_after_an_announcement_waits_until_the_wishes_are_there() -> None:
    line, _ = line_of_three()
    subscription = line.subscribe("C2", "price < 5")
    line.pass_s(40)
    line.announce("C0")
    events = [line.publish("C0", PRICE) for _ in range(5)]
    line.pass_s(1)
    assert line.got(subscription) == events


def test_r1_without_the_wait_what_is_published_right_after_an_announcement_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Advertising, "is_settled", lambda *_: True)
    line, _ = line_of_three()
    subscription = line.subscribe("C2", "price < 5")
    line.pass_s(40)
    line.announce("C0")
    line.publish("C0", PRICE)
    line.pass_s(1)
    assert line.got(subscription) == []
    with pytest.raises(Failure, match="never got"):
        line.check()


def test_r1_what_is_published_unannounced_is_advertised_for_its_producer() -> None:
    line, _ = line_of_three()
    subscription = line.subscribe("C2", "price < 5")
    line.pass_s(40)
    event = line.publish("C1", PRICE)
    line.pass_s(1)
    assert line.got(subscription) == [event]


def test_r1_a_producer_that_moves_takes_its_advertisement_along() -> None:
    line, _ = line_of_three()
    line.announce("C0")
    subscription = line.subscribe("C2", "price < 5")
    line.pass_s(40)
    before = line.publish("C0", PRICE)
    line.move("C0", "B2")
    after = line.publish("C0", PRICE)
    line.pass_s(2)
    assert line.got(subscription) == [before, after]
    assert line.nodes["B1"].border.advertising is not None
    assert list(line.nodes["B1"].border.advertising.heard[SUBJECT]) == ["B2"]


LEVELS = st.lists(st.sampled_from(["a", "b", "+", "$s", ""]), min_size=1, max_size=3)
PATTERNS = st.tuples(LEVELS, st.booleans()).map(lambda each: "/".join([*each[0], *(["#"] if each[1] else [])]))
SUBJECTS = [
    "/".join(levels)
    for length in range(1, 6)
    for levels in product(["a", "b", "$s", ""], repeat=length)
    if "/".join(levels)
]


@given(one=PATTERNS.filter(bool), other=PATTERNS.filter(bool))
@examples(60)
def test_r1_patterns_overlap_exactly_if_some_subject_is_matched_by_both(one: str, other: str) -> None:
    both = any(subject_matches(one, subject) and subject_matches(other, subject) for subject in SUBJECTS)
    assert subjects_overlap(one, other) == subjects_overlap(other, one) == both


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wish"), st.integers(0, 5), st.sampled_from(["a", "b", "+", "a/#"])),
        st.tuples(st.just("subject"), st.integers(0, 2), st.sampled_from(["a", "b", "a/c"])),
    ),
    max_size=30,
)


@pytest.mark.parametrize("strategy", ["simple", "identity", "covering", "merging"])
@given(steps=STEPS)
@examples(40)
def test_r1_a_gate_lets_pass_exactly_the_wishes_that_overlap(
    strategy: Strategy, steps: list[tuple[str, int, str]]
) -> None:
    gate = AskAdvertised(asking_for(strategy, Plane(), 4))
    wishes: dict[str, Wish] = {}
    said: dict[str, Wish] = {}
    for kind, number, subject in steps:
        if kind == "subject":
            change = gate.unadvertise(subject) if subject in gate.subjects else gate.advertise(subject)
        elif f"w{number}" in wishes:
            del wishes[f"w{number}"]
            change = gate.remove("n", f"w{number}")
        else:
            wish = wishes[f"w{number}"] = Wish(f"w{number}", subject, parse_text(f"price < {number}"))
            change = gate.add("n", wish)
        said.update({wish.id: wish for wish in change.ask})
        for wish_id in change.withdraw:
            del said[wish_id]
    assert {wish.id: wish for wish in gate.asked()} == said
    open_ = [
        each for each in wishes.values() if any(subjects_overlap(each.subject, every) for every in gate.subjects)
    ]
    assert {each.subject for each in said.values()} <= {each.subject for each in open_}
    assert bool(said) == bool(open_)
