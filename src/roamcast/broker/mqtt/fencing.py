"""Fences at a broker: where its clients enter, leave, pass or stay, and who is told (docs/PROTOCOL.md, section 18).

    $roam/fences/<name>                 a retained message with GeoJSON: the fence is at every broker (`keeping.py`);
    $roam/fence/<fence>/<transition>    what happened, published on behalf of the client that moved.

The broker at which a client is judges its reports, with the definition itself (`model/fence.py`); an index says for
which fences a move can matter at all (`matching/fences.py`). What is known of a client and a fence is a `Stay`. It is
part of the session and goes with it from broker to broker, with the last report from which the way goes on.

A fence may move with a client, its anchor. Where that is every broker knows (`anchors.py`), and judges the reports of
the others by it: with the last place of the anchor that the broker knew of before a report came. So every report is
an input of its own while there are such fences.

A move that changes a stay is an input of its own, logged before anybody sees what follows from it. One that changes
none is logged as before, if at all: with the last reports of others (`ReportedTogether`), which are not judged again,
since the ways between them were judged when they came. So each transition is told once, whoever is killed meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.mqtt.anchors import Anchors
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.mqtt.events import Events, plain
from roamcast.broker.session import Session
from roamcast.broker.transfer import FenceStay
from roamcast.matching.anchored_fences import AnchoredFences
from roamcast.matching.fences import FenceIndex
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.fence import (
    BEGIN,
    OUTSIDE,
    Fence,
    Occurrence,
    State,
    concerns,
    content_of,
    due_us,
    elapsed,
    fix_of,
    step,
)
from roamcast.model.fence_text import BadFence, read_fences
from roamcast.model.filter.tree import EVERYTHING
from roamcast.model.region import Anchored
from roamcast.model.values import Point
from roamcast.mqtt.messages import Message

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

DEFINITIONS = "$roam/fences/"
TRANSITIONS = "$roam/fence/"
TIMER = "fence:"
STAYS_MAX = 10_000
"""Fences that a client is in at a time; no more are judged."""


class Judged(Struct, frozen=True):
    """One fence after a move, or after a time."""

    fence: Fence
    since_us: int
    state: State
    occurrences: tuple[Occurrence, ...]


class Fencing:
    def __init__(self, border: "MqttBorder", events: Events) -> None:
        self.border = border
        self.events = events
        self.changes = 0
        """How often a fence came or went here: who was judged before does not know the newest."""
        self.anchors = Anchors(border, events)
        self._begin()

    def _begin(self) -> None:
        self.index = FenceIndex(self.border.space)
        self.anchored = AnchoredFences(self.border.space)
        self._of: dict[str, tuple[str, ...]] = {}
        """By topic, the names of the fences that it defines."""
        self._since_us: dict[str, int] = {}
        self.prepare: Callable[[], None] | None = None
        """Called before there are fences for the first time."""
        self._filters = False
        """Whether a fence ever asked for attributes of hosts."""

    def __getstate__(self) -> dict[str, object]:
        return {"border": self.border, "events": self.events, "changes": self.changes, "anchors": self.anchors}

    def restore(self) -> None:
        """After a snapshot was read: fences are what their messages say."""
        self._begin()
        for topic in list(self.border.retained.of):
            if topic.startswith(DEFINITIONS):
                self._define(topic)

    # Fences.

    def check(self, message: Message) -> None:
        """Whether a client may define a fence so; raises `BadFence`."""
        name = message.topic.removeprefix(DEFINITIONS)
        if not message.retain:
            raise BadFence(f"a fence is a retained message; publish {message.topic} with RETAIN")
        if message.expires_us is not None:
            raise BadFence("a fence does not expire; an empty retained message deletes it")
        if message.payload:
            mine = self._of.get(message.topic, ())
            for fence in read_fences(name, message.payload, self.border.space):
                if fence.name in self._since_us and fence.name not in mine:
                    raise BadFence(f"another message defines the fence '{fence.name}' already")

    def _read(self, name: str, payload: bytes) -> tuple[Fence, ...]:
        return read_fences(name, payload, self.border.space)

    def heard(self, topic: str) -> None:
        """A message that defines fences has come, or was emptied."""
        before = self._of.get(topic, ())
        self._define(topic)
        self._tell(topic)
        self._tell_of_anchors(topic)
        self.changes += 1
        if before:
            self._forget_stays(frozenset(before))

    def definitions(self) -> list[str]:
        """The names of all messages that define fences."""
        return [topic.removeprefix(DEFINITIONS) for topic in self._of]

    def defined(self, name: str) -> Iterator[Fence]:
        """The fences of one of them."""
        for each in self._of.get(DEFINITIONS + name, ()):
            fence = self.get(each)
            if fence is not None:
                yield fence

    def get(self, name: str) -> Fence | None:
        return self.index.get(name) or self.anchored.get(name)

    def __len__(self) -> int:
        return len(self.index) + len(self.anchored)

    def tell_all(self) -> None:
        """Observers, after a start: a journal that begins now is to know the fences that were here before."""
        for topic in self._of:
            self._tell(topic)

    def _tell(self, topic: str) -> None:
        text = self.border.retained.payload_of(topic).decode(errors="replace")
        self.border.observation.fenced(topic.removeprefix(DEFINITIONS), text)

    def _forget_stays(self, names: frozenset[str]) -> None:
        for session in self.border.sessions.values():
            for name in [each for each in session.fence_stays if each in names]:
                del session.fence_stays[name]

    def _define(self, topic: str) -> None:
        for name in self._of.pop(topic, ()):
            if not self.index.remove(name):
                self.anchored.remove(name)
            self._since_us.pop(name, None)
        kept = self.border.retained.of.get(topic)
        if kept is None:
            return
        event, message = kept
        try:
            fences = read_fences(topic.removeprefix(DEFINITIONS), message.payload, self.border.space)
        except BadFence as problem:
            self.border.emit(Remark("bad_fence", f"{topic}: {problem}"))
            return
        if self.prepare is not None:
            self.prepare()
            self.prepare = None
        # Two messages that came at the same time at two brokers may name the same fence; the first has it.
        new = [each for each in fences if each.name not in self._since_us]
        self.index.put_all(each for each in new if not isinstance(each.region, Anchored))
        for each in new:
            if isinstance(each.region, Anchored):
                self.anchored.put(each, self.anchors.places(each.region.host))
        self._filters = self._filters or any(each.rule.hosts != EVERYTHING for each in new)
        self._of[topic] = tuple(each.name for each in new)
        self._since_us.update(dict.fromkeys(self._of[topic], event.published_us))

    # Clients that fences move with.

    def _tell_of_anchors(self, topic: str) -> None:
        """Those that are here, and that nobody knows of yet."""
        for name in self._of.get(topic, ()):
            fence = self.anchored.get(name)
            if fence is not None and isinstance(fence.region, Anchored):
                host = fence.region.host
                session = self.border.sessions.get(host)
                if session is not None and host not in self.anchors.last:
                    self.anchors.tell(session.context)

    def anchor_heard(self, event: Event, message: Message) -> None:
        client = self.anchors.keep(event, message)
        if client is not None:
            self.anchored.moved(client, self.anchors.places(client))
            self.border.observation.anchored(client, self.anchors.last_place(client))

    # Moves.

    def would_change(self, context: Context) -> bool:
        """Whether a report must be an input of its own."""
        if not len(self):
            return False
        session = self.border.sessions.get(context.host)
        return session is not None and (len(self.anchored) > 0 or self._changes(session, context))

    def _changes(self, session: Session, context: Context) -> bool:
        return any(
            each.occurrences or each.state.stay != stay_of(session, each)
            for each in self._judged(session, session.context, context)
        )

    def moved(self, session: Session, before: Context, after: Context) -> None:
        """A client has reported itself."""
        if self.anchored.has_anchor(after.host):
            self.anchors.tell(after)
        judged = list(self._judged(session, before, after)) if len(self) else []
        self.passed_over(session, before, after)
        if judged:
            self._take(session, judged)

    def passed_over(self, session: Session, before: Context, after: Context) -> None:
        """A report that was judged, here or when it came. One that tells no place was not seen by newer fences."""
        if after.at_us != before.at_us:
            session.fences_known = self.changes
            # Not the time of this input: a log has reports of half a second as one.
            session.fixed_us = after.at_us

    def _judged(self, session: Session, before: Context, after: Context) -> Iterator[Judged]:
        seen_us = self.border.now_us if after.at_us != before.at_us else session.fixed_us
        for name in self._concerned(session, before, after):
            fence, since_us = self.get(name), self._since_us.get(name)
            if fence is None or since_us is None:
                # It was deleted; what is known of it goes with the next change.
                continue
            if after.at_us == before.at_us < since_us:
                # It has told no place since then.
                continue
            state = self._state(session, fence, since_us, before)
            state, occurrences = step(fence, state, after, self.border.space, self._anchor(fence, seen_us))
            yield Judged(fence, since_us, state, occurrences)

    def _concerned(self, session: Session, before: Context, after: Context) -> Iterable[str]:
        """The names of all fences of which a move may be of concern, in a fixed order."""
        found = dict.fromkeys(name for name, stay in session.fence_stays.items() if not is_at_rest(stay))
        if after.position is None:
            found.update(dict.fromkeys(session.fence_stays))
        else:
            is_first = before.position is None or (self._filters and before.attributes != after.attributes)
            if is_first or session.fences_known != self.changes:
                found.update(dict.fromkeys(session.fence_stays))
                found.update(dict.fromkeys(self.index.touched(None, after.position)))
            found.update(dict.fromkeys(self.index.touched(before.position, after.position)))
            if len(self.anchored):
                found.update(dict.fromkeys(self.anchored.touched(before.position, after.position)))
                found.update(dict.fromkeys(name for name in session.fence_stays if self.anchored.get(name)))
        return sorted(found)

    def _state(self, session: Session, fence: Fence, since_us: int, before: Context) -> State:
        """Of a client and a fence, as its last report has left it."""
        held = session.fence_stays.get(fence.name)
        stay = held.stay if held is not None and held.since_us == since_us else OUTSIDE
        if not concerns(fence.rule, before, self.border.space):
            return BEGIN
        last = fix_of(before, self._anchor(fence, session.fixed_us))
        if last is not None and stay == OUTSIDE and last.at_us < since_us:
            # A fence that is newer than the last report sees the next one as the first.
            last = None
        elif last is not None:
            # By the clock of the broker that took it, which may be behind that of the client's last broker.
            last = replace(last, at_us=max(last.at_us, stay.entered_us or 0, stay.passed_us or 0))
        return State(last, stay)

    def _anchor(self, fence: Fence, before_us: int) -> Point | None:
        return self.anchors.at(fence.region.host, before_us) if isinstance(fence.region, Anchored) else None

    # What follows.

    def _take(self, session: Session, judged: Iterable[Judged]) -> None:
        said: list[tuple[Fence, Occurrence]] = []
        for each in judged:
            name = each.fence.name
            if each.state.stay == OUTSIDE:
                session.fence_stays.pop(name, None)
            elif name in session.fence_stays or len(session.fence_stays) < STAYS_MAX:
                session.fence_stays[name] = FenceStay(each.since_us, each.state.stay)
            else:
                self.border.emit(Remark("fence_stays_full", session.client))
                continue
            said += [(each.fence, occurrence) for occurrence in each.occurrences]
        for fence, occurrence in sorted(said, key=lambda each: each[1].at_us):
            self._publish(session, fence, occurrence)
        self.look_later(session)

    def _publish(self, session: Session, fence: Fence, occurrence: Occurrence) -> None:
        topic = f"{TRANSITIONS}{fence.name}/{occurrence.transition.value}"
        attributes = content_of(session.context, fence, occurrence)
        payload = msgspec.json.encode({name: plain(value) for name, value in attributes.items()})
        self.border.publishing.publish_for(session, Message(topic, payload, 2), attributes)

    # Time.

    def look_later(self, session: Session) -> None:
        """When time alone brings something about, as long as the client is here."""
        timer = TIMER + session.client
        due = [each for each in map(self._due_us, self._known(session)) if each is not None]
        if due:
            self.border.timers.set(timer, min(due))
        else:
            self.border.timers.cancel(timer)

    def time_over(self, client: str) -> None:
        session = self.border.sessions.get(client)
        if session is None or session.attachment.awaits is not None:
            return
        judged: list[Judged] = []
        for known in self._known(session):
            state, occurrences = elapsed(known.fence, known.state, self.border.now_us)
            if state != known.state:
                judged.append(Judged(known.fence, known.since_us, state, occurrences))
        self._take(session, judged)

    def forget(self, client: str) -> None:
        self.border.timers.cancel(TIMER + client)

    def _due_us(self, known: Judged) -> int | None:
        return due_us(known.fence, known.state)

    def _known(self, session: Session) -> Iterator[Judged]:
        for name, held in sorted(session.fence_stays.items()):
            fence = self.get(name)
            if fence is not None and self._since_us.get(name) == held.since_us:
                yield Judged(fence, held.since_us, self._state(session, fence, held.since_us, session.context), ())


def is_at_rest(held: FenceStay) -> bool:
    """Inside, and nothing is pending: only a passage of the border, or time, changes that."""
    stay = held.stay
    return stay.entered_us is not None and stay.passed_us is None and stay.fix_inside


def stay_of(session: Session, judged: Judged) -> object:
    held = session.fence_stays.get(judged.fence.name)
    return OUTSIDE if held is None or held.since_us != judged.since_us else held.stay
