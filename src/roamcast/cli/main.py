"""The command line: it parses arguments and prints; everything else is somewhere else.

Each command loads what it needs when it is called, so that all of them start at once.
"""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from roamcast import __version__
from roamcast.cli.bench import bench
from roamcast.cli.broker import brokers, passwd
from roamcast.cli.brokers import chaos, routes
from roamcast.cli.demo import demo
from roamcast.cli.doctor import doctor
from roamcast.cli.experiments import experiments
from roamcast.cli.fences import fences
from roamcast.cli.imports import import_
from roamcast.cli.node import key, node
from roamcast.cli.operate import operate, track
from roamcast.cli.panels import Map
from roamcast.cli.pipeline import audit, pipeline, what_if
from roamcast.cli.pubsub import pub, sub
from roamcast.extras import advice
from roamcast.model.filter import BadFilter, parse_text
from roamcast.terminal import EXIT_BAD_INPUT, complaints, console

app = typer.Typer(
    name="roamcast",
    cls=Map,
    help="Publish/subscribe for things that move.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
filters = typer.Typer(help="Understand filters.", no_args_is_help=True)
app.add_typer(filters, name="filter")
app.add_typer(pipeline, name="pipeline")
app.command("demo")(demo)
app.command("doctor")(doctor)
app.command("bench")(bench)
app.command("audit")(audit)
app.command("what-if")(what_if)
app.command("import")(import_)
operate(brokers)
app.add_typer(brokers, name="broker")
app.command("passwd")(passwd)
app.command("pub")(pub)
app.command("sub")(sub)
app.command("track")(track)
app.add_typer(fences, name="fences")
app.command("node")(node)
app.command("key")(key)
app.add_typer(experiments, name="experiments")


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        console.print(__version__)
        raise typer.Exit


@app.command()
def sim(
    scenario: Annotated[Path, typer.Argument(help="A scenario file in TOML; see `scenarios/`.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same run, to the byte.")] = 1,
    journal: Annotated[Path | None, typer.Option(help="Write what happens into this directory, as Parquet.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a scenario in virtual time and show what was delivered, missed and spent.

    `expected` is what an ideal system would have delivered: one that knows where everybody is. It looks whenever
    something is published or subscribed, and ten times a second in between.

    Exit codes: 0 all checks of the scenario passed, 1 a check failed (the seed is printed), 2 the scenario or the
    journal's directory is wrong, 130 interrupted.
    """
    from roamcast.cli._sim import simulate

    simulate(scenario, seed, journal, json=json)


@filters.command("explain")
def explain_filter(
    text: Annotated[str, typer.Argument(help='A filter in CQL2, e.g. "price < me.budget AND near(position, 200)".')],
    covers: Annotated[str | None, typer.Option(help="Another filter: does the first one cover it?")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show what a filter is made of: its tree, its normal form, what it reads, and what it covers.

    Exit codes: 0 shown, 2 it is no filter; the complaint names the place of the mistake.
    """
    from roamcast.cli._tables import filter_panel
    from roamcast.model.filter.explain import explain

    try:
        explained = explain(parse_text(text), None if covers is None else parse_text(covers))
    except BadFilter as problem:
        complaints.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    if json:
        sys.stdout.write(msgspec.json.encode(explained).decode() + "\n")
    else:
        console.print(filter_panel(explained))


app.command()(routes)
app.command()(chaos)


def main() -> None:
    try:
        app()
    except ImportError as problem:
        said = advice(problem, sys.argv[1:2])
        if said is None:
            raise
        complaints.print(f"[red]{escape(said)}[/red]", soft_wrap=True)
        sys.exit(EXIT_BAD_INPUT)
