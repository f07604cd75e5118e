"""What the demo shows in the terminal while it runs: a table that is drawn anew, or a line every few seconds."""

import time

from msgspec import Struct
from rich.live import Live
from rich.table import Table

from roamcast.terminal import console, stderr

LINE_S = 3.0


class Figures(Struct, frozen=True):
    clients: dict[str, int]
    """By broker."""
    said: dict[str, int]
    """Events by the first word of their subject."""
    heard: dict[str, int]
    handovers: int
    waiting_bytes: int

    def line(self) -> str:
        clients = " ".join(f"{name} {count}" for name, count in self.clients.items())
        return (
            f"clients: {clients}; events {sum(self.said.values()):,}, deliveries {sum(self.heard.values()):,}, "
            f"handovers {self.handovers:,}, waiting {self.waiting_bytes:,} B"
        )


class Screen:
    """For a program: nothing but words on the side. For a person with a terminal: a live table. Else: lines."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._live: Live | None = None
        self._line_s = 0.0

    def say(self, text: str) -> None:
        (stderr if self._quiet else console).print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, figures: Figures) -> None:
        if self._quiet:
            return
        if console.is_terminal:
            if self._live is None:
                self._live = Live(console=console, refresh_per_second=4)
                self._live.start()
            self._live.update(table_of(figures))
        elif time.monotonic() - self._line_s >= LINE_S:
            self._line_s = time.monotonic()
            self.say(figures.line())

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def table_of(figures: Figures) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_row(f"[bold]clients[/bold] {'   '.join(f'{name} {n}' for name, n in figures.clients.items())}")
    counts = Table(box=None, header_style="bold")
    counts.add_column("subject")
    counts.add_column("events", justify="right")
    counts.add_column("deliveries", justify="right")
    for name in sorted(figures.said | figures.heard):
        counts.add_row(name, f"{figures.said.get(name, 0):,}", f"{figures.heard.get(name, 0):,}")
    table.add_row(counts)
    table.add_row(
        f"handovers {figures.handovers:,}   waiting {figures.waiting_bytes:,} B   [dim]Ctrl-C ends it[/dim]"
    )
    return table
