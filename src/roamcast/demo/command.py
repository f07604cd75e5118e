"""`roamcast demo` as a whole: the town lives, then its journal is audited, and what came of it is printed."""

import sys
from pathlib import Path

import msgspec
from rich.table import Table

from roamcast.client import ClientError
from roamcast.demo.fleet import DemoFailed
from roamcast.demo.running import Demo, Wishes, folder_of, remove
from roamcast.demo.summary import Screen
from roamcast.demo.verdict import Verdict, audit, no_java
from roamcast.event_loop import run
from roamcast.terminal import console

__all__ = ["Wishes", "run_demo"]


def run_demo(wishes: Wishes, audits: bool) -> bool:
    """Whether nothing was missed or came twice, as far as anybody looked. Raises `DemoFailed`."""
    folder, keeps = folder_of(wishes.data), wishes.data is not None
    screen = Screen(wishes.quiet)
    try:
        demo = lived(wishes, folder, screen)
        skipped = "--no-audit" if not audits else no_java()
        verdict = None
        if skipped is None:
            screen.say(
                "the audit: Spark works out from the journal what should have been delivered, in about a minute"
            )
            verdict = audit(demo.fleet.journal)
        elif audits:
            screen.say(f"the audit is skipped. {skipped}")
        clean = verdict is None or verdict.clean
        keeps = keeps or not clean
        if wishes.quiet:
            print_json(demo, verdict, skipped)
        elif verdict is not None:
            console.print(verdict_table(verdict))
        if keeps:
            screen.say(f"all files are in {folder}" + ("" if verdict is None else f", a page in {page_of(folder)}"))
        return clean
    finally:
        if not keeps:
            remove(folder)


def lived(wishes: Wishes, folder: Path, screen: Screen) -> Demo:
    found: list[Demo] = []

    async def live() -> None:
        found.append(Demo(wishes, folder))
        await found[0].run(screen)

    try:
        run(live())
    except ClientError as problem:
        raise DemoFailed(f"a client cannot go on: {problem}") from problem
    finally:
        screen.close()
    demo = found[0]
    if not demo.drained:
        screen.say("not everything arrived in time; what had not is missed")
    for text, times in demo.stage.problems.items():
        screen.say(f"{text} ({times} times)")
    return demo


def page_of(folder: Path) -> Path:
    return folder / "journal" / "audit" / "index.html"


def print_json(demo: Demo, verdict: Verdict | None, skipped: str | None) -> None:
    figures = demo.figures()
    found = {
        "map": demo.fleet.address,
        "seed": demo.wishes.seed,
        "movers": demo.wishes.clients,
        "clients": figures.clients,
        "events": figures.said,
        "deliveries": figures.heard,
        "handovers": figures.handovers,
        "market": demo.no_market,
        "drained": demo.drained,
        "audit": verdict,
        "audit_skipped": skipped,
    }
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")


def verdict_table(verdict: Verdict) -> Table:
    total, fences = verdict.total, verdict.fences.lines
    wrong = ", ".join(
        f"{sum(getattr(each, name) for each in fences):,} {name}" for name in ("missing", "extra", "duplicates")
    )
    grid = Table(show_header=False, box=None, padding=(0, 2))
    for name, value, meaning in (
        ("ideal deliveries", f"{total.expected:,}", "what a system makes that knows everything at once"),
        ("delivered", f"{total.delivered:,}", ""),
        ("missed", f"{total.missed:,}", ""),
        ("duplicate", f"{total.duplicates:,}", ""),
        ("unwanted", f"{total.unwanted:,}", ""),
        ("fences passed", f"{sum(each.expected for each in fences):,}", f"by the ways of all clients; {wrong}"),
        ("delay", milliseconds(total.latency_p99_us), "99 % are within it; most have none that a clock could tell"),
    ):
        grid.add_row(name, value, f"[dim]{meaning}[/dim]")
    return grid


def milliseconds(amount_us: int | None) -> str:
    return "-" if amount_us is None else f"{amount_us / 1_000:.1f} ms"
