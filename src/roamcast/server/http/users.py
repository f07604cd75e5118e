"""Who asks over HTTP, and what the rules let them see and do.

Users and passwords are those of MQTT, by Basic authentication. Whoever may subscribe to a topic is shown what is
published to it; who may subscribe to `$roam/position/<client>` is shown that client; the sessions of a user are
always shown to him. What only operators may do has topics of its own, `$roam/admin/<what>`: to look is to subscribe,
to change something is to publish.
"""

import base64
import binascii
import ipaddress
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from roamcast.broker.session import Session
from roamcast.mqtt.packets import Connect
from roamcast.mqtt.topics import position_topic
from roamcast.server.access import PolicyAccess
from roamcast.server.security import Admitted, Identity, Policy, ToVerify

CHALLENGE = {"www-authenticate": 'Basic realm="roamcast", charset="UTF-8"'}
ADMIN = "$roam/admin/"
EVERY_POSITION = "$roam/position/+"


class Who(Struct, frozen=True):
    """Somebody who asks, under the rules that held then."""

    identity: Identity
    password: bytes | None
    policy: Policy
    sessions: Mapping[str, Session]
    sees_everybody: bool
    address: str = ""

    def hears(self, topic: str) -> bool:
        """Whether what is published to a topic is for them."""
        return self.policy.open or self.policy.may_subscribe(self.identity, topic).allowed

    def sees(self, client: str) -> bool:
        """Whether where and what a client is may be shown to them."""
        session = self.sessions.get(client)
        if session is not None and session.user is not None and session.user == self.identity.user:
            return True
        return self.is_shown(client)

    def is_shown(self, client: str) -> bool:
        """Whether the rules show it to them, whosesoever it is and was."""
        return self.sees_everybody or self.policy.may_subscribe(self.identity, position_topic(client)).allowed

    def may_look(self, what: str) -> bool:
        return self.policy.may_subscribe(self.identity, ADMIN + what).allowed

    def may_do(self, what: str) -> bool:
        return self.policy.may_publish(self.identity, ADMIN + what).allowed


class Users:
    def __init__(
        self,
        access: PolicyAccess,
        sessions: Mapping[str, Session],
        now_us: Callable[[], int],
        welcomes_all: bool = False,
    ) -> None:
        """`welcomes_all`: also somebody on another machine, where nothing is configured that keeps strangers out."""
        self.access = access
        self._sessions = sessions
        self._now_us = now_us
        self._welcomes_all = welcomes_all

    @property
    def only_own_machine(self) -> bool:
        return self.access.policy.open and not self._welcomes_all

    async def identify(self, connection: HTTPConnection) -> Who:
        """Raises `HTTPException`, 401 or 403."""
        address = connection.client.host if connection.client is not None else ""
        if self.only_own_machine:
            if not is_loopback(address):
                raise HTTPException(
                    403, "nothing keeps strangers out here (see `security`), so only this machine may"
                )
            # Whoever has a name server can have a name of his own lead the browsers of this machine here.
            if not is_own_name(connection.headers.get("host", "")):
                raise HTTPException(421, "call this broker localhost, or by its address")
        username, password = credentials_of(connection.headers.get("authorization"))
        policy = self.access.policy
        admission = policy.connect(Connect("", username=username, password=password))
        if isinstance(admission, ToVerify):
            verdict = await self.access.passwords.check(self._now_us(), admission.hash, admission.password)
            if verdict == "busy":
                raise HTTPException(503, "too many passwords to look at; try again")
            if verdict == "wrong":
                raise HTTPException(401, "user name or password is wrong", CHALLENGE)
            return self._who(admission.identity, password, address)
        if isinstance(admission, Admitted):
            return self._who(admission.identity, None, address)
        raise HTTPException(401, admission.verdict.detail, CHALLENGE)

    def renewed(self, who: Who) -> Who | None:
        """The same under the rules of now; None if they let them in no longer."""
        if not self.access.policy.may_stay(who.identity):
            return None
        return self._who(who.identity, who.password, who.address)

    def _who(self, identity: Identity, password: bytes | None, address: str) -> Who:
        policy = self.access.policy
        everybody = policy.may_subscribe(identity, EVERY_POSITION).allowed
        return Who(identity, password, policy, self._sessions, everybody, address)


def credentials_of(authorization: str | None) -> tuple[str | None, bytes | None]:
    """User name and password; raises `HTTPException` for what is neither."""
    if authorization is None:
        return None, None
    scheme, _, encoded = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        if not colon:
            raise ValueError
        return user.decode(), password
    except (ValueError, binascii.Error):
        raise HTTPException(401, "give a user name and password by Basic authentication", CHALLENGE) from None


def is_own_name(host: str) -> bool:
    """Whether no name server of somebody else can have led a browser here by it."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        ipaddress.ip_address(name)
    except ValueError:
        return host.partition(":")[0].lower() == "localhost"
    return True


def is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
