"""Commands about the papers' experiments: list them, run them on Spark, and write the report."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, EXIT_INTERRUPTED, console, stderr

if TYPE_CHECKING:
    from roamcast.papers.experiment import Experiment, Preset, Row
    from roamcast.papers.report import Section

experiments = typer.Typer(help="The papers' experiments, on Spark.", no_args_is_help=True)

Output = Annotated[Path, typer.Option("--out", help="Directory of results and report.")]
OUT = Path("out/experiments")


@experiments.command("list")
def list_command(json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False) -> None:
    """Which experiments there are, of which section, and how many runs they take."""
    from roamcast.papers.catalogue import EXPERIMENTS

    if json:
        listed = [
            {"name": each.name, "requirement": each.requirement, "title": each.title, "section": each.section}
            for each in EXPERIMENTS.values()
        ]
        sys.stdout.write(msgspec.json.encode(listed).decode() + "\n")
        return
    table = Table("name", "what", "section", "quick", "full", box=None)
    for each in EXPERIMENTS.values():
        table.add_row(
            each.name,
            f"{each.title} ({each.requirement})",
            each.section,
            *(f"{runs(each, preset)}" for preset in ("quick", "full")),
        )
    console.print(table)


def runs(experiment: "Experiment", preset: "Preset") -> int:
    return len(experiment.settings[preset]) * experiment.runs[preset]


@experiments.command("run")
def run_command(
    names: Annotated[list[str] | None, typer.Argument(help="Names from `roamcast experiments list`.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="As many runs as the papers (default: a quick check).")
    ] = False,
    seed: Annotated[int, typer.Option(help="The root of all seeds.")] = 0,
    times: Annotated[
        int | None, typer.Option("--runs", min=1, help="Runs of each setting, overriding the preset.")
    ] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs: `local[*]`, `spark://host:7077`, ...")] = "local[*]",
    remote: Annotated[str | None, typer.Option(help="A Spark Connect server instead: `sc://host:15002`.")] = None,
    out: Output = OUT,
    json: Annotated[bool, typer.Option("--json", help="Print the claims and what was measured as JSON.")] = False,
) -> None:
    """Run experiments: each run is a Spark task. The rows are kept, and held against the papers' claims.

    Exit codes: 0 every claim holds, 1 some differ or runs failed, 2 there is no such experiment, 130 interrupted.
    """
    from roamcast.papers.catalogue import EXPERIMENTS
    from roamcast.papers.report import section_of
    from roamcast.papers.rows import keep

    chosen = list(EXPERIMENTS) if all_ else names or []
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    if unknown or not chosen:
        what = f"no experiment is called '{unknown[0]}'" if unknown else "name an experiment, or give --all"
        stderr.print(f"[red]{escape(what)}; there are {', '.join(EXPERIMENTS)}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT)
    preset: Preset = "full" if full else "quick"
    make_directory(out)
    sections: list[Section] = []
    possible = [EXPERIMENTS[name] for name in chosen if not skipped(name)]
    for name, rows in swept(possible, preset, seed, times, master, remote) if possible else ():
        # Kept at once: what is done stays done, whatever becomes of the next.
        keep(rows, out / f"{name}.{preset}.json")
        sections.append(section_of(EXPERIMENTS[name], rows))
        if not json:
            console.print(section_table(sections[-1]))
    if json:
        sys.stdout.write(msgspec.json.encode(sections).decode() + "\n")
    elif sections:
        console.print(tally_table(sections))
    unfinished = len(sections) < len(possible)
    # What was asked for by its name and cannot be run is no success; one of all is only told of.
    if (
        unfinished
        or (not all_ and len(possible) < len(chosen))
        or any(section.failed or not all(claim.holds for claim in section.claims) for section in sections)
    ):
        raise typer.Exit(EXIT_CHECK_FAILED)


def make_directory(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        what = f"--out {out}: cannot be a directory for results: {problem.strerror}"
        stderr.print(f"[red]{escape(what)}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None


def skipped(name: str) -> bool:
    """Whether it cannot be run here, which is told with the reason."""
    from roamcast.papers.catalogue import EXPERIMENTS

    reason = EXPERIMENTS[name].absent()
    if reason:
        stderr.print(f"[yellow]{name} is skipped: {escape(reason)}[/yellow]", soft_wrap=True)
    return bool(reason)


def swept(
    chosen: "list[Experiment]", preset: "Preset", seed: int, times: int | None, master: str, remote: str | None
) -> "Iterator[tuple[str, list[Row]]]":
    """Each experiment as it is done; one that Spark cannot finish is told of, and the next goes on."""
    # Spark takes a second to import, and `list` needs none of it.
    from roamcast.papers.sweep import run_all
    from roamcast.spark.progress import Bar
    from roamcast.spark.session import first_line, open_session
    from roamcast.spark.tables import BadPipeline

    try:
        spark = open_session(master, remote)
        for step, experiment in enumerate(chosen, start=1):
            try:
                with Bar(spark, stderr).watching(experiment.name, step, len(chosen)):
                    rows = list(run_all(spark, [experiment], preset, seed, times))
            except Exception as problem:
                stderr.print(f"[red]{experiment.name}: {escape(first_line(problem))}[/red]", soft_wrap=True)
                continue
            yield experiment.name, rows
    except BadPipeline as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def section_table(section: "Section") -> Table:
    table = Table("what", "paper", "measured", "", title=f"{section.title} ({section.section})", title_justify="left")
    for claim in section.claims:
        mark = "[green]holds[/green]" if claim.holds else "[red]differs[/red]"
        table.add_row(escape(claim.what), escape(claim.paper), escape(claim.measured), mark)
    if section.failed:
        table.add_row("[red]runs that failed twice[/red]", "none", str(section.failed), "")
    return table


def tally_table(sections: "list[Section]") -> Table:
    """As published N of M: how many claims hold, by paper and by how they stand to it."""
    from roamcast.papers.claims_pages import tallies

    table = Table("paper", "as published", "shape", "our reading", title="Claims that hold", title_justify="left")
    for each in tallies(sections):
        counts = (each.published, each.shape, each.own)
        table.add_row(each.paper, *(f"{holding} of {of}" for holding, of in counts))
    return table


@experiments.command("report")
def report_command(
    full: Annotated[bool, typer.Option("--full", help="Report the full preset.")] = False,
    out: Output = OUT,
    pages: Annotated[
        Path | None, typer.Option(help="Also write the claims into the papers' pages in this directory.")
    ] = None,
) -> None:
    """Write one page with every experiment that was run: the paper's value, ours, and whether they agree."""
    from roamcast.papers.catalogue import EXPERIMENTS
    from roamcast.papers.claims_pages import Dated, write_pages
    from roamcast.papers.experiment import Row
    from roamcast.papers.report import page, section_of
    from roamcast.papers.rows import kept

    preset: Preset = "full" if full else "quick"
    found: list[tuple[Experiment, list[Row]]] = []
    days: dict[str, str] = {}
    for name, experiment in EXPERIMENTS.items():
        file = out / f"{name}.{preset}.json"
        if file.exists():
            try:
                found.append((experiment, kept(file)))
                days[name] = f"{datetime.fromtimestamp(file.stat().st_mtime, UTC):%Y-%m-%d}"
            except msgspec.DecodeError as problem:
                what = (
                    f"{file}: not the rows of an experiment: {problem}; run `roamcast experiments run {name}` again"
                )
                stderr.print(f"[red]{escape(what)}[/red]", soft_wrap=True)
                raise typer.Exit(EXIT_BAD_INPUT) from None
    if not found:
        stderr.print(
            f"[red]{out} has no results of the {preset} preset; run `roamcast experiments run --all` first[/red]"
        )
        raise typer.Exit(EXIT_BAD_INPUT)
    done = {experiment.name for experiment, _ in found}
    lacking = [each for each in EXPERIMENTS.values() if each.name not in done]
    (out / "index.html").write_text(page(found, preset, lacking), encoding="utf-8")
    sections = [section_of(experiment, rows) for experiment, rows in found]
    (out / "report.json").write_bytes(msgspec.json.encode(sections))
    claims = [claim for section in sections for claim in section.claims]
    holding = sum(claim.holds for claim in claims)
    console.print(tally_table(sections))
    console.print(f"{holding} of {len(claims)} claims hold; the page is {out / 'index.html'}")
    if pages is not None:
        try:
            written = write_pages(
                pages, EXPERIMENTS, [Dated(section, preset, days[section.name]) for section in sections]
            )
        except (OSError, ValueError) as problem:
            stderr.print(f"[red]{escape(f'--pages {pages}: {problem}')}[/red]", soft_wrap=True)
            raise typer.Exit(EXIT_BAD_INPUT) from None
        console.print(f"pages brought up to date: {', '.join(map(str, written)) or 'none'}")
