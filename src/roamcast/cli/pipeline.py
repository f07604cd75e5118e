"""The commands `roamcast pipeline ...` and `roamcast audit`: they parse and print; `spark/chores.py` works."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
import typer
from rich.markup import escape
from rich.table import Table as Grid

from roamcast.terminal import EXIT_BAD_INPUT, EXIT_INTERRUPTED, console, stderr

if TYPE_CHECKING:
    from roamcast.model.movement import Evaluation
    from roamcast.spark.chores import Chores
    from roamcast.spark.ingest import Summary
    from roamcast.spark.movement_file import Learned
    from roamcast.spark.report import Audit
    from roamcast.spark.what_if import WhatIf

PERIOD_MS = 100.0
SHOWN_MAX = 20

Directory = Annotated[str, typer.Argument(help="The journal's directory, as `roamcast sim --journal` wrote it.")]
Master = Annotated[
    str | None, typer.Option(help="Where Spark runs: `local[*]` (unless set), `spark://host:7077`, ...")
]
Remote = Annotated[str | None, typer.Option(help="A Spark Connect server instead: `sc://host:15002`.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Period = Annotated[float, typer.Option(help="Milliseconds between checks of events and subscriptions that last.")]
Until = Annotated[float | None, typer.Option(help="Judge up to this time in seconds (default: the end of the run).")]
Conf = Annotated[list[str] | None, typer.Option(help="A Spark setting, KEY=VALUE; repeatable.")]
Bucket = Annotated[float, typer.Option(help="Judge in steps of so many seconds.")]
Late = Annotated[float, typer.Option(help="Seconds to wait for a silent writer.")]
Follow = Annotated[float | None, typer.Option(help="Keep running; look for new segments every so many seconds.")]
Zone = Annotated[str | None, typer.Option(help="Time zone of the page (default: by longitude on Earth, else UTC).")]
Streets = Annotated[Path | None, typer.Option(help="A GeoJSON file of streets to draw on the page's map.")]
Output = Annotated[str | None, typer.Option("--out", help="Directory of the page (default: `audit` in the journal).")]

Answer: TypeAlias = tuple[object, str | Callable[[], None]]
"""What a command found: a value for programs, and a line for people or what shows it to them."""

pipeline = typer.Typer(help="Analyse journals on Spark, step by step.", no_args_is_help=True)


@contextmanager
def working(
    directory: str,
    master: str | None,
    remote: str | None,
    conf: list[str] | None,
    *,
    quiet: bool,
    in_java: bool,
) -> Iterator["Chores"]:
    """What does the work; problems become a sentence and an exit code."""
    # Spark takes a second to import, and `roamcast sim` needs none of it.
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from roamcast.spark.chores import Chores
    from roamcast.spark.files import missing_package
    from roamcast.spark.session import pairs_given, unreadable_file, without_java_frames
    from roamcast.spark.tables import BadPipeline

    try:
        if not quiet:
            stderr.print("[dim]starting Spark[/dim]")
        shown = None if quiet else stderr
        chores = Chores(directory, master, remote, shown, pairs_given("--conf", conf), in_java=in_java)
        yield chores
        show_cut(chores.cut)
    except BadPipeline as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except (PySparkException, Py4JJavaError) as problem:
        damaged = unreadable_file(problem)
        said = (
            f"{damaged}: damaged; remove {directory}/tables and run `roamcast pipeline ingest {directory}` again"
            if damaged
            else missing_package(str(problem)) or f"Spark failed: {without_java_frames(problem)}"
        )
        stderr.print(f"[red]{escape(said)}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except KeyboardInterrupt:
        stderr.print("[yellow]interrupted; run it again to go on[/yellow]")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def on_journal(command: Callable[..., Answer], *, in_java: bool = False) -> Callable[..., None]:
    """A command on a journal: with the options that all of them have, and an answer that is printed for people, or as
    JSON. The command itself is given what does the work, and its own options. `in_java`: see `Chores`."""

    def run(
        *, directory: str, master: str | None, remote: str | None, conf: list[str] | None, json: bool, **own: Any
    ) -> None:
        with working(directory, master, remote, conf, quiet=json, in_java=in_java) as chores:
            value, shown = command(chores, **own)
        if json:
            sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
        elif isinstance(shown, str):
            console.print(shown, soft_wrap=True, highlight=False, markup=False)
        else:
            shown()

    _, *own = signature(command, eval_str=True).parameters.values()
    before = [Parameter("directory", Parameter.KEYWORD_ONLY, annotation=Directory)]
    shared = {"master": Master, "remote": Remote, "conf": Conf}
    after = [
        *(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in shared.items()),
        Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=Json),
    ]
    together = [*before, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own), *after]
    run.__signature__ = Signature(together)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in together}
    run.__doc__ = command.__doc__
    return run


@pipeline.command("ingest")
@on_journal
def ingest_command(chores: Any, follow: Follow = None) -> Answer:
    """Take a journal's segments into clean tables, each record once; it may be killed and restarted at any time."""
    found = chores.ingest(follow)
    return found, lambda: show_summary(found)


@pipeline.command("compact")
@on_journal
def compact_command(chores: Any) -> Answer:
    """Make few large files of the many small ones that ingest leaves in its tables; no record changes.

    It may be killed and started again at any time. Ingest may run beside it; let nothing else read the tables.
    """
    found = chores.compact()
    return found, f"{found.files:,} files became {found.into:,}"


@pipeline.command("oracle")
@on_journal
def oracle_command(chores: Any, period_ms: Period = PERIOD_MS, until_s: Until = None) -> Answer:
    """Compute what an ideal system would have delivered: the table `expected`. Needs an ingested journal."""
    count, place = chores.oracle(period_ms, until_s)
    return {"expected": count}, f"{count:,} deliveries expected; they are in {place}"


@pipeline.command("audit")
@on_journal
def audit_command(
    chores: Any,
    period_ms: Period = PERIOD_MS,
    until_s: Until = None,
    out: Output = None,
    zone: Zone = None,
    streets: Streets = None,
) -> Answer:
    """Compare what was expected with what was delivered. Needs an ingested journal."""
    found, place = chores.audit(period_ms, until_s, out, zone=zone, streets=streets)
    return found, lambda: show_audit(found, place)


@pipeline.command("positions")
@partial(on_journal, in_java=True)
def positions_command(
    chores: Any, h3: Annotated[int, typer.Option(help="The resolution of the H3 cells, 0 to 15.")] = 9
) -> Answer:
    """Write positions as GeoParquet, with a column of H3 cells to group by. Needs an ingested journal."""
    count, place = chores.positions(h3)
    return {"positions": count, "place": place}, f"{count:,} positions; they are in {place}"


@pipeline.command("movement")
@partial(on_journal, in_java=True)
def movement_command(
    chores: Any,
    cells: Annotated[float | None, typer.Option(help="Width of the cells in metres (default: 250).")] = None,
    places: Annotated[bool, typer.Option("--places", help="Use hosts' attribute `place` instead of cells.")] = False,
    origin: Annotated[
        tuple[float, float] | None, typer.Option(help="Corner of cell 0,0; on Earth longitude, latitude.")
    ] = None,
    rest: Annotated[float, typer.Option(help="Seconds at a place that end a trip.")] = 1.0,
    hold_out: Annotated[float, typer.Option(help="Share of hosts held out to test the model.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed that chooses the held-out hosts.")] = 1,
    out: Annotated[
        str | None, typer.Option(help="The model's file (default: `movement.json` in the journal).")
    ] = None,
) -> Answer:
    """Learn how hosts move, for brokers that look ahead. The journal must have been ingested.

    Which place follows which, how long one stays, where trips end: in one file that a scenario names as
    `protocol.mesh.movement`. Hosts that were held out tell what the model is worth.
    """
    learned, place = chores.movement(
        cells, out, places=places, origin=origin, rest_s=rest, hold_out=hold_out, seed=seed
    )
    counts = {"places": len(learned.model.places), "steps": learned.steps, "trips": learned.trips}
    said = {**counts, "hosts": learned.hosts, "evaluation": learned.model.evaluation, "file": place}
    return said, lambda: show_movement(learned, place)


@pipeline.command("stream")
@on_journal
def stream_command(
    chores: Any,
    period_ms: Period = PERIOD_MS,
    bucket: Bucket = 1.0,
    late: Late = 10.0,
    follow: Follow = None,
) -> Answer:
    """Find what an ideal system delivers as the journal grows: the table `streamed`. It takes in what is new itself.

    It judges what all writers have passed, a closed journal to its end, and can be killed and started again.
    """
    judged, place = chores.stream(period_ms, bucket_s=bucket, late_s=late, follow_s=follow)
    said = {"streamed": judged.pairs, "until_us": judged.until_us, "late": judged.late}
    return said, f"{judged.pairs:,} deliveries found so far; they are in {place}"


@pipeline.command("watch")
@on_journal
def watch_command(
    chores: Any,
    period_ms: Period = PERIOD_MS,
    bucket: Bucket = 1.0,
    late: Late = 10.0,
    follow: Follow = None,
    port: Annotated[int | None, typer.Option(help="Serve metrics for Prometheus on this port.")] = None,
) -> Answer:
    """Audit a system while it runs: expected, missed, twice, late and lag, as numbers for Prometheus."""
    found = chores.watch(period_ms, bucket_s=bucket, late_s=late, follow_s=follow, port=port)
    return found, (
        f"{found.expected:,} expected, {found.missed:,} missed, {found.unwanted:,} unwanted, "
        f"{found.duplicates:,} duplicates; {found.lag_s:.1f} s behind"
    )


@pipeline.command("export")
@partial(on_journal, in_java=True)
def export_command(
    chores: Any,
    table: Annotated[str, typer.Argument(help="A table that `pipeline jobs` lists, or one of the journal.")],
    to: Annotated[str, typer.Argument(help="A path, an address, or a name in a catalog: `lake.audits.verdicts`.")],
    kind: Annotated[str, typer.Option("--format", help="A Spark format: delta, iceberg, csv, kafka.")] = "parquet",
    options: Annotated[
        list[str] | None, typer.Option("--option", help="An option of the format, NAME=VALUE; repeatable.")
    ] = None,
) -> Answer:
    """Write one of the tables in another format, or into a catalog. Formats of packages need these: `--conf`."""
    place = chores.export(table, kind, to, options)
    return {"table": table, "place": place}, f"{table}: {place}"


@pipeline.command("jobs")
def jobs_command(json: Json = False) -> None:
    """List the tables that are computed, and what each is computed from."""
    from roamcast.spark.movement_tables import HELD_OUT, SCORES, STAYS, STEPS, TRIPS, VISITS
    from roamcast.spark.tables import (
        EVENTS,
        EXAMPLES,
        EXPECTED,
        FENCED,
        LIVES,
        STATES,
        TOTALS,
        TRACKS,
        TRANSITIONS,
        VERDICTS,
    )

    audited = (TRACKS, STATES, EVENTS, LIVES, EXPECTED, VERDICTS, EXAMPLES, TOTALS, TRANSITIONS, FENCED)
    tables = (*audited, VISITS, HELD_OUT, STAYS, STEPS, TRIPS, SCORES)
    if json:
        listed = [
            {
                "name": table.name,
                "reads": list(table.reads),
                "writes": table.name,
                "about": table.about,
                "columns": {field.name: str(field.type) for field in table.schema},
            }
            for table in tables
        ]
        sys.stdout.write(msgspec.json.encode(listed).decode() + "\n")
        return
    grid = Grid("table", "from", "which is", box=None, header_style="bold")
    for table in tables:
        grid.add_row(table.name, ", ".join(table.reads), table.about)
    console.print(grid)


@on_journal
def audit(
    chores: Any,
    period_ms: Period = PERIOD_MS,
    until_s: Until = None,
    out: Output = None,
    zone: Zone = None,
    streets: Streets = None,
) -> Answer:
    """Say what a journal's system delivered of what an ideal one would have: rate, missed, unwanted, twice, late.

    Takes in what is new in the journal, computes what an ideal system would have delivered, compares, and writes a
    page with tables and maps (`audit/index.html`) and the same for programs (`audit/audit.json`).

    Exit codes: 0 the journal was audited, 2 it cannot be, or Spark cannot start, 130 interrupted.
    """
    show_doubts(chores.ingest())
    found, place = chores.audit(period_ms, until_s, out, zone=zone, streets=streets)
    return found, lambda: show_audit(found, place)


@partial(on_journal, in_java=True)
def what_if(
    chores: Any,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A change for all, as NAME=VALUE: near=300, filter='severity >= 4', subject='town/#', audience=500, "
            "interest='{\"circle_m\": 200}', lifetime_s=10; may be given several times.",
        ),
    ] = None,
    wishes: Annotated[
        Path | None, typer.Option(help="A file of rules (TOML) for some subscriptions or events, or new ones.")
    ] = None,
    period_ms: Period = PERIOD_MS,
    until_s: Until = None,
) -> Answer:
    """Say what an ideal system would have delivered if people had wished for something else, and the difference.

    The same hosts move and publish as in the journal; subscriptions, scopes or lifetimes are changed. Shows who
    gains and loses how many deliveries, here and on a page (`what-if/index.html`); the table `what_if` beside it has
    each of them.

    Exit codes: as `roamcast audit`.
    """
    from roamcast.spark.wishes import wishes_of

    given = wishes_of(changes or [], wishes)
    show_doubts(chores.ingest())
    found, table, page = chores.what_if(period_ms, until_s, given)
    return found, lambda: show_what_if(found, table, page)


def show_what_if(found: "WhatIf", table: str, page: str | None) -> None:
    for title, lines in (("subject", found.subjects), ("client", found.clients)):
        grid = Grid(title, box=None, header_style="bold")
        for name in ("before", "after", "gained", "lost"):
            grid.add_column(name, justify="right")
        for line in (*lines[:SHOWN_MAX], found.total):
            grid.add_row(escape(line.value), *(f"{n:,}" for n in (line.before, line.after, line.gained, line.lost)))
        console.print(grid)
        if len(lines) > SHOWN_MAX:
            console.print(f"[dim] these {SHOWN_MAX} differ most; --json has more, the table all[/dim]")
    console.print(f"deliveries: {table}", soft_wrap=True, highlight=False)
    show_page(page)


def show_page(place: str | None) -> None:
    said = f"page: {place}" if place else "no page: pip install 'roamcast[spark]' for what draws it"
    console.print(said, soft_wrap=True, highlight=False, markup=False)


def show_summary(found: "Summary") -> None:
    console.print(f"{found.segments:,} segments taken, {found.rows:,} records", highlight=False)
    show_doubts(found)


def show_doubts(found: "Summary") -> None:
    said = [
        f"{found.duplicates:,} records were there more than once" if found.duplicates else "",
        f"{found.late:,} segments came late" if found.late else "",
        f"{found.missing:,} records are missing" if found.missing else "",
        f"{found.implausible:,} records have times that cannot be meant" if found.implausible else "",
        f"{found.quarantined:,} segments are quarantined:" if found.quarantined else "",
    ]
    lines = ["; ".join(each for each in said if each), *(f"  {reason}" for reason in found.reasons)]
    if any(said):
        stderr.print("[yellow]" + escape("\n".join(lines)) + "[/yellow]", soft_wrap=True)


def show_cut(cut: tuple[str, ...]) -> None:
    from roamcast.spark.report import not_closed

    if cut:
        stderr.print(f"[yellow]{escape(not_closed(cut))}[/yellow]", soft_wrap=True)


def show_movement(learned: "Learned", place: str) -> None:
    evaluation = learned.model.evaluation
    console.print(
        f"{len(learned.model.places):,} places, {learned.steps:,} steps, {learned.trips:,} trips "
        f"of {learned.hosts - (evaluation.hosts if evaluation else 0):,} hosts",
        highlight=False,
    )
    if evaluation is None:
        stderr.print("[yellow]no hosts were held out, so the model was not evaluated[/yellow]")
    else:
        show_scores(evaluation)
    console.print(f"model: {place}", soft_wrap=True, highlight=False)


def show_scores(evaluation: "Evaluation") -> None:
    grid = Grid(box=None, header_style="bold", title=f"on {evaluation.hosts:,} hosts that were held out")
    grid.add_column("answer")
    grid.add_column("about")
    for name in ("asked", "places named", "right"):
        grid.add_column(name, justify="right")
    order = ("ploc", "next", "trip", "broker")
    for score in sorted(evaluation.scores, key=lambda score: order.index(score.what)):
        answer, about = {
            "ploc": (f"ploc(x, {score.reach})", f"{score.ahead:g} step{'s' * (score.ahead > 1)} later"),
            "next": (f"first {score.reach}", "next place"),
            "trip": (f"first {score.reach}", "end of the trip"),
            "broker": (f"first {score.reach}", f"broker after {score.ahead * evaluation.mean_residence_s:.1f} s"),
        }[score.what]
        share = f"{score.hits / score.asked:.1%}"
        grid.add_row(answer, about, f"{score.asked:,}", f"{score.size:.1f}", share)
    console.print(grid)


def show_audit(found: "Audit", place: str | None) -> None:
    from roamcast.spark.report import milliseconds, percent

    total = found.total
    grid = Grid(show_header=False, box=None, padding=(0, 2))
    for name, value in (
        ("expected", f"{total.expected:,}"),
        ("delivered", f"{total.delivered:,}"),
        ("missed", f"{total.missed:,}"),
        ("unwanted", f"{total.unwanted:,}"),
        ("duplicates", f"{total.duplicates:,}"),
        ("delivery rate", percent(total.rate)),
        ("at once", f"{percent(found.at_once)} (within a turn of a host's loop: its records have one time)"),
        ("90 % within", milliseconds(total.latency_p90_us)),
        ("99 % within", milliseconds(total.latency_p99_us)),
    ):
        grid.add_row(name, value)
    if found.fences.lines:
        counts = [(each.expected, each.missing, each.extra, each.duplicates) for each in found.fences.lines]
        expected, missing, extra, twice = map(sum, zip(*counts, strict=True))
        grid.add_row(
            "fences", f"{expected:,} transitions; {missing:,} missing, {extra:,} extra, {twice:,} told twice"
        )
    console.print(grid)
    show_page(place)
