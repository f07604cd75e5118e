"""The commands `roamcast pipeline ...` and `roamcast audit`: they parse and print; `spark/chores.py` works."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table as Grid

from roamcast.terminal import EXIT_BAD_INPUT, EXIT_INTERRUPTED, complaints, console

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
Period = Annotated[float, typer.Option(help="How often to look at what lasts, in milliseconds.")]
Until = Annotated[float | None, typer.Option(help="Judge until this time in seconds; else until the run ended.")]
Conf = Annotated[list[str] | None, typer.Option(help="A setting of Spark, as KEY=VALUE; may be given several times.")]
Follow = Annotated[float | None, typer.Option(help="Go on, and look for new segments every so many seconds.")]
Output = Annotated[str | None, typer.Option("--out", help="Where the page goes; else `audit` in the journal.")]

pipeline = typer.Typer(help="Analyse journals on Spark, step by step.", no_args_is_help=True)


@contextmanager
def working(
    directory: str, master: str | None, remote: str | None, conf: list[str] | None, *, quiet: bool
) -> Iterator["Chores"]:
    """What does the work; problems become a sentence and an exit code."""
    # Spark takes a second to import, and `roamcast sim` needs none of it.
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from roamcast.spark.chores import Chores
    from roamcast.spark.files import missing_package
    from roamcast.spark.session import settings_given, unreadable_file, without_java_frames
    from roamcast.spark.tables import BadPipeline

    try:
        if not quiet and complaints.is_terminal:
            complaints.print("[dim]starting Spark[/dim]")
        chores = Chores(directory, master, remote, None if quiet else complaints, settings_given(conf))
        yield chores
        show_cut(chores.cut)
    except BadPipeline as problem:
        complaints.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except (PySparkException, Py4JJavaError) as problem:
        damaged = unreadable_file(problem)
        said = (
            f"{damaged}: damaged; remove {directory}/tables and run `roamcast pipeline ingest {directory}` again"
            if damaged
            else missing_package(str(problem)) or f"Spark failed: {without_java_frames(problem)}"
        )
        complaints.print(f"[red]{escape(said)}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except KeyboardInterrupt:
        complaints.print("[yellow]interrupted; run it again to go on[/yellow]")
        raise typer.Exit(EXIT_INTERRUPTED) from None


@pipeline.command("ingest")
def ingest_command(
    directory: Directory,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    follow: Follow = None,
    json: Json = False,
) -> None:
    """Take a journal's segments into clean tables, each record once; it may be killed and restarted at any time."""
    with working(directory, master, remote, conf, quiet=json) as chores:
        show_summary(chores.ingest(follow), json=json)


@pipeline.command("compact")
def compact_command(
    directory: Directory, master: Master = None, remote: Remote = None, conf: Conf = None, json: Json = False
) -> None:
    """Make few large files of the many small ones that ingest leaves in its tables; no record changes.

    It may be killed and started again at any time. Ingest may run beside it; let nothing else read the tables.
    """
    with working(directory, master, remote, conf, quiet=json) as chores:
        found = chores.compact()
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        console.print(f"{found.files:,} files became {found.into:,}", highlight=False)


@pipeline.command("oracle")
def oracle_command(
    directory: Directory,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    period_ms: Period = PERIOD_MS,
    until_s: Until = None,
    json: Json = False,
) -> None:
    """Compute what an ideal system would have delivered: the table `expected`. Needs an ingested journal."""
    with working(directory, master, remote, conf, quiet=json) as chores:
        count, place = chores.oracle(period_ms, until_s)
    if json:
        sys.stdout.write(msgspec.json.encode({"expected": count}).decode() + "\n")
    else:
        console.print(f"{count:,} deliveries expected; they are in {place}", soft_wrap=True, highlight=False)


@pipeline.command("audit")
def audit_command(
    directory: Directory,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    period_ms: Period = PERIOD_MS,
    until_s: Until = None,
    out: Output = None,
    json: Json = False,
) -> None:
    """Compare what was expected with what was delivered. Needs an ingested journal."""
    with working(directory, master, remote, conf, quiet=json) as chores:
        show_audit(*chores.audit(period_ms, until_s, out), json=json)


@pipeline.command("movement")
def movement_command(
    directory: Directory,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    cells: Annotated[float | None, typer.Option(help="Places are cells so many metres wide; else 250.")] = None,
    places: Annotated[bool, typer.Option("--places", help="Places are what hosts' attribute `place` says.")] = False,
    origin: Annotated[
        tuple[float, float] | None, typer.Option(help="Where cell 0,0 begins; on Earth longitude, latitude.")
    ] = None,
    rest: Annotated[float, typer.Option(help="Who stands so many seconds at a place has ended a trip.")] = 1.0,
    hold_out: Annotated[float, typer.Option(help="The share of hosts to test the model on, not learned from.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Which hosts are held out.")] = 1,
    out: Annotated[str | None, typer.Option(help="The model's file; else `movement.json` in the journal.")] = None,
    json: Json = False,
) -> None:
    """Learn how hosts move, for brokers that look ahead. The journal must have been ingested.

    Which place follows which, how long one stays, where trips end: in one file that a scenario names as
    `protocol.mesh.movement`. Hosts that were held out tell what the model is worth.
    """
    if places and cells is not None:
        complaints.print("[red]--cells and --places: give one of them[/red]")
        raise typer.Exit(EXIT_BAD_INPUT)
    from roamcast.spark.movement_tables import CELL_M

    cell_m = 0.0 if places else CELL_M if cells is None else cells
    if not places and not cell_m > 0:
        complaints.print(f"[red]--cells is {cell_m:g}; give metres above 0[/red]")
        raise typer.Exit(EXIT_BAD_INPUT)
    with working(directory, master, remote, conf, quiet=json) as chores:
        learned, place = chores.movement(cell_m, out, origin=origin, rest_s=rest, hold_out=hold_out, seed=seed)
    show_movement(learned, place, json=json)


@pipeline.command("stream")
def stream_command(
    directory: Directory,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    period_ms: Period = PERIOD_MS,
    bucket: Annotated[float, typer.Option(help="Judge up to a multiple of so many seconds.")] = 1.0,
    late: Annotated[float, typer.Option(help="For how many silent seconds to wait for a writer.")] = 10.0,
    follow: Follow = None,
    json: Json = False,
) -> None:
    """Find what an ideal system delivers as the journal grows: the table `streamed`. It takes in what is new itself.

    It judges what all writers have passed, a closed journal to its end, and can be killed and started again.
    """
    with working(directory, master, remote, conf, quiet=json) as chores:
        judged, place = chores.stream(period_ms, bucket_s=bucket, late_s=late, follow_s=follow)
    if json:
        said = {"streamed": judged.pairs, "until_us": judged.until_us, "late": judged.late}
        sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    else:
        console.print(
            f"{judged.pairs:,} deliveries found so far; they are in {place}", soft_wrap=True, highlight=False
        )


@pipeline.command("watch")
def watch_command(
    directory: Directory,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    period_ms: Period = PERIOD_MS,
    bucket: Annotated[float, typer.Option(help="Judge up to a multiple of so many seconds.")] = 1.0,
    late: Annotated[float, typer.Option(help="For how many silent seconds to wait for a writer.")] = 10.0,
    follow: Follow = None,
    port: Annotated[int | None, typer.Option(help="Show the numbers to Prometheus on this port.")] = None,
    json: Json = False,
) -> None:
    """Audit a system while it runs: expected, missed, twice, late and lag, as numbers for Prometheus."""
    with working(directory, master, remote, conf, quiet=json) as chores:
        found = chores.watch(period_ms, bucket_s=bucket, late_s=late, follow_s=follow, port=port)
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    console.print(
        f"{found.expected:,} expected, {found.missed:,} missed, {found.unwanted:,} unwanted, "
        f"{found.duplicates:,} duplicates; {found.lag_s:.1f} s behind",
        highlight=False,
    )


@pipeline.command("jobs")
def jobs_command(json: Json = False) -> None:
    """List the tables that are computed, and what each is computed from."""
    from roamcast.spark.movement_tables import HELD_OUT, SCORES, STAYS, STEPS, TRIPS, VISITS
    from roamcast.spark.tables import EVENTS, EXPECTED, LIVES, STATES, TOTALS, TRACKS, VERDICTS

    audited = (TRACKS, STATES, EVENTS, LIVES, EXPECTED, VERDICTS, TOTALS)
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


def audit(
    directory: Directory,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    period_ms: Period = PERIOD_MS,
    until_s: Until = None,
    out: Output = None,
    json: Json = False,
) -> None:
    """Say what a journal's system delivered of what an ideal one would have: rate, missed, unwanted, twice, late.

    Takes in what is new in the journal, computes what an ideal system would have delivered, compares, and writes a
    page with tables and maps (`audit/index.html`) and the same for programs (`audit/audit.json`).

    Exit codes: 0 the journal was audited, 2 it cannot be, or Spark cannot start, 130 interrupted.
    """
    with working(directory, master, remote, conf, quiet=json) as chores:
        show_doubts(chores.ingest())
        show_audit(*chores.audit(period_ms, until_s, out), json=json)


def what_if(
    directory: Directory,
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
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    period_ms: Period = PERIOD_MS,
    until_s: Until = None,
    json: Json = False,
) -> None:
    """Say what an ideal system would have delivered if people had wished for something else, and the difference.

    The same hosts move and publish as in the journal; subscriptions, scopes or lifetimes are changed. Shows who
    gains and loses how many deliveries; the table `what_if` in JOURNAL/what-if has each of them.

    Exit codes: as `roamcast audit`.
    """
    with working(directory, master, remote, conf, quiet=json) as chores:
        from roamcast.spark.wishes import wishes_of

        given = wishes_of(changes or [], wishes)
        show_doubts(chores.ingest())
        show_what_if(*chores.what_if(period_ms, until_s, given), json=json)


def show_what_if(found: "WhatIf", place: str, *, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    for title, lines in (("subject", found.subjects), ("client", found.clients)):
        grid = Grid(title, box=None, header_style="bold")
        for name in ("before", "after", "gained", "lost"):
            grid.add_column(name, justify="right")
        for line in (*lines[:SHOWN_MAX], found.total):
            grid.add_row(escape(line.value), *(f"{n:,}" for n in (line.before, line.after, line.gained, line.lost)))
        console.print(grid)
        if len(lines) > SHOWN_MAX:
            console.print(f"[dim] these {SHOWN_MAX} differ most; --json has more, the table all[/dim]")
    console.print(f"deliveries: {place}", soft_wrap=True, highlight=False)


def show_summary(found: "Summary", *, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
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
        complaints.print("[yellow]" + escape("\n".join(lines)) + "[/yellow]", soft_wrap=True)


def show_cut(cut: tuple[str, ...]) -> None:
    from roamcast.spark.report import not_closed

    if cut:
        complaints.print(f"[yellow]{escape(not_closed(cut))}[/yellow]", soft_wrap=True)


def show_movement(learned: "Learned", place: str, *, json: bool) -> None:
    evaluation = learned.model.evaluation
    if json:
        counts = {"places": len(learned.model.places), "steps": learned.steps, "trips": learned.trips}
        said = {**counts, "hosts": learned.hosts, "evaluation": evaluation, "file": place}
        sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
        return
    console.print(
        f"{len(learned.model.places):,} places, {learned.steps:,} steps, {learned.trips:,} trips "
        f"of {learned.hosts - (evaluation.hosts if evaluation else 0):,} hosts",
        highlight=False,
    )
    if evaluation is None:
        complaints.print("[yellow]no host was held out, so nothing says what the model is worth[/yellow]")
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


def show_audit(found: "Audit", place: str, *, json: bool) -> None:
    from roamcast.spark.report import milliseconds, percent

    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    total = found.total
    grid = Grid(show_header=False, box=None, padding=(0, 2))
    for name, value in (
        ("expected", f"{total.expected:,}"),
        ("delivered", f"{total.delivered:,}"),
        ("missed", f"{total.missed:,}"),
        ("unwanted", f"{total.unwanted:,}"),
        ("duplicates", f"{total.duplicates:,}"),
        ("delivery rate", percent(total.rate)),
        ("latency", f"{milliseconds(total.latency_p50_us)}, 99 % within {milliseconds(total.latency_p99_us)}"),
    ):
        grid.add_row(name, value)
    console.print(grid)
    console.print(f"page: {place}/index.html", soft_wrap=True, highlight=False)
