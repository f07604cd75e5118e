"""What the commands do: the usual steps, from a journal's directory to an answer."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from prometheus_client import start_http_server
from rich.console import Console

from roamcast.journal.schema import VERSION_DIRECTORY
from roamcast.spark.compact import Compacted, compact
from roamcast.spark.export import export, table_of
from roamcast.spark.files import address, file_system, infos_in, write_bytes
from roamcast.spark.ingest import Summary, ingest
from roamcast.spark.journal import Journal, ingested
from roamcast.spark.ledger import Ledger
from roamcast.spark.movement import write_movement
from roamcast.spark.movement_file import Learned, read_learned, settings_for, write_model
from roamcast.spark.movement_tables import CELL_M
from roamcast.spark.oracle.expected import write_expected
from roamcast.spark.page import page, what_if_page
from roamcast.spark.positions import positions, write_geoparquet
from roamcast.spark.prepare import Prepared, prepare
from roamcast.spark.progress import Bar, Quiet
from roamcast.spark.published import TABLES_DIRECTORY, Tables
from roamcast.spark.report import Audit, read_audit, ways_of
from roamcast.spark.session import open_session, pairs_given
from roamcast.spark.settings import PERIOD_US, Settings, Survey, settings_of
from roamcast.spark.stream import Judged, stream
from roamcast.spark.tables import EXPECTED, SEGMENTS, STREAMED, WHAT_IF, BadPipeline
from roamcast.spark.verdicts import write_verdicts
from roamcast.spark.watch import Page, Watched, watch
from roamcast.spark.what_if import WhatIf, read_what_if, what_if
from roamcast.spark.wishes import Wishes, changed

TIME_US_MAX = 2**53
"""As far as a double counts single microseconds, which is 285 years."""
FOLLOW_US_MIN = 1_000


class Chores:
    """On one journal; without a console nothing is shown on the way."""

    def __init__(
        self,
        directory: str,
        master: str | None,
        remote: str | None,
        console: Console | None,
        conf: dict[str, str],
        *,
        in_java: bool = False,
    ) -> None:
        """`in_java`: the rows of the journal will pass through Java, and not only from file to file by workers."""
        if "://" not in directory and not Path(directory).is_dir():
            raise BadPipeline(f"{directory}: no such directory")
        file_system(f"{address(directory)}/{TABLES_DIRECTORY}")
        infos = infos_in(f"{address(directory)}/{VERSION_DIRECTORY}", recursive=True) if in_java else []
        self.spark = open_session(master, remote, conf, sum(info.size or 0 for info in infos))
        self.tables = Tables(self.spark, directory)
        self.cut: tuple[str, ...] = ()
        """The openings of the journal that never said that their run ended, as far as they were met."""
        self.watcher = Quiet() if console is None else Bar(self.spark, console)

    def ingest(self, follow_s: float | None = None) -> Summary:
        check_follow(follow_s)
        with self.watcher.watching("ingest", 1, 1):
            found = ingest(self.spark, self.tables.journal)
            while follow_s is not None:
                time.sleep(follow_s)
                found = ingest(self.spark, self.tables.journal)
        return found

    def compact(self) -> Compacted:
        self.check_ingested()
        with self.watcher.watching("compact", 1, 1):
            return compact(self.tables)

    def oracle(self, period_ms: float, until_s: float | None) -> tuple[int, str]:
        """How many deliveries an ideal system makes, and where they are listed."""
        journal, settings = self.settings(period_ms, until_s)
        self.expect(journal, settings, 2)
        return self.tables.read(EXPECTED).count(), self.tables.place(EXPECTED.name)

    def expect(self, journal: Journal, settings: Settings, steps: int) -> Prepared:
        with self.watcher.watching("prepare", 1, steps):
            prepared = prepare(journal, self.tables.journal, settings)
        with self.watcher.watching("expected", 2, steps):
            write_expected(self.tables, prepared)
        return prepared

    def what_if(self, period_ms: float, until_s: float | None, wishes: Wishes) -> tuple[WhatIf, str, str | None]:
        """The difference that other wishes make, where its table is, and where its page."""
        journal, settings = self.settings(period_ms, until_s)
        other = changed(journal, wishes, settings.space)
        tables = Tables(self.spark, f"{self.tables.journal}/what-if")
        before = self.expect(journal, settings, 4)
        with self.watcher.watching("changed wishes", 3, 4):
            write_expected(tables, prepare(other, tables.journal, moved=before))
        with self.watcher.watching("difference", 4, 4):
            pairs = what_if(self.tables.read(EXPECTED), tables.read(EXPECTED), journal)
            place = tables.write(WHAT_IF, pairs, wishes=msgspec.to_builtins(wishes))
        found = read_what_if(tables.read(WHAT_IF), self.tables.journal)
        return found, place, leave_page(f"{tables.journal}/index.html", lambda: what_if_page(found, wishes))

    def audit(
        self,
        period_ms: float,
        until_s: float | None,
        out: str | None,
        *,
        zone: str | None = None,
        streets: Path | None = None,
    ) -> tuple[Audit, str | None]:
        """The audit, and where its page is; None if what draws it is not installed."""
        journal, settings = self.settings(period_ms, until_s)
        place = address(out) if out else f"{self.tables.journal}/audit"
        check_directory(place)
        prepared = self.expect(journal, settings, 4)
        with self.watcher.watching("verdicts", 3, 4):
            write_verdicts(self.tables, settings)
        with self.watcher.watching("totals", 4, 4):
            found = read_audit(self.tables, journal, settings)
        write_bytes(f"{place}/audit.json", msgspec.json.encode(found))
        return found, leave_page(f"{place}/index.html", lambda: page(found, ways_of(prepared), streets, zone))

    def positions(self, resolution: int) -> tuple[int, str]:
        """How many positions there are as GeoParquet, and where."""
        journal, settings = self.settings(PERIOD_US / 1e3, None)
        with self.watcher.watching("positions", 1, 1):
            found = positions(journal, settings.space, resolution)
            return write_geoparquet(self.tables, found, settings.space)

    def export(self, table: str, kind: str, to: str, options: list[str] | None) -> str:
        """Where a table is, in another format."""
        self.check_ingested()
        place = address(to) if "/" in to and "://" not in to else to
        with self.watcher.watching("export", 1, 1):
            export(table_of(self.tables, table), kind, place, pairs_given("--option", options))
        return place

    def movement(
        self,
        cells_m: float | None,
        out: str | None,
        *,
        places: bool = False,
        origin: tuple[float, float] | None = None,
        rest_s: float,
        hold_out: float,
        seed: int,
    ) -> tuple[Learned, str]:
        """How hosts move, and the file that says so; with `places` among those that they name, else among cells."""
        if places and cells_m is not None:
            raise BadPipeline("--cells and --places: give one of them")
        cell_m = 0.0 if places else CELL_M if cells_m is None else cells_m
        if not places and not cell_m > 0:
            raise BadPipeline(f"--cells is {cell_m:g}; give metres above 0")
        place = address(out) if out else f"{self.tables.journal}/movement.json"
        if "://" not in place and not Path(place).parent.is_dir():
            raise BadPipeline(f"{place}: no such directory; nothing could be written there")
        if "://" not in place and Path(place).is_dir():
            raise BadPipeline(f"{place}: is a directory; give --out a file for the model")
        journal, of_journal = self.settings(PERIOD_US / 1e3, None)
        settings = settings_for(
            journal, of_journal, cell_m=cell_m, origin=origin, rest_s=rest_s, hold_out=hold_out, seed=seed
        )
        with self.watcher.watching("movement", 1, 1):
            write_movement(self.tables, journal, settings)
        learned = read_learned(self.tables, settings)
        write_model(learned.model, place)
        return learned, place

    def stream(
        self, period_ms: float, *, bucket_s: float, late_s: float, follow_s: float | None
    ) -> tuple[Judged, str]:
        """How far the stream has come, and where the deliveries that it found are listed."""
        check_follow(follow_s)
        steps = pace(period_ms, bucket_s, late_s)
        with self.watcher.watching("stream", 1, 1):
            judged = stream(self.tables, **steps)
            while follow_s is not None:
                time.sleep(follow_s)
                judged = stream(self.tables, **steps)
        return judged, self.tables.place(STREAMED.name)

    def watch(
        self, period_ms: float, *, bucket_s: float, late_s: float, follow_s: float | None, port: int | None
    ) -> Watched:
        """The live audit, round after round, on a page for Prometheus; without `follow_s` one round."""
        check_follow(follow_s)
        steps, shown = pace(period_ms, bucket_s, late_s), Page()
        if port is not None:
            start_http_server(port, registry=shown.registry)
        while True:
            found = watch(self.tables, **steps)
            shown.show(found)
            if follow_s is None:
                return found
            time.sleep(follow_s)

    def settings(self, period_ms: float, until_s: float | None) -> tuple[Journal, Settings]:
        self.check_ingested()
        period_us = microseconds("--period-ms", period_ms, 1e3, 1)
        until_us = None if until_s is None else microseconds("--until-s", until_s, 1e6, -TIME_US_MAX)
        journal = ingested(self.spark, self.tables.journal)
        survey = Survey.of_ledger(Ledger.of(self.tables, ranges=True))
        settings = settings_of(journal, period_us=period_us, until_us=until_us, survey=survey)
        self.cut = settings.cut
        return journal, settings

    def check_ingested(self) -> None:
        journal = self.tables.journal
        if self.tables.current(SEGMENTS.name) is None:
            raise BadPipeline(f"{journal}: not ingested yet; run `roamcast pipeline ingest {journal}` first")


def leave_page(file: str, drawn: Callable[[], str]) -> str | None:
    """The file that has the page; None if what draws it is not installed."""
    try:
        shown = drawn()
    except ModuleNotFoundError:
        return None
    write_bytes(file, shown.encode())
    return file


def check_directory(place: str) -> None:
    """Made if it is not there, before much is computed that could not be kept."""
    files, path = file_system(place)
    try:
        files.create_dir(path, recursive=True)
    except OSError as problem:
        raise BadPipeline(f"{place}: cannot be a directory for the page: {problem}") from problem


def pace(period_ms: float, bucket_s: float, late_s: float) -> dict[str, int]:
    return {
        "period_us": microseconds("--period-ms", period_ms, 1e3, 1),
        "bucket_us": microseconds("--bucket", bucket_s, 1e6, 1),
        "late_us": microseconds("--late", late_s, 1e6),
    }


def check_follow(follow_s: float | None) -> None:
    if follow_s is not None:
        microseconds("--follow", follow_s, 1e6, FOLLOW_US_MIN)


def microseconds(option: str, given: float, unit_us: float, least_us: int = 0) -> int:
    """A time that an option gives in its own unit."""
    # Written so that NaN is refused too.
    if not least_us <= given * unit_us <= TIME_US_MAX:
        raise BadPipeline(f"{option} is {given:g}; give {least_us / unit_us:g} to {TIME_US_MAX / unit_us:g}")
    return round(given * unit_us)
