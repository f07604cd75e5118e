"""Posts and sessions: the order of each producer's events, whichever way they came (O1, O4)."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.modulators.limits import Limits
from roamcast.broker.overlay.messages import Address, Modulated
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.posts import Post, post_from
from roamcast.broker.overlay.sessions import HomeSession, session_from
from roamcast.broker.params import BrokerParams
from roamcast.broker.window import Bounds, Window
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.node.boundary import Note
from roamcast.papers.chaos_counting import COUNTING
from tests.effort import examples

PARAMS = OverlayParams()
SUBSCRIPTION = Subscription("s", "C", "x", 0, FOREVER_US, modulator=COUNTING)


def event_of(producer: str, number: int) -> Event:
    return Event(f"{producer}:{number}", "x", Context(producer), 0, FOREVER_US)


def post() -> Post:
    return Post(SUBSCRIPTION, 1, "H", Plane(), PARAMS)


def chained(producer: str, serials: list[int]) -> list[tuple[Event, int, Address]]:
    return [
        (event_of(producer, serial), serial, Address("s", before, 1)) for before, serial in pairwise([0, *serials])
    ]


@given(
    serials=st.lists(st.integers(1, 1_000), unique=True, max_size=12).map(sorted),
    seed=st.integers(0, 1_000),
    moves=st.integers(0, 4),
)
@examples(150)
def test_o4_a_post_takes_events_in_order_and_once_also_when_it_moves_in_between(
    serials: list[int], seed: int, moves: int
) -> None:
    rng = Random(seed)
    arriving = chained("P", serials) + chained("Q", serials)
    arriving += rng.sample(arriving, len(arriving) // 2)
    rng.shuffle(arriving)
    here, made = post(), list[Modulated]()
    stops = {rng.randrange(len(arriving) + 1) for _ in range(moves)}
    for index, each in enumerate(arriving):
        if index in stops:
            here = post_from(here.state(), "H", 5, Plane(), PARAMS)
        made += here.take(5, *each)
    for producer in "PQ":
        assert [each.serial for each in made if each.event.publisher.host == producer] == serials
    assert [each.number for each in made] == list(range(1, len(made) + 1))
    assert [each.event.attributes["count"] for each in made] == list(range(1, len(made) + 1))
    assert here.held == {}


def test_o4_an_event_waits_for_the_one_before_it_but_not_for_ever() -> None:
    here = post()
    assert here.take(100, event_of("P", 2), 2, Address("s", 1, 1)) == []
    assert here.lose_patience(159, 60) == []
    assert [each.serial for each in here.lose_patience(160, 60)] == [2]
    assert here.take(200, event_of("P", 1), 1, Address("s", 0, 1)) == []


def test_o9_what_goes_wrong_in_a_modulator_is_noted_and_its_end_once() -> None:
    every = OverlayParams(modulators=Limits(output_bytes_max=1, failures_in_row_max=2))
    here = Post(SUBSCRIPTION, 1, "H", Plane(), every)
    noted = []
    for serial in range(1, 5):
        here.take(0, event_of("P", serial), serial, Address("s", serial - 1, 1))
        noted.append(here.troubles())
    failed = Note("modulator_failed", "s: output")
    assert noted == [[failed], [failed, Note("modulator_off", "s")], [], []]


def test_o4_what_waits_at_a_post_is_bounded() -> None:
    here = Post(SUBSCRIPTION, 1, "H", Plane(), OverlayParams(clients=BrokerParams(counterpart_events_max=3)))
    made = [here.take(0, event_of("P", serial), serial, Address("s", serial - 1, 1)) for serial in range(2, 7)]
    assert [len(each) for each in made] == [0, 0, 0, 4, 1]


def test_o7_events_that_a_bound_refused_are_told_of_behind_the_next_one() -> None:
    (made,) = post().take(0, event_of("P", 9), 9, Address("s", 0, 1, missed=4))
    session = session_of()
    session.take(made)
    assert session.window.lost == 4


def session_of() -> HomeSession:
    session = HomeSession("C", 7, Window(Bounds(100, 100)))
    session.wanted["s"] = SUBSCRIPTION
    session.expected["s"] = (1, 1)
    return session


def modulated(number: int, made: int = 1) -> Modulated:
    return Modulated("C", "s", made, number, event_of("P", number), number)


@given(order=st.permutations(range(1, 8)), move_at=st.integers(0, 7))
@examples(100)
def test_o4_a_session_numbers_what_a_modulator_made_in_its_order_also_when_it_moves(
    order: list[int], move_at: int
) -> None:
    session, numbers = session_of(), list[tuple[int, str]]()
    for index, number in enumerate([*order, *order]):
        if index == move_at:
            session = session_from("C", session.home_state(), 0, PARAMS.clients)
        numbers += [(each.number, each.event_id) for each in session.take(modulated(number))]
    assert numbers == [(number, f"P:{number}") for number in range(1, 8)]
    assert session.ahead == {}


def test_o4_what_an_earlier_modulator_of_the_subscription_made_is_ignored() -> None:
    session = session_of()
    assert session.take(modulated(1, made=2)) == []
    session.forget("s")
    assert session.take(modulated(1)) == []
