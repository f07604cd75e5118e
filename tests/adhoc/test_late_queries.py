"""The query service when frames come late: nothing goes round between hosts (C9)."""

from random import Random

from roamcast.adhoc.context.messages import Answer, Query
from roamcast.adhoc.context.query import QueryService
from roamcast.adhoc.neighbours import Here
from roamcast.model.context import Context
from roamcast.model.values import Point
from roamcast.node.boundary import Broadcast, Does, Message, Note, SetTimer

DEADLINE_US = 200_000
HERE = Here(Point(0.0, 0.0))


def service(host: str, answers_max: int = 100) -> QueryService[str]:
    return QueryService(host, Random(1), 2, DEADLINE_US, 100, 100, answers_max)


def said(effects: list[Does]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Broadcast)]


def asks(asker: QueryService[str]) -> Query:
    (query,) = said(asker.ask(0, ("speed",), "matter", HERE))
    assert isinstance(query, Query)
    return query


def asked(host: QueryService[str], now_us: int, query: Query, sender: str) -> list[Message]:
    return said(host.asked(now_us, query, sender, Context(host.host, HERE.position), HERE, False))


def answer(query: Query, to: str, host: str) -> Answer:
    return Answer(HERE, query.id, to, Context(host, HERE.position))


def test_c9_a_query_that_was_heard_after_its_deadline_comes_to_rest() -> None:
    """Two hosts; the second hears the query when the first has stopped waiting."""
    hosts = {"a": service("a"), "b": service("b")}
    effects = hosts["a"].ask(0, ("speed",), "matter", HERE)
    (timer,) = [effect for effect in effects if isinstance(effect, SetTimer)]
    assert hosts["a"].fired(timer.name) == ("matter", [])
    on_air = [("a", message) for message in said(effects)]
    frames, now_us = 0, DEADLINE_US + 50_000
    while on_air and frames < 100:
        sender, message = on_air.pop(0)
        frames, now_us = frames + 1, now_us + 50_000
        name = "b" if sender == "a" else "a"
        if isinstance(message, Query):
            heard = asked(hosts[name], now_us, message, sender)
        else:
            assert isinstance(message, Answer)
            heard = said(hosts[name].answered(now_us, message, HERE, False))
        on_air += [(name, each) for each in heard]
    # The query, its repetition and one answer.
    assert frames == 3


def test_c9_a_host_does_not_answer_what_it_asked_itself_also_after_the_deadline() -> None:
    asker = service("a")
    query = asks(asker)
    assert asked(asker, 1, query, "b") == []
    asker.fired(asker.timer_prefix + query.id)
    assert asked(asker, DEADLINE_US + 1, query, "b") == []


def test_c9_an_answer_of_each_host_is_passed_on_once() -> None:
    between, query = service("b"), asks(service("a"))
    asked(between, 0, query, "a")
    for host in ("c", "d"):
        assert said(between.answered(1, answer(query, "b", host), HERE, False)) == [answer(query, "a", host)]
        assert between.answered(2, answer(query, "b", host), HERE, False) == []


def test_c9_a_hosts_own_answer_that_comes_back_is_not_passed_on() -> None:
    between, query = service("b"), asks(service("a"))
    asked(between, 0, query, "a")
    assert between.answered(1, answer(query, "b", "b"), HERE, False) == []


def test_c9_no_answer_is_passed_on_when_its_way_has_ended() -> None:
    """No other query came since, so the way is still in the table."""
    between, query = service("b"), asks(service("a"))
    asked(between, 0, query, "a")
    ends_us = between.back[query.id].ends_us
    assert between.answered(ends_us + 1, answer(query, "b", "c"), HERE, False) == []
    assert said(between.answered(ends_us, answer(query, "b", "d"), HERE, False)) == [answer(query, "a", "d")]


def test_c9_as_many_answers_are_passed_on_as_an_asker_may_take_and_further_ones_noted() -> None:
    between, query = service("b", answers_max=2), asks(service("a"))
    asked(between, 0, query, "a")
    effects = [effect for host in "cdef" for effect in between.answered(1, answer(query, "b", host), HERE, False)]
    assert len(said(effects)) == 2
    assert effects[2:] == [Note("answer_dropped", query.id)] * 2
