"""Who of a broker's clients did not get an event though its topic is theirs, and why (L5).

Asked later, answered as the broker did when the event came: for the clients that were here then, each where it was
when the event was published. Where that is too long ago to be known, the answer is for now and says so. A message
that stays (`persist`) is asked about now, for it can still be delivered. The work of one answer is bounded, for the
broker does nothing else meanwhile.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from roamcast.broker.mqtt.audience import moment_of
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.positions import shown
from roamcast.broker.mqtt.properties import text_of
from roamcast.broker.mqtt.wishes import Entry, is_simple
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.match import failing
from roamcast.model.scope import EVERYWHERE
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.server.studio.past import Known, Past
from roamcast.server.studio.shapes import drawn_json, drawn_of_event
from roamcast.server.studio.watcher import Watcher
from roamcast.server.studio.ways import Way
from roamcast.server.studio.wording import Failed, Reason, reason_of

EXPLAINED_MAX = 200
HOSTS_ASKED_MAX = 50_000
"""So often a scope may be held against a host for one answer."""
NOT_KNOWN = " (as things are now: it is not known any more how they were when the event came)"


class NotDelivered(Struct, frozen=True):
    to: str
    subscription: str
    failed: Failed
    why: str


class Moment(Mapping[str, Context]):
    """Every client at a moment, and a publisher that is elsewhere; a context is made when it is asked for."""

    def __init__(self, known: dict[str, Known], publisher: Context, moment_us: int, space: Space) -> None:
        self.known = known
        self._moment_us = moment_us
        self._space = space
        self._made: dict[str, Context] = {}
        self._names = [*known, *([] if publisher.host in known else [publisher.host])]
        if publisher.host not in known:
            self._made[publisher.host] = publisher.at(moment_us, space)

    def __getitem__(self, host: str) -> Context:
        made = self._made.get(host)
        if made is None:
            made = self._made[host] = self.known[host].context.at(self._moment_us, self._space)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def known_at(past: Past, seen_us: int, by_us: int) -> dict[str, Known]:
    """Who was here when an event came, each where it was when the event was published (docs/PROTOCOL.md, P-7)."""
    here = past.at(seen_us)
    if by_us == seen_us:
        return here
    then = past.at(by_us)
    return {client: Known(then.get(client, known).context, known.connected) for client, known in here.items()}


class Explaining:
    def __init__(self, watcher: Watcher, way: Way, now_us: int) -> None:
        core = watcher.core
        self.core: Core = core
        self.way = way
        self.event: Event = way.event
        lasts = way.event.id in core.border.lasting
        seen_us = now_us if lasts else way.seen_us
        by_us = now_us if lasts else way.event.published_us
        self.known_then = watcher.past.knows(min(seen_us, by_us))
        self.moment_us = moment_of(way.event, seen_us)
        known = known_at(watcher.past, seen_us, by_us) if self.known_then else dict(watcher.past.now)
        self.moment = Moment(known, way.event.publisher, by_us if self.known_then else now_us, core.space)
        self.configuration = Configuration(core.space, self.moment, graph=core.border.audience.graph)
        self._asked = 0

    def regions(self) -> list[dict[str, object]]:
        """Where the event is relevant and who its audience is, as that was when it was published."""
        space, by_us = self.core.space, self.event.published_us
        found: list[dict[str, object]] = []
        for drawn in drawn_of_event(self.event):
            host = None if drawn.anchor is None else self.moment.get(drawn.anchor)
            seen = None if host is None else shown(host, space)
            described = None if host and not seen else drawn_json(drawn, seen, by_us, space)
            if described is not None:
                found.append(described)
        return found

    def not_delivered(self) -> tuple[list[NotDelivered], int]:
        """The first of them, and how many more there are."""
        found: list[NotDelivered] = []
        left_out = 0
        for entry in self.core.border.audience.fitting(self.event.subject):
            if entry.client in self.way.delivered:
                continue
            reason = self._reason(entry) if len(found) < EXPLAINED_MAX and self._affordable(entry) else None
            if reason is None:
                left_out += 1
            else:
                found.append(NotDelivered(entry.client, text_of(entry.wanted.id), *reason))
        # Of those who are not listed any more it is not known who got it.
        return found, max(0, left_out - self.way.delivered_more)

    def _affordable(self, entry: Entry) -> bool:
        if is_simple(entry.wanted) and self.event.relevance == EVERYWHERE:
            return True
        self._asked += len(self.moment)
        return self._asked <= max(HOSTS_ASKED_MAX, len(self.moment))

    def _reason(self, entry: Entry) -> Reason | None:
        if entry.client not in self.moment.known:
            return "withheld", f"{entry.client} was not at this broker when the event came"
        wanted = self._wanted(entry)
        condition = failing(self.event, wanted, self.configuration, self.moment_us)
        if condition is None:
            return self._withheld(entry)
        failed, why = reason_of(condition, self.event, wanted, self.configuration, self.moment_us)
        return failed, why if self.known_then else why + NOT_KNOWN

    def _wanted(self, entry: Entry) -> Subscription:
        """With the time at which its client issued it; for matching it holds from when it is here."""
        session = self.core.border.sessions.get(entry.client)
        interest = None if session is None else session.subscriptions.get(entry.asked.filter.text)
        issued = None if interest is None else interest.wanted
        return entry.wanted if issued is None else issued

    def _withheld(self, entry: Entry) -> Reason | None:
        """It matches, and there is another reason."""
        asked, client = entry.asked, entry.client
        message = self.core.events.message_of(self.event)
        qos = 0 if message is None else min(message.qos, asked.qos)
        if self.way.delivered_more:
            return None
        if asked.no_local and client == self.event.publisher.host:
            return "withheld", f"{client} published it, and asked for nothing of its own (No Local)"
        if asked.filter.group is not None:
            return "withheld", f"another member of the group '{asked.filter.group}' got it"
        if not self.moment.known[client].connected and qos == 0:
            return "withheld", f"{client} was not connected, and what is QoS 0 to it does not wait"
        if not self.known_then:
            return "withheld", f"as things are now it would be delivered{NOT_KNOWN}"
        session = self.core.border.sessions.get(client)
        if session is not None and not session.connected and qos:
            return "withheld", f"it waits for {client}, which is not connected"
        if entry.wanted.modulator:
            return "withheld", "the modulator of the subscription let nothing through"
        return "withheld", f"it matches; too much waited for {client} already, or its session was being fetched"
