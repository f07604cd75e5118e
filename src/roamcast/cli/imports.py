"""`roamcast import`: anybody's positions into a journal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as Grid

from roamcast.cli.pubsub import Authority, Password, User
from roamcast.terminal import EXIT_BAD_INPUT, EXIT_INTERRUPTED, console, stderr

if TYPE_CHECKING:
    from roamcast.cli._import_live import Notebook
    from roamcast.importer.running import Imported

COLUMNS, RULES, LIVE = "Columns", "Rules", "MQTT"
BROKER = ("mqtt://", "mqtts://")


def column(field: str, about: str) -> Any:
    return typer.Option(f"--{field}", metavar="COLUMN", help=about, rich_help_panel=COLUMNS)


def import_(
    sources: Annotated[
        list[str],
        typer.Argument(help="Files, directories of files, or the address of one broker: `mqtt://host:1883`."),
    ],
    journal: Annotated[Path, typer.Option("--journal", "-j", help="The journal's directory; made if missing.")],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="csv, parquet, gpx, fcd, bonnmotion, nmea, gtfs-rt, owntracks, geolife; else by the file's name.",
        ),
    ] = "",
    append: Annotated[bool, typer.Option("--append", help="Append to an existing journal.")] = False,
    host: Annotated[str, column("host", "The host whose position it is.")] = "",
    time: Annotated[str, column("time", "The time; `date+time` joins two text columns.")] = "",
    lon: Annotated[str, column("lon", "Longitude in degrees.")] = "",
    lat: Annotated[str, column("lat", "Latitude in degrees.")] = "",
    x: Annotated[str, column("x", "Metres east, instead of degrees.")] = "",
    y: Annotated[str, column("y", "Metres north.")] = "",
    speed: Annotated[str, column("speed", "Speed, in the unit of --speed-unit.")] = "",
    heading: Annotated[str, column("heading", "Degrees clockwise from north.")] = "",
    accuracy: Annotated[str, column("accuracy", "Accuracy of the position in metres.")] = "",
    geometry: Annotated[str, column("geometry", "The GeoParquet point column, if not the primary one.")] = "",
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COLUMN",
            help="A host attribute and its column (CSV, Parquet); repeatable.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    host_name: Annotated[
        str,
        typer.Option(
            help="The host for files without one: a name, or `{stem}`, `{parent}`, `{grandparent}` of the path; "
            "for MQTT `{0}`, `{1}`, … are topic levels.",
            rich_help_panel=COLUMNS,
        ),
    ] = "",
    names: Annotated[
        str, typer.Option(help="Column names for CSV without a header: `a,b,c`.", rich_help_panel=COLUMNS)
    ] = "",
    skip_lines: Annotated[
        int, typer.Option(min=0, help="Lines to skip before the CSV.", rich_help_panel=COLUMNS)
    ] = 0,
    time_unit: Annotated[
        str, typer.Option(help="Unit of numeric times: s, ms, us, ns; default: guessed.", rich_help_panel=COLUMNS)
    ] = "auto",
    time_format: Annotated[
        str, typer.Option(help="Format of times not in ISO 8601: `%d/%m/%Y %H:%M:%S`.", rich_help_panel=COLUMNS)
    ] = "",
    timezone: Annotated[
        str, typer.Option(help="Time zone of times without one: `UTC`, `Europe/Helsinki`.", rich_help_panel=COLUMNS)
    ] = "",
    start: Annotated[
        str,
        typer.Option(help="Date of time 0 in simulations: `2026-03-01T08:00:00+01:00`.", rich_help_panel=COLUMNS),
    ] = "",
    speed_unit: Annotated[str, typer.Option(help="mps, kmh, knots or mph.", rich_help_panel=COLUMNS)] = "mps",
    degrees: Annotated[
        bool, typer.Option("--degrees", help="The SUMO file is in degrees (fcd-output.geo).", rich_help_panel=COLUMNS)
    ] = False,
    gap: Annotated[
        float, typer.Option(help="Seconds between fixes above which there is a gap.", rich_help_panel=RULES)
    ] = 60.0,
    in_gaps: Annotated[
        str,
        typer.Option(
            help="What a host is during a gap: `gone`, at `rest`, `unknown`, or `near`: at rest if it next "
            "appears within --near, else gone.",
            rich_help_panel=RULES,
        ),
    ] = "near",
    near: Annotated[float, typer.Option(help="Metres, for --in-gaps near.", rich_help_panel=RULES)] = 200.0,
    velocity: Annotated[
        str,
        typer.Option(
            help="Velocity: `between` fixes, as `told` by --speed and --heading, or `none`.",
            rich_help_panel=RULES,
        ),
    ] = "between",
    speed_max: Annotated[
        float, typer.Option(help="Drop fixes that would need more m/s.", rich_help_panel=RULES)
    ] = 100.0,
    accuracy_max: Annotated[
        float, typer.Option(help="Drop fixes less accurate than so many metres.", rich_help_panel=RULES)
    ] = 200.0,
    topic: Annotated[
        str, typer.Option(help="The topic filter to subscribe to.", rich_help_panel=LIVE)
    ] = "owntracks/+/+",
    count: Annotated[int, typer.Option(min=0, help="Stop after so many messages.", rich_help_panel=LIVE)] = 0,
    seconds: Annotated[float, typer.Option(min=0, help="Stop after so many seconds.", rich_help_panel=LIVE)] = 0.0,
    user: User = "",
    password: Password = "",
    authority: Authority = "",
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Take positions from files or a broker into a journal, for movement, audit and everything else on Spark.

        roamcast import taxis.csv --journal taxis --host taxi_id --time when --timezone Asia/Shanghai

        roamcast import Geolife/Data --journal geolife

        roamcast import mqtt://localhost:1883 --journal phones --topic 'owntracks/+/+'

    Host names and times are kept. Rows without a usable fix are dropped and counted. Columns are found by their usual
    names, unless an option names them. A directory is read with all files of a known format in it. Until an import of
    files is complete, readers see nothing of it.

    Exit codes: 0 imported, 2 the data or the journal's directory is not as asked, 130 interrupted.
    """
    from roamcast.importer.asking import Asked

    columns = {"host": host, "time": time, "lon": lon, "lat": lat, "x": x, "y": y, "geometry": geometry}
    asked = Asked(
        columns={**columns, "speed": speed, "heading": heading, "accuracy": accuracy},
        format=format_,
        host_name=host_name,
        names=names,
        attributes=tuple(attribute or ()),
        skip_lines=skip_lines,
        time_unit=time_unit,
        time_format=time_format,
        timezone=timezone,
        start=start,
        speed_unit=speed_unit,
        degrees=degrees,
        gap_s=gap,
        in_gaps=in_gaps,
        near_m=near,
        velocity=velocity,
        speed_mps_max=speed_max,
        accuracy_m_max=accuracy_max,
    )
    with problems_said(append=append):
        if sources[0].startswith(BROKER):
            from roamcast.cli._import_live import Listening, import_live
            from roamcast.cli._pubsub import Person

            person = Person(tuple(sources), "", "", "", user, password, authority)
            with progress_live(json=json) as tell:
                notebook = import_live(
                    person,
                    Listening(topic, count, seconds),
                    journal,
                    rules=asked.rules(),
                    reading=asked.reading(),
                    append=append,
                    progress=tell,
                )
            show_live(notebook, journal, json=json)
        else:
            from roamcast.importer.running import import_files

            with progress_of_files(json=json) as progress:
                found = import_files(
                    [Path(source) for source in sources],
                    journal,
                    format_=asked.known_format(),
                    reading=asked.reading(),
                    rules=asked.rules(),
                    append=append,
                    progress=progress,
                )
            show(found, journal, json=json)


@contextmanager
def problems_said(*, append: bool) -> Iterator[None]:
    from roamcast.cli._pubsub import BadWords
    from roamcast.client import ClientError
    from roamcast.importer.fixes import BadImport
    from roamcast.journal import BadJournal
    from roamcast.server.transport.tls import BadTls

    try:
        yield
    except (BadImport, BadJournal, BadWords, BadTls, ClientError) as problem:
        stderr.print(f"[red]{escape(str(problem))}[/red]", soft_wrap=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except KeyboardInterrupt:
        left = "what was written so far stays in the journal" if append else "nothing was imported"
        stderr.print(f"[yellow]interrupted; {left}[/yellow]")
        raise typer.Exit(EXIT_INTERRUPTED) from None


@contextmanager
def progress_of_files(*, json: bool) -> Iterator[Callable[[str, int, int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    hidden = json or not stderr.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=stderr, transient=True, disable=hidden) as shown:
        task = shown.add_task("reading", total=None)

        def tell(what: str, done: int, total: int) -> None:
            shown.update(task, description=what, completed=done, total=total)

        yield tell


@contextmanager
def progress_live(*, json: bool) -> Iterator[Callable[["Notebook"], None]]:
    if json or not stderr.is_terminal:
        yield lambda _: None
        return
    with stderr.status("listening; Ctrl-C ends it") as status:
        yield lambda notebook: status.update(f"{said_live(notebook)}; Ctrl-C ends it")


def said_live(notebook: "Notebook") -> str:
    heard = notebook.heard
    return (
        f"{heard.messages:,} messages, {heard.moves:,} moves of {notebook.hosts:,} hosts, "
        f"{heard.unreadable:,} not readable, {heard.refused:,} not believed"
    )


def show_live(notebook: "Notebook", journal: Path, *, json: bool) -> None:
    if json:
        said = {**msgspec.to_builtins(notebook.heard), "hosts": notebook.hosts}
        sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
        return
    console.print(f"{said_live(notebook)}\njournal: {journal}", soft_wrap=True, highlight=False)


def show(found: "Imported", journal: Path, *, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    grid = Grid(show_header=False, box=None, padding=(0, 2))
    grid.add_row("files", f"{found.files:,}")
    grid.add_row("hosts", f"{found.hosts:,}")
    grid.add_row("fixes", f"{found.fixes:,}")
    grid.add_row("gaps", f"{found.gaps:,}")
    grid.add_row("from", moment(found.first_us, absolute=found.absolute))
    grid.add_row("to", moment(found.last_us, absolute=found.absolute))
    for reason, count in found.dropped.items():
        grid.add_row(f"dropped: {reason.value.replace('_', ' ')}", f"{count:,}")
    console.print(grid)
    console.print(f"journal: {journal}", soft_wrap=True, highlight=False)
    console.print(
        f"next: roamcast pipeline ingest {journal} && roamcast pipeline movement {journal}",
        style="dim",
        soft_wrap=True,
        highlight=False,
    )


def moment(at_us: int, *, absolute: bool) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC" if absolute else f"{at_us / 1e6:g} s"
