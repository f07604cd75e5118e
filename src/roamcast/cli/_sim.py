"""What `roamcast sim` does: a scenario is loaded and played with a progress bar, and a table says how it went."""

import sys
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from roamcast.cli._tables import result_table
from roamcast.journal.records import BadJournal
from roamcast.journal.records import Run as RunRecord
from roamcast.model.space import Plane
from roamcast.papers.assemble import kit_of
from roamcast.sim.applications import ApplicationFailed
from roamcast.sim.checkers import CheckFailed
from roamcast.sim.run import Run
from roamcast.sim.scenario import BadScenario, Scenario, load_scenario
from roamcast.sim.warnings import warnings_of
from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, EXIT_INTERRUPTED, console, stderr

if TYPE_CHECKING:
    from roamcast.journal.writer import Journal


def simulate(scenario: Path, seed: int, journal: Path | None, *, json: bool) -> None:
    try:
        loaded = load_scenario(scenario)
        kit = kit_of(loaded.protocol, loaded.radio)
        with nullcontext() if journal is None else open_journal(journal, loaded, seed) as opened:
            run = Run(loaded, kit, seed, opened, None if json else say)
            failure = play(run, quiet=json)
            if opened is not None:
                opened.end(run.now_us)
    except (BadScenario, BadJournal) as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except ApplicationFailed as problem:
        stderr.print("".join(traceback.format_exception(problem.__cause__)), markup=False, highlight=False)
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    result = run.result()
    if json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        console.print(result_table(result, loaded, passed=failure is None))
    if isinstance(failure, CheckFailed):
        stderr.print(f"[red]{escape(str(failure))}[/red]", soft_wrap=True)
        stderr.print(f"Repeat it: roamcast sim {scenario} --seed {failure.seed}", soft_wrap=True)
        raise typer.Exit(EXIT_CHECK_FAILED)
    if failure is not None:
        stderr.print(f"[yellow]interrupted at {result.seconds:g} s; this is what there was until then[/yellow]")
        raise typer.Exit(EXIT_INTERRUPTED)


def play(run: Run, *, quiet: bool) -> CheckFailed | KeyboardInterrupt | None:
    """Runs to the end, or until a check fails or the person has seen enough: then there is still a result to show."""
    for warning in warnings_of(run.scenario):
        stderr.print(f"[yellow]{escape(warning)}[/yellow]", soft_wrap=True)
    try:
        show_progress(run, quiet=quiet)
        run.check()
    except (CheckFailed, KeyboardInterrupt) as failure:
        return failure
    return None


def say(now_us: int, host: str, text: str) -> None:
    """What an application tells the person who watches."""
    console.print(f"[dim]{now_us / 1e6:9.3f} s[/dim]  [bold]{escape(host)}[/bold]  {escape(text)}", soft_wrap=True)


def open_journal(directory: Path, scenario: Scenario, seed: int) -> "Journal":
    # Whoever keeps no journal does without Arrow, which takes as long to load as a short run.
    from roamcast.journal.writer import Journal

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
    with Progress(*columns, console=stderr, transient=True, disable=quiet or not stderr.is_terminal) as progress:
        task = progress.add_task(run.scenario.name, total=seconds)
        for now_us in run.steps():
            progress.update(task, completed=now_us / 1e6)
