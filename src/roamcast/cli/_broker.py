"""A live broker from the command line: its settings, its log for people, its life from start to Ctrl-C.

Apart from the command itself, so that other commands need not import all of the live system.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog
from msgspec.structs import replace
from rich.markup import escape

from roamcast.broker.mqtt.stored import BadState
from roamcast.journal.records import BadJournal
from roamcast.server.running import CannotListen, RunningBroker, usable_policy
from roamcast.server.security import BadPasswords, BadRules
from roamcast.server.settings import (
    LOOPBACK,
    BadSettings,
    HttpSettings,
    Listener,
    Settings,
    load_settings,
    settings_from,
)
from roamcast.server.storage import StorageError, is_postgres
from roamcast.server.storage.postgres import Lease
from roamcast.server.tenure import lease_for
from roamcast.server.transport.tls import BadTls
from roamcast.terminal import console

MISTAKES = (BadSettings, BadJournal, BadPasswords, BadRules, BadTls, BadState, StorageError, CannotListen)
STUDIO_PORT = 8080
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def settings_of(
    config: Path | None,
    mqtt_port: int | None,
    data: str | None,
    http_port: int | None,
    name: str | None,
    journal: Path | None,
    log_level: str | None,
    studio: bool = False,
) -> Settings:
    """The file's settings, with what the command line says instead."""
    if config is None and data is None:
        raise BadSettings("give --config FILE, or at least --data DIRECTORY")
    settings = settings_from({"name": "broker", "data": data}) if config is None else load_settings(config)
    try:
        settings = overridden(settings, mqtt_port, data, http_port, name, journal, log_level)
        return with_studio(settings) if studio else settings
    except BadSettings:
        raise
    except ValueError as problem:
        raise BadSettings(f"the command line: {problem}") from problem


def overridden(
    settings: Settings,
    mqtt_port: int | None,
    data: str | None,
    http_port: int | None,
    name: str | None,
    journal: Path | None,
    log_level: str | None,
) -> Settings:
    if data is not None:
        settings = replace(settings, data=data)
    if mqtt_port is not None:
        settings = replace(settings, listeners=(Listener(port=mqtt_port),))
    if http_port is not None:
        settings = replace(settings, http=HttpSettings(http_port))
    if name is not None:
        settings = replace(settings, name=name)
    if journal is not None:
        settings = replace(settings, journal=str(journal))
    if log_level is not None:
        if log_level not in LEVELS:
            raise BadSettings(f"--log-level {log_level}: give {', '.join(LEVELS)}")
        settings = replace(settings, log_level=log_level)
    return settings


def with_studio(settings: Settings) -> Settings:
    """With all that its page needs: a port to be served on, and one to speak MQTT over WebSocket."""
    http = settings.http or HttpSettings(STUDIO_PORT)
    listeners = settings.listeners
    if not any(each.kind in ("ws", "wss") for each in listeners):
        listeners = (*listeners, Listener(kind="ws", port=0))
    studio = replace(settings.studio, enabled=True)
    return replace(settings, http=http, listeners=listeners, studio=studio)


class LogLines:
    """Where log lines go: to whatever is standard error when they are said. A broker outlives the terminal or pipe
    that it was started with, so one that is gone takes lines with it and nothing else."""

    def __init__(self, *_: object) -> None:
        pass

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = msg


def configure_log(level: str) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=False),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=LogLines,
    )


def has_terminal() -> bool:
    """Whether there is one whose end this process hears of."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


async def serve(settings: Settings, read_again: Callable[[], Settings], standby: bool = False) -> None:
    """Until a signal stops it. SIGHUP has the settings read again; a broker with a terminal is stopped by it, for
    then its terminal was closed. Raises `LeaseLost` when another broker has taken its place."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    log = structlog.get_logger().bind(broker=settings.name)

    def stop(why: str) -> None:
        log.warning("stopping", why=why)
        stopped.set()

    loop.add_signal_handler(signal.SIGINT, stopped.set)
    loop.add_signal_handler(signal.SIGTERM, partial(stop, "SIGTERM"))
    running: RunningBroker | None = None

    def reload() -> str | None:
        """What was wrong."""
        nonlocal settings
        try:
            given = read_again()
            if running is None:
                # It waits for a lease, which is of this name in this database.
                usable_policy(given)
                settings = replace(given, name=settings.name, data=settings.data, storage=settings.storage)
            else:
                running.reload(given)
        except MISTAKES as problem:
            log.error("the settings were not read again", why=str(problem))
            return str(problem)
        configure_log(given.log_level)
        if running is not None:
            running.server.monitor.set_level(given.log_level)
        log.warning("the settings were read again")
        return None

    on_hangup = partial(stop, "the terminal was closed") if has_terminal() else reload
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    lease = await waited_lease(settings, stopped) if standby else None
    if standby and lease is None:
        return
    starting = RunningBroker(settings, lease, reload)
    # What comes out of a snapshot is no garbage, and looking through it again and again took as long as reading it.
    gc.disable()
    try:
        await starting.start()
    finally:
        gc.enable()
    running = starting
    if settings is not starting.settings:
        # SIGHUP came while it started.
        reload()
    # What is there by now stays: it need not be looked through again whenever messages have left some garbage.
    gc.collect()
    gc.freeze()
    for address in running.addresses:
        console.print(f"{address.what:<10} {address.host}:{address.port}", highlight=False)
    if running.web is not None and running.web.studio is not None:
        place = running.web.studio.about(LOOPBACK)["http"]
        console.print(f"studio     {place}/studio/", highlight=False)
    if running.replayed:
        console.print(f"recovered: {running.replayed} inputs were read again from the log", highlight=False)
    console.print(f"[bold]{escape(settings.name)}[/bold] is ready; Ctrl-C stops it")
    sys.stdout.flush()
    await either(stopped.wait(), running.ended.wait())
    if running.why_ended is not None:
        raise running.why_ended
    kept = "what they said goes to disk" if settings.overlay is None else "nothing goes to disk"
    console.print(f"stopping: clients are told, and {kept}")
    await running.stop()


async def waited_lease(settings: Settings, stopped: asyncio.Event) -> Lease | None:
    """The lease of this broker's name, once nobody else has it; None if the broker was stopped before."""
    if not is_postgres(settings.data) or settings.overlay is not None:
        raise BadSettings("--standby: two brokers can only share a database; give data = 'postgresql://…'")
    lease = lease_for(settings)

    def told(what: str) -> None:
        console.print(what, highlight=False, soft_wrap=True)
        sys.stdout.flush()

    waiting = asyncio.get_running_loop().run_in_executor(None, lease.wait, told)
    await either(waiting, stopped.wait())
    if stopped.is_set():
        lease.end()
    if await waiting and not stopped.is_set():
        return lease
    lease.release()
    return None


async def either(*those: Awaitable[object]) -> None:
    """Returns when one of them is over; raises nothing that they do."""
    tasks = [asyncio.ensure_future(each) for each in those]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if isinstance(task, asyncio.Task):
            task.cancel()
