"""What the command line shows: results and explanations as tables for a terminal."""

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from roamcast.model.filter.explanation import Explanation

if TYPE_CHECKING:
    from roamcast.sim.run import Result
    from roamcast.sim.scenario import Scenario


def result_table(result: "Result", scenario: "Scenario", *, passed: bool) -> RenderableType:
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    rate = result.delivery_rate
    rows: list[tuple[str, str, str]] = [
        ("hosts", f"{result.hosts}", ""),
        ("events", f"{result.events:,}", ""),
        ("subscriptions", f"{result.subscriptions:,}", ""),
        ("expected", f"{result.expected:,}", "deliveries that an ideal, all-knowing system makes"),
        ("delivered", f"{result.delivered:,}", "deliveries that this one made"),
        ("missed", f"{result.missed:,}", "expected and never delivered"),
        ("unwanted", f"{result.unwanted:,}", "delivered and not expected"),
        ("duplicates", f"{result.duplicates:,}", "delivered more than once"),
        ("delivery rate", "-" if rate is None else f"{rate:.1%}", "expected and delivered"),
        (
            "latency",
            milliseconds(result.latency_p50_ms),
            f"median; 99 % within {milliseconds(result.latency_p99_ms)}",
        ),
        ("transmissions", f"{result.transmissions:,}", messages_of(result)),
        ("volume", f"{result.megabits:.2f} Mbit", "on the air and on links"),
    ]
    for row in rows:
        table.add_row(*row)
    for what, count in result.notes.items():
        table.add_row(f"note: {what}", f"{count:,}", "")
    footer = Text(f"{verdict(scenario, passed)}; seed {result.seed}", style="green" if passed else "red")
    about = [Text(scenario.about, style="italic"), Text()] if scenario.about else []
    title = f"{result.scenario}, {result.seconds:g} s simulated"
    return Panel(Group(*about, table, Text(), footer), title=title, title_align="left", expand=False)


def verdict(scenario: "Scenario", passed: bool) -> str:
    if not passed:
        return "not all checks passed"
    return f"checks passed: {', '.join(scenario.checks)}" if scenario.checks else "no checks asked for"


def milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def messages_of(result: "Result") -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in result.messages.items())


def filter_panel(explained: Explanation) -> RenderableType:
    parts: list[RenderableType] = []
    for heading, lines in explained.sections():
        parts += [Text(heading, style="bold"), *[Text(f"  {line}") for line in lines], Text()]
    return Panel(Group(*parts[:-1]), title="filter", title_align="left", expand=False)
