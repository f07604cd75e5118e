"""The command line: `broker.py` has the options of `roamcast broker`, `_broker.py` runs it, and so for each command.

Files with an underscore are loaded when their command is called, so that every command starts quickly. `main.py`
registers the commands, `panels.py` orders them in `roamcast --help`, `_tables.py` prints results.
"""
