"""`roamcast import`: anybody's positions into a journal.

    readers --Arrow batches--> Intake --checked fixes--> TimeSorted --ranges of time--> Tracks --moves--> Journal
    (tabular, traces, nmea, gtfs, owntracks)

A reader knows one format and yields batches of `FIXES`. Everything after it is the same for all: `intake` drops what
is no fix and counts why, `ordering` puts any number of fixes in order of time on disk, `tracks` decides by rule what
lies between two fixes, and the journal takes the moves by columns. `live` is the exception: an MQTT subscription
has no next fix to look at, so each one goes through the location package's cleaner as it comes.
"""
