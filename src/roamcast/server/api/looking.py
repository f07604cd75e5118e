"""What can be asked: clients, where they are, sessions, and how the broker is."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.responses import Response

import roamcast
from roamcast.broker.mqtt.events import plain
from roamcast.broker.mqtt.positions import judged, shown
from roamcast.broker.session import Session
from roamcast.model.filter import BadFilter, Scene, compile_filter
from roamcast.model.filter.parse import parse_text
from roamcast.model.region import Box, contains
from roamcast.model.space import Earth
from roamcast.model.values import BadValue, Point
from roamcast.server.api.shown import (
    ClientList,
    ClientShown,
    Neighbour,
    SessionList,
    SessionShown,
    Status,
)
from roamcast.server.http.users import Who
from roamcast.server.server import BrokerServer

GEOJSON = "application/geo+json"
LOOKED_AT_MAX = 100_000
"""Of how many clients one answer may ask where they are: the broker does nothing else meanwhile."""


class ClientsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    filter: str = ""
    """CQL2 over what clients say of themselves, such as `type = 'bus'`."""
    bbox: str = ""
    """Only those between two corners: `west,south,east,north`."""
    limit: int = 1_000


class SessionsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 1_000


class Looking:
    def __init__(self, server: BrokerServer, version: str = roamcast.__version__) -> None:
        self._server = server
        self._border = server.core.border
        self._version = version
        self._since_s = time.monotonic()

    async def status(self, who: Who) -> Status:
        """How the broker is: clients, sessions, what waits, neighbours."""
        if not who.may_look("status"):
            raise forbidden("status")
        sessions = self._border.sessions.values()
        streams = self._border.neighbours.streams.of.values()
        return Status(
            broker=self._server.core.host,
            version=self._version,
            state="draining" if self._server.draining else "serving",
            uptime_s=round(time.monotonic() - self._since_s, 1),
            space="earth" if isinstance(self._border.space, Earth) else "plane",
            connected=sum(session.connected for session in sessions),
            sessions=len(sessions),
            subscriptions=sum(len(session.subscriptions) for session in sessions),
            retained_messages=len(self._border.retained),
            retained_bytes=self._border.retained.bytes,
            waiting_messages=sum(len(session.window) for session in sessions),
            waiting_bytes=sum(session.window.bytes for session in sessions),
            neighbours=[Neighbour(each.peer, each.up, each.kept_messages, each.kept_bytes) for each in streams],
            storage_problem=None if self._server.write_ahead.full is None else str(self._server.write_ahead.full),
            cpu_s=round(time.process_time(), 3),
        )

    async def sessions(self, who: Who, query: SessionsQuery) -> SessionList:
        """Sessions that are here, also of clients that are away."""
        if not who.may_look("sessions"):
            raise forbidden("sessions")
        every = list(self._border.sessions.values())
        told = [session_shown(each) for each in every[: max(0, query.limit)]]
        return SessionList(told, len(every) - len(told))

    async def clients(self, who: Who, query: ClientsQuery) -> ClientList:
        """Clients of this broker, what they say of themselves, and where they are."""
        found = list(self._matching(who, query))
        told = found[: max(0, query.limit)]
        return ClientList(told, len(found) - len(told))

    async def client(self, who: Who, client: str) -> ClientShown:
        """One client of this broker."""
        session = self._border.sessions.get(client)
        if session is None or not who.sees(client):
            raise HTTPException(404, f"no client '{client[:200]}' is here, or it is not shown to you")
        return self._shown(session)

    async def positions(self, who: Who, query: ClientsQuery) -> Response:
        """Where clients of this broker are, as a GeoJSON FeatureCollection."""
        found = [each for each in self._matching(who, query) if each.position is not None]
        features = [feature_of(each) for each in found[: max(0, query.limit)]]
        body: dict[str, Any] = {"type": "FeatureCollection", "features": features}
        return Response(msgspec.json.encode(body), media_type=GEOJSON)

    def _matching(self, who: Who, query: ClientsQuery) -> Iterator[ClientShown]:
        """Raises `HTTPException`."""
        accepts, box = self._filter(query.filter), self._box(query.bbox)
        for session in list(self._border.sessions.values())[:LOOKED_AT_MAX]:
            if not who.sees(session.client) or not accepts(session):
                continue
            found = self._shown(session)
            place = None if found.position is None else Point(*found.position)
            if box is None or (place is not None and contains(box, place, self._border.space)):
                yield found

    def _filter(self, text: str) -> Callable[[Session], bool]:
        if not text:
            return lambda _: True
        try:
            truth = compile_filter(parse_text(text), self._border.space, self._border.audience.graph)
        except BadFilter as problem:
            raise HTTPException(400, f"filter: {str(problem).splitlines()[0]}") from None

        def accepts(session: Session) -> bool:
            context = judged(session.context, self._border.space).at(self._server.now_us(), self._border.space)
            return truth(Scene(context.value, context, None, None)) is True

        return accepts

    def _box(self, text: str) -> Box | None:
        if not text:
            return None
        try:
            west, south, east, north = (float(each) for each in text.split(","))
            box = Box(Point(west, south), Point(east, north))
            self._border.space.check(box.low)
            self._border.space.check(box.high)
        except (ValueError, BadValue):
            raise HTTPException(400, f"bbox is '{text[:100]}'; give west,south,east,north") from None
        return box

    def _shown(self, session: Session) -> ClientShown:
        context = shown(session.context, self._border.space)
        here = None if context is None else context.position_at(self._server.now_us(), self._border.space)
        return ClientShown(
            session.client,
            session.connected,
            None if here is None else [here.x, here.y],
            {name: plain(value) for name, value in session.context.attributes.items()},
        )


def session_shown(session: Session) -> SessionShown:
    return SessionShown(
        session.client,
        session.user,
        session.connected,
        session.expiry_s,
        len(session.subscriptions),
        len(session.window) + len(session.attachment.held),
        session.window.bytes + session.attachment.held_bytes,
    )


def feature_of(client: ClientShown) -> dict[str, Any]:
    return {
        "type": "Feature",
        "id": client.id,
        "geometry": {"type": "Point", "coordinates": client.position},
        "properties": {**client.attributes, "client": client.id, "connected": client.connected},
    }


def forbidden(what: str) -> HTTPException:
    return HTTPException(403, f"only those may who are allowed $roam/admin/{what} by a rule")
