"""Commands of the live system: a broker, and the passwords of its clients."""

import getpass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from roamcast.cli.operate import drain, end, kick, reload, status
from roamcast.terminal import EXIT_BAD_INPUT, EXIT_LEASE_LOST, console, stderr

brokers = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@brokers.callback()
def broker(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML; every key is in docs/reference/BROKER.md.")
    ] = None,
    mqtt_port: Annotated[int | None, typer.Option(help="Port for MQTT clients; 0: any free one.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="The directory of sessions and messages, made if missing; or postgresql://USER@HOST/DATABASE."
        ),
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Port for /metrics, /healthz, /api and /studio/ (default: none).")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The broker's name, unique among linked brokers.")] = None,
    journal: Annotated[Path | None, typer.Option(help="Write a journal for `roamcast audit`.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    studio: Annotated[
        bool, typer.Option("--studio", help="Show a live map in the browser, at /studio/ of the HTTP port (8080).")
    ] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait until no other broker of this name serves its database.")
    ] = False,
) -> None:
    """Serve MQTT clients: subscriptions with filters and places, sessions that roam, nothing acknowledged is lost.

    At once, for this machine alone:

        roamcast broker --mqtt-port 1883 --data broker-data

    Then from another terminal, a subscription that only wants what is near and bad:

        mosquitto_sub -V 5 -t 'alerts/#' -D subscribe user-property filter "severity > 3"

    With a file, for everybody: listeners with TLS and WebSocket, users, rules, links to other brokers:

        roamcast broker --config broker.toml

    With a live map of who is where and what is published, at http://127.0.0.1:8080/studio/:

        roamcast broker --data broker-data --studio

    With its log in PostgreSQL, and a second one on another machine that takes its place within seconds:

        roamcast broker --config broker.toml --standby

    Ctrl-C or SIGTERM stops it in order: clients are told, and everything is on disk. A broker that is killed starts
    again where it was. SIGHUP has it read users, passwords, rules, limits and certificates again.

    Exit codes: 0 stopped in order, 2 the settings, a file, a database or a port cannot be used, 3 another broker has
    taken its place.
    """
    if context.invoked_subcommand is not None:
        return
    from roamcast.cli._broker import MISTAKES, configure_log, serve, settings_of
    from roamcast.event_loop import run
    from roamcast.server.storage import LeaseLost

    try:
        given = partial(settings_of, config, mqtt_port, data, http_port, name, journal, log_level, studio)
        settings = given()
        configure_log(settings.log_level)
        run(serve(settings, given, standby))
    except LeaseLost as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_LEASE_LOST) from None
    except MISTAKES as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None


for operation in (status, reload, kick, end, drain):
    brokers.command(operation.__name__)(operation)


@brokers.command("backup")
def backup(
    data: Annotated[
        str, typer.Argument(help="The broker's `data`: a directory, or postgresql://USER@HOST/DATABASE.")
    ],
    file: Annotated[Path, typer.Argument(help="The file to write; replaced if it exists.")],
    name: Annotated[str, typer.Option(help="With a database: the broker's name.")] = "broker",
) -> None:
    """Write a whole copy of what a broker keeps into one file, also while it runs.

    The copy is checked as when a broker starts: it is whole, or there is none. Passwords, rules and settings are
    files of their own; copy them too.

    Exit codes: 0 written, 2 what is stored is damaged or changes too fast, or a file cannot be used.
    """
    from roamcast.server.storage import StorageError
    from roamcast.server.storage.backup import back_up

    try:
        count = back_up(data, name, file)
    except StorageError as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    written = f"{file}: {file.stat().st_size:,} bytes, a snapshot and {count:,} batches behind it"
    console.print(escape(written), highlight=False, soft_wrap=True)


@brokers.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="A file from `roamcast broker backup`.")],
    data: Annotated[str, typer.Argument(help="An empty or new directory, or a database.")],
    name: Annotated[str, typer.Option(help="With a database: the broker's name.")] = "broker",
) -> None:
    """Put a copy where a broker of the same name finds it: `roamcast broker` goes on from there.

    A copy of a directory can be restored into a database, and the other way round.

    Exit codes: 0 restored, 2 the file is not whole, or there is a log already.
    """
    from roamcast.server.storage import StorageError
    from roamcast.server.storage.backup import restore as put_back

    try:
        count = put_back(file, data, name)
    except StorageError as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    console.print(escape(f"restored a snapshot and {count:,} batches; start the broker"), highlight=False)


def passwd(
    file: Annotated[Path, typer.Argument(help="The file of `security.passwords`; created if missing.")],
    user: Annotated[str, typer.Argument(help="The user's name.")],
    password: Annotated[str | None, typer.Option(help="Prefer to leave it out: then it is prompted for.")] = None,
) -> None:
    """Set the password of a user; the file keeps an argon2id hash of it.

    Exit codes: 0 set, 2 the file or the name cannot be used.
    """
    from roamcast.server.security import BadPasswords, set_password

    given = getpass.getpass(f"password of {user}: ") if password is None else password
    try:
        set_password(file, user, given)
    except BadPasswords as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except OSError as problem:
        stderr.print(f"[red]{escape(f'{file}: cannot be written: {problem.strerror}')}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    console.print(f"{escape(user)} may come in with this password", highlight=False)
