"""Files of final pairs that tasks write themselves: each is put in its place as a whole, and doing so again changes
nothing."""

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roamcast.pipeline.oracle.attributes import one_array
from roamcast.pipeline.oracle.boxes import Rows
from roamcast.pipeline.store import file_system
from roamcast.pipeline.tables import MATCHED


class Finished:
    def __init__(self, place: str, name: str) -> None:
        self.files, self.place = file_system(place)
        self.name = name
        self.writer: Any = None

    def __enter__(self) -> "Finished":
        return self

    def write(self, rows: Any) -> None:
        if not len(rows):
            return
        if self.writer is None:
            self.files.create_dir(self.place, recursive=True)
            # Two attempts at a task may be under way at the same time.
            self.partial = f"{self.place}/.{self.name}.{secrets.token_hex(4)}"
            self.stream = self.files.open_output_stream(self.partial)
            # Nobody looks ids up by their range, and to find it takes longer than all the rest.
            self.writer = pq.ParquetWriter(
                self.stream, rows.schema, compression="zstd", store_schema=False, write_statistics=["at_us"]
            )
        self.writer.write_table(rows)

    def __exit__(self, kind: object, *_: object) -> None:
        if self.writer is None:
            return
        self.writer.close()
        self.stream.close()
        if kind is None:
            self.files.move(self.partial, f"{self.place}/{self.name}")
        else:
            self.files.delete_file(self.partial)


def pair_rows(events: Any, lives: Any, event: Rows, life: Rows, at_us: Rows) -> Any:
    """Pairs as rows of `expected`, from the tables of events and subscriptions and their rows."""
    columns = [
        coded(events["event_id"], event),
        coded(lives["subscription_id"], life),
        coded(lives["subscriber"], life),
        pa.array(at_us, pa.int64()),
    ]
    return pa.Table.from_arrays(columns, names=MATCHED.columns)


def batch_of(rows: Any) -> Any:
    """For Spark, which wants its texts as texts."""
    return rows.cast(MATCHED.schema).combine_chunks().to_batches()[0]


def coded(column: Any, rows: Rows) -> Any:
    """The texts at these rows, each text once: they are written as they are, and never spelt out."""
    used = np.zeros(len(column), np.bool_)
    used[rows] = True
    code = np.cumsum(used, dtype=np.int32) - 1
    texts = one_array(column).take(pa.array(np.flatnonzero(used)))
    return pa.DictionaryArray.from_arrays(pa.array(code[rows], pa.int32()), texts)
