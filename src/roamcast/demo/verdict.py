"""What the Spark audit says of the demo's journal: what an ideal system would have delivered, and what this one did.

The audit runs as a process of its own: Java and Spark come and go with it.
"""

import os
import subprocess
from pathlib import Path

import msgspec
from msgspec import Struct

from roamcast.demo.fleet import COMMAND, DemoFailed

BRIEF_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java process that lives for seconds: less of compiling and collecting."""


class Line(Struct, frozen=True):
    """As the audit counts, of all or of one subject."""

    value: str
    expected: int
    delivered: int
    missed: int
    duplicates: int
    unwanted: int
    latency_p99_us: int | None


class FenceLine(Struct, frozen=True):
    """Of one fence: how many transitions there should have been, and what went wrong with them."""

    fence: str
    expected: int
    told: int
    missing: int
    extra: int
    duplicates: int


class FenceLines(Struct, frozen=True):
    lines: tuple[FenceLine, ...] = ()


class Verdict(Struct, frozen=True):
    total: Line
    subjects: tuple[Line, ...] = ()
    fences: FenceLines = FenceLines()

    @property
    def clean(self) -> bool:
        wrong = sum(each.missing + each.extra + each.duplicates for each in self.fences.lines)
        return not self.total.missed and not self.total.duplicates and not wrong


def no_java() -> str | None:
    """Why there can be no audit, and what to do."""
    from roamcast.spark.session import check_java
    from roamcast.spark.tables import BadPipeline

    try:
        check_java()
    except BadPipeline as problem:
        return str(problem)
    return None


def audit(journal: Path) -> Verdict:
    """How far it is, it says itself on standard error. Raises `DemoFailed`."""
    done = subprocess.run(
        [*COMMAND, "audit", str(journal)],
        env={"SPARK_SUBMIT_OPTS": BRIEF_JAVA, **os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise DemoFailed(f"the journal {journal} cannot be audited: `roamcast audit` says why above")
    return msgspec.json.decode((journal / "audit" / "audit.json").read_bytes(), type=Verdict)
