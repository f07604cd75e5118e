"""A live ad hoc node from the command line: a running node, and its life until Ctrl-C.

Apart from the command itself, so that other commands need not import all of the live system.
"""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

from rich.markup import escape

from roamcast.cli._node_advice import advice_on
from roamcast.cli._node_options import (
    WITHIN_M,
    BadOption,
    Options,
    context_of,
    gateway_settings_of,
    kit_for,
    settings_of,
    whereabouts_of,
)
from roamcast.client import Client, ClientError
from roamcast.event_loop import run
from roamcast.gateway.running import Gateway, GatewaySettings
from roamcast.journal.records import BadJournal
from roamcast.model.event import Event
from roamcast.model.filter import EVERYTHING, BadFilter, parse_text
from roamcast.model.region import Anchored, Circle, Shape
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.values import BadValue, Point
from roamcast.movement import BadSource, Cleaner, Source, positions
from roamcast.movement.waiting import Lookout, why_no_position
from roamcast.multicast.drops import Reason
from roamcast.multicast.interfaces import BadInterface
from roamcast.multicast.keys import OPEN_GROUP_KEY, BadKey
from roamcast.multicast.multicast import CannotMulticast
from roamcast.multicast.running import RunningNode
from roamcast.multicast.text_form import (
    SAY,
    delivery_json,
    delivery_line,
    event_type_of,
    said_as_text,
    shape_of,
    wish_of,
    withdrawal_of,
)
from roamcast.printable import shown
from roamcast.server.transport.tls import BadTls, trusting
from roamcast.sim.applications import Applications, BadApplication
from roamcast.sim.scenario import BadScenario
from roamcast.terminal import stderr

SETTLE_S = 1.5
"""So long after its announcements a node waits before it raises anything: others join its groups meanwhile."""
LINES_MAX = 1_000
"""Lines that wait meanwhile, or for the first position. Then no more are read: whoever writes them waits as well."""
LASTING_MAX = 10_000
"""Events that a user may withdraw; what is raised beyond them ends by itself."""

MISTAKES = (
    BadOption,
    BadKey,
    BadInterface,
    BadFilter,
    BadValue,
    BadSource,
    BadScenario,
    BadJournal,
    BadApplication,
    CannotMulticast,
    ClientError,
    BadTls,
)


class Talk:
    """What a node's options and its user's lines ask of its port, and what is printed."""

    def __init__(self, options: Options, node: RunningNode) -> None:
        self.options = options
        self.node = node
        self.delivered = 0
        self.gateway: Gateway | None = None
        self.application = None if options.application is None else Applications().load(options.application)
        self.room = threading.Semaphore(LINES_MAX)
        """For each line that was read and not yet raised, the reader has taken one."""
        self._waiting: list[str] | None = []
        self._full = False
        self._lasting: dict[str, Event] = {}
        """What this node raised by lines and still lasts, by id: what its user may withdraw."""
        self._nowhere = False
        """Whether the last event was raised without a position; each time that begins, it is said."""

    def begin(self) -> None:
        """Raises one of `MISTAKES` if an option cannot be what was meant."""
        options, port = self.options, self.node.port
        types = [SAY] if options.tells_nothing else [event_type_of(text) for text in options.announce]
        for event_type in types:
            port.announce(event_type, self._proximity(), stationary=options.stationary, period_s=options.period_s)
        for line in options.raised:
            wish_of(line, port.vocabulary.types)
            subject = said_as_text(line, port.vocabulary.types)
            if subject is not None:
                complain(
                    f"--raise '{line}': '{subject}' is not announced, so the line is said as it is; --announce it"
                )
        for pattern in ("#",) if options.tells_nothing else options.subscribe:
            self._subscribe(pattern)
        if self.application is not None:
            try:
                self.application().start(port)
            except Exception as problem:
                raise failure_of(options, problem) from problem
        port.after(SETTLE_S, self._settled)

    def _proximity(self) -> Shape | None:
        within_m = self.options.within_m
        if self.options.shape is not None:
            return shape_of(self.options.shape)
        if within_m is None and self.options.protocol == "context":
            return None
        return Circle(Point(0.0, 0.0), WITHIN_M if within_m is None else within_m)

    def _subscribe(self, pattern: str) -> None:
        options = self.options
        made: list[str] = []
        made.append(
            self.node.port.subscribe(
                pattern,
                lambda event: self._print(event, made[0]),
                parse_text(options.filter) if options.filter else EVERYTHING,
                publishers=self._around(options.publishers_within_m, options.publishers),
                interest=self._around(options.interest_within_m),
                troubled=lambda what: complain(f"{pattern}: {what}"),
            )
        )

    def _around(self, radius_m: float | None, text: str = "") -> Scope:
        if radius_m is None and not text:
            return EVERYWHERE
        region = None if radius_m is None else Anchored(Circle(Point(0.0, 0.0), radius_m), self.options.name)
        return Scope(region, parse_text(text) if text else None)

    # Raising.

    def line(self, text: str) -> None:
        """One that the user typed."""
        if self._waiting is not None:
            self._waiting.append(text)
            return
        self.room.release()
        if text.strip():
            self._raise_or_complain(text)

    def no_room(self) -> None:
        """The reader has more lines. While the node raises them that is soon over."""
        if self._waiting is not None and not self._full:
            self._full = True
            complain(f"{LINES_MAX:,} lines wait until this node can raise them; until then no more are read")

    def _raise_or_complain(self, text: str) -> None:
        try:
            self._raise(text)
        except BadValue as problem:
            complain(str(problem))

    def _raise(self, text: str) -> None:
        port = self.node.port
        withdrawn = withdrawal_of(text, port.vocabulary.types)
        if withdrawn is not None:
            self._withdraw(withdrawn)
            return
        subject, attributes = wish_of(text, port.vocabulary.types)
        relevance = self._around(self.options.relevant_within_m)
        event = port.raise_(subject, attributes, lifetime_s=self.options.lifetime_s, relevance=relevance)
        self._remember(event)
        is_nowhere = self.node.context().position is None
        if is_nowhere and not self._nowhere:
            complain(f"'{subject}' reaches nobody, nor does what follows: this node has no position now")
        self._nowhere = is_nowhere

    def _remember(self, event: Event) -> None:
        now_us = self.node.now_us()
        self._lasting = {key: each for key, each in self._lasting.items() if each.expires_us >= now_us}
        if not event.instantaneous and len(self._lasting) < LASTING_MAX:
            self._lasting[event.id] = event

    def _withdraw(self, subject: str) -> None:
        """All events of a subject that still last."""
        found = [event_id for event_id, event in self._lasting.items() if event.subject == subject]
        if not found:
            complain(f"nothing to withdraw: no event '{subject}' of this node lasts; --lifetime lets them")
        for event_id in found:
            del self._lasting[event_id]
            self.node.port.withdraw(event_id)

    def unraised(self) -> int:
        """How many events were asked for and never raised, since the node ended too soon."""
        if self._waiting is None:
            return 0
        return sum(bool(text.strip()) for text in self._waiting) + len(self.options.raised)

    def _settled(self) -> None:
        waited, self._waiting = self._waiting or [], None
        for text in waited:
            self.line(text)
        if self.options.every_s is not None:
            self.node.port.every(self.options.every_s, self._raise_all)
        else:
            self._raise_all()

    def _raise_all(self) -> None:
        for text in self.options.raised:
            self._raise_or_complain(text)

    # Printing.

    def _print(self, event: Event, subscription_id: str) -> None:
        if self.options.tells_nothing and event.publisher.host == self.options.name:
            # Who types a line need not read it again.
            return
        self.delivered += 1
        node = self.node
        now_us, me = node.now_us(), node.context()
        if self.options.json:
            text = delivery_json(event, subscription_id, now_us, me, node.space)
        else:
            text = delivery_line(event, now_us, me, node.space)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def found(self, name: str) -> None:
        complain(f"heard of {name}", "dim")

    def dropped(self, reason: Reason, detail: str) -> None:
        advice = advice_on(reason, detail, self.node.settings)
        if advice is not None:
            complain(advice)

    def changed(self) -> None:
        complain(f"{self.options.name} is on {networks(self.node) or 'no network'} now")

    def summary(self) -> str:
        air = self.node.air
        crossed = ""
        if self.gateway is not None:
            crossed = f"; gateway: {', '.join(f'{what} {count}' for what, count in self.gateway.counts.items())}"
        dropped = [f"{reason} {count}" for reason, count in air.drops.counts.items() if count and reason != "own"]
        # What an application gets is not printed, and so not counted here.
        counted = self.application is None or self.delivered > 0
        delivered = f", delivered {self.delivered} events" if counted else ""
        return (
            f"sent {air.sent} frames, heard {air.taken}{delivered}; "
            f"dropped: {', '.join(dropped) or 'nothing'}{crossed}"
        )


def complain(text: str, style: str = "yellow") -> None:
    stderr.print(f"[{style}]{escape(shown(text))}[/{style}]", soft_wrap=True, highlight=False)


def say(text: str) -> None:
    """What an application says, with the time."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')}  {shown(text)}\n")
    sys.stdout.flush()


def run_node(options: Options) -> None:
    run(live(options))


async def live(options: Options) -> None:
    source, space = whereabouts_of(options)
    settings, kit, crossing = settings_of(options, space), kit_for(options), gateway_settings_of(options)
    speak = complain if options.application is None else say
    node = RunningNode(settings, kit, context_of(options, settings.space), say=speak)
    talk = Talk(options, node)
    node.found, node.dropped, node.changed = talk.found, talk.dropped, talk.changed
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    failed: list[BaseException] = []
    if options.application is not None:
        loop.set_exception_handler(lambda _, told: fail(told, failed, stopped))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    tasks: list[asyncio.Task[None]] = []
    try:
        node.start()
        if source is None:
            talk.begin()
        else:
            tasks.append(loop.create_task(ended_by(stopped, follow(node, source, talk))))
        if options.gateway:
            tasks.append(loop.create_task(ended_by(stopped, carry(options, crossing, node, talk))))
        else:
            introduce(node)
            if source is None:
                tell_ready(node)
        read_lines(loop, talk)
        if options.seconds is not None:
            loop.call_later(options.seconds, stopped.set)
        await stopped.wait()
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await node.stop()
    unraised = talk.unraised()
    if unraised:
        events = "1 event" if unraised == 1 else f"{unraised} events"
        complain(f"not raised: {events}, for the node ended before it had announced for {SETTLE_S:g} s what it has")
    complain(talk.summary(), "dim")
    if failed:
        raise failure_of(options, failed[0]) from failed[0]


def failure_of(options: Options, problem: BaseException) -> BadApplication:
    return BadApplication(f"the application {options.application} failed: {type(problem).__name__}: {problem}")


def fail(told: dict[str, Any], failed: list[BaseException], stopped: asyncio.Event) -> None:
    """An application's mistake surfaces on the loop, wherever it was called from, and ends the node."""
    problem = told.get("exception")
    failed.append(problem if problem is not None else RuntimeError(str(told.get("message"))))
    stopped.set()


async def ended_by(stopped: asyncio.Event, work: Coroutine[object, object, None]) -> None:
    """What fails ends the node."""
    try:
        await work
    except Exception:
        stopped.set()
        raise


async def carry(options: Options, settings: GatewaySettings, node: RunningNode, talk: Talk) -> None:
    """The life of a gateway, which is ready when a broker lets it in."""
    trusts = None if options.authority is None else trusting(options.authority)
    async with Client(
        options.name,
        options.gateway,
        username=options.username,
        password=options.password,
        ssl=trusts,
        space=node.space,
    ) as client:
        introduce(node)
        talk.gateway = Gateway(node, client, settings, complain, ready=lambda: tell_ready(node))
        await talk.gateway.run()


async def follow(node: RunningNode, source: Source, talk: Talk) -> None:
    """Goes where the source says; announcements and subscriptions begin with the first position."""
    begun, cleaner = False, Cleaner(node.space)

    def missing() -> str | None:
        if node.context().position is not None:
            return None
        why = why_no_position(source, cleaner)
        if begun:
            return f"no position any more: {why}"
        return f"waiting for a position before anything is announced or subscribed to: {why}"

    fixes = positions(source, cleaner)
    assert isinstance(fixes, AsyncGenerator)
    with Lookout(missing, complain) as lookout:
        async with aclosing(fixes) as found:
            async for fix in found:
                if fix is None:
                    node.move(None)
                    continue
                node.move(fix.point, fix.velocity)
                lookout.look()
                if not begun:
                    begun = True
                    talk.begin()
                    if not talk.options.gateway:
                        tell_ready(node)
    complain(
        "the source of locations has ended: this node does not know any more where it is, and its events reach nobody"
    )


def introduce(node: RunningNode) -> None:
    settings = node.settings
    where = networks(node) or "no network yet"
    group = "the open group" if settings.group_key == OPEN_GROUP_KEY else "a group with a key"
    complain(f"{settings.name} is in {group} on {where}, port {settings.port}", "dim")
    complain(f"{settings.name} {settings.identity.public.hex()}", "dim")


def networks(node: RunningNode) -> str:
    return ", ".join(f"{each.name} ({each.address})" for each in node.air.interfaces)


def tell_ready(node: RunningNode) -> None:
    complain(f"{node.settings.name} is ready; Ctrl-C stops it", "bold")


def read_lines(loop: asyncio.AbstractEventLoop, talk: Talk) -> None:
    """Standard input may be a file, a pipe or a terminal; a thread can read all of them."""

    def read() -> None:
        try:
            for line in sys.stdin:
                if not talk.room.acquire(blocking=False):
                    loop.call_soon_threadsafe(talk.no_room)
                    talk.room.acquire()
                loop.call_soon_threadsafe(talk.line, line)
        except (ValueError, OSError, RuntimeError):
            # Closed, not text, or the node has stopped: there are no more lines.
            return

    threading.Thread(target=read, name="lines", daemon=True).start()
