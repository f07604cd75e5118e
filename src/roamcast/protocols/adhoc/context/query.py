"""The query service (C9): relational properties of domains may ask for attributes that frames do not carry, or of
hosts beyond one hop (section 3.1).

A `Query` floods up to `query_hops` hops around the asker. Each host that hears it repeats it if hops are left, and
sends an `Answer` back to whom it heard it from, which passes it on the way the query came. At the deadline the asker
takes what has arrived. Best effort: an answer that is lost is a host that is not seen. Questions under way and ways
back are bounded; past the bound the oldest is forgotten.
"""

from random import Random
from typing import Generic, TypeVar

from msgspec.structs import replace

from roamcast.model.context import Context
from roamcast.node.boundary import Broadcast, Does, SetTimer
from roamcast.protocols.adhoc.context.messages import Answer, Query
from roamcast.protocols.adhoc.neighbours import Here

ANSWER_JITTER_SHARE = 4
"""Answers and repetitions wait up to this part of the deadline, so that they do not collide."""

Matter = TypeVar("Matter")


class Question(Generic[Matter]):
    __slots__ = ("answers", "matter")

    def __init__(self, matter: Matter) -> None:
        self.matter = matter
        self.answers: dict[str, Context] = {}


class QueryService(Generic[Matter]):
    """`Matter` is what the asker wants to go on with when the answers are there."""

    def __init__(
        self, host: str, rng: Random, hops: int, deadline_us: int, queries_max: int, timer_prefix: str = "query:"
    ) -> None:
        self.host = host
        self.hops = hops
        self.deadline_us = deadline_us
        self.queries_max = queries_max
        self.timer_prefix = timer_prefix
        # A host that restarts counts from one again, and its neighbours remember ids: each life has its own.
        self._life = f"{rng.getrandbits(32):08x}"
        self._count = 0
        self.questions: dict[str, Question[Matter]] = {}
        self.back: dict[str, str] = {}
        """Query → the neighbour it came from."""
        self.forgotten = 0

    def ask(self, now_us: int, names: tuple[str, ...], matter: Matter, here: Here) -> list[Does]:
        self._count += 1
        query_id = f"{self.host}:{self._life}.{self._count}"
        self._bound(self.questions)
        self.questions[query_id] = Question(matter)
        query = Query(here, query_id, names, self.hops)
        return [Broadcast(query), SetTimer(self.timer_prefix + query_id, now_us + self.deadline_us)]

    def asked(self, query: Query, sender: str, me: Context, here: Here, refuses: bool) -> list[Does]:
        """A query was heard; `me` is this host as of now."""
        if query.id in self.back or query.id in self.questions:
            return []
        self._bound(self.back)
        self.back[query.id] = sender
        known = {name: me.attributes[name] for name in query.names if name in me.attributes}
        told = Context(self.host, me.position, me.at_us, attributes=known)
        jitter_us = self.deadline_us // ANSWER_JITTER_SHARE
        effects: list[Does] = [Broadcast(Answer(here, query.id, sender, told), jitter_us=jitter_us)]
        hops = min(query.hops, self.hops)
        if hops > 1 and not refuses:
            effects.append(Broadcast(replace(query, here=here, hops=hops - 1), jitter_us=jitter_us // 2))
        return effects

    def answered(self, answer: Answer, here: Here, refuses: bool) -> list[Does]:
        if answer.to != self.host:
            return []
        question = self.questions.get(answer.query_id)
        if question is not None:
            question.answers[answer.context.host] = answer.context
            return []
        towards = self.back.get(answer.query_id)
        if towards is None or refuses:
            return []
        return [Broadcast(replace(answer, here=here, to=towards), jitter_us=self.deadline_us // ANSWER_JITTER_SHARE)]

    def fired(self, name: str) -> tuple[Matter, list[Context]] | None:
        """The deadline of a question: what it was about, and who answered; None if it was forgotten."""
        question = self.questions.pop(name.removeprefix(self.timer_prefix), None)
        return None if question is None else (question.matter, list(question.answers.values()))

    def _bound(self, table: dict[str, Question[Matter]] | dict[str, str]) -> None:
        if len(table) >= self.queries_max:
            del table[next(iter(table))]
            self.forgotten += 1
