"""The studio of one broker, put together: what looks on, what tells, what answers, and where each is found."""

import asyncio
from collections.abc import Callable, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from roamcast.broker.mqtt.core import Core
from roamcast.model.space import Earth
from roamcast.server.address import Address
from roamcast.server.http.users import Users, Who
from roamcast.server.studio.answers import Answers, answer
from roamcast.server.studio.bundle import STUDIO, Bundle, to_the_page
from roamcast.server.studio.feed import Feed
from roamcast.server.studio.others import ABOUT, Others
from roamcast.server.studio.page import Page
from roamcast.server.studio.settings import Background, StudioSettings
from roamcast.server.studio.shapes import shape_json
from roamcast.server.studio.watcher import Watcher

VERSION = 1
STAYS_S = 600.0
"""How long the studio goes on observing when the last page is closed: who reloads it sees what was."""
MAP = f"{STUDIO}map.json"
WEBSOCKETS = {"mqtt ws": "ws", "mqtt wss": "wss"}
EVERY_ADDRESS = ("0.0.0.0", "::", "")


class Studio:
    def __init__(
        self,
        core: Core,
        name: str,
        settings: StudioSettings,
        addresses: Sequence[Address],
        background: Background | None,
        users: Users,
        now_us: Callable[[], int],
        peers: Sequence[str] = (),
        bundle: Bundle | None = None,
        remark: Callable[[str, str], None] = lambda _, __: None,
    ) -> None:
        """`addresses` may still grow: what a page is told is looked up when it comes. `remark` hears of mistakes."""
        self.name = name
        self.settings = settings
        self.watcher = Watcher(core)
        self.feed = Feed(self.watcher, now_us, self._hello, peers, self._feed_failed)
        self.watcher.when_failed = self.feed.fail
        self._observers = core.border.observation.observers
        self._looking: asyncio.TimerHandle | None = None
        self.bundle = bundle or Bundle()
        self._addresses = addresses
        self._users = users
        self._background = background
        self._now_us = now_us
        self._remark = remark
        self._answers = Answers(self.watcher, now_us)
        self.others = Others(settings.others, self._learned)

    def routes(self) -> list[BaseRoute]:
        found: list[BaseRoute] = [
            Route("/studio", to_the_page),
            Route(ABOUT, self._about),
            WebSocketRoute(f"{STUDIO}feed", self._page),
            Route(f"{STUDIO}clients/{{name:path}}", self._client),
            Route(f"{STUDIO}events/{{name:path}}", self._event),
            Route(f"{STUDIO}positions", self._positions),
            Route(f"{STUDIO}try", self._tried),
            *([] if self._background is None else [Route(MAP, self._map)]),
            Route(f"{STUDIO}{{file:path}}", self._file),
        ]
        return found

    def close(self) -> None:
        self._stop_looking()
        self.feed.close()
        self.others.close()

    def look(self) -> None:
        """Somebody looks: the watcher observes from now on, until nobody has looked for a while."""
        if self._looking is None:
            if self.feed.failed:
                return
            self.watcher.begin()
            self._observers.add(self.watcher)
        else:
            self._looking.cancel()
        self._looking = asyncio.get_running_loop().call_later(STAYS_S, self._look_away)

    def _look_away(self) -> None:
        if self.feed.pages:
            self._looking = asyncio.get_running_loop().call_later(STAYS_S, self._look_away)
        else:
            self._stop_looking()

    def _stop_looking(self) -> None:
        self._observers.remove(self.watcher)
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _feed_failed(self, what: str, problem: Exception) -> None:
        self._stop_looking()
        self._remark("observer_failed", f"studio, {what}: {problem!r}")

    # What pages ask for.

    async def _file(self, request: Request) -> Response:
        """A browser asks for the password with the page, and sends it with whatever the page asks for."""
        await self._users.identify(request)
        return self.bundle.file(request.path_params["file"])

    async def _client(self, request: Request) -> Response:
        who = await self._looks(request)
        return self._answers.client(who, request.path_params["name"])

    async def _event(self, request: Request) -> Response:
        who = await self._looks(request)
        return self._answers.event(who, request.path_params["name"])

    async def _tried(self, request: Request) -> Response:
        who = await self._looks(request)
        return self._answers.tried(who, request.url.query)

    async def _positions(self, request: Request) -> Response:
        who = await self._looks(request)
        return self._answers.positions(who, request.url.query)

    async def _map(self, request: Request) -> Response:
        await self._users.identify(request)
        assert self._background is not None
        return Response(self._background.body, media_type="application/geo+json")

    async def _looks(self, request: Request) -> Who:
        who = await self._users.identify(request)
        self.look()
        return who

    async def _page(self, socket: WebSocket) -> None:
        try:
            who = await self._users.identify(socket)
        except HTTPException:
            await socket.close()
            return
        self.look()
        await socket.accept()
        page = Page(self.feed, who, socket.url.hostname or "")
        writing = asyncio.get_running_loop().create_task(write(page, socket))
        try:
            async for text in socket.iter_text():
                page.hear(text)
        finally:
            page.close()
            await writing

    def check_rights(self) -> None:
        """The rules have changed."""
        self.feed.check_rights(self._users.renewed)

    # What a page is told first.

    def _hello(self, host: str) -> dict[str, object]:
        core, settings = self.watcher.core, self.settings
        background = self._background
        centre = settings.place if background is None else background.centre or settings.place
        others = [each for each in self.others.known.values() if each.name != self.name]
        return {
            "kind": "hello",
            "version": VERSION,
            "broker": self.name,
            "space": "earth" if isinstance(core.space, Earth) else "plane",
            "at_us": self._now_us(),
            "brokers": [self.about(host), *others],
            "map": {
                "geojson": None if background is None else MAP,
                "tiles": settings.tiles or None,
                "attribution": settings.attribution or None,
                "centre": centre,
                "zoom": None,
            },
            "types": {
                name: {"icon": look.icon or None, "colour": look.colour or None}
                for name, look in settings.types.items()
            },
            "zones": [
                {"name": zone.name, "shape": shape_json(zone.area.shape()), "colour": zone.colour or None}
                for zone in settings.zones
            ],
        }

    def _learned(self) -> None:
        for page in self.feed.pages:
            page.begin_anew()

    async def _about(self, request: Request) -> Response:
        """Other brokers ask for this without any user: it has nothing of clients."""
        return answer(200, self.about(request.url.hostname or ""))

    def about(self, host: str) -> dict[str, object]:
        """This broker, as somebody reaches it who has come to it at `host`."""
        http = next((f"http://{place(each, host)}" for each in self._addresses if each.what == "http"), None)
        sockets = [each for each in self._addresses if each.what in WEBSOCKETS]
        mqtt = f"{WEBSOCKETS[sockets[0].what]}://{place(sockets[0], host)}/mqtt" if sockets else None
        return {"name": self.name, "http": http, "mqtt": mqtt, "place": self.settings.place}


def place(address: Address, host: str) -> str:
    name = host if address.host in EVERY_ADDRESS else address.host
    return f"[{name}]:{address.port}" if ":" in name else f"{name}:{address.port}"


async def write(page: Page, socket: WebSocket) -> None:
    try:
        async for frame in page.outgoing():
            await socket.send_text(frame.decode())
        await socket.close()
    except (OSError, RuntimeError, WebSocketDisconnect):
        # It has gone.
        page.close()
