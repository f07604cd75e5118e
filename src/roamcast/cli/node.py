"""Commands of the ad hoc system: a node on the network that this machine is in, and the key of a group."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from roamcast.terminal import EXIT_BAD_INPUT, console, stderr

WHAT, WHERE, WHO, HOW = "What it says and hears", "Where it is", "Who is in the group", "How it runs"
GATEWAY = "As a gateway to brokers"


def node(
    name: Annotated[str, typer.Argument(help="The node's name; must be unique.")],
    announce: Annotated[
        list[str] | None,
        typer.Option(help="Announce an event type: SUBJECT or 'SUBJECT(NAME: TYPE, ...)'.", rich_help_panel=WHAT),
    ] = None,
    within: Annotated[
        float | None, typer.Option(help="Radius of the announced proximity in metres.", rich_help_panel=WHAT)
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(help="Instead of a circle: 'box 400x100' or 'polygon X,Y X,Y X,Y'.", rich_help_panel=WHAT),
    ] = None,
    stationary: Annotated[
        bool,
        typer.Option("--stationary", help="Fix the proximity at the node's present position.", rich_help_panel=WHAT),
    ] = False,
    period: Annotated[
        float | None,
        typer.Option(help="Seconds between announcements (default: the protocol's).", rich_help_panel=WHAT),
    ] = None,
    raise_: Annotated[
        list[str] | None,
        typer.Option("--raise", help="Raise an event: 'SUBJECT NAME=VALUE ...'.", rich_help_panel=WHAT),
    ] = None,
    every: Annotated[
        float | None, typer.Option(help="Repeat --raise every so many seconds.", rich_help_panel=WHAT)
    ] = None,
    lifetime: Annotated[
        float, typer.Option(help="Seconds an event stays valid; 0: only now.", rich_help_panel=WHAT)
    ] = 0.0,
    subscribe: Annotated[
        list[str] | None, typer.Option(help="Subscribe to a subject; `+` and `#` as in MQTT.", rich_help_panel=WHAT)
    ] = None,
    filter_: Annotated[
        str, typer.Option("--filter", help="Only events that this CQL2 filter accepts.", rich_help_panel=WHAT)
    ] = "",
    publishers: Annotated[
        str, typer.Option(help="Only from publishers whose attributes match this filter.", rich_help_panel=WHAT)
    ] = "",
    publishers_within: Annotated[
        float | None,
        typer.Option(help="Only from publishers within so many metres of this node.", rich_help_panel=WHAT),
    ] = None,
    interest_within: Annotated[
        float | None,
        typer.Option(help="Radius of interest in metres (context).", rich_help_panel=WHAT),
    ] = None,
    relevant_within: Annotated[
        float | None,
        typer.Option(help="Radius of relevance of raised events in metres (context).", rich_help_panel=WHAT),
    ] = None,
    application: Annotated[
        str | None,
        typer.Option("--app", help="Run an application: FILE.py:CLASS, as in examples/.", rich_help_panel=WHAT),
    ] = None,
    position: Annotated[
        str | None, typer.Option(help="LONGITUDE,LATITUDE in degrees.", rich_help_panel=WHERE)
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="X,Y in metres on a plane that all nodes share.", rich_help_panel=WHERE)
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(help="A location source, such as gpsd:localhost or trace:ride.gpx.", rich_help_panel=WHERE),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(help="earth or plane, if --location leaves it open.", rich_help_panel=WHERE),
    ] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(help="An attribute of this node: NAME=VALUE.", rich_help_panel=WHERE)
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="The group's key; `roamcast key FILE` makes one.", rich_help_panel=WHO)
    ] = None,
    identity: Annotated[
        Path | None, typer.Option(help="File of this node's own key; created if missing.", rich_help_panel=WHO)
    ] = None,
    known_keys: Annotated[
        Path | None, typer.Option(help="Accept only nodes in this file, `NAME KEY` a line.", rich_help_panel=WHO)
    ] = None,
    trust_gateway: Annotated[
        list[str] | None,
        typer.Option(help="Accept events only from this gateway (default: any).", rich_help_panel=WHO),
    ] = None,
    gateway: Annotated[
        list[str] | None,
        typer.Option(help="mqtt://HOST:PORT of a broker; repeat it for fallbacks.", rich_help_panel=GATEWAY),
    ] = None,
    carry: Annotated[
        list[str] | None,
        typer.Option(help="Pass only SUBJECT or 'SUBJECT(NAME: TYPE, ...)' (default: all).", rich_help_panel=GATEWAY),
    ] = None,
    username: Annotated[
        str | None, typer.Option("--user", help="User name at the brokers.", rich_help_panel=GATEWAY)
    ] = None,
    password: Annotated[
        str | None,
        typer.Option(
            envvar="ROAMCAST_PASSWORD",
            help="Prefer the environment variable; else it is asked for.",
            rich_help_panel=GATEWAY,
        ),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--ca",
            help="PEM file of the authority of the brokers' certificates.",
            rich_help_panel=GATEWAY,
        ),
    ] = None,
    protocol: Annotated[str, typer.Option(help="proximity or context.", rich_help_panel=HOW)] = "proximity",
    preset: Annotated[
        str | None,
        typer.Option(help="recommended, vehicle, pedestrian or paper.", rich_help_panel=HOW),
    ] = None,
    range_m: Annotated[
        float | None,
        typer.Option("--range", help="Radio range in metres (default: unlimited, as on a LAN).", rich_help_panel=HOW),
    ] = None,
    emulate_range: Annotated[
        bool,
        typer.Option("--emulate-range", help="Drop frames from beyond --range.", rich_help_panel=HOW),
    ] = False,
    gossip: Annotated[
        str | None,
        typer.Option(help="METRES,PROBABILITY: beyond that distance, forward only that often.", rich_help_panel=HOW),
    ] = None,
    interface: Annotated[
        list[str] | None,
        typer.Option(help="Interface name or address (default: all but loopback).", rich_help_panel=HOW),
    ] = None,
    port: Annotated[int | None, typer.Option(help="The UDP port that all nodes share.", rich_help_panel=HOW)] = None,
    prepare_signatures: Annotated[
        bool,
        typer.Option(
            "--prepare-signatures",
            help="Sign faster; unsafe where memory is snapshotted.",
            rich_help_panel=HOW,
        ),
    ] = False,
    journal: Annotated[
        Path | None, typer.Option(help="Write a journal for `roamcast audit`.", rich_help_panel=HOW)
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.", rich_help_panel=HOW)] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print each delivery as a line of JSON.", rich_help_panel=HOW)
    ] = False,
) -> None:
    """Be a node among others on the same network: no broker, no server, nothing to configure.

    In two terminals, or on two machines of a LAN; what is typed in one appears in the other:

        roamcast node ann

        roamcast node bob

    The whole life of an event, from a car that finds ice to one that comes near it:

    **announced.** A producer says what it will tell of, and how far that matters. It repeats this every second.

        roamcast node car-1 --at 0,0 --announce 'ice(depth: integer)' --within 200

    **subscribed.** A consumer says what it wants. It joins the group of the proximity when it comes into it.

        roamcast node car-2 --at 150,0 --subscribe ice --filter 'depth > 2'

    **raised.** A line of car-1's input, or `--raise`, is an event. It is signed, sealed and sent to the group.

        ice depth=3

    **delivered.** car-2 is inside, the filter accepts it, the signature is car-1's: it is printed, once.

        12:00:01.204  ice  from car-1, 150 m away  depth=3

    **missed.** What was lost is asked for as long as it is of use. With `--lifetime 60` who comes within a minute
    gets it too. Outside of the proximity nobody ever does.

    **withdrawn.** `withdraw ice` as a line of car-1's input ends what it raised of ice and still lasts.

    **judged.** With `--journal out/ice` at both, `roamcast audit out/ice` tells whether all arrived that should.

    **carried.** With `--gateway mqtt://broker:1883` a node passes events between this network and a broker, both
    ways, each once: docs/reference/GATEWAY.md.

    **programmed.** An application of a few lines runs here as it does in the simulator.

        roamcast node car-1 --app examples/ambulance.py:Car --location simulated:examples/ambulance.toml#car-1

    Datagrams that are forged, replayed, broken or of another group are dropped, and counted when the node stops.
    docs/howto/LAN.md helps when nothing arrives.

    Exit codes: 0 stopped in order, 2 an option, a file, the port, the network or the brokers cannot be used.
    """
    from roamcast.cli._node import MISTAKES, run_node
    from roamcast.cli._node_options import Options

    if password is None and username is not None and gateway:
        password = typer.prompt("Password", hide_input=True, err=True)
    options = Options(
        name=name,
        announce=tuple(announce or ()),
        within_m=within,
        shape=shape,
        stationary=stationary,
        period_s=period,
        raised=tuple(raise_ or ()),
        every_s=every,
        lifetime_s=lifetime,
        subscribe=tuple(subscribe or ()),
        filter=filter_,
        publishers=publishers,
        publishers_within_m=publishers_within,
        interest_within_m=interest_within,
        relevant_within_m=relevant_within,
        application=application,
        position=position,
        at=at,
        location=location,
        space=space,
        attributes=tuple(attribute or ()),
        key_file=key_file,
        identity=identity,
        known_keys=known_keys,
        trust_gateways=tuple(trust_gateway or ()),
        gateway=tuple(gateway or ()),
        carry=tuple(carry or ()),
        username=username,
        # One that is in the environment for other commands is no concern of a node without a user.
        password=None if username is None else password,
        authority=authority,
        protocol=protocol,
        preset=preset,
        range_m=range_m,
        emulate_range=emulate_range,
        gossip=gossip,
        interfaces=tuple(interface or ()),
        port=port,
        prepare_signatures=prepare_signatures,
        journal=journal,
        seconds=seconds,
        json=json,
    )
    try:
        run_node(options)
    except MISTAKES as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None


def key(file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")]) -> None:
    """Make the key of a group: copy the file to all its nodes, and give it to each with `--key-file`.

    Exit codes: 0 written, 2 the file cannot be.
    """
    from roamcast.multicast.keys import BadKey, new_key_text, write_key

    try:
        write_key(file, new_key_text())
    except BadKey as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    console.print(f"{escape(str(file))} holds a new key; whoever has it is in the group", highlight=False)
