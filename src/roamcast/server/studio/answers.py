"""What pages ask for: one client, one event and its way, what a filter would accept. Answers are JSON."""

from collections.abc import Callable
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from starlette.responses import Response

from roamcast.broker.mqtt.content import attributes_of
from roamcast.broker.mqtt.events import plain
from roamcast.broker.mqtt.positions import judged, shown
from roamcast.model.context import Configuration, Context
from roamcast.model.filter import (
    EVERYTHING,
    BadFilter,
    Filter,
    Scene,
    compile_filter,
    parse_json,
    parse_text,
    to_text,
)
from roamcast.model.match import neighbours_of
from roamcast.model.space import Space
from roamcast.model.subject import check_pattern, subject_matches
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, BadValue, Point
from roamcast.server.http.users import Who
from roamcast.server.studio.explaining import HOSTS_ASKED_MAX, Explaining
from roamcast.server.studio.shapes import entity_json, near_m, payload_json, point_json, scope_json
from roamcast.server.studio.watcher import Watcher
from roamcast.server.studio.ways import Way

LAST_EVENTS_MAX = 50
TRIED_EVENTS_MAX = 200
TRIED_CLIENTS_MAX = 20_000
SHOWN_CLIENTS_MAX = 1_000
ENTITIES_MAX = 5_000

_encoder = msgspec.json.Encoder()


class BadQuery(ValueError):
    """A request that cannot be answered; the message says why."""


def answer(status: int, body: dict[str, object]) -> Response:
    return Response(_encoder.encode(body) + b"\n", status, media_type="application/json")


def problem(status: int, text: str) -> Response:
    return answer(status, {"problem": text})


class Tried(Struct, frozen=True):
    """A filter to be tried, with the topics and the reader that it is tried for."""

    filter: Filter
    pattern: str | None
    me: str | None
    """None: each client reads for itself."""
    me_as: Context | None


class Counting(Configuration):
    """Counts how many hosts were looked at: the broker does nothing else meanwhile."""

    asked = 0

    def neighbours(self, host: str) -> list[Context]:
        self.asked += len(self.contexts)
        return super().neighbours(host)


class Answers:
    """To whoever asks, what the rules let them see."""

    def __init__(self, watcher: Watcher, now_us: Callable[[], int]) -> None:
        self.watcher = watcher
        self.core = watcher.core
        self._now_us = now_us

    # One client.

    def client(self, who: Who, name: str) -> Response:
        session = self.core.border.sessions.get(name)
        if session is None or not who.sees(name):
            return problem(404, f"no client '{name[:200]}' is at {self.core.host}")
        now_us = self._now_us()
        context = shown(session.context, self.core.space)
        here = None if context is None else context.position_at(now_us, self.core.space)
        return answer(
            200,
            {
                "id": name,
                "home": self.core.host,
                "at": point_json(here),
                "attributes": {key: plain(value) for key, value in session.context.attributes.items()},
                "connected": session.connected,
                "waiting": len(session.window) + len(session.attachment.held),
                "subscriptions": [
                    subscription_json(text, each.wanted) for text, each in session.subscriptions.items()
                ],
                "last_events": self._last_events(who, name),
            },
        )

    def _last_events(self, who: Who, client: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for way in self.watcher.ways.newest():
            heard = client in way.delivered and who.hears(way.event.subject)
            if heard and len(found) < LAST_EVENTS_MAX:
                found.append({"id": way.event.id, "subject": way.event.subject, "at_us": way.delivered[client]})
        return found

    # One event.

    def event(self, who: Who, name: str) -> Response:
        way = self.watcher.ways.get(name)
        if way is None or not who.hears(way.event.subject):
            return problem(404, f"{self.core.host} knows no event '{name[:200]}', or not any more")
        explaining = Explaining(self.watcher, way, self._now_us())
        rows, left_out = explaining.not_delivered()
        event = way.event
        return answer(
            200,
            {
                "id": event.id,
                "subject": event.subject,
                "from": event.publisher.host,
                "payload": payload_json(way.payload),
                "payload_bytes": len(way.payload),
                "published_us": event.published_us,
                "expiry_us": event.expires_us,
                "relevance": scope_json(event.relevance),
                "audience": scope_json(event.audience),
                "regions": explaining.regions(),
                "came_from": came_from(way, self.core.host),
                "seen_us": way.seen_us,
                "passed_to": [{"broker": peer, "at_us": at_us} for peer, at_us in way.passed_to.items()],
                "delivered": [
                    {"to": client, "at_us": at_us} for client, at_us in way.delivered.items() if who.sees(client)
                ],
                "delivered_left_out": way.delivered_more,
                "not_delivered": [each for each in rows if who.sees(each.to)],
                "left_out": left_out,
            },
        )

    # A moment.

    def positions(self, who: Who, query: str) -> Response:
        """Where clients were at a moment of the last while."""
        try:
            at_us = int(dict(parse_qsl(query)).get("at_us", ""))
        except ValueError:
            return problem(400, "at_us is no number; give microseconds since 1970")
        past = self.watcher.past
        if not past.knows(at_us):
            return problem(404, f"{self.core.host} does not know any more where clients were then")
        told = (
            entity_json(known.context, known.connected, at_us, self.core.space)
            for client, known in past.at(at_us).items()
            if who.sees(client)
        )
        found = [each for each in told if each is not None]
        left_out = max(0, len(found) - ENTITIES_MAX)
        return answer(200, {"at_us": at_us, "clients": found[:ENTITIES_MAX], "left_out": left_out})

    # A filter.

    def tried(self, who: Who, query: str) -> Response:
        try:
            asked = query_of(query, self.core.space)
        except BadQuery as bad:
            return problem(400, str(bad))
        filter_, pattern = asked.filter, asked.pattern
        me_at = self._reader(who, asked)
        truth = compile_filter(filter_, self.core.space, self.core.border.audience.graph)
        now_us, unknown = self._now_us(), 0
        clients: list[dict[str, object]] = []
        seen = [name for name in self.watcher.past.now if who.sees(name)]
        names = seen[:TRIED_CLIENTS_MAX]
        space, now = self.core.space, self.watcher.past.now
        contexts = {name: judged(now[name].context, space).at(now_us, space) for name in names}
        me = me_at(now_us)
        configuration = Counting(self.core.space, contexts if me is None else {**contexts, me.host: me})
        tried = 0
        for name, context in contexts.items():
            if configuration.asked > HOSTS_ASKED_MAX:
                break
            tried += 1
            reader = me or (context if asked.me is None else None)
            near = None if reader is None else neighbours_of(reader.host, configuration)
            verdict = truth(Scene(context.value, reader, None, near))
            unknown += verdict is None
            if verdict:
                clients.append({"id": name, "at": point_json(context.position)})
        events: list[dict[str, object]] = []
        for way in self.watcher.ways.after(0, TRIED_EVENTS_MAX):
            event = way.event
            if who.hears(event.subject) and (pattern is None or subject_matches(pattern, event.subject)):
                verdict = truth(Scene(event.attributes.get, me_at(event.published_us), event.publisher))
                unknown += verdict is None
                if verdict:
                    events.append({"id": event.id, "subject": event.subject})
        left_out = len(seen) - tried + max(0, len(clients) - SHOWN_CLIENTS_MAX)
        return answer(
            200, {"clients": clients[:SHOWN_CLIENTS_MAX], "events": events, "unknown": unknown, "left_out": left_out}
        )

    def _reader(self, who: Who, asked: Tried) -> Callable[[int], Context | None]:
        """Who `me` is in the filter, at any moment: as this broker knows it, else as the page says."""
        if asked.me is None or not who.sees(asked.me) or asked.me not in self.watcher.past.now:
            return lambda _: asked.me_as
        known_at, space = self.watcher.past.of(asked.me), self.core.space

        def at(moment_us: int) -> Context | None:
            known = known_at(moment_us)
            return None if known is None else judged(known.context, space).at(moment_us, space)

        return at


def subscription_json(topic: str, wanted: Subscription) -> dict[str, object]:
    interest = wanted.interest.filter
    return {
        "topic": topic,
        "filter": None if wanted.filter == EVERYTHING else to_text(wanted.filter),
        "near_m": near_m(wanted.filter),
        "interest": None if interest is None else to_text(interest),
        "expiry_us": None if wanted.expires_us == FOREVER_US else wanted.expires_us,
    }


def came_from(way: Way, host: str) -> dict[str, str]:
    """Of one that came before what is remembered, as a retained message may, the id says which broker made it."""
    if way.from_client is not None:
        return {"client": way.from_client}
    if way.from_broker is not None:
        return {"broker": way.from_broker}
    maker = way.event.id.rpartition("~")[0] or way.event.id.rsplit(".", 2)[0]
    return {"client": way.event.publisher.host} if maker == host else {"broker": maker}


def query_of(query: str, space: Space) -> Tried:
    """Raises `BadQuery`."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    text, pattern = given.get("filter", ""), given.get("subject") or None
    if not text.strip():
        raise BadQuery("filter is missing; give ?filter= and a filter in CQL2")
    try:
        filter_ = parse_json(text) if text.lstrip()[:1] == "{" else parse_text(text)
    except BadFilter as bad:
        where = "" if bad.position is None else f"column {bad.position + 1}: "
        raise BadQuery(f"filter: {where}{bad.reason}") from bad
    try:
        if pattern is not None:
            check_pattern(pattern)
    except BadValue as bad:
        raise BadQuery(f"subject: {bad}") from bad
    me = given.get("me") or None
    return Tried(filter_, pattern, me, None if me is None else reader_of(me, given.get("me_as", ""), space))


def reader_of(me: str, said: str, space: Space) -> Context | None:
    """What a page says of it: attributes and position, as in a payload."""
    attributes = attributes_of(said.encode(), space)
    position = attributes.pop("position", None)
    if not attributes and position is None:
        return None
    return Context(me, position if isinstance(position, Point) else None, attributes=attributes)
