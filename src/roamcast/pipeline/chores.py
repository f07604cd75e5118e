"""What the pipeline's commands do: the usual chains of jobs, from a journal's directory to an answer."""

from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from roamcast.journal.plain import plain_space
from roamcast.pipeline.compact import Compacted, compact, finish
from roamcast.pipeline.ingest import Summary, ingest, summary
from roamcast.pipeline.job import BadPipeline, Settings
from roamcast.pipeline.movement_file import Learned, read_learned, settings_for, write_model
from roamcast.pipeline.registry import ORACLES, chain, job_named
from roamcast.pipeline.report import Audit, page, read_audit
from roamcast.pipeline.runner import Bar, Quiet, Runner
from roamcast.pipeline.session import open_session
from roamcast.pipeline.store import Store, address, file_system
from roamcast.pipeline.stream import STREAMED, stream
from roamcast.pipeline.survey import PERIOD_US, settings_of
from roamcast.pipeline.tables import EXPECTED, SEGMENTS

JOINS = ("auto", *ORACLES)
TIME_US_MAX = 2**53
"""As far as a double counts single microseconds, which is 285 years."""
FOLLOW_US_MIN = 1_000
"""Spark does not look more often."""


class Chores:
    """On one journal; without a console nothing is shown on the way."""

    def __init__(self, directory: str, master: str, remote: str | None, console: Console | None) -> None:
        if "://" not in directory and not Path(directory).is_dir():
            raise BadPipeline(f"{directory}: no such directory")
        self.spark = open_session(master, remote)
        self.store = Store(self.spark, directory)
        finish(self.store.root)
        self.cut: tuple[str, ...] = ()
        """The openings of the journal that never said that their run ended, as far as they were met."""
        self.watcher = Quiet() if console is None else Bar(self.spark, console)

    def ingest(self, follow_s: float | None = None) -> Summary:
        check_follow(follow_s)
        with self.watcher.watching("ingest", 1, 1):
            query = ingest(self.spark, self.store.journal, follow_s=follow_s)
            if follow_s is not None:
                query.awaitTermination()
        return summary(self.store)

    def compact(self) -> Compacted:
        self.check_ingested()
        with self.watcher.watching("compact", 1, 1):
            return compact(self.store)

    def oracle(self, period_ms: float, until_s: float | None, join: str = "auto") -> tuple[int, str]:
        """How many deliveries an ideal system makes, and where they are listed."""
        self.run(self.settings(period_ms, until_s, join), "expected")
        return self.store.read(EXPECTED).count(), self.store.place(EXPECTED)

    def audit(
        self, period_ms: float, until_s: float | None, out: str | None, join: str = "auto"
    ) -> tuple[Audit, str]:
        """The audit, and where its page is."""
        settings = self.settings(period_ms, until_s, join)
        place = address(out) if out else f"{self.store.journal}/audit"
        files, path = directory_at(place)
        self.run(settings, "totals")
        space: Any = settings.space
        found = read_audit(self.store, plain_space(space), settings)
        for name, content in (("index.html", page(found).encode()), ("audit.json", msgspec.json.encode(found))):
            with files.open_output_stream(f"{path}/{name}") as stream:
                stream.write(content)
        return found, place

    def movement(
        self,
        cell_m: float,
        out: str | None,
        *,
        origin: tuple[float, float] | None = None,
        rest_s: float,
        hold_out: float,
        seed: int,
    ) -> tuple[Learned, str]:
        """How hosts move, and the file that says so; `cell_m` 0: among the places that they name."""
        place = address(out) if out else f"{self.store.journal}/movement.json"
        if "://" not in place and not Path(place).parent.is_dir():
            raise BadPipeline(f"{place}: no such directory; nothing could be written there")
        if "://" not in place and Path(place).is_dir():
            raise BadPipeline(f"{place}: is a directory; give --out a file for the model")
        settings = settings_for(
            self.store,
            self.settings(PERIOD_US / 1e3, None),
            cell_m=cell_m,
            origin=origin,
            rest_s=rest_s,
            hold_out=hold_out,
            seed=seed,
        )
        self.run(settings, "scores")
        learned = read_learned(self.store, settings)
        write_model(learned.model, place)
        return learned, place

    def stream(
        self, period_ms: float, *, shares: int, bucket_s: float, late_s: float, follow_s: float | None
    ) -> tuple[int, str]:
        """How many deliveries the stream has found so far, and where they are listed."""
        check_follow(follow_s)
        bucket_us, late_us = microseconds("--bucket", bucket_s, 1e6, 1), microseconds("--late", late_s, 1e6)
        settings = self.settings(period_ms, None)
        with self.watcher.watching("stream", 1, 1):
            query = stream(
                self.store,
                settings,
                shares=shares,
                bucket_us=bucket_us,
                late_us=late_us,
                follow_s=follow_s,
            )
            if follow_s is not None:
                query.awaitTermination()
        return self.store.read(STREAMED).count(), self.store.place(STREAMED)

    def settings(self, period_ms: float, until_s: float | None, join: str = "auto") -> Settings:
        self.check_ingested()
        period_us = microseconds("--period-ms", period_ms, 1e3, 1)
        if join not in JOINS:
            raise BadPipeline(f"--join is '{join}'; give one of {', '.join(JOINS)}")
        until_us = None if until_s is None else microseconds("--until-s", until_s, 1e6, -TIME_US_MAX)
        settings = settings_of(self.store, period_us=period_us, until_us=until_us, join=join)
        self.cut = settings.cut
        return settings

    def check_ingested(self) -> None:
        journal = self.store.journal
        if not self.store.exists(SEGMENTS):
            raise BadPipeline(f"{journal}: not ingested yet; run `roamcast pipeline ingest {journal}` first")

    def run(self, settings: Settings, name: str) -> None:
        Runner(self.store, settings, self.watcher).run(chain(job_named(name, settings.join), join=settings.join))


def directory_at(place: str) -> tuple[Any, str]:
    """Made if it is not there, before much is computed that could not be kept."""
    files, path = file_system(place)
    try:
        files.create_dir(path, recursive=True)
    except OSError as problem:
        raise BadPipeline(f"{place}: cannot be a directory for the page: {problem}") from problem
    return files, path


def check_follow(follow_s: float | None) -> None:
    if follow_s is not None:
        microseconds("--follow", follow_s, 1e6, FOLLOW_US_MIN)


def microseconds(option: str, given: float, unit_us: float, least_us: int = 0) -> int:
    """A time that an option gives in its own unit."""
    # Written so that NaN is refused too.
    if not least_us <= given * unit_us <= TIME_US_MAX:
        raise BadPipeline(f"{option} is {given:g}; give {least_us / unit_us:g} to {TIME_US_MAX / unit_us:g}")
    return round(given * unit_us)
