"""The query service (C9): relational properties of domains may ask for attributes that frames do not carry, or of
hosts beyond one hop (section 3.1).

A `Query` floods up to `query_hops` hops around the asker. Each host that hears it repeats it if hops are left, and
sends an `Answer` back to whom it heard it from, which passes it on the way the query came. At the deadline the asker
takes what has arrived. Best effort: an answer that is lost is a host that is not seen.

Everything is bounded, and noted when it binds. Of too many questions under way the oldest is given up. Of too many
answers those that come last are dropped. A way back is remembered as long as copies of its query may come, so none is
answered or repeated twice; past the bound further queries are neither. Nothing can go round: a host never answers
what it asked itself, also when that comes back after the deadline, and passes the answer of each host on once.
"""

from random import Random
from typing import Generic, TypeVar

from msgspec.structs import replace

from roamcast.adhoc.context.messages import Answer, Query
from roamcast.adhoc.neighbours import Here
from roamcast.model.context import Context
from roamcast.node.boundary import Broadcast, CancelTimer, Does, Note, SetTimer

ANSWER_JITTER_SHARE = 4
"""Answers and repetitions wait up to this part of the deadline, so that they do not collide."""

Matter = TypeVar("Matter")


class Question(Generic[Matter]):
    __slots__ = ("answers", "matter")

    def __init__(self, matter: Matter) -> None:
        self.matter = matter
        self.answers: dict[str, Context] = {}


class Way:
    """The neighbour that a query came from, until when copies of it may come, and whose answers went back."""

    __slots__ = ("answered", "ends_us", "towards")

    def __init__(self, towards: str, ends_us: int, host: str) -> None:
        self.towards = towards
        self.ends_us = ends_us
        self.answered: dict[str, None] = {host: None}


class QueryService(Generic[Matter]):
    """`Matter` is what the asker wants to go on with when the answers are there."""

    def __init__(
        self,
        host: str,
        rng: Random,
        hops: int,
        deadline_us: int,
        queries_max: int,
        ways_max: int,
        answers_max: int,
        timer_prefix: str = "query:",
    ) -> None:
        self.host = host
        self.hops = hops
        self.deadline_us = deadline_us
        self.queries_max = queries_max
        self.ways_max = ways_max
        self.answers_max = answers_max
        self.timer_prefix = timer_prefix
        # A host that restarts counts from one again, and its neighbours remember ids: each life has its own.
        self._life = f"{host}:{rng.getrandbits(32):08x}."
        self._count = 0
        # Every hop may add its jitter on the way there, and the answers theirs on the way back.
        self._copies_us = 2 * deadline_us + hops * deadline_us
        self.questions: dict[str, Question[Matter]] = {}
        self.back: dict[str, Way] = {}
        """Of the queries of others, in the order in which they were heard."""
        self.forgotten = 0

    def ask(self, now_us: int, names: tuple[str, ...], matter: Matter, here: Here) -> list[Does]:
        self._count += 1
        query_id = f"{self._life}{self._count}"
        effects: list[Does] = []
        if len(self.questions) >= self.queries_max:
            oldest = next(iter(self.questions))
            del self.questions[oldest]
            self.forgotten += 1
            effects = [CancelTimer(self.timer_prefix + oldest), Note("question_dropped", oldest)]
        self.questions[query_id] = Question(matter)
        query = Query(here, query_id, names, self.hops)
        return [*effects, Broadcast(query), SetTimer(self.timer_prefix + query_id, now_us + self.deadline_us)]

    def asked(self, now_us: int, query: Query, sender: str, me: Context, here: Here, refuses: bool) -> list[Does]:
        """A query was heard; `me` is this host as of now."""
        if query.id in self.back or query.id.startswith(self._life):
            return []
        self._forget_ways(now_us)
        if len(self.back) >= self.ways_max:
            return [Note("query_dropped", query.id)]
        self.back[query.id] = Way(sender, now_us + self._copies_us, self.host)
        known = {name: me.attributes[name] for name in query.names if name in me.attributes}
        told = Context(self.host, me.position, me.at_us, attributes=known)
        jitter_us = self.deadline_us // ANSWER_JITTER_SHARE
        effects: list[Does] = [Broadcast(Answer(here, query.id, sender, told), jitter_us=jitter_us)]
        hops = min(query.hops, self.hops)
        if hops > 1 and not refuses:
            effects.append(Broadcast(replace(query, here=here, hops=hops - 1), jitter_us=jitter_us // 2))
        return effects

    def answered(self, now_us: int, answer: Answer, here: Here, refuses: bool) -> list[Does]:
        if answer.to != self.host:
            return []
        question = self.questions.get(answer.query_id)
        if question is not None:
            if answer.context.host not in question.answers and len(question.answers) >= self.answers_max:
                return [Note("answer_dropped", answer.query_id)]
            question.answers[answer.context.host] = answer.context
            return []
        way = self.back.get(answer.query_id)
        if way is None or refuses or way.ends_us < now_us or answer.context.host in way.answered:
            return []
        # This host's own answer is among them.
        if len(way.answered) > self.answers_max:
            return [Note("answer_dropped", answer.query_id)]
        way.answered[answer.context.host] = None
        return [
            Broadcast(replace(answer, here=here, to=way.towards), jitter_us=self.deadline_us // ANSWER_JITTER_SHARE)
        ]

    def fired(self, name: str) -> tuple[Matter, list[Context]] | None:
        """The deadline of a question: what it was about, and who answered; None if it was forgotten."""
        question = self.questions.pop(name.removeprefix(self.timer_prefix), None)
        return None if question is None else (question.matter, list(question.answers.values()))

    def _forget_ways(self, now_us: int) -> None:
        """All are kept for the same time, so the first ends first."""
        while self.back:
            first = next(iter(self.back))
            if self.back[first].ends_us >= now_us:
                break
            del self.back[first]
