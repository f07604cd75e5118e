"""Who may do what at this broker (L7).

`AccessControl` is what the server asks. `OpenAccess` allows everything; `PolicyAccess` decides by policy, passwords,
and limits by address and by client.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from roamcast.broker.mqtt.properties import BadProperty, scopes_of
from roamcast.model.context import Context
from roamcast.model.scope import Scope
from roamcast.model.space import Space
from roamcast.model.values import BadValue
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.origin import SPEAKING_TOPIC, origin_in
from roamcast.mqtt.packets import Connect
from roamcast.mqtt.reasons import Reason
from roamcast.server.security import (
    ClientBuckets,
    Doors,
    Identity,
    PasswordChecker,
    Policy,
    RateLimits,
    Refused,
    ToVerify,
    common_name,
)

if TYPE_CHECKING:
    from roamcast.server.connection import ClientSocket

TOPICS_KEPT_MAX = 256
"""For how many topics of a client it is remembered that it may publish to them."""

Refusal: TypeAlias = tuple[Reason, str] | None


class AccessControl(Protocol):
    def may_open(self, client: "ClientSocket", now_us: int) -> str | None:
        """None: yes; else why not."""
        return None

    def closed(self, client: "ClientSocket") -> None:
        return

    def check(
        self, client: "ClientSocket", connect: Connect, now_us: int, decided: Callable[[Refusal], None]
    ) -> None:
        """Calls `decided` on the loop: at once, or when a password has been looked at."""
        decided(None)

    def user_of(self, client: "ClientSocket") -> str | None:
        """Who a client is, where that was found out."""
        return None

    def may_publish(self, client: "ClientSocket", message: Message, context: Context, now_us: int) -> Refusal:
        return None

    def may_publish_anywhere(self, client: "ClientSocket", topic: str) -> bool:
        """Whether it may publish to a topic wherever it is; if not, what it says is asked about one by one."""
        return True

    def may_subscribe(self, client: "ClientSocket", asked: Subscription, now_us: int) -> Reason | None:
        return None

    def may_stay(self, client: "ClientSocket") -> bool:
        """Whether a client that was let in under other rules may stay."""
        return True

    def may_leave_behind(self, who: Identity, message: Message, context: Context, now_us: int) -> bool:
        """Whether a client that is away may still publish its will."""
        return True

    def pace_us(
        self, client: "ClientSocket", messages_bytes: int | None, filters: int, now_us: int, messages: int = 1
    ) -> int:
        """For how long not to read from a client that has published messages, or sent so many topic filters."""
        return 0

    def close(self) -> None:
        return


class OpenAccess(AccessControl):
    """Everybody may do everything: for a machine of one's own, and tests."""


class PolicyAccess(AccessControl):
    def __init__(self, policy: Policy, limits: RateLimits, space: Space) -> None:
        self.policy = policy
        self.limits = limits
        self.space = space
        self.doors = Doors(limits)
        self.passwords = PasswordChecker()
        self._identities: dict[ClientSocket, Identity] = {}
        self._buckets: dict[ClientSocket, ClientBuckets] = {}
        self._anywhere: dict[ClientSocket, dict[str, None]] = {}
        """Topics to which a client may publish wherever it is."""
        self._checks: set[asyncio.Task[None]] = set()

    def may_open(self, client: "ClientSocket", now_us: int) -> str | None:
        verdict = self.doors.enter(now_us, client.address)
        if not verdict.allowed:
            return verdict.detail
        self._buckets[client] = ClientBuckets(self.limits, now_us)
        return None

    def closed(self, client: "ClientSocket") -> None:
        if self._buckets.pop(client, None) is not None:
            self.doors.leave(client.address)
        self._identities.pop(client, None)
        self._anywhere.pop(client, None)

    def check(
        self, client: "ClientSocket", connect: Connect, now_us: int, decided: Callable[[Refusal], None]
    ) -> None:
        admission = self.policy.connect(connect, certificate_of(client))
        if isinstance(admission, ToVerify):
            task = asyncio.get_running_loop().create_task(self._verify(client, admission, now_us, decided))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)
        elif isinstance(admission, Refused):
            decided((admission.verdict.reason, admission.verdict.detail))
        else:
            self._identities[client] = admission.identity
            decided(None)

    async def _verify(
        self, client: "ClientSocket", wanted: ToVerify, now_us: int, decided: Callable[[Refusal], None]
    ) -> None:
        answer = await self.passwords.check(now_us, wanted.hash, wanted.password)
        if client not in self._buckets:
            return
        if answer == "right":
            self._identities[client] = wanted.identity
            decided(None)
        elif answer == "busy":
            decided((Reason.SERVER_BUSY, "too many passwords to look at; try again"))
        else:
            decided((Reason.BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong"))

    def user_of(self, client: "ClientSocket") -> str | None:
        return self._identity(client).user

    def may_publish(self, client: "ClientSocket", message: Message, context: Context, now_us: int) -> Refusal:
        if self.policy.open:
            return None
        if not message.user_properties and self.may_publish_anywhere(client, message.topic):
            return None
        return self._may_say(self._identity(client), message, context, now_us)

    def may_leave_behind(self, who: Identity, message: Message, context: Context, now_us: int) -> bool:
        return self.policy.open or self._may_say(who, message, context, now_us) is None

    def _may_say(self, identity: Identity, message: Message, context: Context, now_us: int) -> Refusal:
        if not message.user_properties:
            return self._allowed(identity, message.topic, context, (), now_us)
        try:
            origin = origin_in(message.user_properties)
            scopes = scopes_of(context.host, message.user_properties, self.space)
        except (BadProperty, BadValue) as problem:
            return Reason.IMPLEMENTATION_SPECIFIC_ERROR, str(problem)
        if origin is not None:
            refusal = self._allowed(identity, SPEAKING_TOPIC, context, (), now_us)
            if refusal is not None:
                return refusal
            # Who may speak for others need not be where they are; what it says for them must be in its area.
            context, scopes = origin.publisher, (origin.relevance, origin.audience)
        return self._allowed(identity, message.topic, context, scopes, now_us)

    def may_publish_anywhere(self, client: "ClientSocket", topic: str) -> bool:
        if self.policy.open:
            return True
        anywhere = self._anywhere.get(client)
        if anywhere is not None and topic in anywhere:
            return True
        if not self.policy.may_publish_anywhere(self._identity(client), topic):
            return False
        if anywhere is None:
            anywhere = self._anywhere[client] = {}
        if len(anywhere) >= TOPICS_KEPT_MAX:
            anywhere.clear()
        anywhere[topic] = None
        return True

    def _allowed(
        self, identity: Identity, topic: str, context: Context, scopes: Iterable[Scope], now_us: int
    ) -> Refusal:
        regions = tuple(each.region for each in scopes if each.region is not None)
        here = context.position_at(now_us, self.space)
        verdict = self.policy.may_publish(identity, topic, here, regions)
        return None if verdict.allowed else (verdict.reason, verdict.detail)

    def may_subscribe(self, client: "ClientSocket", asked: Subscription, now_us: int) -> Reason | None:
        verdict = self.policy.may_subscribe(self._identity(client), asked.filter.text)
        return None if verdict.allowed else verdict.reason

    def replace(self, policy: Policy, limits: RateLimits) -> None:
        """Other rules from now on, and other limits for those who come."""
        self.policy, self.limits, self.doors.limits = policy, limits, limits
        self._anywhere.clear()

    def may_stay(self, client: "ClientSocket") -> bool:
        return self.policy.may_stay(self._identity(client), certificate_of(client))

    def pace_us(
        self, client: "ClientSocket", messages_bytes: int | None, filters: int, now_us: int, messages: int = 1
    ) -> int:
        buckets = self._buckets.get(client)
        if buckets is None:
            return 0
        return (
            buckets.subscribed(now_us, filters)
            if messages_bytes is None
            else buckets.published(now_us, messages_bytes, messages)
        )

    def close(self) -> None:
        self.passwords.close()

    def _identity(self, client: "ClientSocket") -> Identity:
        identity = self._identities.get(client, Identity(client.name))
        return Identity(client.name, identity.user)


def certificate_of(client: "ClientSocket") -> str | None:
    transport = client.transport
    secure = None if transport is None else transport.get_extra_info("ssl_object")
    return common_name(secure.getpeercert()) if isinstance(secure, ssl.SSLObject | ssl.SSLSocket) else None
