"""All that is behind the HTTP port of a broker, put together: metrics, health, the API and the studio."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from roamcast.server.access import PolicyAccess
from roamcast.server.address import Address
from roamcast.server.api.api import Api
from roamcast.server.api.operation import problem_answer
from roamcast.server.http.guard import Guard
from roamcast.server.http.health import health_route, metrics_route
from roamcast.server.http.service import HttpServer
from roamcast.server.http.users import Users
from roamcast.server.server import BrokerServer
from roamcast.server.settings import Settings, is_loopback
from roamcast.server.studio.settings import Background
from roamcast.server.studio.studio import Studio
from roamcast.server.tracks import Tracks


class Web:
    def __init__(
        self,
        settings: Settings,
        server: BrokerServer,
        access: PolicyAccess,
        background: Background | None,
        addresses: Sequence[Address],
        checks: Mapping[str, Callable[[], str | None]],
        measure: Callable[[], None],
        reload: Callable[[], str | None],
        elsewhere: Callable[[], str | None],
        tracks: Tracks | None = None,
    ) -> None:
        """`checks` are those of `/healthz`, and `measure` goes before `/metrics`."""
        assert settings.http is not None
        core = server.core
        anonymous = bool(settings.security.anonymous)
        users = Users(access, core.border.sessions, server.now_us, anonymous)
        self.api = Api(server, users, reload, elsewhere, tracks)
        self.studio: Studio | None = None
        if settings.shows_studio:
            # Who has switched it on for a network without any password wants it to be seen there.
            on_network = settings.studio.enabled is True and not is_loopback(settings.http.host)
            viewers = Users(access, core.border.sessions, server.now_us, anonymous or on_network)
            self.studio = Studio(
                core,
                settings.name,
                settings.studio,
                addresses,
                background,
                viewers,
                server.now_us,
                [peer.name for peer in settings.links.peers],
                remark=server.monitor.remark,
            )
        routes: list[BaseRoute] = [
            Route("/metrics", metrics_route(server.metrics, measure)),
            Route("/healthz", health_route(checks)),
            *self.api.routes(),
            *([] if self.studio is None else self.studio.routes()),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: problem_answer})
        origins = (*settings.http.origins, *settings.studio.others)
        self._http = HttpServer(
            Guard(app, settings.http.limits, server.now_us, origins, failed), settings.http.limits
        )

    async def start(self, host: str, port: int) -> int:
        """The port; raises `OSError`."""
        await self._http.start(host, port)
        return self._http.port

    def check_rights(self) -> None:
        """The rules have changed."""
        if self.studio is not None:
            self.studio.check_rights()

    async def close(self) -> None:
        self.api.close()
        if self.studio is not None:
            self.studio.close()
        await self._http.close()


def failed(path: str, problem: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": f"{path} failed", "exception": problem})
