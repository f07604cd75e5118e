"""GPX, SUMO's floating-car data and BonnMotion, by the readers that the simulator and recorded locations use."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from roamcast.importer.fixes import FIXES, BadImport, Found, Reading, constant_host, host_of
from roamcast.model.space import Earth, Plane
from roamcast.movement.recorded import AsMeasured
from roamcast.movement.trace_formats import BadTrace, Fixes, HostFixes, TraceKind
from roamcast.movement.traces import is_geographic, read_into

UNNAMED = re.compile(r"track-\d+")


def read_trace_file(path: Path, kind: TraceKind, reading: Reading) -> Found:
    if kind == "fcd" and reading.geographic:
        kind = "fcd-geo"
    fixes = AsMeasured(path, geographic=is_geographic(kind))
    try:
        read_into(fixes, kind)
    except BadTrace as problem:
        raise BadImport(str(problem)) from None
    return Found(Earth() if fixes.geographic else Plane(), batches_of(fixes, reading))


def batches_of(fixes: Fixes, reading: Reading) -> Iterator[Any]:
    for host, found in fixes.hosts.items():
        yield batch_of(name_of(fixes.path, host, reading), found, reading.times.start_us)


def name_of(path: Path, host: str, reading: Reading) -> str:
    if reading.host_name:
        return host_of(path, reading.host_name)
    # The first track of one file is not that of another.
    return f"{path.stem}/{host}" if reading.many and UNNAMED.fullmatch(host) else host


def batch_of(host: str, found: HostFixes, start_us: int) -> Any:
    rows = len(found.times_us)
    hosts = constant_host(host, rows)
    times = pa.array(np.frombuffer(found.times_us, np.int64) + start_us)
    nothing = pa.nulls(rows, pa.float64())
    x, y = (pa.array(np.frombuffer(each, np.float64)) for each in (found.xs, found.ys))
    return pa.RecordBatch.from_arrays([hosts, times, x, y, nothing, nothing, nothing], names=FIXES.names)
