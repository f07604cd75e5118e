"""The command line: it parses arguments and prints; everything else is somewhere else."""

import sys
import traceback
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from roamcast import __version__
from roamcast.cli_brokers import chaos, routes
from roamcast.cli_client import pub, sub
from roamcast.cli_demo import demo
from roamcast.cli_experiments import experiments
from roamcast.cli_live import broker, passwd
from roamcast.cli_node import key, node
from roamcast.experiments.assemble import kit_of
from roamcast.journal.records import BadJournal
from roamcast.journal.records import Run as RunRecord
from roamcast.journal.writer import Journal, NullJournal
from roamcast.model.filter import BadFilter, parse_text
from roamcast.model.space import Plane
from roamcast.pipeline.commands import audit, pipeline
from roamcast.show import filter_panel, result_table
from roamcast.sim.applications import ApplicationFailed
from roamcast.sim.checkers import CheckFailed
from roamcast.sim.doubts import doubts
from roamcast.sim.run import Run
from roamcast.sim.scenario import BadScenario, Scenario, load_scenario
from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, EXIT_INTERRUPTED, complaints, console

app = typer.Typer(
    name="roamcast",
    help="Publish/subscribe for things that move.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
filters = typer.Typer(help="Understand filters.", no_args_is_help=True)
app.add_typer(filters, name="filter")
app.add_typer(pipeline, name="pipeline")
app.command("demo")(demo)
app.command("audit")(audit)
app.command("broker")(broker)
app.command("passwd")(passwd)
app.command("pub")(pub)
app.command("sub")(sub)
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
    try:
        loaded = load_scenario(scenario)
        kit = kit_of(loaded.protocol, loaded.radio)
        opened = NullJournal() if journal is None else open_journal(journal, loaded, seed)
        with opened:
            run = Run(loaded, kit, seed, None if journal is None else opened, None if json else say)
            failure = play(run, quiet=json)
            opened.end(run.now_us)
    except (BadScenario, BadJournal) as problem:
        complaints.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except ApplicationFailed as problem:
        complaints.print("".join(traceback.format_exception(problem.__cause__)), markup=False, highlight=False)
        complaints.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    result = run.result()
    if json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        console.print(result_table(result, loaded, passed=failure is None))
    if isinstance(failure, CheckFailed):
        complaints.print(f"[red]{escape(str(failure))}[/red]", soft_wrap=True)
        complaints.print(f"Repeat it: roamcast sim {scenario} --seed {failure.seed}", soft_wrap=True)
        raise typer.Exit(EXIT_CHECK_FAILED)
    if failure is not None:
        complaints.print(f"[yellow]interrupted at {result.seconds:g} s; this is what there was until then[/yellow]")
        raise typer.Exit(EXIT_INTERRUPTED)


def play(run: Run, *, quiet: bool) -> CheckFailed | KeyboardInterrupt | None:
    """Runs to the end, or until a check fails or the person has seen enough: then there is still a result to show."""
    for doubt in doubts(run.scenario):
        complaints.print(f"[yellow]{escape(doubt)}[/yellow]", soft_wrap=True)
    try:
        show_progress(run, quiet=quiet)
        run.check()
    except (CheckFailed, KeyboardInterrupt) as failure:
        return failure
    return None


def say(now_us: int, host: str, text: str) -> None:
    """What an application tells the person who watches."""
    console.print(f"[dim]{now_us / 1e6:9.3f} s[/dim]  [bold]{escape(host)}[/bold]  {escape(text)}", soft_wrap=True)


def open_journal(directory: Path, scenario: Scenario, seed: int) -> Journal:
    graph = scenario.graph()
    about = RunRecord(
        host=scenario.name,
        at_us=0,
        space=Plane(),
        seed=seed,
        scenario=scenario.name,
        neighbour_range_m=scenario.radio.range_m if scenario.radio else 0.0,
        movement_graph=None if graph is None else graph.neighbours,
    )
    try:
        return Journal(directory, about, incarnation=0, durable=False)
    except OSError as problem:
        raise BadJournal(f"{directory}: cannot be a journal's directory: {problem.strerror}") from problem


def show_progress(run: Run, *, quiet: bool) -> None:
    seconds = run.scenario.seconds
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=complaints, transient=True, disable=quiet) as progress:
        task = progress.add_task(run.scenario.name, total=seconds)
        for now_us in run.steps():
            progress.update(task, completed=now_us / 1e6)


@filters.command("explain")
def explain_filter(
    text: Annotated[str, typer.Argument(help='A filter in CQL2, e.g. "price < me.budget AND near(position, 200)".')],
    covers: Annotated[str | None, typer.Option(help="Another filter: does the first one cover it?")] = None,
) -> None:
    """Show what a filter is made of: its tree, its normal form, what it reads, and what it covers."""
    try:
        console.print(filter_panel(parse_text(text), None if covers is None else parse_text(covers)))
    except BadFilter as problem:
        complaints.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None


app.command()(routes)
app.command()(chaos)


def main() -> None:
    app()
