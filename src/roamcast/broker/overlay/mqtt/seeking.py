"""Where the session of a client is that comes here: all processes are asked, over their links (L3).

A question spreads as a wave. Whoever hears it the first time asks all its other neighbours, and answers when they
have answered; whoever hears it again answers at once. So the asker hears of everybody who can be reached, whatever
shape the links have. It knows the brokers of the overlay: as long as one of them was not among those who were asked,
nobody knows whether the client has a session, and it asks again. Admission gives up when that takes too long, and has
the client try again later.

A wave takes time, and a session may go from a process that was not asked yet to one that was. So who has let one go
says for a while where it went.

A broker that has just begun knows nobody. It asks when its first search for neighbours is over.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from roamcast.broker.border import Border
from roamcast.broker.memory import Memory
from roamcast.broker.messages import Remembered
from roamcast.broker.mqtt.effects import Tell
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.broker.overlay.mqtt.between import Found, Seek, Sought
from roamcast.node.boundary import Does

if TYPE_CHECKING:
    from roamcast.broker.overlay.mqtt.guests import Guests

WAVES_MAX = 10_000
AGAIN_US = 1_000_000
GONE_MAX = 10_000
GONE_US = 60_000_000
"""Longer than any wave takes."""
TIMER = "seek:"


class Wave(Struct):
    """A question that went on from here."""

    parent: str | None
    """Who asked; None: this process."""
    awaits: set[str]
    asked: dict[str, None]
    found: Found | None


class Seeking(Memory):
    def __init__(self, guests: "Guests", border: Border, neighbours: NeighbourBrokers) -> None:
        super().__init__(border.host, border, neighbours, lambda _: None)
        self.guests = guests
        self.waves: dict[Seek, Wave] = {}
        self.open: dict[str, None] = {}
        """The clients of whom this process wants to know."""
        self.holders: dict[str, str] = {}
        """By client, who has its session, until it is claimed."""
        self._gone: dict[str, tuple[int, Found]] = {}
        """Sessions that other processes have now: since when, and what was known of them then."""
        self._asked = 0

    def ask(self, client: str, number: int, hurries: bool = False) -> list[Does]:
        self.open[client] = None
        self.holders.pop(client, None)
        self.again(client)
        return []

    def again(self, client: str) -> None:
        if client not in self.guests.border.admission.sought and client not in self.guests.following.claims:
            self.open.pop(client, None)
        elif self.guests.settled:
            self._asked = max(self.guests.border.now_us, self._asked + 1)
            self._spread(Seek(client, self._asked, self.host), None)

    def settled(self) -> None:
        """It is known who else is there."""
        for client in list(self.open):
            self.again(client)

    def asked(self, question: Seek, peer: str) -> None:
        if question in self.waves or question.origin == self.host:
            self._tell(peer, Sought(question.client, question.number, question.origin))
        else:
            self._spread(question, peer)

    def _spread(self, question: Seek, parent: str | None) -> None:
        session, found = self.border.sessions.get(question.client), self._gone_to(question.client)
        if session is not None and (parent is not None or session.attachment.awaits is None):
            found = Found(self.host, session.epoch, session.state())
        others = [peer for peer in self.guests.underlay.up if peer != parent]
        if len(self.waves) >= WAVES_MAX:
            del self.waves[next(iter(self.waves))]
        wave = self.waves[question] = Wave(parent, set(others), {self.host: None}, found)
        for peer in others:
            self._tell(peer, question)
        self._look_at(question, wave)

    def answered(self, answer: Sought, peer: str) -> None:
        question = Seek(answer.client, answer.number, answer.origin)
        wave = self.waves.get(question)
        if wave is None or peer not in wave.awaits:
            return
        wave.awaits.discard(peer)
        wave.asked.update(dict.fromkeys(answer.asked))
        if answer.found is not None and (wave.found is None or answer.found.epoch > wave.found.epoch):
            wave.found = answer.found
        self._look_at(question, wave)

    def unlinked(self, peer: str) -> None:
        """Nobody answers over a link that is down."""
        for question, wave in list(self.waves.items()):
            if wave.parent == peer:
                del self.waves[question]
            elif peer in wave.awaits:
                wave.awaits.discard(peer)
                self._look_at(question, wave)

    def _look_at(self, question: Seek, wave: Wave) -> None:
        if wave.awaits:
            return
        del self.waves[question]
        if wave.parent is not None:
            answer = Sought(question.client, question.number, question.origin, tuple(wave.asked), wave.found)
            self._tell(wave.parent, answer)
        elif question.client in self.open:
            self._conclude(question.client, wave)

    def let_go(self, client: str, found: Found) -> None:
        self._gone.pop(client, None)
        self._gone[client] = (self.guests.border.now_us, found)
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _gone_to(self, client: str) -> Found | None:
        since_us, found = self._gone.get(client, (0, None))
        return found if self.guests.border.now_us - since_us < GONE_US else None

    def _conclude(self, client: str, wave: Wave) -> None:
        found, brokers = wave.found, self.guests.broker.brokers
        unasked = [each for each in brokers.topology.known() if each not in wave.asked]
        if found is None and unasked:
            self.guests.border.timers.set(f"{TIMER}{client}", self.guests.border.now_us + AGAIN_US)
            for broker in unasked:
                # One that is gone for good must be found out to be, or everybody would wait for it for ever.
                self.guests.mail.greet(broker)
            return
        del self.open[client]
        if client in self.guests.following.claims:
            self.guests.following.found(client, found)
        elif found is None:
            self.answers[client] = Remembered(client, 0, ())
        else:
            self.holders[client] = found.broker
            self.answers[client] = Remembered(client, 0, (), True, found.epoch, found.session)

    def _tell(self, peer: str, message: Seek | Sought) -> None:
        self.guests.border.emit(Tell(peer, message))
