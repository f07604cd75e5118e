"""Commands of the live system: a broker, and the passwords of its clients."""

import asyncio
import getpass
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from msgspec.structs import replace
from rich.markup import escape

from roamcast.live.broker.core import BadState
from roamcast.live.security import BadPasswords, BadRules, set_password
from roamcast.live.server.running import CannotListen, RunningBroker
from roamcast.live.settings import BadSettings, HttpSettings, Listener, Settings, load_settings, settings_from
from roamcast.live.storage import StorageError
from roamcast.live.transport.tls import BadTls
from roamcast.terminal import EXIT_BAD_INPUT, complaints, console

MISTAKES = (BadSettings, BadPasswords, BadRules, BadTls, BadState, StorageError, CannotListen)
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def broker(
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML; every key is in docs/reference/BROKER.md.")
    ] = None,
    mqtt_port: Annotated[int | None, typer.Option(help="Where MQTT clients connect; 0 takes any free port.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="The directory of sessions and messages; made if missing.")
    ] = None,
    http_port: Annotated[int | None, typer.Option(help="Where /metrics and /healthz are; none without it.")] = None,
    name: Annotated[str | None, typer.Option(help="The broker's name among other brokers.")] = None,
    journal: Annotated[Path | None, typer.Option(help="Write what happens here, for `roamcast audit`.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Serve MQTT clients: subscriptions with filters and places, sessions that roam, nothing acknowledged is lost.

    At once, for this machine alone:

        roamcast broker --mqtt-port 1883 --data broker-data

    Then from another terminal, a subscription that only wants what is near and bad:

        mosquitto_sub -V 5 -t 'alerts/#' -D subscribe user-property filter "severity > 3"

    With a file, for everybody: listeners with TLS and WebSocket, users, rules, links to other brokers:

        roamcast broker --config broker.toml

    Ctrl-C or SIGTERM stops it in order: clients are told, and everything is on disk. A broker that is killed starts
    again where it was.

    Exit codes: 0 stopped in order, 2 the settings, a file or a port cannot be used.
    """
    try:
        settings = settings_of(config, mqtt_port, data, http_port, name, journal, log_level)
        configure_log(settings.log_level)
        run(serve(settings))
    except MISTAKES as problem:
        complaints.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None


def settings_of(
    config: Path | None,
    mqtt_port: int | None,
    data: Path | None,
    http_port: int | None,
    name: str | None,
    journal: Path | None,
    log_level: str | None,
) -> Settings:
    """The file's settings, with what the command line says instead."""
    if config is None and data is None:
        raise BadSettings("give --config FILE, or at least --data DIRECTORY")
    settings = settings_from({"name": "broker", "data": str(data)}) if config is None else load_settings(config)
    if data is not None:
        settings = replace(settings, data=str(data))
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


def configure_log(level: str) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=False),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def run(work: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


async def serve(settings: Settings) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    running = RunningBroker(settings)
    await running.start()
    for address in running.addresses:
        console.print(f"{address.what:<10} {address.host}:{address.port}", highlight=False)
    if running.replayed:
        console.print(f"recovered: {running.replayed} inputs were read again from the log", highlight=False)
    console.print(f"[bold]{escape(settings.name)}[/bold] is ready; Ctrl-C stops it")
    sys.stdout.flush()
    await stopped.wait()
    console.print("stopping: clients are told, and what they said goes to disk")
    await running.stop()


def passwd(
    file: Annotated[Path, typer.Argument(help="The file that `security.passwords` names; made if missing.")],
    user: Annotated[str, typer.Argument(help="Who may come in.")],
    password: Annotated[str | None, typer.Option(help="Better left out: then it is asked for, unseen.")] = None,
) -> None:
    """Set the password of a user; the file keeps an argon2id hash of it.

    Exit codes: 0 set, 2 the file or the name cannot be used.
    """
    given = getpass.getpass(f"password of {user}: ") if password is None else password
    try:
        set_password(file, user, given)
    except (BadPasswords, OSError) as problem:
        complaints.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    console.print(f"{escape(user)} may come in with this password", highlight=False)
