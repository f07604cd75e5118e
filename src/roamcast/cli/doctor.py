"""`roamcast doctor`: looks at this machine and says in words what is well, what is not, and what to do."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from roamcast.terminal import EXIT_CHECK_FAILED, console, stderr

if TYPE_CHECKING:
    from roamcast.cli._doctor import Finding

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    data: Annotated[Path, typer.Option(help="The planned data directory of a broker.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Look whether this machine has what roamcast needs: Python, Java, ports, multicast, disk, clock and more.

    Each check does what it is about: a datagram is sent and heard, a file is synced. `warn` is what only some
    commands need, `fail` what nothing works without.

    Exit codes: 0 nothing that is needed is missing, 1 something is.
    """
    from roamcast.cli._doctor import checks

    found: list[Finding] = []
    with stderr.status("looking") as status:
        for check in checks(data):
            found.append(check())
            status.update(f"looked at {found[-1].name}")
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        table = Table(box=None, show_header=False, padding=(0, 1))
        for _ in range(3):
            # Advice is copied whole, also where it is longer than a line.
            table.add_column(overflow="fold")
        for each in found:
            table.add_row(
                f"[{COLOURS[each.state]}]{each.state}[/]", f"[bold]{escape(each.name)}[/]", escape(each.said)
            )
            if each.advice:
                table.add_row("", "", f"[dim]{escape(each.advice)}[/]")
        console.print(table)
        console.print(verdict(found), highlight=False)
    if any(each.state == "fail" for each in found):
        raise typer.Exit(EXIT_CHECK_FAILED)


def verdict(found: "list[Finding]") -> str:
    failed = [each.name for each in found if each.state == "fail"]
    if failed:
        return f"needed and missing: {', '.join(failed)}"
    warned = sum(each.state == "warn" for each in found)
    return "nothing that is needed is missing" + (f"; {warned} of {len(found)} checks have advice" if warned else "")
