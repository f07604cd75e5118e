"""Files of the OwnTracks recorder: `rec/USER/DEVICE/2026-03.rec`, a report a line.

A line is the time at which the recorder heard it, what kind of thing it is (`*` is a location) and its JSON, with
tabs between them. The host is USER/DEVICE, as in the topic that the phone publishes to.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roamcast.importer.fixes import Found, Reading, batches_of_rows, host_of
from roamcast.model.space import Earth
from roamcast.movement.owntracks import BadReport, fix_of

FIELDS = 3


def read_owntracks(path: Path, reading: Reading) -> Found:
    return Found(Earth(), batches_of_rows(rows_of(path, reading)))


def rows_of(path: Path, reading: Reading) -> Iterator[tuple[Any, ...]]:
    host = host_of(path, reading.host_name or "{grandparent}/{parent}")
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split("\t", FIELDS - 1)
            if len(fields) < FIELDS:
                continue
            try:
                fix = fix_of(fields[-1], 0)
            except BadReport:
                continue
            at_us = fix.at_us + reading.times.start_us if fix.at_us else None
            yield host, at_us, *fix.position, fix.speed_mps, fix.heading_deg, fix.accuracy_m
