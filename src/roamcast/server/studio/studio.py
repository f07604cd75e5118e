"""The studio of one broker, put together: what looks on, what tells, what answers, and where each is found."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import urlsplit

from msgspec import Struct

from roamcast.broker.mqtt.core import Core
from roamcast.model.space import Earth
from roamcast.server.http.routes import Handler, HttpRequest, HttpResponse, Routes, Upgrade
from roamcast.server.studio.answers import Answers, answer
from roamcast.server.studio.bundle import STUDIO, Bundle, to_the_page
from roamcast.server.studio.feed import Feed
from roamcast.server.studio.others import ABOUT, Others
from roamcast.server.studio.page import Page
from roamcast.server.studio.settings import Streets, StudioSettings
from roamcast.server.studio.watcher import Watcher
from roamcast.server.transport.websocket import WebSocketProtocol

VERSION = 1
STAYS_S = 600.0
"""How long the studio goes on observing when the last page is closed: who reloads it sees what was."""
STREETS = f"{STUDIO}map/streets.json"
WEBSOCKETS = {"mqtt ws": "ws", "mqtt wss": "wss"}
EVERY_ADDRESS = ("0.0.0.0", "::", "")


class Address(Struct, frozen=True):
    """Where something of a broker can be reached."""

    what: str
    host: str
    port: int


class Studio:
    def __init__(
        self,
        core: Core,
        name: str,
        settings: StudioSettings,
        addresses: Sequence[Address],
        streets: Streets | None,
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
        self._streets = streets
        self._now_us = now_us
        self._remark = remark
        self._answers = Answers(self.watcher, now_us)
        self.others = Others(settings.others, self._learned)

    def routes(self) -> Routes:
        answers = self._answers
        found: dict[str, Handler | Upgrade] = {
            "/studio": to_the_page,
            STUDIO: self.bundle,
            ABOUT: self._shared(self._about),
            f"{STUDIO}feed": Upgrade(self._page),
            f"{STUDIO}clients/": self._shared(self._looked_at(answers.client)),
            f"{STUDIO}events/": self._shared(self._looked_at(answers.event)),
            f"{STUDIO}try": self._shared(self._looked_at(answers.tried)),
        }
        if self._streets is not None:
            found[STREETS] = self._shared(partial(self._map, self._streets))
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

    def _looked_at(self, handler: Handler) -> Handler:
        def looked_at(request: HttpRequest) -> HttpResponse:
            self.look()
            return handler(request)

        return looked_at

    def _feed_failed(self, what: str, problem: Exception) -> None:
        self._stop_looking()
        self._remark("observer_failed", f"studio, {what}: {problem!r}")

    def _page(self) -> asyncio.Protocol:
        self.look()
        return WebSocketProtocol(Page(self.feed), None, self.settings.origins or None, text=True)

    def _map(self, streets: Streets, _: HttpRequest) -> HttpResponse:
        return HttpResponse(200, streets.body, "application/geo+json")

    def _shared(self, handler: Handler) -> Handler:
        """Also for pages that another broker has served."""

        def shared(request: HttpRequest) -> HttpResponse:
            response = handler(request)
            origin, origins = request.header("origin"), self.settings.origins
            if origins and origin not in origins:
                return HttpResponse(response.status, response.body, response.content_type, (("vary", "origin"),))
            allowed = ("access-control-allow-origin", (origin or "*") if origins else "*")
            vary = (("vary", "origin"),) if origins else ()
            return HttpResponse(response.status, response.body, response.content_type, (allowed, *vary))

        return shared

    # What a page is told first.

    def _hello(self, transport: asyncio.Transport) -> dict[str, object]:
        core, settings = self.watcher.core, self.settings
        local = transport.get_extra_info("sockname")
        host = str(local[0]) if isinstance(local, tuple) else ""
        centre = settings.place if self._streets is None else self._streets.centre or settings.place
        others = [each for each in self.others.known.values() if each.name != self.name]
        return {
            "kind": "hello",
            "version": VERSION,
            "broker": self.name,
            "space": "earth" if isinstance(core.space, Earth) else "plane",
            "at_us": self._now_us(),
            "brokers": [self.about(host), *others],
            "map": {
                "streets": None if self._streets is None else STREETS,
                "attribution": settings.attribution or None,
                "centre": centre,
                "zoom": None,
            },
        }

    def _learned(self) -> None:
        for page in self.feed.pages:
            page.begin_anew()

    def _about(self, request: HttpRequest) -> HttpResponse:
        host = urlsplit(f"//{request.header('host') or ''}").hostname or ""
        return answer(200, self.about(host))

    def about(self, host: str) -> dict[str, object]:
        """This broker, as somebody reaches it who has come to it at `host`."""
        http = next((f"http://{place(each, host)}" for each in self._addresses if each.what == "http"), None)
        sockets = [each for each in self._addresses if each.what in WEBSOCKETS]
        mqtt = f"{WEBSOCKETS[sockets[0].what]}://{place(sockets[0], host)}/mqtt" if sockets else None
        return {"name": self.name, "http": http, "mqtt": mqtt, "place": self.settings.place}


def place(address: Address, host: str) -> str:
    name = host if address.host in EVERY_ADDRESS else address.host
    return f"[{name}]:{address.port}" if ":" in name else f"{name}:{address.port}"
