"""What strangers or a bad place could make grow is bounded, and noted when the bound binds (C7 to C9)."""

from random import Random
from typing import Any

from roamcast.adhoc.context.messages import Answer, MatchedEvent, Query
from roamcast.adhoc.context.node import ContextNode
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.geocast import Geocast
from roamcast.adhoc.geocast_params import GeocastParams
from roamcast.adhoc.neighbours import Here, NeighbourTable
from roamcast.adhoc.routes import Route, Routed
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.node.boundary import Broadcast, Does, Moved, Note, Received, SetTimer, Start, Subscribe, TimerFired
from tests.adhoc.context_worlds import box, where

SECOND_US = 1_000_000
ORIGIN = Point(0.0, 0.0)
HERE = Here(ORIGIN, ORIGIN)
FAR = box(5_000, 5_000, 5_100, 5_100)


class Parcel(Routed, frozen=True, kw_only=True, tag="parcel"):
    pass


def at_rest(**params: Any) -> ContextNode:
    node = ContextNode("me", Random(1), ContextParams(**params))
    node.handle(0, Start(Context("me", ORIGIN)))
    return node


def notes(effects: list[Does]) -> list[str]:
    return [each.what for each in effects if isinstance(each, Note)]


# Geocast.


def test_a_hosts_own_messages_under_way_are_bounded_like_those_of_others() -> None:
    """C8"""
    geocast = Geocast("me", GeocastParams(under_way_max=3), Random(1), Plane(), NeighbourTable(10, SECOND_US))
    effects: list[Does] = []
    for number in range(10):
        effects += geocast.send(number, Parcel(route=Route(f"p{number}", FAR, HERE)))
    assert list(geocast.under_way) == ["p7", "p8", "p9"]
    assert notes(effects) == ["geocast_dropped"] * 7


def test_a_message_that_is_sent_again_pushes_nobody_out() -> None:
    """C8: a retry is no second message."""
    geocast = Geocast("me", GeocastParams(under_way_max=2), Random(1), Plane(), NeighbourTable(10, SECOND_US))
    geocast.send(0, Parcel(route=Route("a", FAR, HERE)))
    geocast.send(0, Parcel(route=Route("b", FAR, HERE)))
    assert notes(geocast.fired(SECOND_US, "geocast:a", HERE)) == []
    assert sorted(geocast.under_way) == ["a", "b"]


def test_what_is_under_way_is_given_up_when_the_host_loses_its_position() -> None:
    """C8: nothing stays behind without a timer."""
    node = at_rest()
    told = node.handle(1, Subscribe(Subscription("s", "me", "x", 1, 9 * SECOND_US, interest=where(FAR))))
    timers = [each for each in told if isinstance(each, SetTimer) and each.name.startswith("geocast:")]
    assert len(node.geocast.under_way) == len(timers) == 1
    node.handle(2, Moved(Context("me", None, 2)))
    assert notes(node.handle(timers[0].at_us, TimerFired(timers[0].name))) == ["geocast_dropped"]
    assert len(node.geocast.under_way) == 0


def test_what_is_held_in_a_void_is_given_up_and_counted_off_when_the_position_is_lost() -> None:
    """C13"""
    node = at_rest()
    node.handle(1, Subscribe(Subscription("s", "me", "x", 1, 9 * SECOND_US, interest=where(FAR))))
    name = "geocast:" + next(iter(node.geocast.under_way))
    for tries in range(1, 5):
        node.handle(tries * SECOND_US, TimerFired(name))
        if node.geocast.held:
            break
    assert node.geocast.held == 1
    node.handle(6 * SECOND_US, Moved(Context("me", None, 6 * SECOND_US)))
    node.handle(20 * SECOND_US, TimerFired(name))
    assert (node.geocast.held, len(node.geocast.under_way)) == (0, 0)


# Queries.


def asking(count: int = 1, **params: Any) -> tuple[ContextNode, list[Does]]:
    """A node that had to ask its neighbours for their load, for each of so many events."""
    node = at_rest(**params)
    node.handle(1, Subscribe(Subscription("s", "me", "x", 1, 99 * SECOND_US, interest=where(FAR))))
    audience = Scope(None, parse_text("neighbours.avg('load') > 5"))
    publisher = Context("publisher", Point(50.0, 0.0))
    effects: list[Does] = []
    for number in range(count):
        event = Event(f"e{number}", "x", publisher, 0, 99 * SECOND_US, {}, audience=audience)
        matched = MatchedEvent(
            route=Route(f"m{number}", box(-9, -9, 9, 9), HERE),
            event=event,
            publisher=publisher,
            age_us=0,
            subscriber="me",
            subscription_id="s",
        )
        effects += node.handle(2, Received(matched, "publisher"))
    return node, effects


def test_the_answers_to_a_question_are_bounded() -> None:
    """C9"""
    node, effects = asking(neighbours_max=3)
    query = next(each.message for each in effects if isinstance(each, Broadcast) and isinstance(each.message, Query))
    noted = []
    for number in range(10):
        answer = Answer(HERE, query.id, "me", Context(f"h{number}", ORIGIN, attributes={"load": 1}))
        noted += notes(node.handle(3 + number, Received(answer, "neighbour")))
    assert len(node.domains.queries.questions[query.id].answers) == 3
    assert noted == ["answer_dropped"] * 7


def test_a_question_that_is_given_up_for_another_is_noted() -> None:
    """C9"""
    node, effects = asking(5, queries_max=2)
    assert notes(effects) == ["question_dropped"] * 3
    assert len(node.domains.queries.questions) == 2


def ask(node: ContextNode, now_us: int, number: int) -> list[Does]:
    return node.handle(now_us, Received(Query(HERE, f"q{number}", ("load",), 1), "neighbour"))


def answers(effects: list[Does]) -> int:
    return sum(isinstance(each, Broadcast) and isinstance(each.message, Answer) for each in effects)


def test_a_query_is_answered_once_however_many_others_come_in_between() -> None:
    """C9"""
    node = at_rest()
    assert sum(answers(ask(node, number, number)) for number in range(300)) == 300
    assert sum(answers(ask(node, 300 + number, number)) for number in range(300)) == 0


def test_queries_beyond_the_bound_are_not_answered_until_others_are_over() -> None:
    """C9"""
    node = at_rest(query_ways_max=10)
    effects: list[Does] = []
    for number in range(15):
        effects += ask(node, number, number)
    assert answers(effects) == 10
    assert notes(effects) == ["query_dropped"] * 5
    assert answers(ask(node, 5 * SECOND_US, 99)) == 1
    assert len(node.domains.queries.back) == 1
