"""What the commands about brokers do: `roamcast routes` shows tables, `roamcast chaos` tries random worlds."""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec
import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.tree import Tree

from roamcast.broker.broker import Broker, Routes
from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.tables import OverlayTables
from roamcast.broker.wishes import Wish
from roamcast.model.filter.tree import Filter
from roamcast.model.filter.write import to_text
from roamcast.papers.assemble import kit_of
from roamcast.papers.trials import TRIALS, outcome
from roamcast.sim.run import Run
from roamcast.sim.scenario import BadScenario, load_scenario
from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, EXIT_INTERRUPTED, console, stderr


def show_routes(scenario: Path, at: float | None, broker: str | None, seed: int, *, json: bool) -> None:
    try:
        loaded = load_scenario(scenario)
        run = Run(loaded, kit_of(loaded.protocol, loaded.radio), seed)
    except BadScenario as problem:
        refuse(str(problem))
    until_s = loaded.seconds if at is None else at
    if not 0 <= until_s <= loaded.seconds:
        refuse(f"--at {until_s:g}: the run takes {loaded.seconds:g} s")
    names = [body.host.id for body in run.world.bodies if isinstance(body.host.node, Broker | OverlayBroker)]
    if not names:
        refuse(f"{scenario} has no brokers; look at one whose protocol is `broker` or `overlay`")
    if broker is not None and broker not in names:
        refuse(f"no broker {broker} in {scenario}; there are {', '.join(names)}")
    run_until(run, until_s)
    nodes = [body.host.node for body in run.world.bodies if broker in (None, body.host.id)]
    found = [
        node.routes() if isinstance(node, Broker) else node.tables()
        for node in nodes
        if isinstance(node, Broker | OverlayBroker)
    ]
    if json:
        sys.stdout.write(msgspec.json.encode(plain(found)).decode() + "\n")
        return
    for each in found:
        console.print(routes_tree(each) if isinstance(each, Routes) else overlay_tree(each))


def run_until(run: Run, until_s: float) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
            task = progress.add_task(run.scenario.name, total=until_s)
            for now_us in run.world.run(round(until_s * 1e6)):
                progress.update(task, completed=now_us / 1e6)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def refuse(why: str) -> NoReturn:
    stderr.print(f"[red]{escape(why)}[/red]", soft_wrap=True)
    raise typer.Exit(EXIT_BAD_INPUT) from None


def plain(value: object) -> object:
    """Tables as JSON has them: fields by their names, and filters as text."""
    match value:
        case Filter():
            return to_text(value)
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return value


def routes_tree(found: Routes) -> Tree:
    tree = Tree(f"[bold]{escape(found.broker)}[/bold]")
    for neighbour in found.neighbours:
        branch = tree.add(f"neighbour [bold]{escape(neighbour.peer)}[/bold]{'' if neighbour.up else ' (link down)'}")
        add_wishes(branch, "wants", neighbour.wants)
        add_wishes(branch, "is asked for", neighbour.asked)
    for client in found.clients:
        state = "attached" if client.attached else "away"
        waiting = ", awaits what its old broker kept" if client.awaits_replay else ""
        kept = f", {client.kept} events kept" if client.kept else ""
        branch = tree.add(f"client [bold]{escape(client.client)}[/bold]: {state}{waiting}{kept}")
        add_wishes(branch, "wants", client.wants)
    return tree


def overlay_tree(found: OverlayTables) -> Tree:
    tree = Tree(f"[bold]{escape(found.broker)}[/bold]")
    rows = tree.add(f"topology: {len(found.rows)} rows")
    for row in found.rows:
        neighbours = ", ".join(f"{name} ({hops})" for name, hops in row.neighbours) or "nobody"
        rows.add(escape(f"{row.broker} found {neighbours}"))
    paths = tree.add(f"routes to {len(found.paths)} brokers")
    for path in found.paths:
        paths.add(escape(" → ".join(path)))
    if found.lost:
        tree.add(escape(f"given up: {', '.join(found.lost)}"))
    for session in found.sessions:
        state = "departing" if session.departing else "attached" if session.attached else "away"
        kept = f", {session.kept} events kept" if session.kept else ""
        branch = tree.add(f"client [bold]{escape(session.client)}[/bold]: {state}{kept}")
        for name, place in session.subscriptions:
            branch.add(escape(f"{name}, its modulator at {place or 'no known broker'}"))
    for post in found.posts:
        what = f"runs {post.modulator}" if post.modulator else "passes everything on"
        tree.add(escape(f"post of {post.subscription} for home {post.home}: {what}, load {post.load:.2f}"))
    return tree


def add_wishes(branch: Tree, title: str, wishes: tuple[Wish, ...]) -> None:
    if not wishes:
        branch.add(f"[dim]{title} nothing[/dim]")
        return
    inner = branch.add(f"{title} {len(wishes)}")
    for wish in wishes:
        inner.add(escape(f"{wish.subject}: {to_text(wish.filter)}"))


def try_worlds(trial: str, seeds: int, first: int, jobs: int, *, json: bool) -> None:
    if trial not in TRIALS:
        refuse(f"unknown trials: {trial!r}; there are {', '.join(TRIALS)}")
    failed: dict[int, str] = {}
    columns = (TextColumn(trial), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
            task = progress.add_task(trial, total=seeds)
            for seed, problem in outcomes(trial, range(first, first + seeds), jobs or os.cpu_count() or 1):
                progress.advance(task)
                if problem is not None:
                    failed[seed] = problem
                    told_on = stderr if json else console
                    told_on.print(f"[red]seed {seed}:[/red] {escape(problem)}", soft_wrap=True)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if json:
        told = {"trial": trial, "first": first, "seeds": seeds, "held": seeds - len(failed), "failed": failed}
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    else:
        console.print(f"{seeds - len(failed):,} of {seeds:,} trials held")
        if failed:
            console.print(f"Repeat one: roamcast chaos {trial} --seeds 1 --first {next(iter(failed))}")
    if failed:
        raise typer.Exit(EXIT_CHECK_FAILED)


def outcomes(trial: str, seeds: range, jobs: int) -> Iterator[tuple[int, str | None]]:
    if jobs == 1:
        yield from ((seed, outcome(trial, seed)) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(seeds, pool.map(partial(outcome, trial), seeds, chunksize=4), strict=True)
