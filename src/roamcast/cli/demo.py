"""The demo's command: a town with brokers, clients and a map, and what the audit says of it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, console, stderr

ABOUT = (
    "a town on the streets of Helsinki: four live brokers, clients that drive and walk, a map in the browser; "
    "Ctrl-C ends it, and an audit says what was missed"
)


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Stop after so many seconds (default: at Ctrl-C).")
    ] = None,
    clients: Annotated[int, typer.Option(min=3, max=2_000, help="Number of moving clients.")] = 60,
    seed: Annotated[int, typer.Option(help="The same seed gives the same town.")] = 1,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port of the map (default: 8700 or any free one).")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Keep all files in this new directory (default: temporary).")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the map's address, open no browser.")
    ] = False,
    no_audit: Annotated[bool, typer.Option("--no-audit", help="Skip the audit at the end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """A town: four live brokers, and cars, buses, pedestrians and an ambulance on the streets of Helsinki.

    Open the address that it prints: the map shows what happens. All of it is real: brokers are processes, clients
    speak MQTT and roam from broker to broker as they move, and a market without a broker is reached through a
    gateway. At the end the journal is audited on Spark: nothing may be missed, and nothing come twice. What one
    sees is explained in docs/howto/DEMO.md.

    Exit codes: 0 nothing was missed or came twice (or nobody audited it), 1 something was, 2 the demo cannot run.
    """
    # Before what takes a second to load.
    (stderr if json else console).print(ABOUT, highlight=False, soft_wrap=True)
    from roamcast.demo.command import Wishes, run_demo
    from roamcast.demo.fleet import DemoFailed

    wishes = Wishes(
        seconds=seconds, clients=clients, seed=seed, port=port, data=data, browser=not no_browser, quiet=json
    )
    try:
        clean = run_demo(wishes, audits=not no_audit)
    except DemoFailed as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    if not clean:
        raise typer.Exit(EXIT_CHECK_FAILED)
