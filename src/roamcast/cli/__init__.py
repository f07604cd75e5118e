"""The command line, a file a command. `broker.py` has the options of `roamcast broker`, `_broker.py` does the work.

What does the work is loaded when its command is called, so that every command starts at once. `main.py` registers the
commands, `panels.py` says in which order `roamcast --help` shows them.
"""
