"""`roamcast import`: from files of positions to a journal.

    readers --Arrow batches--> Intake --checked fixes--> TimeSorted --ranges of time--> Tracks --moves--> Journal
    (tabular, traces, nmea, gtfs, owntracks)

- Readers, one for each format, yield batches of fixes (`fixes.py`): `tabular.py` (CSV, Parquet), `traces.py`,
  `nmea.py`, `gtfs.py`, `owntracks.py`; `times.py` and `attributes.py` read their columns. `sources.py` chooses one.
- The same for all formats: `intake.py` drops what is no fix and counts why, `ordering.py` sorts any number of fixes
  by time on disk, `tracks.py` decides by the rules of `rules.py` how a host moved between two fixes.
- `running.py` runs an import; `asking.py` checks the options of the command.

An import from MQTT has no next fix to look at, so it does not go this way: `cli/_import_live.py` passes each fix
through the cleaner of `movement` as it comes.
"""
