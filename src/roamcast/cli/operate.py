"""Commands of somebody who operates a broker, over its HTTP port: how it is, and what it shall do."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from roamcast.terminal import console

LOCAL = "http://127.0.0.1:8080"


class TrackFormat(StrEnum):
    GEOJSON = "geojson"
    GPX = "gpx"
    CSV = "csv"


Http = Annotated[str, typer.Option("--http", help="The broker's HTTP port.")]
User = Annotated[str, typer.Option(help="User name, if the broker needs one.")]
Password = Annotated[str, typer.Option(envvar="ROAMCAST_PASSWORD", help="Prefer the environment variable.")]


def status(
    http: Http = LOCAL,
    user: User = "",
    password: Password = "",
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show how a running broker is: clients, sessions, what waits for whom, neighbours.

        roamcast broker status --http http://127.0.0.1:8080

    Exit codes: 0 shown, 1 the broker refused it, 2 there is no broker at that address.
    """
    from roamcast.cli._operate import Operator, show_status

    show_status(Operator(http, user, password), json)


def reload(http: Http = LOCAL, user: User = "", password: Password = "") -> None:
    """Have a running broker read users, passwords, rules, certificates and limits again, as SIGHUP does.

    Exit codes: 0 read, 1 the settings are wrong and nothing changed, 2 there is no broker at that address.
    """
    act(http, user, password, lambda operator: operator.ask("POST", "/api/reload"))


def kick(
    client: Annotated[str, typer.Argument(help="Its client id.")],
    why: Annotated[str, typer.Option(help="The reason that the client is given.")] = "",
    http: Http = LOCAL,
    user: User = "",
    password: Password = "",
) -> None:
    """End the connection of a client. Its session stays, and it may come again.

    Exit codes: 0 done, 1 there is no such client, or it is forbidden, 2 there is no broker at that address.
    """
    said = {"why": why} if why else {}
    act(http, user, password, lambda operator: operator.ask("POST", "/api/kick/", client, said))


def end(
    client: Annotated[str, typer.Argument(help="Its client id.")],
    http: Http = LOCAL,
    user: User = "",
    password: Password = "",
) -> None:
    """End the session of a client: what waits for it is gone.

    Exit codes: 0 done, 1 there is no such session, or it is forbidden, 2 there is no broker at that address.
    """
    act(http, user, password, lambda operator: operator.ask("DELETE", "/api/sessions/", client))


def drain(
    to: Annotated[str, typer.Option(help="Where clients are sent, such as north.example:1883.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take clients again.")] = False,
    http: Http = LOCAL,
    user: User = "",
    password: Password = "",
) -> None:
    """Send all clients away and take no more, before maintenance. Links go on, so that sessions can be fetched.

    Exit codes: 0 done, 1 it is forbidden, 2 there is no broker at that address.
    """
    said = {"to": to} if to else {}
    act(
        http,
        user,
        password,
        lambda it: it.ask("DELETE", "/api/drain") if undo else it.ask("POST", "/api/drain", "", said),
    )


def track(
    client: Annotated[str, typer.Argument(help="Its client id.")],
    from_: Annotated[str, typer.Option("--from", help="Such as 2026-11-18T10:00:00Z; a day before --to.")] = "",
    to: Annotated[str, typer.Option(help="The same; by default now.")] = "",
    format_: Annotated[TrackFormat, typer.Option("--format", help="What to print.")] = TrackFormat.GEOJSON,
    limit: Annotated[int, typer.Option(min=1, help="So many points at most, the newest.")] = 100_000,
    http: Http = LOCAL,
    user: User = "",
    password: Password = "",
) -> None:
    """Print where a client was in the last days, as its broker has kept it (`[tracks]` in its settings).

        roamcast track van-7 --from 2026-11-18T08:00:00Z --format gpx > van-7.gpx

    Exit codes: 0 printed, 1 there is no track, or it is not shown to you, 2 there is no broker at that address.
    """
    from roamcast.cli._operate import Operator, print_track

    said = {"from": from_, "to": to, "format": format_.value, "limit": str(limit)}
    print_track(Operator(http, user, password), client, {name: value for name, value in said.items() if value})


def act(http: str, user: str, password: str, work: Callable[[Any], dict[str, Any]]) -> None:
    from roamcast.cli._operate import Operator, worded

    console.print(worded(work(Operator(http, user, password))), highlight=False, soft_wrap=True, markup=False)
