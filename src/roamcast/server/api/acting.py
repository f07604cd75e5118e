"""What operators do to a broker: kick a client, end a session, drain it, have it read its settings again."""

from collections.abc import Callable

from msgspec import Struct
from starlette.exceptions import HTTPException

from roamcast.broker.mqtt.inputs import Ended
from roamcast.mqtt.reasons import Reason, Unsendable
from roamcast.mqtt.wire import write_text
from roamcast.server.api.looking import forbidden
from roamcast.server.api.shown import Done, Draining
from roamcast.server.http.users import Who
from roamcast.server.server import BrokerServer


class Kick(Struct, frozen=True, forbid_unknown_fields=True):
    why: str = "the operator of the broker has ended the connection"
    """What the client is told."""


class Drain(Struct, frozen=True, forbid_unknown_fields=True):
    to: str | None = None
    """Where clients are sent, such as `north.example:1883`; none: to a peer that is there, if there is one."""

    def __post_init__(self) -> None:
        try:
            write_text(self.to or "")
        except Unsendable as problem:
            raise ValueError(f"to: {problem.detail}") from None


class Acting:
    def __init__(
        self, server: BrokerServer, reload: Callable[[], str | None], elsewhere: Callable[[], str | None]
    ) -> None:
        """`reload` reads the settings again and says what was wrong; `elsewhere` is where clients can go."""
        self._server = server
        self._reload = reload
        self._elsewhere = elsewhere

    async def kick(self, who: Who, client: str, body: Kick) -> Done:
        """End the connection of a client; its session stays."""
        self._check(who, "kick")
        socket = self._server.clients.get(client)
        if socket is None:
            raise HTTPException(404, f"no client '{client[:200]}' is connected here")
        socket.mqtt.disconnect(self._server.now_us(), Reason.ADMINISTRATIVE_ACTION, body.why)
        socket.attend()
        return Done(f"{client} was disconnected")

    async def end_session(self, who: Who, client: str) -> Done:
        """End a session, and the connection of its client: what waits for it is gone."""
        self._check(who, "end")
        if client not in self._server.core.border.sessions:
            raise HTTPException(404, f"no session of '{client[:200]}' is here")
        self._server.give(Ended(client))
        return Done(f"the session of {client} is over")

    async def drain(self, who: Who, body: Drain) -> Draining:
        """Take no more clients, and send away those that are here, before maintenance."""
        self._check(who, "drain")
        to = body.to or self._elsewhere()
        told = self._server.drain(to)
        return Draining(len(told), to, len(self._server.core.border.sessions))

    async def undrain(self, who: Who) -> Done:
        """Take clients again."""
        self._check(who, "drain")
        self._server.undrain()
        return Done("clients may come again")

    async def reload(self, who: Who) -> Done:
        """Read users, passwords, rules, certificates and limits again.

        Nobody who is still allowed is disconnected.
        """
        self._check(who, "reload")
        problem = self._reload()
        if problem is not None:
            raise HTTPException(409, problem)
        return Done("the settings were read again")

    def _check(self, who: Who, what: str) -> None:
        if not who.may_do(what):
            raise forbidden(what)
