"""The terminal: standard output, standard error, and exit codes of commands."""

from rich.console import Console

EXIT_CHECK_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_LEASE_LOST = 3
EXIT_INTERRUPTED = 130

console = Console()
stderr = Console(stderr=True)
