"""A whole live node: a protocol's node on a multicast air, a port for its application, a journal (L1).

`RunningNode` is to the ad hoc protocols what `server/running.py` is to brokers. It is the `Ground` of its port,
so an application that runs in the simulator runs here as it is. All of it lives on one event loop.

When it stops it withdraws what it announced and subscribed to, so that others need not find out by silence.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roamcast.journal.live import LiveJournal
from roamcast.journal.records import Run
from roamcast.model.context import Context
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Point, Value, Velocity
from roamcast.multicast.disk import Disk
from roamcast.multicast.drops import Reason
from roamcast.multicast.host import LiveHost, Network
from roamcast.multicast.keys import OPEN_GROUP_KEY, Identity
from roamcast.multicast.multicast import PORT, CannotMulticast, MulticastAir
from roamcast.multicast.peers import PEERS_MAX, Peers
from roamcast.multicast.sealing import EmulatedRadio, Heard, Seals
from roamcast.node.boundary import Input, Moved, Received, Unannounce, Unsubscribe
from roamcast.node.kit import ProtocolKit, Seat
from roamcast.node.port import TROUBLES, Port

LOOK_AROUND_S = 2.0
"""So often the node looks at its interfaces, greets if it should, and says in its journal what was dropped."""


class NodeSettings(Struct, frozen=True, kw_only=True):
    name: str
    identity: Identity
    space: Plane | Earth = Earth()
    began_us: int | None = None
    """When this life began, later than all before it (`keys.next_session_us`); None: now."""
    group_key: bytes = OPEN_GROUP_KEY
    known: dict[str, bytes] | None = None
    """Names with their keys; None trusts on first use."""
    gateways: tuple[str, ...] | None = None
    """Who may bring events of others into the area; None: whoever is in the group."""
    port: int = PORT
    interfaces: tuple[str, ...] = ()
    hops_max: int = 1
    prepares_signatures: bool = False
    """Sends sooner, and must not run on a machine that is resumed twice from one picture of its memory: that gives
    the node's own key away."""
    journal: Path | None = None
    range_m: float = 0.0
    """How far a transmission reaches, for the journal: who counts as a neighbour."""
    emulates_range: bool = False
    """Whether frames from farther away than `range_m` are discarded, as if a radio had not reached."""


class RunningNode:
    def __init__(
        self,
        settings: NodeSettings,
        kit: ProtocolKit,
        context: Context | None = None,
        *,
        say: Callable[[str], None] = print,
        disk: Disk | None = None,
        network: Network | None = None,
    ) -> None:
        """On a running loop. `context` is where the host is, as far as it is known yet. `network` is for protocols
        that speak to single hosts as well, by the addresses and links of `host`.

        Raises `BadJournal` if there can be none where the settings say.
        """
        self.settings = settings
        self.space: Space = settings.space
        self.say = say
        self.loop = asyncio.get_running_loop()
        self._context = context or Context(settings.name)
        now_us = time.time_ns() // 1_000
        began_us = now_us if settings.began_us is None else settings.began_us
        self.journal = open_journal(settings, now_us)
        self.notes: Counter[str] = Counter()
        """How often the node noted what."""
        rng = Random(secrets.randbits(64))
        node = kit.make_node(Seat(settings.name, rng, space=settings.space))
        self.host = LiveHost(
            settings.name,
            node,
            kit.codec,
            # Where nothing is written down, nobody need be told what would be.
            observers=() if self.journal is None else (self.journal,),
            disk=disk,
            network=network,
            noted=self._noted,
        )
        self.give: Callable[[Input], None] = self.host.give
        self.now_us: Callable[[], int] = self.host.now_us
        self.seals = Seals(
            settings.name,
            kit.codec,
            settings.identity,
            began_us,
            secrets.token_bytes(8),
            settings.group_key,
            Peers(settings.known, gateways=settings.gateways),
            settings.space,
            EmulatedRadio(settings.range_m, settings.space, self._place) if settings.emulates_range else None,
        )
        self.air = MulticastAir(
            self.seals,
            self._hear,
            self.host.now_us,
            rng,
            port=settings.port,
            wanted=settings.interfaces,
            hops_max=settings.hops_max,
            prepares=settings.prepares_signatures,
        )
        # The moment of its start tells the ids of this life from those of earlier ones.
        self.port = Port(settings.name, self, began_us, runs_modulators=kit.runs_modulators)
        self.host.deliver = self.port.deliver
        self.found: Callable[[str], None] | None = None
        """Called with the name of each node when it is first heard."""
        self.dropped: Callable[[Reason, str], None] | None = None
        """Called once for each reason for which something is dropped, with what was wrong with the first."""
        self.changed: Callable[[], None] | None = None
        """Called when the node uses other interfaces than before."""
        self._looking: asyncio.TimerHandle | None = None
        self._met: dict[str, None] = {}

    def start(self) -> None:
        """Raises `CannotMulticast` or `BadInterface`."""
        self.air.open()
        self.host.air = self.air
        self.host.start(self.context())
        self._looking = self.loop.call_later(LOOK_AROUND_S, self._look_around)

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for announcement in list(self.port.announcements.values()):
            self.host.give(Unannounce(announcement.id))
        for subscription_id in list(self.port.handlers):
            self.host.give(Unsubscribe(subscription_id))
        self._tell_drops()
        self.air.close()
        await self.host.close()
        if self.journal is not None:
            now_us = self.host.now_us()
            self.journal.gone(now_us, self.settings.name)
            self.journal.end(now_us)

    def move(
        self, position: Point | None, velocity: Velocity | None = None, attributes: dict[str, Value] | None = None
    ) -> None:
        """What the location service says; raises `BadValue` for a place that is none."""
        if position is not None:
            self.space.check(position)
        moved = replace(self._context, position=position, velocity=velocity, at_us=self.host.now_us())
        self._context = moved if attributes is None else replace(moved, attributes=dict(attributes))
        self.host.give(Moved(self._context))

    def _place(self) -> Point | None:
        return self._context.position_at(self.host.now_us(), self.space)

    # The ground of the port.

    def context(self) -> Context:
        return self._context.at(self.host.now_us(), self.space)

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        self.loop.call_later(delay_us / 1e6, action)

    def set_attributes(self, attributes: dict[str, Value]) -> None:
        here = self.context()
        self.move(here.position, here.velocity, attributes)

    # From the air and the host.

    def _hear(self, heard: Heard) -> None:
        if heard.sender not in self._met:
            if len(self._met) >= PEERS_MAX:
                del self._met[next(iter(self._met))]
            self._met[heard.sender] = None
            if self.found is not None:
                self.found(heard.sender)
        self.host.give(Received(heard.message, heard.sender, heard.group or None))

    def _noted(self, what: str, detail: str) -> None:
        self.notes[what] += 1
        if what in TROUBLES:
            self.port.trouble(what, detail)

    def _look_around(self) -> None:
        self._looking = self.loop.call_later(LOOK_AROUND_S, self._look_around)
        try:
            if self.air.refresh():
                self.host.remark("interfaces_changed", " ".join(each.name for each in self.air.interfaces))
                if self.changed is not None:
                    self.changed()
        except CannotMulticast as problem:
            self.host.remark("interfaces_unusable", str(problem))
        size_bytes = self.air.greet()
        if size_bytes and self.journal is not None:
            self.journal.transmitted(self.host.now_us(), self.settings.name, "greeting", size_bytes, None, None)
        self._tell_drops()

    def _tell_drops(self) -> None:
        def tell(reason: Reason, more: int) -> None:
            # A node hears itself all the time; that is worth a count and no record.
            if reason == "own":
                return
            self.host.remark(f"datagrams_{reason}", str(more))
            # All there were are new: then it is the first time, and whatever a flood does it was the last.
            if self.dropped is not None and drops.counts[reason] == more:
                self.dropped(reason, drops.first[reason])

        drops = self.air.drops
        drops.news(tell)


def open_journal(settings: NodeSettings, now_us: int) -> LiveJournal | None:
    if settings.journal is None:
        return None
    return LiveJournal(
        settings.journal, Run(settings.name, now_us, settings.space, neighbour_range_m=settings.range_m)
    )
