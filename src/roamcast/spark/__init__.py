"""Journals on Spark: a library of lazy functions on your own session, and the commands that are made of them.

from roamcast.spark import audit, expected, prepare, read_journal

journal = read_journal(spark, "out/town")
prepared = prepare(journal, "out/analysis")         # the only one that writes
wanted = expected(prepared).cache()                 # event_id, subscription_id, subscriber, at_us
audit(wanted, journal, prepared.settings).where("expected AND times = 0").show()

- The steps of `roamcast audit`, which `chores.py` calls in turn: `ingest.py`, `prepare.py`, `oracle/`, `verdicts.py`,
  `totals.py`, `report.py`, `page.py`. `audit.py` compares DataFrames of your own in the same way as `verdicts.py`.
- Other jobs: `fences.py`, `what_if.py` with `wishes.py`, `positions.py`, `export.py`, `quality.py`; `movement.py`
  with `movement_cells.py`, `movement_tables.py`, `movement_scores.py`, `movement_file.py`; `sweep.py` (experiments)
- While a journal grows: `stream.py` (what is expected), `watch.py` (the live audit)
- Ingest in detail: `segment.py` (checks one file), `ledger.py` (what was taken), `compact.py` (few large files)
- Tables: `tables.py` (all names and columns), `published.py` (each is there whole or not at all), `chunks.py`
- The session: `session.py`, `settings.py` (what is judged, in which steps), `workers.py` (work to tasks), `files.py`,
  `progress.py`; `journal.py` and `source.py` read a journal as DataFrames; `charts.py` draws the pictures of the page
"""

from roamcast.extras import needs

needs("spark", "pyspark", "pyarrow", "numba", "pandas")

from roamcast.spark.audit import audit
from roamcast.spark.ingest import ingest
from roamcast.spark.journal import Journal, ingested, read_journal
from roamcast.spark.movement import movement
from roamcast.spark.movement_tables import MovementSettings
from roamcast.spark.oracle.expected import expected
from roamcast.spark.positions import positions
from roamcast.spark.prepare import Prepared, prepare, prepared
from roamcast.spark.published import read_table
from roamcast.spark.settings import Settings, settings_of
from roamcast.spark.source import register
from roamcast.spark.tables import BadPipeline
from roamcast.spark.totals import totals
from roamcast.spark.what_if import differences, what_if
from roamcast.spark.wishes import Wishes, changed, read_wishes

__all__ = [
    "BadPipeline",
    "Journal",
    "MovementSettings",
    "Prepared",
    "Settings",
    "Wishes",
    "audit",
    "changed",
    "differences",
    "expected",
    "ingest",
    "ingested",
    "movement",
    "positions",
    "prepare",
    "prepared",
    "read_journal",
    "read_table",
    "read_wishes",
    "register",
    "settings_of",
    "totals",
    "what_if",
]
