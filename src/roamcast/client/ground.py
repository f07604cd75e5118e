"""Runs an application written for a `Port` on brokers: what it does becomes calls of a `Client`.

    async with Client("car-7", brokers=["mqtt://127.0.0.1:1883"]) as client:
        ground = BrokerGround(client)
        await ground.move(Point(120, 40), velocity=Velocity(10, 0))
        await ground.run(Car())

The same class runs in the simulator and on ad hoc nodes. Brokers know no announcements: an announced proximity is the
audience of each event, and a broker can carry only circles around a client. An event tells its publisher's name and
place beside its content, for whoever reads it; what brokers match by is what the publisher reported to them. An event
with a lifetime lasts at the brokers and can be withdrawn, but for brokers of an overlay, where nothing lasts.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roamcast.client.client import Client
from roamcast.client.content import filter_text, scope_text
from roamcast.client.errors import PublicationExpired, PublicationRefused
from roamcast.client.following import Following
from roamcast.client.inbox import ClientEvent
from roamcast.clock import SteadyClock
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import EVERYTHING
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, BadValue, Point, Value, Velocity
from roamcast.movement.clean import Cleaner, Limits
from roamcast.movement.fix import Source
from roamcast.node.boundary import Announce, Input, Publish, Subscribe, Unannounce, Unsubscribe, Withdraw
from roamcast.node.port import Application, Port

PUBLISHER = "publisher"
"""The user property that tells who published an event, and where that was then."""
ACTIONS_MAX = 10_000
"""What an application may have asked for that no broker has answered yet."""
LASTING_MAX = 10_000
"""Events with a lifetime that can be withdrawn, the latest."""
SECOND_US = 1_000_000


class Publisher(Struct, frozen=True, omit_defaults=True):
    host: str
    position: tuple[float, float] | None = None
    velocity: tuple[float, float] | None = None
    at_us: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Publisher)


class BrokerGround:
    """The `Ground` of a port that leads to brokers."""

    def __init__(
        self,
        client: Client,
        space: Space | None = None,
        say: Callable[[str], None] = print,
        now_us: Callable[[], int] | None = None,
        overlay: bool = False,
    ) -> None:
        """`overlay`: its brokers are of an overlay, which takes nothing that lasts."""
        self.client = client
        self.overlay = overlay
        self.space: Space = space or Plane()
        self.now_us = now_us or SteadyClock().now_us
        self.say = say
        self.actions_dropped = 0
        self._lasting: dict[str, tuple[str, str]] = {}
        """By the id of an event that was raised with a lifetime, its subject and what brokers know it by."""
        self._life = self.now_us()
        self._context = Context(client.name)
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def move(
        self,
        position: Point | None = None,
        *,
        velocity: Velocity | None = None,
        attributes: dict[str, Value] | None = None,
    ) -> None:
        """What the location service says: known here at once, and told to the broker."""
        context = self._context
        if position is not None:
            context = replace(context, position=position, velocity=velocity, at_us=self.now_us())
        self._context = context if attributes is None else replace(context, attributes=dict(attributes))
        await self.client.move(position, velocity=velocity, attributes=attributes)

    async def lose_position(self) -> None:
        self._context = replace(self._context, position=None, velocity=None, at_us=self.now_us())
        await self.client.lose_position()

    def follow(self, source: Source, limits: Limits | None = None) -> Following:
        """Moves by what a source of locations says, until that is stopped."""
        return Following(self, source, Cleaner(self.space, limits), self.client.reckoning())

    async def run(self, application: Application) -> None:
        """Until it is cancelled, or something the application did fails: then that is raised."""
        port = Port(self.client.name, self)
        reading = asyncio.get_running_loop().create_task(self._read(port))
        try:
            application.start(port)
            await asyncio.wait([reading, self._failed], return_when=asyncio.FIRST_COMPLETED)
            for each in (reading, self._failed):
                if each.done():
                    await each
        finally:
            for task in [reading, *self._tasks]:
                task.cancel()
            await asyncio.gather(reading, *self._tasks, return_exceptions=True)

    async def settled(self) -> None:
        """Everything that the application has asked for so far is answered."""
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    # What the port asks.

    def context(self) -> Context:
        return self._context.at(self.now_us(), self.space)

    def give(self, given: Input) -> None:
        """Raises `BadValue` for what brokers cannot be told."""
        match given:
            case Publish(event):
                self._publish(event)
            case Subscribe(subscription):
                self._subscribe(subscription)
            case Unsubscribe(subscription_id):
                self._do(self._unsubscribe(subscription_id))
            case Withdraw(event_id):
                self._withdraw(event_id)
            case Announce() | Unannounce():
                return
            case _:
                raise BadValue(f"an application does not give {type(given).__name__}")

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        def act() -> None:
            try:
                action()
            except Exception as problem:
                self._fail(problem)

        asyncio.get_running_loop().call_later(delay_us / SECOND_US, act)

    def set_attributes(self, attributes: dict[str, Value]) -> None:
        self._do(self.move(attributes=attributes))

    def _publish(self, event: Event) -> None:
        lives_us = event.expires_us - event.published_us
        pairs = [(PUBLISHER, _encoder.encode(_publisher(event.publisher)).decode())]
        expiry_s = math.ceil(lives_us / SECOND_US) if 0 < lives_us < FOREVER_US // 2 else None
        lasts = expiry_s is not None and not self.overlay
        # The application counts its events anew when it is started again.
        own_id = f"{event.id}.{self._life:x}"
        if lasts:
            if len(self._lasting) >= LASTING_MAX:
                del self._lasting[next(iter(self._lasting))]
            self._lasting[event.id] = (event.subject, own_id)
        publication = self.client.publish(
            event.subject,
            event.attributes,
            relevance=self._said(event.relevance),
            audience=self._said(event.audience),
            expiry_s=expiry_s,
            persist=lasts,
            properties=pairs,
            own_id=own_id,
        )
        self._do(publication)

    def _withdraw(self, event_id: str) -> None:
        """One without a lifetime has ended already."""
        known = self._lasting.pop(event_id, None)
        if known is not None:
            self._do(self.client.withdraw(*known))

    def _subscribe(self, subscription: Subscription) -> None:
        lives_us = subscription.expires_us - subscription.issued_us
        forever = subscription.expires_us >= FOREVER_US
        interest, publishers = self._said(subscription.interest), self._said(subscription.publishers)
        wanted = None if subscription.filter == EVERYTHING else filter_text(subscription.filter)

        async def subscribe() -> None:
            await self.client.subscribe(
                subscription.subject,
                wanted,
                interest=interest,
                publishers=publishers,
                modulator=subscription.modulator or None,
                expiry_s=None if forever else math.ceil(lives_us / SECOND_US),
                label=subscription.id,
            )

        self._do(subscribe())

    def _said(self, scope: Scope) -> str | None:
        return None if scope == EVERYWHERE else scope_text(scope, self.client.name)

    async def _unsubscribe(self, subscription_id: str) -> None:
        for subscription in self.client.subscriptions():
            if subscription.label == subscription_id:
                await subscription.unsubscribe()

    def _do(self, work: Coroutine[object, object, object]) -> None:
        """In the order in which it was asked for: each begins at once, and what it sends is sent in that order."""
        if len(self._tasks) >= ACTIONS_MAX:
            work.close()
            self.actions_dropped += 1
            return
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.pop(task, None)
        problem = None if task.cancelled() else task.exception()
        if isinstance(problem, PublicationRefused | PublicationExpired):
            self.say(str(problem))
        elif isinstance(problem, Exception):
            self._fail(problem)

    def _fail(self, problem: Exception) -> None:
        if not self._failed.done():
            self._failed.set_exception(problem)

    # What comes.

    async def _read(self, port: Port) -> None:
        async for event in self.client.events():
            labels = self.client.labels_of(event)
            if labels:
                made = self._event(event)
                for label in labels:
                    port.deliver(made, label)

    def _event(self, event: ClientEvent) -> Event:
        now_us = self.now_us()
        expires_us = now_us + (event.expiry_s or 0) * SECOND_US
        own_id = event.id or f"{self.client.name}:{now_us}"
        return Event(own_id, event.subject, publisher_of(event), now_us, expires_us, event.attributes)


def _publisher(context: Context) -> Publisher:
    position, velocity = context.position, context.velocity
    return Publisher(
        context.host,
        None if position is None else (position.x, position.y),
        None if velocity is None else (velocity.east, velocity.north),
        context.at_us,
    )


def publisher_of(event: ClientEvent) -> Context:
    """As far as the event tells; whoever publishes can claim anything here."""
    said = next((value for name, value in event.properties if name == PUBLISHER), None)
    try:
        found = Publisher("unknown") if said is None else _decoder.decode(said)
        return Context(
            found.host,
            None if found.position is None else Point(*found.position),
            found.at_us,
            None if found.velocity is None else Velocity(*found.velocity),
        )
    except (msgspec.MsgspecError, ValueError):
        return Context("unknown")
