"""All operations of the API, and the document that describes them."""

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roamcast.server.api.acting import Acting
from roamcast.server.api.fencing import Fencing
from roamcast.server.api.looking import GEOJSON, Looking
from roamcast.server.api.openapi import document
from roamcast.server.api.operation import Operation, routes_of
from roamcast.server.api.publishing import EVENT_STREAM, Speaking
from roamcast.server.api.tracking import Tracking
from roamcast.server.http.users import Users
from roamcast.server.server import BrokerServer
from roamcast.server.tracks import Tracks


class Api:
    def __init__(
        self,
        server: BrokerServer,
        users: Users,
        reload: Callable[[], str | None],
        elsewhere: Callable[[], str | None],
        tracks: Tracks | None = None,
    ) -> None:
        tracking = Tracking(tracks, server.now_us)
        looking, acting = Looking(server), Acting(server, reload, elsewhere)
        self.speaking = speaking = Speaking(server)
        fencing = Fencing(server, speaking)
        self._users = users
        self.operations = [
            Operation("GET", "/api/status", looking.status),
            Operation("GET", "/api/clients", looking.clients),
            Operation("GET", "/api/clients/{client:path}", looking.client),
            Operation("POST", "/api/kick/{client:path}", acting.kick),
            Operation("GET", "/api/positions", looking.positions, media=GEOJSON),
            Operation("GET", "/api/tracks/{client:path}", tracking.track, media=GEOJSON),
            Operation("GET", "/api/fences", fencing.fences),
            Operation("GET", "/api/fences/{name:path}", fencing.fence, media=GEOJSON),
            Operation("PUT", "/api/fences/{name:path}", fencing.put_fence, takes=GEOJSON),
            Operation("DELETE", "/api/fences/{name:path}", fencing.delete_fence),
            Operation("GET", "/api/sessions", looking.sessions),
            Operation("DELETE", "/api/sessions/{client:path}", acting.end_session),
            Operation("POST", "/api/publish/{topic:path}", speaking.publish, takes="*/*"),
            Operation("GET", "/api/events", speaking.events, media=EVENT_STREAM),
            Operation("POST", "/api/drain", acting.drain),
            Operation("DELETE", "/api/drain", acting.undrain),
            Operation("POST", "/api/reload", acting.reload),
        ]

    def routes(self) -> list[Route]:
        return [*routes_of(self.operations, self._users), Route("/openapi.json", self._document)]

    def close(self) -> None:
        self.speaking.close()

    async def _document(self, _: Request) -> Response:
        return Response(msgspec.json.encode(document(self.operations)), media_type="application/json")
