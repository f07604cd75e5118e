"""Commands of somebody who talks to brokers: publish, and subscribe with a filter and a place."""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape

from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, EXIT_INTERRUPTED, stderr

LOCAL = "mqtt://localhost:1883"
Brokers = Annotated[
    list[str],
    typer.Option("--broker", "-b", help="mqtt://host:port, or mqtts:// for TLS; repeat it for fallbacks."),
]
Name = Annotated[str, typer.Option(help="The client id (default: a random one).")]
At = Annotated[str, typer.Option(help="My position: LON,LAT, or X,Y in metres if the broker's space is a plane.")]
User = Annotated[str, typer.Option(help="User name, if the broker needs one.")]
Password = Annotated[str, typer.Option(envvar="ROAMCAST_PASSWORD", help="Prefer the environment variable.")]
Authority = Annotated[str, typer.Option("--ca", help="PEM file of the authority of the brokers' certificates.")]


def pub(
    subject: Annotated[str, typer.Argument(help="The topic, for example `alerts/ice`.")],
    content: Annotated[
        str, typer.Argument(help="A JSON object has attributes that filters see; anything else is text. `-`: lines.")
    ] = "{}",
    brokers: Brokers = [LOCAL],  # noqa: B006 - typer copies it
    name: Name = "",
    at: At = "",
    within: Annotated[float, typer.Option(help="Deliver only to clients within so many metres of --at.")] = 0.0,
    qos: Annotated[int, typer.Option(min=0, max=2, help="0: at most once, 1: at least once, 2: exactly once.")] = 1,
    retain: Annotated[bool, typer.Option("--retain", help="Retain it for later subscribers.")] = False,
    expiry: Annotated[int, typer.Option(min=0, help="Expire after so many seconds; 0: never.")] = 0,
    user: User = "",
    password: Password = "",
    authority: Authority = "",
) -> None:
    """Publish an event, or every line of the standard input as one.

        roamcast pub alerts/ice '{"severity": 4}' --at 24.94,60.17 --within 500

    Exit codes: 0 a broker has all of it, 1 a broker refused it, 2 the input is wrong, or no broker was reached.
    """
    from roamcast.cli._pubsub import Person, Publication, publish

    person = Person(tuple(brokers), name, at, "", user, password, authority)
    leave(lambda: publish(person, Publication(subject, content, within, qos, retain, expiry)))


def sub(
    subject: Annotated[str, typer.Argument(help="The topic filter; `+` is one level, `#` all that follow.")],
    brokers: Brokers = [LOCAL],  # noqa: B006 - typer copies it
    filter_: Annotated[str, typer.Option("--filter", "-f", help="Only events that match: `severity > 3`.")] = "",
    near: Annotated[float, typer.Option(help="Only events within so many metres of me.")] = 0.0,
    at: At = "",
    location: Annotated[str, typer.Option(help="Follow a location source: gpsd:localhost, trace:FILE, …")] = "",
    name: Name = "",
    qos: Annotated[int, typer.Option(min=0, max=2)] = 1,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many events; 0: never.")] = 0,
    seconds: Annotated[float, typer.Option(min=0, help="Stop after so many seconds; 0: never.")] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
    user: User = "",
    password: Password = "",
    authority: Authority = "",
) -> None:
    """Subscribe, and print what comes until Ctrl-C.

        roamcast sub 'alerts/#' --filter 'severity > 3' --near 500 --at 24.94,60.17

    With --name the session stays when the command ends: what comes meanwhile is there the next time, at any broker
    that is linked with this one.

    Exit codes: 0 left as asked, 1 a broker refused it, or --seconds were over before --count events had come, 2 the
    input is wrong, or no broker was reached.
    """
    from roamcast.cli._pubsub import Person, Wish, subscribe

    person = Person(tuple(brokers), name, at, location, user, password, authority)
    leave(lambda: subscribe(person, Wish(subject, filter_, near, qos, count, seconds, json)))


def leave(work: Callable[[], bool]) -> None:
    """Does it, and leaves with the code that says how it went."""
    from roamcast.cli._pubsub import BadWords
    from roamcast.client import ClientError, NotConnected, Refused
    from roamcast.movement import BadSource
    from roamcast.server.transport.tls import BadTls

    try:
        code = 0 if work() else EXIT_CHECK_FAILED
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except Refused as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_CHECK_FAILED) from None
    except NotConnected as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        stderr.print(
            "Is a broker there? `roamcast broker --mqtt-port 1883 --data broker-data` starts one.", soft_wrap=True
        )
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except (BadWords, BadSource, BadTls, ClientError) as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    raise typer.Exit(code)
