"""Memory for clients that have none: what does this client want, and since when? (R3)

Rebeca's clients tell a new broker what they want. A client of a standard protocol that comes back relies on its
session, and the session is wherever the client was before. So its new broker asks before it attaches the client:

    new broker --Remember--> ... along the arrows (`arrows.py`), or to all neighbours ...
    new broker <-Remembered-- ... whoever has the session, or all of them: nobody

Nothing changes at those who answer, but that they know when the client came to the other broker. With the answer the
client attaches as any other that knows what it wants, and what happens between question and attachment is the old
broker's as before: nothing is lost in between. A question that is not answered, because a link is down, is for the
asker to give up; what is remembered of it here is bounded. A neighbour that is lost is not asked: then the answer
that nobody has the session is unsure.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.arrows import Arrow
from roamcast.broker.border import Border
from roamcast.broker.messages import Remember, Remembered
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.node.boundary import Does, Note

QUESTIONS_MAX = 10_000


class Question(Struct):
    """One that went to several neighbours: who has not answered yet, and the latest epoch that anybody knew."""

    asked: set[str]
    epoch: int
    unsure: bool = False
    """Not everybody could be asked."""


class Memory:
    def __init__(
        self,
        host: str,
        border: Border,
        neighbours: NeighbourBrokers,
        arrow_of: Callable[[str], Arrow | None],
    ) -> None:
        self.host = host
        self.border = border
        self.neighbours = neighbours
        self.arrow_of = arrow_of
        self.questions: dict[tuple[str, str, int], Question] = {}
        """By who asked, about whom, and the number of the question."""
        self.answers: dict[str, Remembered] = {}
        """To questions of this broker, by client, since somebody looked."""

    def ask(self, client: str, number: int, hurries: bool = False) -> list[Does]:
        """`number` tells this question from others about the client: it is when the client came. Who `hurries` is
        told at once where somebody cannot be asked."""
        return self._ask(Remember(client, number, (self.host,), hurries), None)

    def unanswered(self, client: str) -> list[str]:
        """The neighbours that have not answered yet what this broker asked them."""
        asked = [each.asked for key, each in self.questions.items() if key[:2] == (self.host, client)]
        return sorted(set().union(*asked))

    def hear(self, message: Remember | Remembered, sender: str) -> list[Does]:
        if isinstance(message, Remembered):
            return self._answered(message, sender)
        if not message.path or message.path[-1] != sender or self.host in message.path:
            return [Note("bad_question", message.client)]
        return self._ask(replace(message, path=(*message.path, self.host)), sender)

    def _ask(self, question: Remember, sender: str | None) -> list[Does]:
        client = question.client
        session, arrow = self.border.sessions.get(client), self.arrow_of(client)
        epoch = 0 if arrow is None else arrow.claim.epoch
        answer = Remembered(client, question.number, question.path, False, epoch)
        if session is not None:
            # Before the replay has come, this border knows of the client what it was reminded of itself.
            known = self.border.known_of(session)
            attachment = session.attachment
            attachment.asked_us = max(attachment.asked_us, question.number)
            return self._answer(replace(answer, found=True, epoch=max(epoch, session.epoch), session=known))
        if arrow is not None and arrow.towards in self.neighbours.streams.of and arrow.towards != sender:
            others = [arrow.towards]
        elif arrow is not None and (arrow.towards is None or arrow.towards == sender):
            others = []
        else:
            others = [peer for peer in self.neighbours.router.neighbours if peer != sender]
        streams, lost = self.neighbours.streams.of, self.neighbours.router.lost
        here = [peer for peer in others if peer not in lost and (streams[peer].up or not question.hurries)]
        unsure = len(here) < len(others)
        if not here:
            return self._answer(replace(answer, unsure=unsure))
        if len(self.questions) >= QUESTIONS_MAX:
            del self.questions[next(iter(self.questions))]
        self.questions[key_of(question)] = Question(set(here), epoch, unsure)
        return self.neighbours.send([(peer, question) for peer in here])

    def _answered(self, answer: Remembered, sender: str) -> list[Does]:
        question = self.questions.get(key_of(answer))
        if question is None or sender not in question.asked:
            return []
        question.asked.discard(sender)
        question.epoch = max(question.epoch, answer.epoch)
        question.unsure = question.unsure or answer.unsure
        if question.asked and not answer.found:
            return []
        del self.questions[key_of(answer)]
        return self._answer(replace(answer, epoch=question.epoch, unsure=question.unsure))

    def _answer(self, answer: Remembered) -> list[Does]:
        if len(answer.path) > 1:
            path = answer.path[:-1]
            return self.neighbours.send([(path[-1], replace(answer, path=path))])
        self.answers[answer.client] = answer
        return []


def key_of(message: Remember | Remembered) -> tuple[str, str, int]:
    return (message.path[0], message.client, message.number)
