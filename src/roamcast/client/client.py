"""An application's client of brokers: publish, subscribe with a filter and a place, move, roam (L2, L3).

    async with Client("car-7", brokers=["mqtt://one:1883", "mqtt://two:1883"]) as client:
        await client.move(Point(24.94, 60.17), velocity=Velocity(10, 0))
        warnings = await client.subscribe("warning/+", "near(position, 200)")
        async for event in warnings:
            print(event.subject, event.attributes)

It stays connected: when a broker is lost it goes to the next of the list, with its name and session, so that what it
subscribed to holds and what waits for it follows (`session.py` says what exactly). `publish` returns when a broker
has the event for good. An event of QoS 1 or 2 counts as received when the application asks for the one after it.

Everything runs on the event loop of `async with`; calls from other threads are not meant.
"""

import asyncio
import secrets
import ssl as tls
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from roamcast.client.attachment import Attachment
from roamcast.client.broker_list import BrokerList
from roamcast.client.connection import address_of
from roamcast.client.content import Content, ScopeLike, attributes_of, point_given
from roamcast.client.errors import ClientError, PublicationExpired, PublicationRefused, SubscriptionRefused
from roamcast.client.following import Following
from roamcast.client.inbox import ClientEvent, Handed, Inbox
from roamcast.client.packing import (
    ID,
    PERSIST,
    RETAINED_ALWAYS,
    RETAINED_NEVER,
    Report,
    check_qos,
    not_granted,
    publication,
    sendable_bytes,
    subscription_packet,
    withdrawal,
)
from roamcast.client.session import Arrived, Confirmed, Expired, Result, Withdrawn
from roamcast.model.filter import Filter
from roamcast.model.space import Earth, Space
from roamcast.model.values import Point, Value, Velocity
from roamcast.movement.clean import Cleaner, Limits
from roamcast.movement.dead_reckoning import REPORT_S, TOLERANCE_M, DeadReckoning
from roamcast.movement.fix import Source
from roamcast.mqtt.packets import Connect, Publish, Subscribe, Unsubscribe
from roamcast.mqtt.reasons import FAILURE_FROM, BadPacket
from roamcast.node.recent import Recent

if TYPE_CHECKING:
    from roamcast.client.fences import Fences

RECEIVE_MAX = 512
"""Events of QoS 1 and 2 that the application has not had; a broker sends no more."""
INBOX_MAX = 10_000
"""Events of QoS 0 that wait for the application; the next are dropped."""
PUBLISHING_MAX = 10_000
RECENT_MAX = 20_000
NO_FILTER = "$roam/-/-"
"""What no application subscribes to."""


class ClientSubscription:
    """What `subscribe` gives: iterate over it for its events alone, or over `client.events()` for those of all."""

    def __init__(self, client: "Client", number: int, subject: str, topic_filter: str, label: str) -> None:
        self.id = number
        self.label = label
        """The application's own name for it."""
        self.subject = subject
        self.topic_filter = topic_filter
        """As MQTT has it: a second subscription to the same subject has a name before it."""
        self.inbox: Inbox | None = None
        self._client = client

    def __aiter__(self) -> AsyncIterator[ClientEvent]:
        return self._client.inbox_of(self)

    async def unsubscribe(self) -> None:
        await self._client.unsubscribe(self)


class Client:
    def __init__(
        self,
        name: str,
        brokers: Sequence[str],
        *,
        username: str | None = None,
        password: str | bytes | None = None,
        ssl: tls.SSLContext | None = None,
        resume: bool = False,
        session_expiry_s: int = 3_600,
        keep_alive_s: int = 30,
        connect_s: float = 10.0,
        location: Source | None = None,
        tolerance_m: float = TOLERANCE_M,
        report_s: float = REPORT_S,
        space: Space | None = None,
        generator: Random | None = None,
    ) -> None:
        """`resume` takes up the session that an earlier run of the application left, and leaves one behind. `ssl` is
        used for `mqtts://`; `location` is followed from the beginning, in the `space` of the brokers (`Earth`), and
        told when the broker is wrong by more than `tolerance_m`, or after `report_s`; `generator` draws the pauses
        between attempts to reach a broker."""
        if not name:
            raise ValueError("a client needs a name: its session is found by it")
        self.name = name
        self.sessions_lost = 0
        """How often a broker did not know the session any more: what waited in it is lost."""
        self.events_dropped = 0
        """Events of QoS 0 that the application was too slow for."""
        self._resume = resume
        connect = Connect(
            name,
            clean_start=not resume,
            keep_alive_s=keep_alive_s,
            username=username,
            password=password.encode() if isinstance(password, str) else password,
            session_expiry_s=session_expiry_s,
            receive_max=RECEIVE_MAX,
        )
        listed = BrokerList(list(brokers), generator or Random(name))
        self._attachment = Attachment(self, connect, listed, ssl, connect_s)
        self._session = self._attachment.session
        self._confirmations: dict[int, asyncio.Future[Confirmed]] = {}
        self._subscriptions: dict[int, ClientSubscription] = {}
        self._numbers = 0
        self._common = Inbox(self._had)
        self._recent = Recent(RECENT_MAX)
        self._room = asyncio.Semaphore(PUBLISHING_MAX)
        self._life = secrets.token_hex(4)
        self._published = 0
        self._report = Report()
        self._moved_s = 0.0
        self._location = location
        self._tolerance_m, self._report_s = tolerance_m, report_s
        self._space: Space = space or Earth()
        self.following: Following | None = None
        """The source of its position, if it has one."""

    @cached_property
    def fences(self) -> "Fences":
        from roamcast.client.fences import Fences

        return Fences(self)

    # Coming and going.

    async def __aenter__(self) -> "Client":
        await self._attachment.start()
        if self._location is not None:
            await self.follow(self._location)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.following is not None:
            await self.following.stop()
        for inbox in [self._common, *(each.inbox for each in self._subscriptions.values() if each.inbox is not None)]:
            if kind is None:
                # After an exception the event in hand was not dealt with, and comes again.
                inbox.finish()
            inbox.end()
        await self._attachment.leave(ends_session=not self._resume)
        self._attachment.fail(ClientError("the client has left"))

    @property
    def broker(self) -> str | None:
        """Where it is connected now."""
        return None if self._attachment.line is None else str(self._attachment.address)

    async def roam(self, broker: str) -> None:
        """Goes to another broker, with everything. If that cannot be reached it is `NotConnected`, and the client is
        or will be at one of its list."""
        await self._attachment.roam(address_of(broker))

    # The application.

    async def publish(
        self,
        subject: str,
        content: Content = b"",
        *,
        qos: int = 1,
        relevance: ScopeLike | None = None,
        audience: ScopeLike | None = None,
        expiry_s: int | None = None,
        retain: bool = False,
        persist: bool = False,
        properties: Sequence[tuple[str, str]] = (),
        own_id: str | None = None,
    ) -> str:
        """`content` is any JSON value, with points, tuples and moments in it, or bytes as they are.

        Answers with its id when a broker has it for good; with QoS 0, when it has left. Raises
        `PublicationRefused`, and `PublicationExpired` if no broker could be reached within `expiry_s`. With `persist`
        it lasts until then, for whoever comes to want it. An event that has an id already keeps it with `own_id`."""
        self._published += 1
        own_id = own_id or f"{self.name}.{self._life}.{self._published}"
        scopes = {"relevance": relevance, "audience": audience}
        pairs = ((PERSIST, "true"), *properties) if persist else tuple(properties)
        packet = publication(self.name, own_id, subject, content, scopes, pairs)
        await self._publish(replace(packet, qos=qos, retain=retain, message_expiry_s=expiry_s))
        return own_id

    async def withdraw(self, subject: str, event_id: str, *, qos: int = 1) -> None:
        """Ends an event that was published with `persist`, everywhere: who has not got it yet does not get it."""
        await self._publish(withdrawal(subject, event_id, qos))

    async def move(
        self,
        position: Point | tuple[float, float] | None = None,
        *,
        velocity: Velocity | None = None,
        destination: Point | tuple[float, float] | None = None,
        pause_s: float = 0.0,
        attributes: Mapping[str, Value] | None = None,
        qos: int = 1,
    ) -> None:
        """Tells the broker where this client is and what it is like. What is left out stays as it was, but a velocity
        holds for the position that it comes with."""
        here, there = point_given("position", position), point_given("destination", destination)
        said = self._report.add(here, velocity, there, pause_s, attributes)
        if here is not None:
            self._moved_s = asyncio.get_running_loop().time()
        await self._publish(replace(said, qos=qos))

    async def lose_position(self) -> None:
        """Tells the broker that it is not known any more where this client is."""
        await self._publish(self._report.lose_position())

    async def follow(self, source: Source, limits: Limits | None = None) -> Following:
        """Moves by what a source of locations says, instead of by the one that it followed before."""
        if self.following is not None:
            await self.following.stop()
        self.following = Following(self, source, Cleaner(self._space, limits), self.reckoning())
        return self.following

    def reckoning(self) -> DeadReckoning:
        """What of the fixes of a source is worth telling."""
        return DeadReckoning(self._space, self._tolerance_m, self._report_s)

    async def subscribe(
        self,
        subject: str,
        filter: str | Filter | None = None,  # noqa: A002 - the word of the model and of the wire
        *,
        interest: ScopeLike | None = None,
        publishers: ScopeLike | None = None,
        modulator: str | None = None,
        expiry_s: int | None = None,
        qos: int = 1,
        retained: bool = True,
        label: str = "",
        origins: bool = False,
    ) -> ClientSubscription:
        """Wants events of a subject, which may have wildcards. Raises `SubscriptionRefused` with the broker's words.

        `retained` says whether what was retained before is wanted too; `label` is the application's own name for it.
        With `origins` each event has a property that says who published it, and where (docs/PROTOCOL.md, section 15).
        """
        check_qos(qos)
        self._numbers += 1
        number = self._numbers
        taken = {each.topic_filter for each in self._subscriptions.values()}
        topic_filter = f"$roam/{number}/{subject}" if subject in taken else subject
        scopes = {"interest": interest, "publishers": publishers}
        packet = subscription_packet(self.name, number, topic_filter, filter, scopes, modulator, expiry_s, origins)
        wish = replace(packet.wishes[0], qos=qos, retain_handling=RETAINED_ALWAYS if retained else RETAINED_NEVER)
        subscription = self._subscriptions[number] = ClientSubscription(self, number, subject, topic_filter, label)
        try:
            confirmed = await self._request(replace(packet, wishes=(wish,)))
        except BaseException:
            self._subscriptions.pop(number, None)
            raise
        if confirmed.reason >= FAILURE_FROM:
            del self._subscriptions[number]
            raise SubscriptionRefused(f"subscription to '{subject}'", confirmed.reason, confirmed.text)
        return subscription

    async def unsubscribe(self, subscription: ClientSubscription) -> None:
        """Its events that are here can still be had."""
        if self._subscriptions.pop(subscription.id, None) is None:
            return
        await self._request(Unsubscribe(0, (subscription.topic_filter,)))
        if subscription.inbox is not None:
            subscription.inbox.end()

    async def catch_up(self) -> None:
        """Waits until all is here that the broker had sent with QoS 0 by now: its next answer comes behind that."""
        await self._request(Unsubscribe(0, (NO_FILTER,)))

    def events(self) -> AsyncIterator[ClientEvent]:
        """The events of all subscriptions that are not iterated over themselves, in the order in which they came."""
        return self._common

    def subscriptions(self) -> list[ClientSubscription]:
        return list(self._subscriptions.values())

    def labels_of(self, event: ClientEvent) -> list[str]:
        """The labels of the subscriptions that an event came for, as far as they hold still."""
        found = [self._subscriptions.get(each) for each in event.subscriptions]
        return [each.label for each in found if each is not None]

    def inbox_of(self, subscription: ClientSubscription) -> Inbox:
        if subscription.inbox is None:
            subscription.inbox = Inbox(self._had)
            self._common.move(subscription.id, subscription.inbox, self._is_common)
            if self._attachment.problem is not None:
                subscription.inbox.end(self._attachment.problem)
        return subscription.inbox

    # Requests and their answers.

    async def _publish(self, packet: Publish) -> None:
        self._check(packet)
        if packet.qos == 0:
            line = await self._attachment.line_but(None)
            await line.writable.wait()
            self._check(packet)
            line.write([packet])
            return
        expiry_s = packet.message_expiry_s
        ends_s = None if expiry_s is None else asyncio.get_running_loop().time() + expiry_s
        async with self._room:
            confirmed = await self._confirmed(self._session.publish(packet, ends_s=ends_s))
        if confirmed.reason >= FAILURE_FROM:
            raise PublicationRefused(f"publication of '{packet.topic}'", confirmed.reason, confirmed.text)

    def _check(self, packet: Publish) -> None:
        """What cannot be sent is said here; later it would be in the way of everything behind it."""
        self._attachment.check()
        what = f"publication of '{packet.topic[:100]}'"
        check_qos(packet.qos)
        try:
            size = sendable_bytes(replace(packet, packet_id=1 if packet.qos else 0))
        except BadPacket as problem:
            raise PublicationRefused(what, problem.reason, problem.detail) from problem
        line = self._attachment.line
        granted = None if line is None else line.granted
        why_not = None if granted is None else not_granted(packet, size, granted)
        if why_not is not None:
            raise PublicationRefused(what, *why_not)

    async def _request(self, packet: Subscribe | Unsubscribe) -> Confirmed:
        self._attachment.check()
        try:
            sendable_bytes(replace(packet, packet_id=1))
        except BadPacket as problem:
            return Confirmed(0, problem.reason, problem.detail)
        return await self._confirmed(self._session.request(packet))

    async def _confirmed(self, token: int) -> Confirmed:
        future: asyncio.Future[Confirmed] = asyncio.get_running_loop().create_future()
        self._confirmations[token] = future
        self._attachment.settle()
        try:
            return await future
        finally:
            self._confirmations.pop(token, None)

    def result(self, result: Result) -> None:
        match result:
            case Arrived():
                self._arrived(result)
            case Confirmed(token):
                future = self._confirmations.get(token)
                if future is not None and not future.done():
                    future.set_result(result)
            case Expired(token):
                future = self._confirmations.get(token)
                if future is not None and not future.done():
                    future.set_exception(PublicationExpired("its time was over before a broker was reached"))
            case Withdrawn():
                self._withdrawn(result)

    def session_lost(self) -> None:
        self.sessions_lost += 1
        report = self._report.whole(asyncio.get_running_loop().time() - self._moved_s, self._space)
        if report is not None:
            self._session.publish(report, first=True)

    def failed(self, problem: Exception) -> None:
        for future in self._confirmations.values():
            if not future.done():
                future.set_exception(problem)
        self._common.end(problem)
        for subscription in self._subscriptions.values():
            if subscription.inbox is not None:
                subscription.inbox.end(problem)

    def _withdrawn(self, result: Withdrawn) -> None:
        for number, subscription in list(self._subscriptions.items()):
            if subscription.topic_filter == result.filter:
                problem = SubscriptionRefused(f"subscription to '{subscription.subject}'", result.reason, result.text)
                (subscription.inbox or self._common).end(problem)
                del self._subscriptions[number]

    # Events.

    def _arrived(self, arrived: Arrived) -> None:
        packet, delivery = arrived.packet, arrived.delivery
        own_id = next((value for name, value in packet.user_properties if name == ID), None)
        numbers = packet.subscription_ids or (0,)
        if own_id is not None:
            numbers = tuple(each for each in numbers if self._recent.add(f"{each} {own_id}"))
        event = ClientEvent(
            packet.topic,
            attributes_of(packet.payload),
            packet.payload,
            tuple(each for each in numbers if each),
            own_id,
            packet.qos,
            packet.retain,
            packet.message_expiry_s,
            packet.user_properties,
        )
        handed = Handed(event, delivery)
        inboxes = self._inboxes(event) if numbers else []
        if packet.qos == 0:
            self.events_dropped += sum(len(each) >= INBOX_MAX for each in inboxes)
            inboxes = [each for each in inboxes if len(each) < INBOX_MAX]
        for inbox in inboxes:
            inbox.put(handed)
        if not inboxes:
            self._had(handed)

    def _inboxes(self, event: ClientEvent) -> list[Inbox]:
        own = [self._subscriptions[each].inbox for each in event.subscriptions if each in self._subscriptions]
        found = [each for each in own if each is not None]
        return [*found, self._common] if self._is_common(event) else found

    def _is_common(self, event: ClientEvent) -> bool:
        """Whether some subscription of it, or a forgotten one, has no inbox of its own."""
        own = [self._subscriptions.get(each) for each in event.subscriptions]
        return not own or any(each is None or each.inbox is None for each in own)

    def _had(self, handed: Handed) -> None:
        if handed.delivery is not None:
            self._session.taken(handed.delivery)
            self._attachment.settle()
