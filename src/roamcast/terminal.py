"""The terminal that commands talk to: what they say, what they complain about, and with which code they leave."""

from rich.console import Console

EXIT_CHECK_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_LEASE_LOST = 3
EXIT_INTERRUPTED = 130

console = Console()
complaints = Console(stderr=True)
