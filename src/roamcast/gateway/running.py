"""A gateway on sockets: a running node, a client of brokers, and the `Crossing` between them (L9).

    node --subscription--> FromArea --> Crossing --> Publish --> client
    client --subscription--> FromBrokers --> Crossing --> Announce, Raise --> node

The gateway is a host at a place, on both sides: it hears what its node hears, and is told by the brokers what is for
its place. What it publishes waits for a broker in a bounded queue, in order.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from roamcast.adhoc.proximity.node import Proximity
from roamcast.client import Client, ClientError
from roamcast.client.errors import PublicationExpired, PublicationRefused
from roamcast.gateway.crossing import (
    Act,
    Announce,
    Crossing,
    Drop,
    FromArea,
    FromBrokers,
    Given,
    Publish,
    Raise,
    Wake,
    Woken,
)
from roamcast.gateway.parcel import (
    Parcel,
    event_for_area,
    parcel_from_area,
    parcel_of,
    publication_of,
)
from roamcast.model.event import Event, EventType
from roamcast.model.region import Circle
from roamcast.model.values import BadValue, Point
from roamcast.multicast.carried import carried_in
from roamcast.multicast.running import RunningNode
from roamcast.node import boundary

OUTGOING_MAX = 1_000
"""Events that wait for a broker; the next are dropped."""
SAID_EACH = 10
"""Of what does not cross for one reason; then only when there are ten times as many."""
PLACE_EVERY_S = 1.0
WHOLE_AREA_M = 20_050_000.0
"""Farther than any two places on Earth are apart, and less than what is taken for the reach of a whole LAN."""


class GatewaySettings(Struct, frozen=True, kw_only=True):
    subjects: tuple[str, ...] = ("#",)
    """What crosses, in both directions."""
    types: tuple[EventType, ...] = ()
    """Of subjects: as what they are announced in the area."""
    within_m: float = WHOLE_AREA_M
    """How far around the gateway nodes are told of what comes from brokers."""


class Gateway:
    def __init__(
        self,
        node: RunningNode,
        client: Client,
        settings: GatewaySettings,
        say: Callable[[str], None] = print,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`client` is connected and `node` started by whoever made them; `ready` is called when events can cross."""
        self.node = node
        self.client = client
        self.settings = settings
        self.say = say
        self._ready = ready
        self.counts: Counter[str] = Counter()
        """`left`, `entered`, and why something did not cross."""
        machine = node.host.host.node
        self._discovery = machine.discovery if isinstance(machine, Proximity) else None
        self.crossing = Crossing(
            announces=self._discovery is not None, types=settings.types, known_type=self._known_type
        )
        self._outgoing: asyncio.Queue[Parcel] = asyncio.Queue(OUTGOING_MAX)
        self._publishing = False
        self._told: Point | None = None

    async def run(self) -> None:
        """Until it is cancelled, or the client fails for good: then that is raised."""
        while not await self._tell_place():
            await asyncio.sleep(PLACE_EVERY_S)
        for subject in self.settings.subjects:
            await self.client.subscribe(subject, origins=True, retained=False)
            self.node.port.subscribe(subject, self._heard)
        self._perform(self.crossing.begin(self.node.now_us()))
        self._ready()
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(work) for work in (self._publish(), self._follow(), self._listen(), self._watch())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def idle(self) -> bool:
        """Whether brokers have all that they are to get."""
        return self._outgoing.empty() and not self._publishing

    # From the area.

    def _heard(self, event: Event) -> None:
        try:
            parcel = parcel_from_area(event, self._known_type(event.subject))
        except BadValue as problem:
            self._dropped("unreadable", str(problem))
            return
        self._give(FromArea(parcel, carried_in(event) is not None))

    def _known_type(self, subject: str) -> EventType | None:
        return None if self._discovery is None else self._discovery.type_of(subject)

    async def _publish(self) -> None:
        while True:
            said = publication_of(await self._outgoing.get(), self.node.now_us())
            self._publishing = True
            try:
                await self.client.publish(
                    said.subject,
                    said.payload,
                    expiry_s=said.expiry_s,
                    properties=said.properties,
                    own_id=said.id,
                )
                self.counts["left"] += 1
            except (PublicationRefused, PublicationExpired) as problem:
                self._dropped("refused", f"{said.id}: {problem}")
            self._publishing = False

    # From the brokers.

    async def _listen(self) -> None:
        async for delivered in self.client.events():
            try:
                parcel = parcel_of(delivered)
            except BadValue as problem:
                self._dropped("unreadable", str(problem))
                continue
            self._give(FromBrokers(parcel))
        raise ClientError("the brokers stopped sending events")

    async def _follow(self) -> None:
        """The brokers know where the gateway is as its node does."""
        while True:
            await asyncio.sleep(PLACE_EVERY_S)
            await self._tell_place()

    async def _watch(self) -> None:
        """Says when it has lost its broker, and where it is then."""
        told = self.client.broker
        while True:
            await asyncio.sleep(PLACE_EVERY_S)
            broker = self.client.broker
            if broker == told:
                continue
            told = broker
            if broker is None:
                self.say(
                    f"the gateway has no broker now: what is to leave the area waits, at most {OUTGOING_MAX:,} events"
                )
            else:
                self.say(f"the gateway is at {broker} now")

    async def _tell_place(self) -> bool:
        """Whether it is known where the gateway is; what is announced has a place."""
        here = self.node.context()
        if here.position is not None and here.position != self._told:
            self._told = here.position
            await self.client.move(here.position, velocity=here.velocity, attributes=here.attributes)
        return here.position is not None

    # What is to be done.

    def _give(self, given: Given) -> None:
        self._perform(self.crossing.handle(self.node.now_us(), given))

    def _perform(self, acts: Sequence[Act]) -> None:
        for act in acts:
            match act:
                case Publish(parcel):
                    self._send(parcel)
                case Announce(event_type):
                    here = Circle(Point(0.0, 0.0), self.settings.within_m)
                    self.node.port.announce(event_type, here, stationary=True)
                case Raise(parcel):
                    self._raise(parcel)
                case Wake(at_us):
                    self.node.after(at_us - self.node.now_us(), lambda: self._give(Woken()))
                case Drop(reason, event_id, why):
                    self._dropped(reason, f"{event_id}: {why}" if why else event_id)

    def _send(self, parcel: Parcel) -> None:
        try:
            self._outgoing.put_nowait(parcel)
        except asyncio.QueueFull:
            self._dropped("too_many_wait", parcel.event.id)

    def _raise(self, parcel: Parcel) -> None:
        announcement = self.node.port.announcements.get(parcel.event.subject)
        proximity = None if announcement is None else announcement.proximity
        try:
            event = event_for_area(parcel, self.node.settings.name, self.node.space, proximity)
        except BadValue as problem:
            self._dropped("unplaced", str(problem))
            return
        self.counts["entered"] += 1
        self.node.give(boundary.Publish(event))

    def _dropped(self, reason: str, detail: str) -> None:
        self.counts[reason] += 1
        self.node.host.remark(f"gateway_{reason}", detail)
        count = self.counts[reason]
        if count <= SAID_EACH:
            self.say(f"did not cross, {reason}: {detail}")
        elif f"{count}".strip("0") == "1":
            self.say(f"did not cross, {reason}: {count:,} by now, the last of them {detail}")
