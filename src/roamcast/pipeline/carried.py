"""A function that brings its package along, for the one place where Spark Connect does not.

What a streaming query does with each batch runs on the Connect server, in a process to which Spark sends no
artifacts: a function of ours could not even be unpickled there. So what is sent is a function without any import of
ours, by value, with the package's archive and the real function as bytes. It unpacks the archive once, and from then
on all is as elsewhere. On a classic session the batch runs in this very process, and nothing needs to be carried.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pyspark.cloudpickle

cloudpickle: Any = pyspark.cloudpickle
BatchWork: TypeAlias = Callable[[Any, int], None]


def carried(work: BatchWork, archive: Path) -> BatchWork:
    """The work, in a form that runs where this package is not installed."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return unpacking(archive.read_bytes(), cloudpickle.dumps(work))


def unpacking(archive: bytes, pickled: bytes) -> BatchWork:
    def work_on(frame: Any, batch: int) -> None:
        import hashlib
        import pickle
        import sys
        import tempfile
        from pathlib import Path

        name = f"roamcast-{hashlib.sha256(archive).hexdigest()[:16]}.zip"
        if not any(place.endswith(name) for place in sys.path):
            file = Path(tempfile.mkdtemp(prefix="roamcast-")) / name
            file.write_bytes(archive)
            sys.path.insert(0, str(file))
        pickle.loads(pickled)(frame, batch)

    return work_on
