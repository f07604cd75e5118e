"""A broker from its settings: opens everything in order, serves, and closes everything in order.

Recovery comes first: the last snapshot, and the inputs that were logged since. Only when the broker is what it was do
links and listeners open.

A broker whose log is in a database serves as long as it holds the lease of its name. When that is lost it closes
every connection at once, says nothing more to anybody, and tells `ended`.
"""

import asyncio
import errno
import sqlite3
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import Restarted, decode_batch, encode_batch
from roamcast.broker.mqtt.stored import STATE_VERSION, BadState, is_current, version_of
from roamcast.broker.overlay.mqtt.core import OverlayCore, granted
from roamcast.broker.overlay.params import OverlayParams
from roamcast.clock import SteadyClock, boot_id
from roamcast.config_errors import network_reason
from roamcast.journal.records import Run
from roamcast.server.access import PolicyAccess
from roamcast.server.address import Address
from roamcast.server.connection import ClientSocket
from roamcast.server.gauge import ProcessGauge
from roamcast.server.http.metrics import Metrics
from roamcast.server.links.links import Links
from roamcast.server.monitor import Monitor
from roamcast.server.neighbours import LinkDesk
from roamcast.server.security import Policy
from roamcast.server.server import BrokerServer, Redirect
from roamcast.server.settings import (
    Listener,
    Settings,
    load_graph,
    load_map,
    load_modulators,
    load_movement,
    load_policy,
    load_protocol,
)
from roamcast.server.snapshot import ForkingSnapshotter
from roamcast.server.storage import DamagedLog, GroupCommit, LeaseLost, LogStore
from roamcast.server.storage.kept_clock import keep_clock, kept_clock
from roamcast.server.storage.postgres import Lease
from roamcast.server.tenure import Tenure
from roamcast.server.tracking import Trackers
from roamcast.server.tracks import Tracks, TrackSettings
from roamcast.server.transport.tls import link_context, renew, server_context
from roamcast.server.transport.websocket import HANDSHAKE_S, WebSocketProtocol
from roamcast.server.write_ahead import Due

if TYPE_CHECKING:
    from roamcast.journal.live import LiveJournal
    from roamcast.server.web import Web

NOTHING = encode_batch([])
SETTLING_S = 2.0
SNAPSHOT_S = 30.0
"""So long may the last snapshot take; without it the next start reads the log."""
LOOK_S = 0.005
CLOCK_WATCH_S = 1.0
"""How often the system clock is compared with the broker's own."""


class CannotListen(OSError):
    """A port that is taken or may not be used; the message says which and what to do."""


class RunningBroker:
    """`start`, then `stop`; both on the loop that it serves on."""

    def __init__(
        self,
        settings: Settings,
        lease: Lease | None = None,
        read_again: Callable[[], str | None] = lambda: "this broker was not started with settings in a file",
    ) -> None:
        """`lease` is that of a standby, which waited for it; without it the broker takes one where it needs one.
        `read_again` is what `roamcast broker reload` asks for; it says what was wrong."""
        self.settings = settings
        self.read_again = read_again
        self.ended = asyncio.Event()
        """It serves no longer, though nobody has stopped it."""
        self.why_ended: LeaseLost | None = None
        self._tenure = Tenure(settings, lease, self.abandon)
        self.addresses: list[Address] = []
        self.metrics = Metrics()
        self.replayed = 0
        """How many inputs were read again from the log."""
        self._listeners: list[asyncio.Server] = []
        self._contexts: list[ssl.SSLContext | None] = []
        """Of the listeners, in their order."""
        self._links: Links | None = None
        self._desk: LinkDesk | None = None
        self.tracks: Tracks | None = None
        self.web: Web | None = None
        """What is behind the HTTP port."""
        self._commit: GroupCommit | None = None
        self._journal: LiveJournal | None = None
        self.clock = SteadyClock()
        self._watching: asyncio.TimerHandle | None = None

    async def start(self, progress: Callable[[str], None] = lambda _: None) -> None:
        settings = self.settings
        policy, _ = load_policy(settings)
        load_modulators(settings)
        self._background = load_map(settings)
        space = settings.model_space()
        monitor = Monitor(settings.name, self.metrics, settings.log_level)
        if settings.overlay is None:
            await self._tenure.begin()
        core = self._stored(progress) if settings.overlay is None else self._fleeting(settings.overlay)
        self.access = PolicyAccess(policy, settings.security.limits, space)
        redirect = Redirect(settings.redirect_to, settings.redirect_moved) if settings.redirect_to else None
        self.server = BrokerServer(
            core,
            monitor,
            settings.connections if settings.overlay is None else granted(settings.connections),
            self._commit,
            self.access,
            self.clock.now_us,
            redirect=redirect,
            snapshotter=ForkingSnapshotter(core.snapshot, asyncio.get_running_loop()),
            due=Due(settings.storage.snapshot_every_bytes, settings.storage.snapshot_replay_s),
            group_s=settings.storage.group_ms / 1e3,
            trackers=None if settings.owntracks is None else Trackers(space, settings.owntracks),
            may_speak=self._tenure.lasts,
        )
        if self._journal is not None:
            core.border.observation.observers.add(self._journal)
        if settings.tracks is not None:
            tracks = self.tracks = open_tracks(settings.tracks, Path(settings.data), self.server)
            sessions = core.border.sessions
            self.server.positions.record = lambda context: tracks.add(context, sessions[context.host].user)
        self.server.give(Restarted())
        try:
            await self._open()
        except BaseException:
            await self.stop()
            raise
        self._watch_clock()
        self._tenure.serving()

    def _watch_clock(self) -> None:
        step_us = self.clock.step_us()
        if step_us:
            self.server.monitor.log.warning(
                "the system clock was set; the broker's own clock goes on as before", by_s=round(step_us / 1e6)
            )
        self._watching = asyncio.get_running_loop().call_later(CLOCK_WATCH_S, self._watch_clock)

    def abandon(self, problem: LeaseLost) -> None:
        """Another broker may speak to clients and neighbours by now, so this one stops in the middle of the word."""
        if self.ended.is_set():
            return
        self.why_ended = problem
        self.ended.set()
        for listener in self._listeners:
            listener.close()
        if self._commit is not None:
            self._commit.abandon()
        self.server.abort()
        if self._links is not None:
            self._links.abort()

    def _stored(self, progress: Callable[[str], None]) -> Core:
        """What the broker was when it stopped, with a log to go on in."""
        settings = self.settings
        try:
            log = self._tenure.open_log()
        except BaseException:
            self._tenure.end()
            raise
        try:
            progress("reading what was stored")
            core = self._recovered(log)
            self._anchor_clock(core.border.now_us)
            if core.border.audience.asks_more_than_topics:
                core.border.audience.warm_up()
            else:
                core.border.audience.prepare = partial(prepare_aside, core.border.audience)
            index = core.border.fencing.index
            if len(index):
                index.warm_up()
            else:
                core.border.fencing.prepare = Thread(target=index.warm_up, daemon=True).start
            self._journal = open_journal(settings, self.clock.now_us())
            self._commit = GroupCommit(
                log, asyncio.get_running_loop(), committed=self.metrics.committed, lost=self.abandon
            )
        except BaseException:
            log.close()
            self._tenure.end()
            raise
        return core

    def _anchor_clock(self, at_us: int) -> None:
        """With a log in a database there is no directory for its anchor, and the next life may be elsewhere."""
        if self._tenure.lease is not None:
            self.clock.not_before(at_us)
            return
        directory = Path(self.settings.data)
        self.clock = kept_clock(directory, boot_id())
        self.clock.not_before(at_us)
        keep_clock(directory, boot_id(), self.clock)

    def _fleeting(self, overlay: OverlayParams) -> Core:
        """A broker of an overlay logs nothing, and begins anew each time."""
        settings = self.settings
        now_us = self.clock.now_us()
        core = OverlayCore(
            settings.name,
            now_us,
            overlay,
            settings.keeping,
            settings.model_space(),
            ProcessGauge(),
        )
        core.border.now_us = now_us
        return core

    def _recovered(self, log: LogStore) -> Core:
        settings = self.settings
        loaded = log.load()
        if loaded.snapshot is None:
            # Written before anything else, so that this life of the broker stays the same whenever it is killed.
            core = Core(
                settings.name,
                loaded.life,
                load_protocol(settings),
                settings.keeping,
                settings.model_space(),
                load_graph(settings),
                load_movement(settings, "mesh"),
            )
            log.append(NOTHING)
            log.snapshot(core.snapshot())
            return core
        core = Core.restored(loaded.snapshot)
        if core.host != settings.name:
            raise BadState(
                f"{log.place} is the data of a broker called '{core.host}', not '{settings.name}'",
                "Give that name, or another directory",
            )
        if core.space != settings.model_space():
            raise BadState(
                f"{log.place} is the data of a broker in another space than '{settings.space}'",
                "Give that space, or another directory",
            )
        core.border.read_aside = partial(segment_of, log)
        self._replay(core, loaded.batches, log.place, version_of(loaded.snapshot))
        graph, movement = load_graph(settings), load_movement(settings, "mesh")
        is_other = core.adopt(load_protocol(settings), settings.keeping, graph, movement)
        if is_other or not is_current(loaded.snapshot):
            log.snapshot(core.snapshot())
        return core

    def _replay(self, core: Core, batches: Iterable[bytes], place: str, version: str) -> None:
        """`version` is that of the snapshot before them. Other code than the one that logged an input may number
        other messages to neighbours than it did, which would then be taken twice or not at all."""
        for batch in batches:
            if version != str(STATE_VERSION) and batch != NOTHING:
                raise BadState(
                    f"{place} was written by a roamcast whose stored state is of version {version}, and which was "
                    "not stopped in order: there are logged inputs that only the same roamcast can read again",
                    "Nothing was changed. Start it once with the roamcast that wrote it, stop it in order, and then "
                    "start this one",
                )
            try:
                entries = list(decode_batch(batch))
            except msgspec.MsgspecError as problem:
                raise BadState(f"the log of {place} cannot be read: {problem}") from problem
            for entry in entries:
                core.handle(entry.now_us, entry.given)
            self.replayed += len(entries)

    async def _open(self) -> None:
        await self._open_links()
        for listener in self.settings.listeners:
            await self._listen(listener)
        if self.settings.http is not None:
            await self._open_http()

    async def _open_links(self) -> None:
        given = self.settings.links
        if given.port is None and not given.peers:
            return
        desk = self._desk = LinkDesk(self.server)
        neighbours = [peer.name for peer in given.peers] if given.peers else None
        links = self._links = Links(self.settings.name, desk, neighbours=None if given.secure else neighbours)
        desk.links = links
        contexts: list[ssl.SSLContext | None] = [None, None]
        if given.secure:
            files = (Path(given.ca), Path(given.certificate), Path(given.key))
            contexts = [link_context(*files, server_side=side) for side in (True, False)]
        if given.port is not None:
            try:
                port = await links.listen(given.host, given.port, contexts[0])
            except OSError as problem:
                raise cannot_listen("links", given.host, given.port, problem) from problem
            self.addresses.append(Address("links", given.host, port))
        for peer in given.peers:
            links.dial(peer.name, peer.host, peer.port, contexts[1], peer.others)

    def reload(self, settings: Settings) -> None:
        """Users, passwords, rules, limits and certificates, without a restart; nobody who is still allowed is
        disconnected. Raises what `start` raises for settings that cannot be used, and changes nothing
        then."""
        policy = usable_policy(settings)
        # The files may be new; which files they are is for the next start.
        newer = [context_of(listener) for listener in self.settings.listeners]
        for context, new in zip(self._contexts, newer, strict=True):
            if context is not None and new is not None:
                renew(context, new)
        known = self.settings
        fixed = replace(settings, security=known.security, log_level=known.log_level)
        if fixed != known:
            self.server.monitor.log.warning("some settings changed that take effect with the next start only")
        self.settings = replace(known, security=settings.security, log_level=settings.log_level)
        self.access.replace(policy, settings.security.limits)
        self.server.check_rights()
        if self.web is not None:
            self.web.check_rights()

    async def _listen(self, listener: Listener) -> None:
        host = self.settings.host_of(listener)
        context = context_of(listener)
        self._contexts.append(context)

        def protocol() -> asyncio.Protocol:
            client = ClientSocket(self.server, listener.kind)
            if listener.kind in ("ws", "wss"):
                return WebSocketProtocol(client, origins=listener.origins or None, door=client)
            return client

        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                protocol,
                host,
                listener.port_number,
                ssl=context,
                backlog=1_024,
                ssl_handshake_timeout=None if context is None else HANDSHAKE_S,
            )
        except OSError as problem:
            raise cannot_listen(
                f"MQTT ({listener.kind})", host or "any address", listener.port_number, problem
            ) from None
        self._listeners.append(server)
        port = server.sockets[0].getsockname()[1]
        self.addresses.append(Address(f"mqtt {listener.kind}", host or "0.0.0.0", port))
        if self.settings.exposes_passwords(listener):
            self.server.monitor.log.warning(
                "passwords cross the network unencrypted here",
                listener=f"{listener.kind} {host or '0.0.0.0'}:{port}",
                hint="give this listener kind = 'tls', or host = '127.0.0.1'",
            )

    async def _open_http(self) -> None:
        assert self.settings.http is not None
        given = self.settings.http
        # Starlette and uvicorn: not every broker has an HTTP port.
        from roamcast.server.web import Web

        checks = {"storage": self._storage_problem, "journal": self._journal_problem}
        self.web = Web(
            self.settings,
            self.server,
            self.access,
            self._background,
            self.addresses,
            checks,
            self._measure,
            lambda: self.read_again(),
            self._elsewhere,
            self.tracks,
        )
        try:
            port = await self.web.start(given.host, given.port)
        except OSError as problem:
            raise cannot_listen("http", given.host, given.port, problem) from None
        self.addresses.append(Address("http", given.host, port))

    def _measure(self) -> None:
        """What is only counted when somebody asks."""
        sessions = self.server.core.border.sessions.values()
        connected = sum(session.connected for session in sessions)
        self.metrics.sessions(connected, len(sessions) - connected)
        if self._journal is not None:
            self.metrics.journal_dropped(self._journal.dropped)
        self.metrics.queue_bytes(sum(session.window.bytes for session in sessions))
        if isinstance(self.server.core, OverlayCore):
            broker = self.server.core.border.guests.broker
            monitor = broker.monitor
            self.metrics.overlay_load(time=monitor.busy, queue=monitor.queued, memory=monitor.memory)
            self.metrics.overlay_posts(len(broker.clients.posts))
        self.metrics.clock_behind(self.clock.behind_us() / 1e6)

    def _elsewhere(self) -> str | None:
        """Where clients of a broker that stops can go: to a peer that is there."""
        for peer in self.settings.links.peers:
            if peer.clients and self._desk is not None and peer.name in self._desk.up_since:
                return peer.clients
        return None

    def _storage_problem(self) -> str | None:
        full = self.server.write_ahead.full
        return None if full is None else str(full)

    def _journal_problem(self) -> str | None:
        problem = None if self._journal is None else self._journal.problem
        return None if problem is None else str(problem)

    async def stop(self) -> None:
        """Clients are told, what they said is stored, and the state is written in one piece for the next start."""
        if self._watching is not None:
            self._watching.cancel()
        for listener in self._listeners:
            listener.close()
        await self.server.close(to=self._elsewhere())
        if self._links is not None:
            await self._links.close()
        if self.web is not None:
            await self.web.close()
        if self.tracks is not None:
            self.server.positions.record = None
            self.tracks.close()
        if self._commit is not None and not self.ended.is_set():
            # Links that end are inputs too, and the state is to hold them.
            self.server.write_ahead.press()
            if await self._settled(SETTLING_S):
                self.server.write_ahead.snapshot()
                await self._settled(SNAPSHOT_S)
            await self._commit.close()
        self._tenure.end()
        self.access.close()
        if self._journal is not None:
            self.server.core.border.observation.observers.remove(self._journal)
            self._journal.end(self.server.now_us())

    async def _settled(self, patience_s: float) -> bool:
        """Whether nothing waits to be stored, within so long."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + patience_s
        while not self.server.write_ahead.settled and loop.time() < until_s:
            await asyncio.sleep(LOOK_S)
        return self.server.write_ahead.settled


def segment_of(log: LogStore, number: int) -> bytes:
    try:
        return log.segment(number)
    except DamagedLog:
        return b""


def usable_policy(settings: Settings) -> Policy:
    """Raises what `start` raises for rules, passwords and certificates that cannot be used."""
    policy, _ = load_policy(settings)
    for listener in settings.listeners:
        context_of(listener)
    return policy


def context_of(listener: Listener) -> ssl.SSLContext | None:
    """Raises `BadTls`."""
    if not listener.certificate:
        return None
    return server_context(
        Path(listener.certificate),
        Path(listener.key),
        Path(listener.client_ca) if listener.client_ca else None,
        listener.client_certificates,
    )


def prepare_aside(audience: Audience) -> None:
    """On another thread: to load what compiles the kernel takes a second."""

    def load() -> None:
        try:
            audience.warm_up()
        finally:
            audience.ready = True

    audience.ready = False
    Thread(target=load, daemon=True).start()


def open_tracks(settings: TrackSettings, folder: Path, server: BrokerServer) -> Tracks:
    """Raises `BadState`."""

    def failed(problem: str) -> None:
        server.monitor.log.warning("tracks could not be written", why=problem)

    try:
        return Tracks(folder, settings, server.core.space, server.now_us, failed)
    except (OSError, sqlite3.Error) as problem:
        raise BadState(f"the tracks in {folder} cannot be used: {problem}") from problem


def open_journal(settings: Settings, now_us: int) -> "LiveJournal | None":
    """Raises `BadJournal` for a directory that cannot be one."""
    if not settings.journal:
        return None
    # Arrow is large, and many brokers write no journal.
    from roamcast.journal.live import LiveJournal

    graph = load_graph(settings)
    places = None if graph is None else graph.neighbours
    about = Run(settings.name, now_us, settings.model_space(), movement_graph=places)
    return LiveJournal(Path(settings.journal), about)


def cannot_listen(what: str, host: str, port: int, problem: OSError) -> CannotListen:
    advice = {
        errno.EADDRNOTAVAIL: "give an address of this machine",
        errno.EACCES: "give a port from 1024 on, or the right to use this one",
    }.get(problem.errno or 0, "give another port, or stop what uses this one")
    return CannotListen(f"{what}: cannot listen on {host}, port {port}: {network_reason(problem)}; {advice}")
